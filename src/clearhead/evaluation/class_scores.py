"""Scores of classifiers: accuracy, F1, likelihood, calibration, confusion, and a paired test.

Arguments are as in `calibration`: probabilities and truth (N, labels). If an example has one label,
the likeliest label is predicted. If it may have several, or none (`multi_label`), every label is
predicted whose probability reaches its threshold. Precision, recall and F1 that would be 0 / 0 are
0, for example the precision of a label that is never predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from clearhead.errors import DataError
from clearhead.evaluation import calibration
from clearhead.evaluation.scores import p_text, wilson_interval

if TYPE_CHECKING:
    from clearhead.data.labels import Labels
    from clearhead.data.reading.labelled import Labelled

RESAMPLES, SEED, BLOCK = 1000, 12345, 2**22
"""Bootstrap samples, their seed (sacreBLEU's default too), and counts in memory at a time."""

LARGEST_MATRIX, LONGEST_NAME, LONGEST_HEADING = 20, 24, 8
"""Maximum labels of a confusion matrix in text, and maximum widths of a row name and a heading."""

SHOWN_PAIRS = 20
"""Pairs of confused labels that are listed at most."""

SUMMARY = (
    *("accuracy", "macro_f1", "micro_f1"),
    *("negative_log_likelihood", "calibration_error"),
)
"""The most important fields of `ClassScores`."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class PerClass:
    """Precision, recall and F1 of one label in percent; `support` counts the examples with it."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class ClassScores:
    """The scores of a classifier on N examples, in percent unless stated otherwise.

    Attributes:
        examples: their number N.
        accuracy: the share of examples that are classified correctly. If an example may have
            several labels, exactly these must be predicted (subset accuracy).
        macro_f1: the mean F1 of the labels that occur in the truth or in the predictions, as in
            scikit-learn: a label that is only predicted counts as 0.
        micro_f1: the F1 of all decisions together. With one label an example, the accuracy.
        accuracy_interval: the 95 % confidence interval (Wilson 1927).
        macro_f1_interval, micro_f1_interval: 95 % confidence intervals by percentiles of 1,000
            bootstrap samples (Efron and Tibshirani 1993, chapter 13); None if all samples have the
            same score, for example because no prediction is wrong. With one label an example, the
            interval of micro F1 is that of the accuracy.
        negative_log_likelihood: in nats an example.
        calibration_error: the expected calibration error (Guo et al. 2017).
        per_class: a row for each label.
        confusion: how many examples of each label (rows) were given each label (columns); None
            if an example may have several.
    """

    examples: int
    accuracy: float
    macro_f1: float
    micro_f1: float
    accuracy_interval: Interval
    macro_f1_interval: Interval | None
    micro_f1_interval: Interval | None
    negative_log_likelihood: float
    calibration_error: float
    per_class: tuple[PerClass, ...]
    confusion: tuple[tuple[int, ...], ...] | None

    def lines(self) -> list[str]:
        """The scores as lines of text: a summary, a table of the labels, the confusion matrix."""
        matrix = [] if self.confusion is None else ["", *self._matrix(self.confusion)]
        return [*self._summary(), "", *self._class_table(), *matrix]

    def _summary(self) -> Iterator[str]:
        accuracy = "subset accuracy" if self.confusion is None else "accuracy"
        yield f"{self.examples:,} examples, {len(self.per_class):,} labels"
        for name, score, interval in (
            (accuracy, self.accuracy, self.accuracy_interval),
            ("macro F1", self.macro_f1, self.macro_f1_interval),
            ("micro F1", self.micro_f1, self.micro_f1_interval),
        ):
            line = f"{name:<26}  {score:6.2f} %"
            if interval is not None:
                line += f"  (95 % interval: {interval[0]:.2f} to {interval[1]:.2f})"
            yield line
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
            return self._most_confused(confusion, names)
        rows = [["", *(_shortened(name, LONGEST_HEADING) for name in names)]]
        for name, counts in zip(names, confusion, strict=True):
            rows.append([_shortened(name, LONGEST_NAME), *map(str, counts)])
        title = "confusion matrix: rows are true labels, columns predicted labels"
        return [title, *_aligned(rows)]

    def _most_confused(self, confusion: Sequence[Sequence[int]], names: Sequence[str]) -> list[str]:
        """The pairs of labels that are most often confused, where a matrix is too wide."""
        pairs = [
            (count, true, predicted)
            for true, counts in zip(names, confusion, strict=True)
            for predicted, count in zip(names, counts, strict=True)
            if count and true != predicted
        ]
        rows = [["examples", "true label", "predicted label"]]
        for count, true, predicted in sorted(pairs, reverse=True, key=itemgetter(0))[:SHOWN_PAIRS]:
            names_of = (_shortened(name, LONGEST_NAME) for name in (true, predicted))
            rows.append([str(count), *names_of])
        return ["most confused labels", *_aligned(rows)] if pairs else []


@dataclass(frozen=True)
class Comparison:
    """How many examples only one of two classifiers gets right, and McNemar's p-value."""

    first_only: int
    second_only: int
    p_value: float

    def line(self, first: str) -> str:
        """The comparison for the report on the second classifier; `first` is the other's name."""
        return (
            f"compared with {first}: {self.second_only} examples are correct only here, "
            f"{self.first_only} only there, {p_text(self.p_value)} (McNemar's exact test)"
        )


@dataclass(frozen=True)
class BaselineScores:
    """The scores of a linear model on the same examples, in percent, as in `ClassScores`.

    In `comparison`, the linear model is the first and the classifier the second.
    """

    features: str
    fitted_on: str
    accuracy: float
    macro_f1: float
    comparison: Comparison


@dataclass(frozen=True)
class ClassifierScores:
    """All scores of one classifier, and its comparison with the first classifier, if any.

    `linear_baseline` is the comparison with a linear model, if one was fitted.
    """

    scores: ClassScores
    comparison: Comparison | None = None
    linear_baseline: BaselineScores | None = None

    @property
    def summary(self) -> dict[str, float]:
        """The most important scores by name."""
        return {name: getattr(self.scores, name) for name in SUMMARY}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def lines(self, baseline: str) -> Iterator[str]:
        """The scores as lines of text; `baseline` is the name of the first classifier."""
        yield from self.scores.lines()
        if self.comparison is not None:
            yield self.comparison.line(baseline)
        if (linear := self.linear_baseline) is not None:
            yield ""
            yield (
                f"linear baseline: accuracy {linear.accuracy:.2f} %, macro F1 "
                f"{linear.macro_f1:.2f} % ({linear.features}, fitted on {linear.fitted_on})"
            )
            yield linear.comparison.line("the linear baseline")


def truth_of(examples: Sequence[Labelled], labels: Labels) -> np.ndarray:
    """Which labels each example has, bool (examples, labels); a DataError for an unknown label."""
    truth = np.zeros((len(examples), len(labels)), dtype=bool)
    for row, example in zip(truth, examples, strict=True):
        row[list(labels.encode(example.labels, example.place))] = True
    return truth


def score_classes(
    probabilities: np.ndarray,
    truth: np.ndarray,
    names: Sequence[str],
    multi_label: bool = False,
    thresholds: float | np.ndarray = calibration.THRESHOLD,
) -> ClassScores:
    """All scores of a classifier's output; `names` are those of the labels.

    `thresholds` are as in `calibration.decisions`.

    Raises:
        DataError: there is no example, or one that should have one label has another number.
    """
    if not truth.size:
        raise DataError("there is nothing to score")
    counts = truth.sum(axis=1)
    if not multi_label and (counts != 1).any():
        number = int((counts != 1).argmax())
        raise DataError(
            f"example {number + 1} has {counts[number]} correct labels, but must have one",
            todo="set classifier.multi_label if an example may have several labels, or none",
        )
    predicted = calibration.decisions(probabilities, multi_label, thresholds)
    rows, counts = _kinds(truth, predicted)
    accuracy, macro, micro = _rates(truth[rows], predicted[rows], counts[None])[0].tolist()
    hits = int(counts[(truth[rows] == predicted[rows]).all(axis=1)].sum())
    of_accuracy = wilson_interval(hits, len(truth))
    of_macro, of_micro = _intervals(truth[rows], predicted[rows], counts)
    confusion = truth.T.astype(np.int64) @ predicted
    return ClassScores(
        examples=len(truth),
        accuracy=accuracy,
        macro_f1=macro,
        micro_f1=micro,
        accuracy_interval=of_accuracy,
        macro_f1_interval=of_macro,
        micro_f1_interval=of_micro if multi_label else of_accuracy,
        negative_log_likelihood=calibration.negative_log_likelihood(
            probabilities, truth, multi_label
        ),
        calibration_error=calibration.expected_calibration_error(probabilities, truth, multi_label),
        per_class=_per_class(truth, predicted, names),
        confusion=None if multi_label else tuple(map(tuple, confusion.tolist())),
    )


def _kinds(truth: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs of correct and predicted labels: a row of each, and their numbers."""
    packed = np.packbits(np.concatenate([truth, predicted], axis=1), axis=1)
    _, rows, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    return rows, counts


def _rates(truth: np.ndarray, predicted: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Accuracy, macro and micro F1 in percent (samples, 3), of counts (samples, kinds)."""
    # Integers are exact in float64, and products of float64 matrices are fast.
    weights = counts.astype(np.float64)
    accuracy = weights @ (truth == predicted).all(axis=1) / weights.sum(axis=1)
    hits = weights @ (truth & predicted).astype(np.float64)
    marks = weights @ (truth.astype(np.float64) + predicted)
    occurring = np.maximum((marks > 0).sum(axis=1), 1)
    macro = _ratio(2 * hits, marks).sum(axis=1) / occurring
    micro = _ratio(2 * hits.sum(axis=1), marks.sum(axis=1))
    return 100 * np.stack([accuracy, macro, micro], axis=1)


def _intervals(
    truth: np.ndarray, predicted: np.ndarray, counts: np.ndarray
) -> tuple[Interval | None, ...]:
    """The 95 % intervals of macro and micro F1; None for one without a width."""
    # Drawing N examples with replacement and counting their kinds is one multinomial draw.
    generator, number = np.random.default_rng(SEED), counts.sum()
    block = max(1, BLOCK // len(counts))
    sizes = [min(block, RESAMPLES - done) for done in range(0, RESAMPLES, block)]
    samples = (generator.multinomial(number, counts / number, size=size) for size in sizes)
    rates = np.concatenate([_rates(truth, predicted, sample) for sample in samples])
    ends = np.percentile(rates[:, 1:], [2.5, 97.5], axis=0).T.tolist()
    return tuple((low, high) if low < high else None for low, high in ends)


def _per_class(
    truth: np.ndarray, predicted: np.ndarray, names: Sequence[str]
) -> tuple[PerClass, ...]:
    hits, support, given = (marks.sum(axis=0) for marks in (truth & predicted, truth, predicted))
    rates = _ratio(hits, given), _ratio(hits, support), _ratio(2 * hits, support + given)
    columns = (*((100 * rate).tolist() for rate in rates), support.tolist())
    return tuple(PerClass(*row) for row in zip(names, *columns, strict=True))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def correct_answers(
    probabilities: np.ndarray,
    truth: np.ndarray,
    multi_label: bool = False,
    thresholds: float | np.ndarray = calibration.THRESHOLD,
) -> np.ndarray:
    """Which examples are classified correctly, bool (N,): all their labels and no others."""
    return (calibration.decisions(probabilities, multi_label, thresholds) == truth).all(axis=1)


def mcnemar(first: np.ndarray, second: np.ndarray) -> Comparison:
    """McNemar's exact test of whether two classifiers differ in accuracy.

    Of the examples that only one of two equally good classifiers gets right, each would win half:
    the p-value is that of the two-sided binomial test (McNemar 1947, in its exact form; Dietterich
    1998). `first` and `second` are which of the same examples each classifies correctly, bool (N,).
    """
    first_only, second_only = int((first & ~second).sum()), int((second & ~first).sum())
    number = first_only + second_only
    k = np.arange(1, min(first_only, second_only) + 1)
    # Logarithms of "number choose k" for k = 0, 1, ...: the coefficients themselves overflow.
    ways = np.concatenate([[0.0], np.cumsum(np.log((number - k + 1) / k))])
    p_value = 2 * float(np.exp(ways - number * np.log(2)).sum())
    return Comparison(first_only, second_only, min(1.0, p_value))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row as a line: the first column flush left, the others flush right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        spaces = [" " * (w - cell_len(cell)) for w, cell in zip(widths, row, strict=True)]
        lines.append("  ".join([row[0] + spaces[0], *map(add, spaces[1:], row[1:])]))
    return lines


def _shortened(text: str, width: int) -> str:
    """A text in at most `width` columns of a terminal."""
    text = "".join(mark if mark.isprintable() else "?" for mark in text)
    if cell_len(text) > width:
        text = next(t for n in range(len(text), -1, -1) if cell_len(t := text[:n]) < width) + "…"
    return text
