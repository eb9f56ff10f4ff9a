"""A first look at the data: how many examples, how long, which script, which classes."""

from __future__ import annotations

import gzip
import math
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np

from clearhead.data.feature_sequences import read_feature_sequences
from clearhead.data.features import features_named
from clearhead.data.labelled import SEPARATOR, Labelled, LabelledText, read_labelled_texts
from clearhead.data.lines import open_packed
from clearhead.data.phrasebook import PHRASEBOOK, Part
from clearhead.data.readers import read_pairs
from clearhead.data.report import SHOWN_CLASSES, Classes, ranked
from clearhead.errors import DataError, first_few
from clearhead.tokenizer import WordTokenizer

SURVEYED = 200_000
"""Texts from the beginning of the data that text statistics are made of; all are counted."""

TOKENS_PER_WORD = 1.3
TOKENS_PER_CHARACTER = 0.7  # in scripts without spaces between words
LEAST_BYTES = 2  # of UTF-8 that a token has on average, in any text
BYTES_AND_MARKS = 300  # pieces that every vocabulary has, roughly
NONE = np.empty(0, dtype=np.int64)

UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts without spaces between words, by the first word of their letters' Unicode names."""

T = TypeVar("T", bound=Labelled[Any])


@dataclass(frozen=True)
class Side:
    """The texts of the source, of the target, or of a classification.

    Attributes:
        words: parts between white space in all texts (estimated if not all were surveyed).
        characters: likewise.
        alphabet: how many different characters were seen.
        scripts: the share of each script in the letters: `{"LATIN": 1.0}`.
        tokenised: whether spaces separate full stops and commas from words.
        lower_cased: whether there are small letters and hardly any capitals.
    """

    words: int
    characters: int
    alphabet: int
    scripts: Mapping[str, float]
    tokenised: bool
    lower_cased: bool

    @property
    def script(self) -> str:
        """The script of most letters; "" if there are no letters."""
        return max(self.scripts, key=lambda name: self.scripts[name], default="")

    @property
    def spaced(self) -> bool:
        """Whether most letters are of a script with spaces between words."""
        return sum(self.scripts.get(name, 0.0) for name in UNSPACED_SCRIPTS) < 0.5

    @property
    def tokens(self) -> float:
        """The subwords of all texts, roughly."""
        if self.spaced:
            return TOKENS_PER_WORD * self.words
        return TOKENS_PER_CHARACTER * self.characters


class SideCounter:
    """Counts what a `Side` needs, text by text; `lines` is the number of texts so far."""

    def __init__(self) -> None:
        self.lines = 0
        self._words = 0
        self._characters: Counter[str] = Counter()
        self._lines_apart = 0
        self._lines_attached = 0

    def count(self, line: str) -> None:
        """Add a text."""
        words = line.split()
        self.lines += 1
        self._words += len(words)
        self._characters.update(line)
        self._lines_apart += "." in words or "," in words
        self._lines_attached += any(word[-1] in ".," and len(word) > 1 for word in words)

    def side(self, scale: float = 1.0) -> Side:
        """What was seen, with `scale` times the words and characters that were counted."""
        letters = {c: n for c, n in self._characters.items() if c.isalpha()}
        total = sum(letters.values())
        small = sum(count for letter, count in letters.items() if letter.islower())
        capital = sum(count for letter, count in letters.items() if letter.isupper())
        scripts: Counter[str] = Counter()
        for letter, count in letters.items():
            scripts[unicodedata.name(letter, "UNKNOWN").split()[0]] += count
        return Side(
            words=round(scale * self._words),
            characters=round(scale * self._characters.total()),
            alphabet=len(self._characters),
            scripts={name: count / total for name, count in scripts.most_common()},
            # Abbreviations keep their full stops in tokenised text, so a few attached ones do not
            # count; and text without punctuation shows nothing.
            tokenised=self._lines_apart > max(0.2 * self.lines, 5 * self._lines_attached),
            lower_cased=small > 0 and 1000 * capital <= small,
        )


def pieces_for(alphabet: int) -> int:
    """A vocabulary with each character and as many longer pieces, in full thousands."""
    return 1000 * math.ceil((2 * alphabet + BYTES_AND_MARKS) / 1000)


@dataclass(frozen=True, eq=False)
class Survey:
    """What was seen of one part of the data.

    Attributes:
        unit: of the examples.
        where: the files or the folder.
        examples: how many there are.
        sides: source and target of pairs, the texts of a classification, none of sequences.
        lengths: (examples,), characters of each text or frames of each sequence; none of pairs.
        most_tokens: (examples,), the most tokens or frames to expect of each.
        words: (examples,), the words of each text, with punctuation marks as words.
        classes: of labelled examples.
        several: the place of the first example with several labels; "" if there is none.
        without: the place of the first example without a label; "" if there is none.
        width: features of a frame.
        names: of the features; () if the file gives none.
        missing: how many values are missing.
        missing_place: the first sequence that lacks a value; "" if none does.
    """

    unit: Literal["pairs", "texts", "sequences"]
    where: str
    examples: int
    sides: tuple[Side, ...]
    lengths: np.ndarray
    most_tokens: np.ndarray
    words: np.ndarray
    classes: Classes = ()
    several: str = ""
    without: str = ""
    width: int = 0
    names: tuple[str, ...] = ()
    missing: int = 0
    missing_place: str = ""

    @property
    def tokens(self) -> float:
        """The tokens of all texts (of pairs, of the longer side) or the frames; at least 1."""
        texts = [side.tokens for side in self.sides]
        return max(1.0, *(texts or [float(self.lengths.sum())]))

    def lines(self, part: str) -> list[str]:
        """What was seen, for people: amounts, classes, and for training data the features."""
        name = "training" if part == "train" else part
        head = f"{name}: {self.examples:,} {self.unit}, "
        if self.unit == "pairs":
            amounts = (
                f"{side.words:,} words" if side.spaced else f"{side.characters:,} characters"
                for side in self.sides
            )
            return [f"{head}{' and '.join(amounts)} ({self.where})"]
        lengths, unit = self.lengths, "characters" if self.unit == "texts" else "frames"
        sizes = f"{lengths.sum():,} {unit}, {lengths.min():,} to {lengths.max():,} each"
        names = [f"{label} ({count:,})" for label, count in self.classes]
        shown = first_few(names, SHOWN_CLASSES)
        lines = [
            f"{head}{sizes} ({self.where})",
            f"{name}: {len(self.classes):,} class{'es' * (len(self.classes) != 1)}: {shown}",
        ]
        if self.unit == "sequences" and part == "train":
            lines.append(f"{name}: {features_named(self.width, self.names)}")
        return lines


def survey_pairs(files: Sequence[str], part: Part = "train") -> Survey:
    """Looks at sentence pairs, which are read as a stream.

    Args:
        files: as `read_pairs` takes them.
        part: the part of a phrasebook named without one.

    Raises:
        DataError: a file is missing, unreadable, empty or of the wrong form.
    """
    source, target = SideCounter(), SideCounter()
    for pair in islice(read_pairs(files, part), SURVEYED):
        source.count(pair.source)
        target.count(pair.target)
    whole = source.lines < SURVEYED or str(files[0]).startswith(PHRASEBOOK)
    pairs = source.lines if whole else _count_lines(str(files[0]))
    scale = pairs / max(1, source.lines)
    sides = source.side(scale), target.side(scale)
    return Survey("pairs", ", ".join(map(str, files)), pairs, sides, NONE, NONE, NONE)


def survey_texts(path: str, text_column: str = "text", label_column: str = "label") -> Survey:
    """Looks at a file of labelled texts, as `read_labelled_texts` reads it.

    The texts have several labels each if the file has them as lists, or in cells separated by `|`,
    and cannot be read otherwise.

    Raises:
        DataError: the file is missing, unreadable, empty or of the wrong form.
    """
    try:
        found = _survey_texts(path, read_labelled_texts(path, text_column, label_column))
    except DataError:
        lists = _with_lists(path, text_column, label_column)
        if lists is None:
            raise
        return lists
    if any(SEPARATOR in name for name, _ in found.classes):
        return _with_lists(path, text_column, label_column) or found
    return found


def _with_lists(path: str, text_column: str, label_column: str) -> Survey | None:
    """The texts of a file that has several labels a text; None for another file."""
    try:
        found = _survey_texts(path, read_labelled_texts(path, text_column, label_column, True))
    except DataError:
        return None
    # An empty list means that no label applies; an empty cell may be a label that was forgotten.
    written_out = path.lower().removesuffix(".gz").endswith(".jsonl")
    return found if found.several or (found.without and written_out) else None


def _survey_texts(path: str, texts: Iterable[LabelledText]) -> Survey:
    counter, by_words, labels = SideCounter(), WordTokenizer((), split_punctuation=True), _Labels()
    counts: list[tuple[int, int, int]] = []
    for example in labels.seen(texts):
        text = example.input
        counts.append((len(text), len(text.encode()), len(by_words.words_of(text))))
        if counter.lines < SURVEYED:
            counter.count(text)
    lengths, sizes, words = np.array(counts, dtype=np.int64).T
    side = counter.side(len(counts) / max(1, counter.lines))
    most = sizes / LEAST_BYTES
    return Survey("texts", path, len(counts), (side,), lengths, most, words, *labels.found())


def survey_sequences(path: str, label_column: str = "label") -> Survey:
    """Looks at labelled feature sequences, as `read_feature_sequences` reads them.

    Raises:
        DataError: they are missing, unreadable, none at all or of the wrong form.
    """
    labels, frames, missing, missing_place = _Labels(), list[int](), 0, ""
    width, names = 0, ()
    for example in labels.seen(read_feature_sequences(path, label_column)):
        frames.append(len(example.input))
        width, names = example.input.shape[1], example.columns
        if lacking := int(np.isnan(example.input).sum()):
            missing += lacking
            missing_place = missing_place or example.place
    lengths, features = np.array(frames), (width, names, missing, missing_place)
    found = labels.found()
    return Survey("sequences", path, len(frames), (), lengths, lengths, NONE, *found, *features)


class _Labels:
    """Counts the labels of examples that pass."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._several = self._without = ""

    def seen(self, examples: Iterable[T]) -> Iterator[T]:
        for example in examples:
            self._counts.update(example.labels)
            if len(example.labels) > 1:
                self._several = self._several or example.place
            elif not example.labels:
                self._without = self._without or example.place
            yield example

    def found(self) -> tuple[Classes, str, str]:
        return ranked(self._counts), self._several, self._without


def _count_lines(path: str) -> int:
    """The lines of a file; the last one may lack its line break."""
    count, last = 0, b"\n"
    try:
        with (
            open_packed(path) as packed,
            gzip.open(packed) if path.lower().endswith(".gz") else packed as stream,
        ):
            while block := stream.read(2**20):
                count += block.count(b"\n")
                last = block[-1:]
    except (OSError, EOFError, zlib.error) as error:
        raise DataError("the file cannot be read", where=path, why=str(error)) from None
    return count + (last != b"\n")
