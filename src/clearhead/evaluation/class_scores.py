"""How good a classifier is: accuracy, F1, likelihood, calibration, and what it confuses.

Where an example has one label, its likeliest is the one given; where it may have several
(`multi_label`), every label with a probability of 0.5 or more is. Precision, recall and F1 of a
class that make 0 / 0 are 0: so is the precision of a class never predicted.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np

from clearhead.errors import DataError
from clearhead.evaluation import calibration

RESAMPLES, SEED, BLOCK = 1000, 12345, 2**22
"""Samples drawn for the intervals, their seed (sacreBLEU's default too), counts held at a time."""

LARGEST_MATRIX, LONGEST_NAME, LONGEST_HEADING = 20, 24, 8
"""Labels of a matrix that is shown as text; places for the name of a row and of a column."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class PerClass:
    """Precision, recall and F1 of one label in percent, and how many examples have it."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ClassScores:
    """How good a classifier is on N examples; percent unless said otherwise.

    Attributes:
        examples: their number N.
        accuracy: the share of examples that are classified rightly; where they may have several
            labels, those whose labels are all right and complete (subset accuracy).
        macro_f1: the mean F1 of the labels that occur in the truth or in the prediction, as in
            scikit-learn: one that is predicted only counts as 0, one that does neither not at all.
        micro_f1: the F1 of all decisions together. With one label an example, the accuracy.
        accuracy_interval, macro_f1_interval, micro_f1_interval: 95 % confidence, by percentiles
            of 1,000 bootstrap samples (Efron and Tibshirani 1993, chapter 13).
        negative_log_likelihood: in nats an example.
        calibration_error: the expected calibration error (Guo et al. 2017).
        per_class: a row for each label.
        confusion: how many examples of each label (rows) were given each label (columns); None
            where an example may have several.
    """

    examples: int
    accuracy: float
    macro_f1: float
    micro_f1: float
    accuracy_interval: Interval
    macro_f1_interval: Interval
    micro_f1_interval: Interval
    negative_log_likelihood: float
    calibration_error: float
    per_class: tuple[PerClass, ...]
    confusion: tuple[tuple[int, ...], ...] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """The scores for people: a summary, a table of the labels and the confusion matrix."""
        matrix = [] if self.confusion is None else ["", *self._matrix(self.confusion)]
        return [*self._summary(), "", *self._class_table(), *matrix]

    def _summary(self) -> Iterator[str]:
        accuracy = "subset accuracy" if self.confusion is None else "accuracy"
        yield f"{self.examples:,} examples, {len(self.per_class):,} labels"
        for name, score, (low, high) in (
            (accuracy, self.accuracy, self.accuracy_interval),
            ("macro F1", self.macro_f1, self.macro_f1_interval),
            ("micro F1", self.micro_f1, self.micro_f1_interval),
        ):
            yield f"{name:<26}  {score:6.2f} %  (95 % interval: {low:.2f} to {high:.2f})"
        yield f"{'expected calibration error':<26}  {self.calibration_error:6.2f} %"
        yield f"{'negative log-likelihood':<26}  {self.negative_log_likelihood:8.4f} an example"

    def _class_table(self) -> list[str]:
        rows = [["label", "precision", "recall", "F1", "support"]]
        for row in self.per_class:
            rates = (f"{rate:.2f}" for rate in (row.precision, row.recall, row.f1))
            rows.append([_shortened(row.name, LONGEST_NAME), *rates, str(row.support)])
        return _aligned(rows)

    def _matrix(self, confusion: Sequence[Sequence[int]]) -> list[str]:
        names = [row.name for row in self.per_class]
        if len(names) > LARGEST_MATRIX:
            return [f"the confusion matrix of {len(names)} labels is too wide for lines of text"]
        rows = [["", *(_shortened(name, LONGEST_HEADING) for name in names)]]
        for name, counts in zip(names, confusion, strict=True):
            rows.append([_shortened(name, LONGEST_NAME), *map(str, counts)])
        title = "confusion matrix: rows are the right labels, columns the labels given"
        return [title, *_aligned(rows)]


def score_classes(
    probabilities: np.ndarray, truth: np.ndarray, names: Sequence[str], multi_label: bool = False
) -> ClassScores:
    """All scores of a classifier's output.

    Args:
        probabilities: what it says, (N, labels).
        truth: the right labels, bool (N, labels); one True a row unless `multi_label`.
        names: of the labels, in this order.
        multi_label: an example may have several labels, or none; accuracy is subset accuracy then.

    Raises:
        DataError: the arrays and names do not fit, are empty, or are no probabilities.
        TypeError: `truth` is not of bools.
    """
    probabilities, truth = calibration.checked(probabilities, truth, multi_label)
    if len(names) != truth.shape[1]:
        raise DataError(f"there are {truth.shape[1]} labels and {len(names)} names")
    given = calibration.decisions(probabilities, multi_label)
    rows, counts = _kinds(truth, given)
    accuracy, macro, micro = _rates(truth[rows], given[rows], counts[None])[0].tolist()
    intervals = _intervals(truth[rows], given[rows], counts)
    cells = None if multi_label else map(tuple, (truth.T.astype(np.int64) @ given).tolist())
    return ClassScores(
        len(truth),
        *(accuracy, macro, micro),
        *(intervals[0], intervals[1], intervals[2]),
        calibration.negative_log_likelihood(probabilities, truth, multi_label),
        calibration.expected_calibration_error(probabilities, truth, multi_label),
        _per_class(truth, given, names),
        None if cells is None else tuple(cells),
    )


def _kinds(truth: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One row of each kind of example, by right and given labels, and the number of each kind."""
    packed = np.packbits(np.concatenate([truth, given], axis=1), axis=1)
    _, rows, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    return rows, counts


def _rates(truth: np.ndarray, given: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Accuracy, macro and micro F1 in percent (samples, 3), of counts (samples, kinds)."""
    # Integers in float64, which are exact and multiplied fast.
    weights = counts.astype(np.float64)
    accuracy = weights @ (truth == given).all(axis=1) / weights.sum(axis=1)
    hits = weights @ (truth & given).astype(np.float64)
    marks = weights @ (truth.astype(np.float64) + given)
    occurring = np.maximum((marks > 0).sum(axis=1), 1)
    macro = _ratio(2 * hits, marks).sum(axis=1) / occurring
    micro = _ratio(2 * hits.sum(axis=1), marks.sum(axis=1))
    return 100 * np.stack([accuracy, macro, micro], axis=1)


def _intervals(truth: np.ndarray, given: np.ndarray, counts: np.ndarray) -> Sequence[Interval]:
    """The 95 % intervals of the three rates."""
    # To draw N examples with replacement and count their kinds is one multinomial draw.
    chance, number = np.random.default_rng(SEED), counts.sum()
    block = max(1, BLOCK // len(counts))
    sizes = [min(block, RESAMPLES - done) for done in range(0, RESAMPLES, block)]
    samples = (chance.multinomial(number, counts / number, size=size) for size in sizes)
    rates = np.concatenate([_rates(truth, given, sample) for sample in samples])
    low, high = np.percentile(rates, [2.5, 97.5], axis=0).tolist()
    return list(zip(low, high, strict=True))


def _per_class(truth: np.ndarray, given: np.ndarray, names: Sequence[str]) -> tuple[PerClass, ...]:
    hits, support, predicted = (marks.sum(axis=0) for marks in (truth & given, truth, given))
    rates = _ratio(hits, predicted), _ratio(hits, support), _ratio(2 * hits, support + predicted)
    columns = (*((100 * rate).tolist() for rate in rates), support.tolist())
    return tuple(PerClass(*row) for row in zip(names, *columns, strict=True))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row as a line: the first column to the left, the others to the right."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        spaces = [" " * (w - _width(cell)) for w, cell in zip(widths, row, strict=True)]
        lines.append("  ".join([row[0] + spaces[0], *map(add, spaces[1:], row[1:])]))
    return lines


def _shortened(text: str, width: int) -> str:
    text = "".join(mark if mark.isprintable() else "?" for mark in text)
    if _width(text) > width:
        text = next(t for n in range(len(text), -1, -1) if _width(t := text[:n]) < width) + "…"
    return text


def _width(text: str) -> int:
    """The columns that it takes on a screen: two for wide letters, none for joined marks."""
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    return len(text) + wide - sum(unicodedata.category(mark) in ("Mn", "Me") for mark in text)
