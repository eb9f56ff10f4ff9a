"""Scores of classifiers equal those of loops written out here."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.evaluation.calibration import (
    decisions,
    expected_calibration_error,
    negative_log_likelihood,
)
from clearhead.evaluation.class_scores import (
    LARGEST_MATRIX,
    ClassScores,
    mcnemar,
    score_classes,
)
from clearhead.evaluation.scores import wilson_interval

KINDS = pytest.mark.parametrize("multi_label", [False, True])


def output(
    examples: int, labels: int, multi_label: bool, seed: int, quality: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truth; they agree more with higher quality. Labels differ in frequency."""
    chance = np.random.default_rng(seed)
    noise = chance.standard_normal((examples, labels))
    if multi_label:
        truth = chance.random((examples, labels)) < np.linspace(0.1, 0.6, labels)
        return 1 / (1 + np.exp(-noise - quality * (2.0 * truth - 1))), truth
    sizes = np.arange(1, labels + 1) / np.arange(1, labels + 1).sum()
    truth = chance.choice(labels, size=examples, p=sizes)[:, None] == np.arange(labels)
    weights = np.exp(noise + quality * truth)
    return weights / weights.sum(axis=1, keepdims=True), truth


def certain(given: list[int], truth: list[int], labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truth of examples with one label each, predicted with probability 1."""
    predicted, right = (np.array(n)[:, None] == np.arange(labels) for n in (given, truth))
    return predicted.astype(float), right


def names(labels: int) -> list[str]:
    return [f"label {n}" for n in range(labels)]


def plain_f1(right: list[set[int]], given: list[set[int]], label: int) -> float | None:
    """F1 from precision and recall; None for a label that occurs nowhere."""
    true = sum(label in r and label in g for r, g in zip(right, given, strict=True))
    support, predicted = (sum(label in s for s in sets) for sets in (right, given))
    if not support and not predicted:
        return None
    if not true:
        return 0.0
    precision, recall = true / predicted, true / support
    return 2 * precision * recall / (precision + recall)


def plain_rates(truth: np.ndarray, given: np.ndarray) -> tuple[float, float, float]:
    """Accuracy, macro and micro F1 in percent, counted example by example."""
    labels = truth.shape[1]
    sets = ([set(np.flatnonzero(row).tolist()) for row in rows] for rows in (truth, given))
    right, predicted = sets
    accuracy = sum(r == g for r, g in zip(right, predicted, strict=True)) / len(right)
    each = [f1 for label in range(labels) if (f1 := plain_f1(right, predicted, label)) is not None]
    # All decisions as if they were of one label.
    flat = [[{0} if mark else set() for mark in rows.ravel()] for rows in (truth, given)]
    micro = plain_f1(flat[0], flat[1], 0)
    return 100 * accuracy, 100 * sum(each) / max(len(each), 1), 100 * (micro or 0.0)


def rates(scores: ClassScores) -> tuple[float, float, float]:
    return scores.accuracy, scores.macro_f1, scores.micro_f1


def intervals(scores: ClassScores) -> list[tuple[float, float]]:
    macro, micro = scores.macro_f1_interval, scores.micro_f1_interval
    assert macro is not None
    assert micro is not None
    return [scores.accuracy_interval, macro, micro]


# Scores


@KINDS
@given(
    seed=st.integers(0, 10**6),
    examples=st.integers(1, 30),
    labels=st.integers(1, 7),
    quality=st.floats(-1, 5),
)
def test_scores_are_those_counted_example_by_example(
    multi_label: bool, seed: int, examples: int, labels: int, quality: float
) -> None:
    predicted, truth = output(examples, labels, multi_label, seed, quality)
    scores = score_classes(predicted, truth, names(labels), multi_label)
    expected = plain_rates(truth, decisions(predicted, multi_label))
    assert rates(scores) == pytest.approx(expected, abs=1e-9)
    assert scores.examples == examples


@KINDS
def test_each_row_of_the_table_is_that_of_its_label(multi_label: bool) -> None:
    predicted, truth = output(80, 5, multi_label, seed=1)
    given = decisions(predicted, multi_label)
    scores = score_classes(predicted, truth, names(5), multi_label)
    assert [row.name for row in scores.per_class] == names(5)
    for label, row in enumerate(scores.per_class):
        true = sum(bool(t and g) for t, g in zip(truth[:, label], given[:, label], strict=True))
        assert row.support == sum(truth[:, label].tolist())
        assert row.precision == pytest.approx(100 * true / sum(given[:, label].tolist()))
        assert row.recall == pytest.approx(100 * true / row.support)
        harmonic = 2 / (1 / row.precision + 1 / row.recall)
        assert row.f1 == pytest.approx(harmonic)


@KINDS
def test_likelihood_and_calibration_error_are_those_of_the_probabilities(
    multi_label: bool,
) -> None:
    predicted, truth = output(60, 4, multi_label, seed=2)
    scores = score_classes(predicted, truth, names(4), multi_label)
    assert scores.negative_log_likelihood == negative_log_likelihood(predicted, truth, multi_label)
    assert scores.calibration_error == expected_calibration_error(predicted, truth, multi_label)


def test_the_confusion_matrix_has_the_truth_in_its_rows() -> None:
    predicted, truth = certain(given=[0, 1, 1, 2, 2, 2], truth=[0, 0, 1, 0, 0, 2], labels=3)
    scores = score_classes(predicted, truth, names(3))
    assert scores.confusion == ((1, 1, 2), (0, 1, 0), (0, 0, 1))


def test_a_label_predicted_only_counts_for_macro_f1_and_one_that_never_occurs_does_not() -> None:
    # Label 2 is never right, 3 is neither right nor given; 1 is right and never given.
    predicted, truth = certain(given=[0, 0, 2], truth=[0, 0, 1], labels=4)
    scores = score_classes(predicted, truth, names(4))
    assert [row.f1 for row in scores.per_class] == [100, 0, 0, 0]
    assert scores.per_class[1].precision == 0
    assert scores.per_class[2].recall == 0
    assert scores.macro_f1 == pytest.approx(100 / 3)


# Intervals


@KINDS
def test_the_intervals_are_those_of_drawing_examples_one_by_one(multi_label: bool) -> None:
    predicted, truth = output(60, 3, multi_label, seed=7)
    given = decisions(predicted, multi_label)
    scores = score_classes(predicted, truth, names(3), multi_label)
    chance = np.random.default_rng(8)
    drawn = []
    for _ in range(400):
        rows = chance.integers(len(truth), size=len(truth))
        drawn.append(plain_rates(truth[rows], given[rows]))
    for found, values in zip(intervals(scores), np.array(drawn).T, strict=True):
        # The percentile of 400 draws has an error of 0.13 standard deviations, of 1,000 of 0.09.
        tolerance = 0.4 * values.std()
        assert found == pytest.approx(tuple(np.percentile(values, [2.5, 97.5])), abs=tolerance)


@pytest.mark.parametrize(("given", "score"), [([0, 1, 2, 2, 1], 100), ([1, 2, 0, 0, 2], 0)])
def test_a_classifier_that_is_always_right_or_wrong_has_an_interval_of_the_accuracy_alone(
    given: list[int], score: int
) -> None:
    predicted, truth = certain(given, [0, 1, 2, 2, 1], 3)
    scores = score_classes(predicted, truth, names(3))
    assert rates(scores) == pytest.approx((score, score, score))
    assert scores.accuracy_interval == wilson_interval(score // 20, 5)
    assert scores.accuracy_interval[1] - scores.accuracy_interval[0] > 40
    assert scores.micro_f1_interval == scores.accuracy_interval
    assert scores.macro_f1_interval is None
    assert "None" not in "\n".join(scores.lines())
    several = score_classes(predicted, truth, names(3), multi_label=True)
    assert several.accuracy_interval == scores.accuracy_interval
    assert several.micro_f1_interval is None


# Comparison


def two_systems(
    first_only: int, second_only: int, both: int, neither: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which examples two systems classify correctly, with these counts."""
    marks = [(1, 0)] * first_only + [(0, 1)] * second_only + [(1, 1)] * both + [(0, 0)] * neither
    first, second = np.array(marks, dtype=bool).T
    return first, second


def exact_p_value(first_only: int, second_only: int) -> float:
    number, smaller = first_only + second_only, min(first_only, second_only)
    tail = sum(math.comb(number, k) for k in range(smaller + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**number)))


@given(
    *(st.integers(0, n) for n in (60, 60, 5)),
)
def test_the_p_value_is_that_of_the_exact_binomial(a: int, b: int, agreed: int) -> None:
    found = mcnemar(*two_systems(a, b, agreed + 1, agreed))
    assert (found.first_only, found.second_only) == (a, b)
    assert found.p_value == pytest.approx(exact_p_value(a, b), rel=1e-9)


def test_the_p_value_of_many_differing_examples_does_not_overflow() -> None:
    found = mcnemar(*two_systems(30_000, 30_700, 0, 0))
    # The normal distribution, with the correction for continuity.
    z = (700 - 1) / math.sqrt(60_700)
    assert found.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.01)


def test_a_small_p_value_is_not_printed_as_zero() -> None:
    assert "p < 0.0001" in mcnemar(*two_systems(0, 60, 0, 0)).line("first")
    assert "p = 0.0625" in mcnemar(*two_systems(0, 5, 0, 0)).line("first")


# Text and JSON


def test_the_lines_contain_every_score_and_every_count() -> None:
    predicted, truth = output(150, 3, False, seed=15)
    scores = score_classes(predicted, truth, ["ABBR", "DESC", "ENTY"])
    summary, table, matrix = "\n".join(scores.lines()).split("\n\n")
    assert "150 examples, 3 labels" in summary
    for score in (*rates(scores), *itertools.chain(*intervals(scores)), scores.calibration_error):
        assert f"{score:.2f}" in summary
    assert f"{scores.negative_log_likelihood:.4f}" in summary
    for row, line in zip(scores.per_class, table.splitlines()[1:], strict=True):
        expected = [row.name, *(f"{n:.2f}" for n in (row.precision, row.recall, row.f1))]
        assert line.split() == [*expected, str(row.support)]
    assert matrix.splitlines()[1].split() == ["ABBR", "DESC", "ENTY"]
    assert scores.confusion is not None
    for row, counts, line in zip(
        scores.per_class, scores.confusion, matrix.splitlines()[2:], strict=True
    ):
        assert line.split() == [row.name, *map(str, counts)]


def columns(text: str) -> int:
    """The width on a terminal of the characters in these tests."""
    return sum(2 if "\u3000" <= mark <= "\u9fff" else mark != "\u0301" for mark in text)


def test_tables_stay_aligned_with_long_wide_and_strange_names() -> None:
    labels = [
        "x" * 100,
        "日本語の長いラベルの名前です。とても長い",
        "e\u0301te\u0301",
        "a\tb\x1b[31m\n",
        "",
    ]
    predicted, truth = output(2_000, 5, False, seed=17)
    lines = score_classes(predicted, truth, labels).lines()
    table, matrix = (list(group) for group in blocks(lines)[1:])
    for group in (table, matrix[1:]):
        assert len(group) == 6
        assert len({columns(line) for line in group}) == 1
    text = "\n".join(lines)
    assert "…" in text
    assert text.replace("\n", "").isprintable()


def blocks(lines: list[str]) -> list[list[str]]:
    """The blocks of lines that empty lines separate."""
    return [list(group) for full, group in itertools.groupby(lines, bool) if full]


def test_where_a_matrix_is_too_wide_the_most_confused_labels_are_listed() -> None:
    predicted, truth = output(50, LARGEST_MATRIX, False, seed=18)
    lines = score_classes(predicted, truth, names(LARGEST_MATRIX)).lines()
    assert len(blocks(lines)[2]) == LARGEST_MATRIX + 2
    labels = names(LARGEST_MATRIX + 1)
    truth = np.eye(len(labels), dtype=bool)[[0, 0, 0, 1, 2, 3]]
    predicted = np.eye(len(labels))[[1, 1, 0, 1, 3, 3]]
    *_, (_, _, first, second) = blocks(score_classes(predicted, truth, labels).lines())
    assert re.split(r"\s{2,}", first.strip()) == ["2", labels[0], labels[1]]
    assert re.split(r"\s{2,}", second.strip()) == ["1", labels[2], labels[3]]
    right = score_classes(np.eye(len(labels)), np.eye(len(labels), dtype=bool), labels)
    assert len(blocks(right.lines())) == 2


# Refusals


def test_what_does_not_fit_is_rejected() -> None:
    predicted, truth = output(4, 3, False, seed=19)
    with pytest.raises(DataError):
        score_classes(predicted[:0], truth[:0], names(3))
    truth[1] = True
    with pytest.raises(DataError) as caught:
        score_classes(predicted, truth, names(3))
    assert caught.value.what.startswith("example 2 ")
    score_classes(predicted, truth, names(3), multi_label=True)
