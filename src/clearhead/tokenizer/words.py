"""Whole words as a vocabulary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from clearhead.errors import DataError
from clearhead.tokenizer.files import content_hash, write_description

SPECIALS = ("<pad>", "<sos>", "<eos>")
UNKNOWN = "<unk>"


class WordTokenizer:
    """Whole words, split at whitespace: PAD, BOS, EOS, the words in sorted order, unknown.

    Decoding joins the words with single spaces; a word outside the vocabulary reads `<unk>`.
    A word of the text that happens to be spelt like a special symbol is an ordinary word.
    """

    sampling = 0.0

    def __init__(self, words: Sequence[str], *, lower: bool = False) -> None:
        self.words = tuple(words)
        self.lower = lower
        self._ids = {word: i for i, word in enumerate(self.words, start=len(SPECIALS))}
        self.unk_id = len(SPECIALS) + len(self.words)
        self._shown = (*SPECIALS, *self.words, UNKNOWN)

    @classmethod
    def learn(
        cls, texts: Iterable[str], *, max_vocabulary: int = 0, lower: bool = False
    ) -> WordTokenizer:
        """The words of the texts: all, or the most frequent (equally frequent ones in word order).

        Raises:
            DataError: there is no word in the texts.
        """
        counts = Counter(
            word for text in texts for word in (text.lower() if lower else text).split()
        )
        if not counts:
            raise DataError("there is no word to learn a vocabulary from")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(sorted(ranked[: max_vocabulary or None]), lower=lower)

    def __len__(self) -> int:
        return len(self._shown)

    def words_of(self, text: str) -> list[str]:
        """The words of a text, known or not, in the case in which they are known."""
        return (text.lower() if self.lower else text).split()

    def encode(self, text: str) -> list[int]:
        """The ids of a text's words."""
        return [self._ids.get(word, self.unk_id) for word in self.words_of(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's words."""
        return [self.encode(text) for text in texts]

    def sample_batch(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        """A word has one segmentation: the same as `encode_batch`."""
        return self.encode_batch(texts)

    def decode(self, ids: Iterable[int]) -> str:
        """The words of the ids, joined with single spaces."""
        return " ".join(self._shown[i] for i in ids if i >= len(SPECIALS))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The word, or special symbol, of each id."""
        return [self._shown[i] for i in ids]

    def fingerprint(self) -> str:
        """A hash of the words and their case."""
        return content_hash(json.dumps(["words", self.lower, self.words]).encode())

    def save(self, folder: Path, name: str) -> None:
        """Write `name.json`."""
        tree = {"kind": "words", "lower": self.lower, "words": self.words}
        write_description(folder, name, tree, self.fingerprint())
