"""Whole words as a vocabulary."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from clearhead.errors import DataError
from clearhead.files import content_hash, write_description

SPECIALS = ("<pad>", "<sos>", "<eos>")
UNKNOWN = "<unk>"
APOSTROPHES = "'\u2019"


class WordTokenizer:
    """Whole words, split at whitespace: PAD, BOS, EOS, the words in sorted order, unknown.

    Decoding joins the words with single spaces; a word outside the vocabulary reads `<unk>`.
    A word of the text that happens to be spelt like a special symbol is an ordinary word.
    With `split_punctuation` the marks around a word are words of their own, and what is decoded
    has spaces between them.
    """

    sampling = 0.0

    def __init__(
        self, words: Sequence[str], *, lower: bool = False, split_punctuation: bool = False
    ) -> None:
        self.words = tuple(words)
        self.lower = lower
        self.split_punctuation = split_punctuation
        self._ids = {word: i for i, word in enumerate(self.words, start=len(SPECIALS))}
        self.unk_id = len(SPECIALS) + len(self.words)
        self._shown = (*SPECIALS, *self.words, UNKNOWN)

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        max_vocabulary: int = 0,
        lower: bool = False,
        split_punctuation: bool = False,
    ) -> WordTokenizer:
        """The words of the texts: all, or the most frequent (equally frequent ones in word order).

        Raises:
            DataError: there is no word in the texts.
        """
        reader = cls((), lower=lower, split_punctuation=split_punctuation)
        counts = Counter(word for text in texts for word in reader.words_of(text))
        if not counts:
            raise DataError("there is no word to learn a vocabulary from")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = sorted(ranked[: max_vocabulary or None])
        return cls(words, lower=lower, split_punctuation=split_punctuation)

    def __len__(self) -> int:
        return len(self._shown)

    def words_of(self, text: str) -> list[str]:
        """The words of a text, known or not, in the case in which they are known."""
        words = (text.lower() if self.lower else text).split()
        if self.split_punctuation:
            return [part for word in words for part in split_punctuation(word)]
        return words

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
        """A hash of the words, their case, and how they are split."""
        content = ["words", self.lower, self.words, *["split"] * self.split_punctuation]
        return content_hash(json.dumps(content).encode())

    def save(self, folder: Path, name: str) -> None:
        """Write `name.json`."""
        tree = {
            "kind": "words",
            "lower": self.lower,
            "split_punctuation": self.split_punctuation,
            "words": self.words,
        }
        write_description(folder, name, tree, self.fingerprint())


@lru_cache(maxsize=100_000)
def split_punctuation(word: str) -> tuple[str, ...]:
    """A word, and each mark before and behind it; an apostrophe begins what it stands before.

    `("What's?")` is `(`, `"`, `What`, `'s`, `?`, `"`, `)`. A mark is what Unicode counts among
    punctuation, symbols and invisible characters, or what chooses a symbol's picture: letters of
    all scripts, with the signs over and under them, are none.
    """
    first, last = 0, len(word)
    while first < last and _is_mark(word[last - 1]):
        last -= 1
    # Between two of them, apostrophes are quotation marks.
    quoted = any(mark in APOSTROPHES for mark in word[last:])
    while first < last and _is_mark(word[first]) and (quoted or not _begins(word, first)):
        first += 1
    starts = [first, *(i for i in range(first + 1, last) if _begins(word, i)), last]
    within = (word[start:end] for start, end in pairwise(starts))
    return (*word[:first], *filter(None, within), *word[last:])


def _is_mark(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "PS" or category == "Cf" or "\ufe00" <= character <= "\ufe0f"


def _begins(word: str, place: int) -> bool:
    """Whether an apostrophe stands there, and something that is no mark behind it."""
    return word[place] in APOSTROPHES and not all(map(_is_mark, word[place + 1 : place + 2]))
