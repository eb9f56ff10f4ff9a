"""What labelled examples look like at a glance: how many, how long, of which classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from clearhead.data.feature_sequences import read_feature_sequences
from clearhead.data.features import features_named
from clearhead.data.labelled import SEPARATOR, Labelled, LabelledText, read_labelled_texts
from clearhead.data.labelled_report import SHOWN_CLASSES, Classes, count_classes
from clearhead.data.survey import SURVEYED_PAIRS, Side, SideCounter
from clearhead.errors import DataError
from clearhead.tokenizer import WordTokenizer

LEAST_BYTES = 2
"""Of a token on average, in UTF-8, however rare the words or the characters are."""

T = TypeVar("T", bound=Labelled[Any])


@dataclass(frozen=True, eq=False)
class LabelledSurvey:
    """What was seen of one part of the data.

    Attributes:
        path: its file or folder.
        lengths: (examples,), the characters of each text or the frames of each sequence.
        classes: each label and the number of examples that have it, most frequent first.
        several: where the first example with several labels is; "" if there is none.
        without: where the first example without a label is; "" if there is none.
    """

    kind: ClassVar[str] = "examples"
    unit: ClassVar[str] = "numbers"

    path: str
    lengths: np.ndarray
    classes: Classes
    several: str
    without: str

    @property
    def examples(self) -> int:
        """So many were read."""
        return len(self.lengths)

    @property
    def imbalance(self) -> float:
        """How many times the examples of the smallest class the largest has; 1 without classes."""
        return self.classes[0][1] / self.classes[-1][1] if self.classes else 1.0

    @property
    def tokens(self) -> float:
        """The frames of all sequences, or the tokens of all texts, roughly; at least 1."""
        return float(max(1, self.lengths.sum()))

    @property
    def most_tokens(self) -> np.ndarray:
        """(examples,): no sequence has more frames, and hardly a text more tokens."""
        return self.lengths

    def lines(self, part: str) -> list[str]:
        """What was seen, for people: amounts, then classes."""
        name = "training" if part == "train" else part
        shown = ", ".join(f"{label} ({count:,})" for label, count in self.classes[:SHOWN_CLASSES])
        more = len(self.classes) - SHOWN_CLASSES
        return [
            f"{name}: {self.examples:,} {self.kind}, {self.lengths.sum():,} {self.unit}, "
            f"{self.lengths.min():,} to {self.lengths.max():,} each ({self.path})",
            f"{name}: {len(self.classes):,} class{'es' * (len(self.classes) != 1)}: {shown}"
            + (f" and {more:,} more" if more > 0 else ""),
        ]


@dataclass(frozen=True, eq=False)
class TextSurvey(LabelledSurvey):
    """Of texts.

    Attributes:
        text: what they look like together.
        sizes: (examples,), the bytes of each in UTF-8.
        words: (examples,), the words of each, where marks before and behind a word are words too.
    """

    kind = "texts"
    unit = "characters"

    text: Side
    sizes: np.ndarray
    words: np.ndarray

    @property
    def tokens(self) -> float:
        """The tokens of all texts, roughly; at least 1."""
        return max(1.0, self.text.tokens)

    @property
    def most_tokens(self) -> np.ndarray:
        """(examples,): hardly a text has more tokens."""
        return self.sizes / LEAST_BYTES


@dataclass(frozen=True, eq=False)
class SequenceSurvey(LabelledSurvey):
    """Of sequences of features.

    Attributes:
        width: features of a frame.
        missing: so many values are missing, in all sequences together.
        missing_place: the first sequence that lacks a value; "" if none does.
        names: of the features; () where the file gives none.
    """

    kind = "sequences"
    unit = "frames"

    width: int
    missing: int
    missing_place: str
    names: tuple[str, ...]

    def lines(self, part: str) -> list[str]:
        """What was seen, for people: amounts, classes, and of the training data the features."""
        lines = super().lines(part)
        if part == "train":
            lines.append(f"training: {features_named(self.width, self.names)}")
        return lines


def survey_texts(path: str, text_column: str = "text", label_column: str = "label") -> TextSurvey:
    """Look at a file of labelled texts, as `read_labelled_texts` reads it.

    Several labels a text are what the file has where they are written as lists, or in cells in
    which `|` parts them, and what it cannot be read without.

    Raises:
        DataError: the file is missing, unreadable, empty or of the wrong form.
    """
    try:
        found = _texts(path, read_labelled_texts(path, text_column, label_column))
    except DataError:
        lists = _lists(path, text_column, label_column)
        if lists is None:
            raise
        return lists
    if any(SEPARATOR in name for name, _ in found.classes):
        return _lists(path, text_column, label_column) or found
    return found


def _lists(path: str, text_column: str, label_column: str) -> TextSurvey | None:
    """The texts of a file that means several labels a text, None of one that does not."""
    try:
        found = _texts(path, read_labelled_texts(path, text_column, label_column, True))
    except DataError:
        return None
    # An empty list says that no label applies; an empty cell alone may be a label forgotten.
    written_out = path.lower().removesuffix(".gz").endswith(".jsonl")
    return found if found.several or (found.without and written_out) else None


def survey_sequences(path: str, label_column: str = "label") -> SequenceSurvey:
    """Look at labelled feature sequences, as `read_feature_sequences` reads them.

    Raises:
        DataError: they are missing, unreadable, none at all or of the wrong form.
    """
    tally = _Tally()
    width = missing = 0
    missing_place = ""
    names: tuple[str, ...] = ()

    def seen() -> Iterator[Labelled[np.ndarray]]:
        nonlocal width, missing, missing_place, names
        for example in tally.noted(read_feature_sequences(path, label_column)):
            width, names = example.input.shape[1], example.columns
            if lacking := int(np.isnan(example.input).sum()):
                missing += lacking
                missing_place = missing_place or example.place
            yield example

    classes = count_classes(seen())
    return SequenceSurvey(*tally.over(path, classes), width, missing, missing_place, names)


def _texts(path: str, texts: Iterable[LabelledText]) -> TextSurvey:
    tally, counter = _Tally(), SideCounter()
    sizes: list[int] = []
    words: list[int] = []
    by_words = WordTokenizer((), split_punctuation=True)

    def seen() -> Iterator[LabelledText]:
        for example in tally.noted(texts):
            sizes.append(len(example.input.encode()))
            words.append(len(by_words.words_of(example.input)))
            if counter.lines < SURVEYED_PAIRS:
                counter.count(example.input)
            yield example

    classes = count_classes(seen())
    scale = len(tally.lengths) / max(1, counter.lines)
    side, counts = counter.side(scale), (np.array(sizes), np.array(words))
    return TextSurvey(*tally.over(path, classes), side, *counts)


class _Tally:
    """Notes what is common to texts and sequences while they pass."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.several = ""
        self.without = ""

    def noted(self, examples: Iterable[T]) -> Iterator[T]:
        """The same examples, each noted when it is asked for."""
        for example in examples:
            self.lengths.append(len(example.input))
            if len(example.labels) > 1:
                self.several = self.several or example.place
            elif not example.labels:
                self.without = self.without or example.place
            yield example

    def over(self, path: str, classes: Classes) -> tuple[str, np.ndarray, Classes, str, str]:
        """The fields of a `LabelledSurvey`, in their order."""
        lengths = np.array(self.lengths, dtype=np.int64)
        return path, lengths, classes, self.several, self.without
