"""Whole words as a vocabulary."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from clearhead.errors import DataError
from clearhead.folder.files import json_file
from clearhead.tokenizer.normal_form import PLAIN, NormalForm
from clearhead.tokenizer.protocol import SYMBOLS, Tokenizer

SPECIALS = ("<pad>", "<sos>", "<eos>")
UNKNOWN = "<unk>"
APOSTROPHES = "'\u2019"

WITHIN, WITHIN_NUMBERS = f"{APOSTROPHES}_.:\u00b7\u2027\u05f4", ",;"
"""Marks that do not divide a word or a number (MidLetter, MidNum and ExtendNumLet of UAX #29)."""

_SYMBOL = re.compile(f"[{SYMBOLS}]")

LONGEST_CACHED = 40
"""Characters of a word whose parts are kept: longer words are rare, and would fill the memory."""


class WordTokenizer(Tokenizer):
    """Whole words, split at whitespace: PAD, BOS, EOS, the words in sorted order, unknown.

    Decoding joins the words with single spaces; a word outside the vocabulary becomes `<unk>`.
    A word that is spelt like a special symbol is an ordinary word. With `split_punctuation`, the
    punctuation marks around a word and between its parts are separate words, also in decoded text.
    """

    def __init__(
        self, words: Sequence[str], *, form: NormalForm = PLAIN, split_punctuation: bool = False
    ) -> None:
        self.words = tuple(words)
        self.form = form
        self.split_punctuation = split_punctuation
        self._ids = {word: i for i, word in enumerate(self.words, start=len(SPECIALS))}
        self.unk_id = len(SPECIALS) + len(self.words)
        self._has_symbols = SYMBOLS[0] in self._ids
        self._pieces = (*SPECIALS, *self.words, UNKNOWN)

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        max_vocabulary: int = 0,
        form: NormalForm = PLAIN,
        split_punctuation: bool = False,
        symbols: bool = False,
    ) -> WordTokenizer:
        """The words of the texts: all, or the most frequent (equally frequent ones in word order).

        With `symbols`, the symbols of masked text are words, too.

        Raises:
            DataError: there is no word in the texts.
        """
        reader = cls(
            tuple(SYMBOLS) if symbols else (), form=form, split_punctuation=split_punctuation
        )
        counts = Counter(word for text in texts for word in reader.words_of(text))
        if not counts:
            raise DataError("there is no word to learn a vocabulary from")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = sorted({*ranked[: max_vocabulary or None], *(SYMBOLS if symbols else ())})
        return cls(words, form=form, split_punctuation=split_punctuation)

    def __len__(self) -> int:
        return len(self._pieces)

    def words_of(self, text: str) -> list[str]:
        """The words of a text in its normal form, known or not."""
        text = self.form(text)
        words = (_SYMBOL.sub(r" \g<0> ", text) if self._has_symbols else text).split()
        if self.split_punctuation:
            return [part for word in words for part in split_punctuation(word)]
        return words

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._ids.get(w, self.unk_id) for w in self.words_of(text)] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self._pieces[i] for i in ids if i >= len(SPECIALS))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.json`."""
        tree = {
            "kind": "words",
            **self.form.to_tree(),
            "split_punctuation": self.split_punctuation,
            "words": self.words,
        }
        return json_file(name, tree)


def split_punctuation(word: str) -> tuple[str, ...]:
    """The parts of a word and its marks; an apostrophe starts a new part."""
    # `("What's?")` is `(`, `"`, `What`, `'s`, `?`, `"`, `)`, and `command-line` is `command`, `-`,
    # `line`. A mark within a word divides it as in the word boundaries of UAX #29. Marks are the
    # characters that Unicode classifies as punctuation, symbols, format characters or variation
    # selectors. Letters of all scripts and their diacritics are not marks.
    return _cached_parts(word) if len(word) <= LONGEST_CACHED else _parts(word)


def _parts(word: str) -> tuple[str, ...]:
    first, last = 0, len(word)
    while first < last and _is_mark(word[last - 1]):
        last -= 1
    # If there are apostrophes at both ends, they are quotation marks.
    quoted = any(mark in APOSTROPHES for mark in word[last:])
    while first < last and _is_mark(word[first]) and (quoted or not _starts_part(word, first)):
        first += 1
    divides = [i for i in range(first + 1, last) if _divides(word, i)]
    ends = {i + after for i in divides for after in (0, 1)}
    starts = {i for i in range(first + 1, last) if _starts_part(word, i)}
    places = sorted({first, last} | ends | starts)
    parts = (word[start:end] for start, end in pairwise(places))
    return (*word[:first], *filter(None, parts), *word[last:])


_cached_parts = lru_cache(maxsize=100_000)(_parts)


def _is_mark(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "PS" or category == "Cf" or "\ufe00" <= character <= "\ufe0f"


def _divides(word: str, i: int) -> bool:
    """Whether character i, which is not at an end, is a mark that divides a word."""
    if unicodedata.category(word[i])[0] not in "PS" or word[i] in WITHIN:
        return False
    return not (word[i] in WITHIN_NUMBERS and word[i - 1].isdigit() and word[i + 1].isdigit())


def _starts_part(word: str, i: int) -> bool:
    """Whether character i is an apostrophe, and the next one exists and is not a mark."""
    return word[i] in APOSTROPHES and i + 1 < len(word) and not _is_mark(word[i + 1])
