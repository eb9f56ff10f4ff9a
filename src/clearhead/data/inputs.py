"""Noise on inputs while training."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.data.features import Rule, as_frames, fill_missing
from clearhead.data.labelled import Labelled, in_columns, one_line
from clearhead.data.normaliser import Normaliser
from clearhead.errors import DataError
from clearhead.tokenizer import BOS, PAD, Tokenizer, WordTokenizer


def hide_words(ids: Tensor, unk_id: int, rate: float) -> Tensor:
    """A share of the tokens replaced by the unknown one (word dropout, Sennrich et al. 2016)."""
    return ids.masked_fill(drawn_words(ids, rate), unk_id)


def drawn_words(ids: Tensor, rate: float) -> Tensor:
    """True at a share of the tokens, never at BOS and padding."""
    drawn = torch.rand(ids.shape, device=ids.device) < rate
    return drawn & (ids != PAD) & (ids != BOS)


def hide_frames(features: Tensor, rate: float) -> Tensor:
    """A share of the frames (batch, length, width) set to zero: the mean, where it is taken off.

    Padding stays NaN.
    """
    hidden = torch.rand(features.shape[:2], device=features.device) < rate
    return features.masked_fill(hidden[..., None] & ~features.isnan(), 0.0)


# ---- tasks.inputs
# What a classifier reads, as rows of numbers, and the batches that they make.

TOKENIZER, NORMALISER = "tokenizer", "normaliser"
"""The names of the parts of a model folder."""


class Inputs(Protocol):
    """One kind of input: texts, or sequences of features."""

    unit: str
    """What a row is made of, for messages: `tokens` or `frames`."""

    begun: int
    """Places that `collate` puts before those of a row."""

    @property
    def width(self) -> int:
        """Tokens of the vocabulary, or features of a frame: what the model is built for."""
        ...

    @property
    def parts(self) -> Mapping[str, Any]:
        """What belongs into the model folder, by name."""
        ...

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """Each example as numbers, however long: ids (length,), or features (length, width).

        Ids are (length, 1 + most) where words are spelt.

        Raises:
            DataError: an example cannot be read so; the message has its place.
        """
        ...

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The rows as they are to be seen in one epoch of training."""
        ...

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """One padded tensor of rows, none longer than the limit: the rest is cut off."""
        ...

    def real(self, batch: Tensor) -> int:
        """How many places of a batch are no padding."""
        ...

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """A share of the places of a batch hidden from the model."""
        ...

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """What each place of an example's row is called, as far as the row is read."""
        ...


class TextInputs:
    """Texts as token ids.

    Args:
        tokenizer: makes ids of them.
        max_length: tokens that are read, at most.
        start: whether BOS stands first, for a pooling that takes the first place.
    """

    unit = "tokens"

    def __init__(self, tokenizer: Tokenizer, max_length: int, start: bool) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.start = [BOS] if start else []
        self.begun = len(self.start)

    @property
    def width(self) -> int:
        """Tokens of the vocabulary."""
        return len(self.tokenizer)

    @property
    def parts(self) -> Mapping[str, Any]:
        """The tokenizer."""
        return {TOKENIZER: self.tokenizer}

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """The ids of each text (length,)."""
        encoded = self.tokenizer.encode_batch([text_of(example) for example in examples])
        return [np.array(ids, dtype=np.int64) for ids in encoded]

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """Another segmentation of each text, where the tokenizer samples."""
        if self.tokenizer.sampling == 0.0:
            return rows
        drawn = self.tokenizer.sample_batch([text_of(e) for e in examples], seed)
        return [np.array(ids, dtype=np.int64) for ids in drawn]

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Ids (rows, length), PAD behind each row's own."""
        kept = [torch.tensor([*self.start, *row[: self.max_length]]).long() for row in rows]
        padded = pad_sequence(kept, batch_first=True, padding_value=PAD)
        # Of empty texts alone, a batch still has a place, where nothing stands.
        return padded if padded.size(1) else padded.new_full((len(rows), 1), PAD)

    def real(self, batch: Tensor) -> int:
        """Tokens that are not PAD."""
        return int((batch != PAD).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """Tokens made unknown."""
        return hide_words(batch, self.tokenizer.unk_id, rate)

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The pieces of the text."""
        return tuple(self.tokenizer.pieces([*self.start, *row[: self.max_length].tolist()]))


def text_of(example: Labelled) -> str:
    """The text of an example, in one line.

    Raises:
        DataError: its input is no text.
    """
    if not isinstance(example.input, str):
        kind = type(example.input).__name__
        raise DataError(f"the input is a {kind}, not a text", where=example.place)
    return one_line(example.input)


class FeatureInputs:
    """Sequences of feature vectors, filled and brought to a common scale.

    Args:
        normaliser: learned from the training data.
        missing: the rule for missing values, as in `DataConfig`.
        max_length: frames that are read, at most.
    """

    unit = "frames"

    def __init__(self, normaliser: Normaliser, missing: Rule, max_length: int) -> None:
        self.normaliser = normaliser
        self.missing: Rule = missing
        self.begun = 0
        self.max_length = max_length

    @property
    def width(self) -> int:
        """Features of a frame."""
        return self.normaliser.width

    @property
    def parts(self) -> Mapping[str, Any]:
        """The normaliser."""
        return {NORMALISER: self.normaliser}

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """The frames of each sequence (length, width), float32, no value missing.

        Where both the sequence and the training data name the features, they go by name.
        """
        return [self._row(example) for example in examples]

    def _row(self, example: Labelled) -> np.ndarray:
        frames = as_frames(_array(example), example.place)
        frames = in_columns(example._replace(input=frames), self.normaliser.names).input
        self.normaliser.check(frames, example.place)
        filled = fill_missing(frames, self.missing, example.place, self.normaliser.mean)
        return self.normaliser(filled)

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The same rows in every epoch."""
        return rows

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Features (rows, length, width), NaN behind each row's own."""
        kept = [torch.from_numpy(row[: self.max_length]) for row in rows]
        return pad_sequence(kept, batch_first=True, padding_value=float("nan"))

    def real(self, batch: Tensor) -> int:
        """Frames that are not padding."""
        return int((~batch[..., 0].isnan()).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """Frames set to 0: to the mean, unless features are not normalised (`data.normalise`)."""
        return hide_frames(batch, rate)

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The numbers of the frames, from 1."""
        return tuple(str(number) for number in range(1, min(len(row), self.max_length) + 1))


def _array(example: Labelled) -> np.ndarray:
    """The features of an example, as whoever calls from Python has them."""
    try:
        return np.asarray(example.input)
    except (ValueError, TypeError, RuntimeError) as error:  # a tensor has the latter two
        raise DataError(
            "the features are not an array of numbers, (frames, features)",
            where=example.place,
            why=str(error),
            todo="give every frame the same features",
        ) from None


# ---- tasks.spelled_inputs
# Texts as words that are spelt: each word's id, and the numbers of its character n-grams.

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
