"""A first look at the data: how many examples, how long, which script, which classes."""

from __future__ import annotations

import gzip
import math
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar

import numpy as np

from clearhead.data.feature_sequences import read_feature_sequences
from clearhead.data.features import features_named
from clearhead.data.labelled import Labelled, LabelledText
from clearhead.data.labelled_texts import SEPARATOR, read_labelled_texts
from clearhead.data.phrasebook import PHRASEBOOK, Part
from clearhead.data.readers import open_packed, read_pairs
from clearhead.data.report import SHOWN_CLASSES, Classes, ranked
from clearhead.errors import DataError
from clearhead.tokenizer import WordTokenizer

SURVEYED = 200_000
"""Texts from the beginning of the data that text statistics are made of; all are counted."""

TOKENS_PER_WORD = 1.3
"""Subwords, roughly."""

TOKENS_PER_CHARACTER = 0.7
"""Subwords, roughly, in scripts without spaces between words."""

LEAST_BYTES = 2
"""The fewest bytes of UTF-8 a token has on average in any text."""

BYTES_AND_MARKS = 300
"""Pieces that every vocabulary has, roughly."""

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


@dataclass(frozen=True)
class PairSurvey:
    """What was seen of sentence pairs."""

    unit = "pairs"

    files: tuple[str, ...]
    examples: int
    source: Side
    target: Side

    @property
    def tokens(self) -> float:
        """The tokens of the longer side: it decides how many batches there are."""
        return max(self.source.tokens, self.target.tokens)

    @property
    def shared_script(self) -> float:
        """The share of letters in scripts that both sides have, from 0 to 1."""
        other = self.target.scripts
        return sum(min(share, other.get(name, 0.0)) for name, share in self.source.scripts.items())

    def lines(self, part: str) -> list[str]:
        """The amounts, in one line."""
        amounts = " and ".join(
            f"{side.words:,} words" if side.spaced else f"{side.characters:,} characters"
            for side in (self.source, self.target)
        )
        return [f"{_shown(part)}: {self.examples:,} pairs, {amounts} ({', '.join(self.files)})"]


def survey_pairs(files: Sequence[str], part: Part = "train") -> PairSurvey:
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
    return PairSurvey(tuple(map(str, files)), pairs, source.side(scale), target.side(scale))


@dataclass(frozen=True, eq=False)
class LabelledSurvey:
    """What was seen of labelled examples.

    Attributes:
        path: the file or folder.
        lengths: (examples,), the characters of each text or the frames of each sequence.
        classes: each label and the number of examples that have it, most frequent first.
        several: the place of the first example with several labels; "" if there is none.
        without: the place of the first example without a label; "" if there is none.
    """

    unit: ClassVar[str]
    length_unit: ClassVar[str]

    path: str
    lengths: np.ndarray
    classes: Classes
    several: str
    without: str

    @property
    def examples(self) -> int:
        """How many were read."""
        return len(self.lengths)

    @property
    def tokens(self) -> float:
        """The frames of all sequences, or the tokens of all texts, roughly; at least 1."""
        return float(max(1, self.lengths.sum()))

    @property
    def most_tokens(self) -> np.ndarray:
        """(examples,), the most tokens or frames that each can be expected to have."""
        return self.lengths

    def lines(self, part: str) -> list[str]:
        """The amounts, then the classes."""
        name = _shown(part)
        classes = ", ".join(f"{label} ({count:,})" for label, count in self.classes[:SHOWN_CLASSES])
        more = len(self.classes) - SHOWN_CLASSES
        return [
            f"{name}: {self.examples:,} {self.unit}, {self.lengths.sum():,} {self.length_unit}, "
            f"{self.lengths.min():,} to {self.lengths.max():,} each ({self.path})",
            f"{name}: {len(self.classes):,} class{'es' * (len(self.classes) != 1)}: {classes}"
            + (f" and {more:,} more" if more > 0 else ""),
        ]


@dataclass(frozen=True, eq=False)
class TextSurvey(LabelledSurvey):
    """What was seen of labelled texts.

    Attributes:
        text: all texts together.
        sizes: (examples,), the bytes of each in UTF-8.
        words: (examples,), the words of each, with punctuation marks as words.
    """

    unit = "texts"
    length_unit = "characters"

    text: Side
    sizes: np.ndarray
    words: np.ndarray

    @property
    def tokens(self) -> float:
        """The tokens of all texts, roughly; at least 1."""
        return max(1.0, self.text.tokens)

    @property
    def most_tokens(self) -> np.ndarray:
        """(examples,), the most tokens that each can be expected to have."""
        return self.sizes / LEAST_BYTES


@dataclass(frozen=True, eq=False)
class SequenceSurvey(LabelledSurvey):
    """What was seen of labelled feature sequences.

    Attributes:
        width: features of a frame.
        missing: how many values are missing.
        missing_place: the first sequence that lacks a value; "" if none does.
        names: of the features; () if the file gives none.
    """

    unit = "sequences"
    length_unit = "frames"

    width: int
    missing: int
    missing_place: str
    names: tuple[str, ...]

    def lines(self, part: str) -> list[str]:
        """The amounts, the classes, and for the training data the features."""
        lines = super().lines(part)
        if part == "train":
            lines.append(f"training: {features_named(self.width, self.names)}")
        return lines


def survey_texts(path: str, text_column: str = "text", label_column: str = "label") -> TextSurvey:
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


def _with_lists(path: str, text_column: str, label_column: str) -> TextSurvey | None:
    """The texts of a file that has several labels a text; None for another file."""
    try:
        found = _survey_texts(path, read_labelled_texts(path, text_column, label_column, True))
    except DataError:
        return None
    # An empty list means that no label applies; an empty cell may be a label that was forgotten.
    written_out = path.lower().removesuffix(".gz").endswith(".jsonl")
    return found if found.several or (found.without and written_out) else None


def _survey_texts(path: str, texts: Iterable[LabelledText]) -> TextSurvey:
    counter, by_words = SideCounter(), WordTokenizer((), split_punctuation=True)
    sizes: list[int] = []
    words: list[int] = []

    def see(example: LabelledText) -> None:
        sizes.append(len(example.input.encode()))
        words.append(len(by_words.words_of(example.input)))
        if counter.lines < SURVEYED:
            counter.count(example.input)

    seen = _see_all(path, texts, see)
    side = counter.side(len(sizes) / max(1, counter.lines))
    return TextSurvey(*seen, side, np.array(sizes), np.array(words))


def survey_sequences(path: str, label_column: str = "label") -> SequenceSurvey:
    """Looks at labelled feature sequences, as `read_feature_sequences` reads them.

    Raises:
        DataError: they are missing, unreadable, none at all or of the wrong form.
    """
    width = missing = 0
    missing_place = ""
    names: tuple[str, ...] = ()

    def see(example: Labelled[np.ndarray]) -> None:
        nonlocal width, missing, missing_place, names
        width, names = example.input.shape[1], example.columns
        if lacking := int(np.isnan(example.input).sum()):
            missing += lacking
            missing_place = missing_place or example.place

    seen = _see_all(path, read_feature_sequences(path, label_column), see)
    return SequenceSurvey(*seen, width, missing, missing_place, names)


def _see_all(
    path: str, examples: Iterable[T], see: Callable[[T], None]
) -> tuple[str, np.ndarray, Classes, str, str]:
    """The fields of a `LabelledSurvey`, in their order."""
    lengths: list[int] = []
    counts: Counter[str] = Counter()
    several = without = ""
    for example in examples:
        see(example)
        lengths.append(len(example.input))
        counts.update(example.labels)
        if len(example.labels) > 1:
            several = several or example.place
        elif not example.labels:
            without = without or example.place
    return path, np.array(lengths, dtype=np.int64), ranked(counts), several, without


def _shown(part: str) -> str:
    return "training" if part == "train" else part


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
