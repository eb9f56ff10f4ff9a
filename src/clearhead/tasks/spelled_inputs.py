"""Texts as words that are spelt: each word's id, and the numbers of its character n-grams."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.data.labelled import Labelled
from clearhead.tasks.inputs import TextInputs, text_of
from clearhead.tasks.noise import drawn_words
from clearhead.tokenizer import PAD, WordTokenizer

LONGEST = 40
"""Characters of a word that are spelt, its marks among them. A batch is as wide as its longest word
is long, and what is longer is a link or a number, not a word."""


class NGrams(NamedTuple):
    """The character n-grams of words (Bojanowski et al. 2017, section 3.2).

    `lengths` are counted in characters, the marks at both ends of a word among them; all n-grams
    share `vectors` numbers, from 1.
    """

    lengths: tuple[int, ...]
    vectors: int

    def spelling(self, word: str) -> list[str]:
        """The n-grams of a word between its marks, length by length; of a long one's beginning."""
        marked = f"<{word}>"[:LONGEST]
        return [
            marked[first : first + length]
            for length in self.lengths
            for first in range(len(marked) - length + 1)
        ]

    def numbers(self, word: str) -> list[int]:
        """The number of each n-gram; different ones may have the same."""
        # Not Python's own hash, which is another in each process.
        encoded = [ngram.encode("utf-8", "surrogatepass") for ngram in self.spelling(word)]
        return [1 + zlib.crc32(ngram) % self.vectors for ngram in encoded]


class SpelledInputs(TextInputs):
    """Texts as rows (length, 1 + most): a word's id, then its n-grams', 0 where it has no more.

    Args:
        tokenizer: knows the words.
        ngrams: numbers their n-grams.
        max_length: words that are read, at most.
        start: whether BOS stands first, for a pooling that takes the first place.
    """

    def __init__(
        self, tokenizer: WordTokenizer, ngrams: NGrams, max_length: int, start: bool
    ) -> None:
        super().__init__(tokenizer, max_length, start)
        self.words = tokenizer
        self.ngrams = ngrams

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """Each text's words and their n-grams (length, 1 + most), int32."""
        return [self._row(text_of(example)) for example in examples]

    def _row(self, text: str) -> np.ndarray:
        ids = self.words.encode(text)
        # What lies behind the longest input is counted, and never read: it needs no spelling.
        read = self.words.words_of(text)[: self.max_length]
        spelt = [self.ngrams.numbers(word) for word in read]
        row = np.zeros((len(ids), 1 + max(map(len, spelt), default=0)), dtype=np.int32)
        row[:, 0] = ids
        for place, ngrams in zip(row, spelt, strict=False):
            place[1 : 1 + len(ngrams)] = ngrams
        return row

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Words and n-grams (rows, length, 1 + most), 0 behind each row's own."""
        # EmbeddingBag takes no empty bags: there is a column of n-grams, though no word has one.
        columns = max(2, *(row.shape[1] for row in rows))
        kept = [torch.from_numpy(self._begun(row[: self.max_length], columns)) for row in rows]
        padded = pad_sequence(kept, batch_first=True, padding_value=PAD)
        # Of empty texts alone, a batch still has a place, where nothing stands.
        return padded if padded.size(1) else padded.new_full((len(rows), 1, columns), PAD)

    def _begun(self, row: np.ndarray, columns: int) -> np.ndarray:
        """The row, as wide as the batch, after BOS where that stands first."""
        first = len(self.start)
        begun = np.zeros((first + len(row), columns), dtype=np.int64)
        begun[:first, 0] = self.start
        begun[first:, : row.shape[1]] = row
        return begun

    def real(self, batch: Tensor) -> int:
        """Words that are not PAD."""
        return super().real(batch[..., 0])

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """Words made unknown, without their n-grams."""
        hidden = drawn_words(batch[..., 0], rate)
        hidden_batch = batch.masked_fill(hidden[..., None], 0)
        hidden_batch[..., 0].masked_fill_(hidden, self.tokenizer.unk_id)
        return hidden_batch

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The words of the text: what differs in its spelling is another input, if unknown too."""
        read = self.words.words_of(text_of(example))[: self.max_length]
        return (*self.words.pieces(self.start), *read)
