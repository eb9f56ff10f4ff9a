"""A survey of the data for `init`: number of examples, lengths, scripts, classes."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from clearhead.data.judging.pairing import NO_SPACES
from clearhead.data.judging.report import SHOWN_CLASSES, Classes, count_classes
from clearhead.data.judging.text_style import StyleCounts
from clearhead.data.reading.feature_sequences import of_one_width, read_feature_sequences
from clearhead.data.reading.features import features_named
from clearhead.data.reading.labelled import (
    SEPARATOR,
    Labelled,
    LabelledSequence,
    LabelledText,
    read_labelled_texts,
)
from clearhead.data.reading.pairs import read_pairs
from clearhead.data.reading.phrasebook import Part
from clearhead.data.reading.tables import Column
from clearhead.errors import DataError, first_few
from clearhead.tokenizer import WordTokenizer

MANY_BARS = 0.05  # from this share of cells on, `|` separates labels; a few may be mistakes
SURVEYED = 200_000  # texts from the start of the data that are used for text statistics
SAMPLED = 5000  # texts from which a vocabulary is learned to count tokens, about
TOKENS_PER_WORD = 1.3
TOKENS_PER_CHARACTER = 0.7  # in scripts without spaces between words
LEAST_BYTES = 2  # of UTF-8 that a token has on average, in any text
BYTES_AND_MARKS = 300  # pieces that every vocabulary has, roughly
SHORT = 4  # tokens: texts with fewer have no n-gram for BLEU
NONE = np.empty(0, dtype=np.int64)

_UNSPACED = re.compile(f"[{NO_SPACES}]")
_WORD = re.compile(r"\w+|[^\w\s]")
READ = 100  # characters of a text in which tokens are counted


@dataclass(frozen=True)
class SideSurvey:
    """The texts of the source, of the target, or of a classification.

    The numbers of `words`, between white space, and of `characters` are estimated if not all texts
    were surveyed. `scripts` has the share of each script in the letters: `{"LATIN": 1.0}`,
    `unspaced` the share of letters of scripts without spaces between words. `short` is the share of
    texts with fewer than four tokens: words and punctuation marks, or characters in such a script.
    """

    words: int
    characters: int
    alphabet: int
    scripts: Mapping[str, float]
    tokenised: bool
    lower_cased: bool | None
    unspaced: float = 0.0
    short: float = 0.0

    @property
    def script(self) -> str:
        """The script of most letters; "" if there are no letters."""
        return max(self.scripts, key=lambda name: self.scripts[name], default="")

    @property
    def spaced(self) -> bool:
        """Whether most letters are of a script with spaces between words."""
        return self.unspaced < 0.5

    @property
    def tokens(self) -> float:
        """The approximate number of subwords in all texts."""
        if self.spaced:
            return TOKENS_PER_WORD * self.words
        return TOKENS_PER_CHARACTER * self.characters


def survey_side(texts: Iterable[str], scale: float = 1.0) -> SideSurvey:
    """Survey texts; words and characters are multiplied by `scale`."""
    counts, words, texts_read = StyleCounts(), 0, 0
    few_words = few_characters = 0
    for text in texts:
        parts = text.split()
        words += len(parts)
        texts_read += 1
        few_words += len(parts) < SHORT and len(_WORD.findall(text[:READ])) < SHORT
        few_characters += len("".join(parts)) < SHORT
        counts.add([text])
    characters, style = counts.characters, counts.style()
    scripts: Counter[str] = Counter()
    unspaced = 0
    for character, n in characters.items():
        if character.isalpha():
            scripts[unicodedata.name(character, "UNKNOWN").split()[0]] += n
            unspaced += n if _UNSPACED.match(character) else 0
    share = unspaced / max(1, scripts.total())
    short = few_words if share < 0.5 else few_characters
    return SideSurvey(
        words=round(scale * words),
        characters=round(scale * characters.total()),
        alphabet=len(characters),
        scripts={name: n / scripts.total() for name, n in scripts.most_common()},
        tokenised=style.tokenised is True,
        lower_cased=style.lower_cased,
        unspaced=share,
        short=short / max(1, texts_read),
    )


def pieces_for(alphabet: int) -> int:
    """A vocabulary with each character and as many longer pieces, in full thousands."""
    return 1000 * math.ceil((2 * alphabet + BYTES_AND_MARKS) / 1000)


@dataclass(frozen=True, eq=False)
class Survey:
    """The survey of one part of the data.

    Of each example, (examples,), `lengths` has the characters or frames, `most_tokens` the greatest
    number of tokens or frames to expect, `words` the words with punctuation marks as words.
    `several`, `without`, `barred_place` and `missing_place` are the places of the first example
    with several labels, without a label, with a `|` in its label, and with a missing value; "" if
    there is none. `distinct` is the share of the examples that repeat no other, `sample` has some
    of the texts of each side.
    """

    unit: Literal["pairs", "texts", "sequences"]
    where: str
    examples: int
    sides: tuple[SideSurvey, ...]
    lengths: np.ndarray = field(default_factory=lambda: NONE)
    most_tokens: np.ndarray = field(default_factory=lambda: NONE)
    words: np.ndarray = field(default_factory=lambda: NONE)
    classes: Classes = ()
    several: str = ""
    without: str = ""
    barred: int = 0
    barred_place: str = ""
    width: int = 0
    names: tuple[str, ...] = ()
    missing: int = 0
    missing_place: str = ""
    sample: tuple[Sequence[str], ...] = ()
    distinct: float = 1.0

    def lines(self, part: str) -> list[str]:
        """Lines for people: amounts, classes, and for training data the features."""
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
        listed = first_few(names, SHOWN_CLASSES)
        lines = [
            f"{head}{sizes} ({self.where})",
            f"{name}: {len(self.classes):,} class{'es' * (len(self.classes) != 1)}: {listed}",
        ]
        if self.unit == "sequences" and part == "train":
            lines.append(f"{name}: {features_named(self.width, self.names)}")
        return lines


def survey_pairs(
    files: Sequence[str], part: Part = "train", languages: tuple[str, str] = ("", "")
) -> Survey:
    """Survey the sentence pairs that `read_pairs` reads."""
    read = read_pairs(files, part, languages)
    pairs = list(islice(read, SURVEYED))
    count = len(pairs) + sum(1 for _ in read)
    sides = ((pair.source for pair in pairs), (pair.target for pair in pairs))
    source, target = (survey_side(side, count / max(1, len(pairs))) for side in sides)
    some = pairs[:: max(1, len(pairs) // SAMPLED)]
    return Survey(
        "pairs",
        ", ".join(map(str, files)),
        count,
        (source, target),
        sample=([pair.source for pair in some], [pair.target for pair in some]),
        distinct=len({(pair.source, pair.target) for pair in pairs}) / max(1, len(pairs)),
    )


def survey_texts(
    files: Sequence[str],
    text_column: Column = "text",
    label_column: Column = "label",
    multi_label: bool | None = None,
) -> Survey:
    """Survey files of labelled texts, which `read_labelled_texts` reads.

    Unless `multi_label` is given, the texts have several labels each if the files have lists of
    labels and cannot be read otherwise, or if many cells have a `|`.
    """

    def read(several: bool) -> list[LabelledText]:
        columns = text_column, label_column, several
        return [each for file in files for each in read_labelled_texts(file, *columns)]

    where = ", ".join(files)
    if multi_label is not None:
        return survey_labelled_texts(read(multi_label), where)
    is_json = all(name.lower().removesuffix(".gz").endswith(".jsonl") for name in files)
    single, lists = list[LabelledText](), list[LabelledText]()
    with suppress(DataError):
        single = read(False)
    if not single or (not is_json and any(SEPARATOR in each.labels[0] for each in single)):
        with suppress(DataError):
            lists = read(True)
    barred = [] if is_json else [each.place for each in lists if len(each.labels) > 1]
    # An empty list means that no label applies; an empty cell may be a forgotten label.
    if lists and (is_json or len(barred) >= MANY_BARS * len(lists)):
        return survey_labelled_texts(lists, where)
    found = survey_labelled_texts(single or read(False), where)  # which may raise the error again
    return replace(found, barred=len(barred), barred_place=next(iter(barred), ""))


def survey_labelled_texts(examples: Sequence[LabelledText], where: str) -> Survey:
    """Survey labelled texts in memory, of this name for people."""
    by_words, texts = WordTokenizer((), split_punctuation=True), [each.input for each in examples]
    surveyed = texts[:SURVEYED]
    return Survey(
        "texts",
        where,
        len(texts),
        (survey_side(surveyed, len(texts) / len(surveyed)),),
        lengths=np.array([len(text) for text in texts]),
        most_tokens=np.array([len(text.encode()) for text in texts]) / LEAST_BYTES,
        words=np.array([len(by_words.words_of(text)) for text in texts]),
        **_classes_of(examples),
        sample=(texts[:: max(1, len(texts) // SAMPLED)],),
        distinct=len({(each.input, each.labels) for each in examples}) / len(texts),
    )


def survey_sequences(files: Sequence[str], label_column: Column = "label") -> Survey:
    """Survey files of labelled feature sequences, which `read_feature_sequences` reads."""
    read = (each for file in files for each in read_feature_sequences(file, label_column))
    return survey_labelled_sequences(list(of_one_width(read)), ", ".join(files))


def survey_labelled_sequences(sequences: Sequence[LabelledSequence], where: str) -> Survey:
    """Survey labelled sequences of one width in memory, of this name for people."""
    lengths = np.array([len(sequence.input) for sequence in sequences])
    missing = [int(np.isnan(sequence.input).sum()) for sequence in sequences]
    lacking = (sequence.place for sequence, count in zip(sequences, missing, strict=True) if count)
    first = sequences[0]
    return Survey(
        "sequences",
        where,
        len(sequences),
        (),
        lengths=lengths,
        most_tokens=lengths,
        **_classes_of(sequences),
        width=first.input.shape[1],
        names=first.columns,
        missing=sum(missing),
        missing_place=next(lacking, ""),
    )


def _classes_of(examples: Sequence[Labelled[Any]]) -> dict[str, Any]:
    """The classes, and the places of the first example with several labels and without a label."""
    several = (example.place for example in examples if len(example.labels) > 1)
    without = (example.place for example in examples if not example.labels)
    classes = count_classes(examples)
    return {"classes": classes, "several": next(several, ""), "without": next(without, "")}
