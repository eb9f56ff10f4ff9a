"""Temperature scaling and the calibration error equal loops written out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.calibration import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    LOWEST_THRESHOLD,
    THRESHOLD,
    decisions,
    expected_calibration_error,
    fit_factors,
    fit_temperature,
    fit_thresholds,
    negative_log_likelihood,
    probabilities,
)

KINDS = pytest.mark.parametrize("multi_label", [False, True])


def one_hot(labels: np.ndarray, count: int) -> np.ndarray:
    return labels[:, None] == np.arange(count)


def sampled(
    examples: int, labels: int, multi_label: bool, seed: int, scale: float = 1.5
) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn with their probabilities."""
    chance = np.random.default_rng(seed)
    logits = scale * chance.standard_normal((examples, labels))
    if multi_label:
        return logits, chance.random(logits.shape) < 1 / (1 + np.exp(-logits))
    # Gumbel noise makes the highest logit a draw from their softmax.
    return logits, one_hot((logits + chance.gumbel(size=logits.shape)).argmax(axis=1), labels)


def plain_probability(row: list[float], temperature: float, multi_label: bool) -> list[float]:
    if multi_label:
        return [1 / (1 + math.exp(-z / temperature)) for z in row]
    weights = [math.exp(z / temperature) for z in row]
    return [weight / sum(weights) for weight in weights]


def plain_likelihood(
    logits: np.ndarray, truth: np.ndarray, temperature: float, multi_label: bool
) -> float:
    total = 0.0
    for row, right in zip(logits.tolist(), truth.tolist(), strict=True):
        if multi_label:
            # Not to have a label is to have one with the logit turned round.
            turned = [z if y else -z for z, y in zip(row, right, strict=True)]
            total -= sum(map(math.log, plain_probability(turned, temperature, True)))
        else:
            total -= math.log(plain_probability(row, temperature, False)[right.index(True)])
    return total / len(logits)


def plain_calibration_error(decided: list[tuple[float, bool]], bins: int) -> float:
    """The calibration error of (confidence, correct) pairs, by a loop over the bins."""
    error = 0.0
    for m in range(1, bins + 1):
        inside = [
            (confidence, right)
            for confidence, right in decided
            if (m - 1) / bins < confidence <= m / bins or (m == 1 and confidence == 0)
        ]
        if inside:
            accuracy = sum(right for _, right in inside) / len(inside)
            confidence = sum(confidence for confidence, _ in inside) / len(inside)
            error += len(inside) / len(decided) * abs(accuracy - confidence)
    return 100 * error


# Probabilities


@KINDS
@given(data=st.data(), temperature=st.floats(0.1, 10))
def test_probabilities_are_the_formula(
    multi_label: bool, data: st.DataObject, temperature: float
) -> None:
    width = data.draw(st.integers(1, 5))
    row = st.lists(st.floats(-30, 30), min_size=width, max_size=width)
    logits = data.draw(st.lists(row, min_size=1, max_size=4))
    expected = [plain_probability(row, temperature, multi_label) for row in logits]
    found = probabilities(np.array(logits), temperature, multi_label)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@KINDS
def test_extreme_logits_give_probabilities_without_a_warning(multi_label: bool) -> None:
    logits = np.array([[1e30, 0.0, -1e30], [-1e4, -1e4, 1e4], [0.0, 0.0, 0.0]])
    found = probabilities(logits, LOWEST_TEMPERATURE, multi_label)
    certain = [[1, 0.5, 0], [0, 0, 1]] if multi_label else [[1, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(found[:2], certain)
    np.testing.assert_allclose(found[2], 0.5 if multi_label else 1 / 3)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_that_is_no_positive_number_is_rejected(temperature: float) -> None:
    with pytest.raises(ConfigError):
        probabilities(np.zeros((1, 2)), temperature)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_rejected(bad: float) -> None:
    logits = np.array([[0.0, bad]])
    for use in (probabilities, lambda each: fit_temperature(each, np.array([[True, False]]))):
        with pytest.raises(DataError):
            use(logits)


# Temperature


@KINDS
@pytest.mark.parametrize("scale", [0.25, 1.0, 3.0])
def test_the_scale_that_logits_were_given_is_found(multi_label: bool, scale: float) -> None:
    logits, truth = sampled(20_000, 4, multi_label, seed=4)
    assert fit_temperature(scale * logits, truth, multi_label) == pytest.approx(scale, rel=0.05)


@KINDS
def test_the_temperature_is_the_best_of_a_fine_grid(multi_label: bool) -> None:
    for seed in range(3):
        logits, truth = sampled(60, 3, multi_label, seed)
        found = fit_temperature(2 * logits, truth, multi_label)
        best = plain_likelihood(2 * logits, truth, found, multi_label)
        for temperature in np.geomspace(LOWEST_TEMPERATURE * 2, HIGHEST_TEMPERATURE, 40):
            other = plain_likelihood(2 * logits, truth, temperature, multi_label)
            assert best <= other * (1 + 1e-12)


def test_the_temperature_ignores_a_constant_added_to_all_logits_of_a_row() -> None:
    logits, truth = sampled(200, 4, False, seed=6)
    shift = np.linspace(-1000, 1000, 200)[:, None]
    expected = fit_temperature(logits, truth)
    assert fit_temperature(logits + shift, truth) == pytest.approx(expected, rel=1e-6)


@KINDS
def test_without_a_finite_optimum_the_nearer_end_is_returned(multi_label: bool) -> None:
    truth = one_hot(np.arange(6) % 3, 3)
    right = np.where(truth, 2.0, -2.0)
    assert fit_temperature(right, truth, multi_label) == LOWEST_TEMPERATURE
    assert fit_temperature(1e6 * right, truth, multi_label) == LOWEST_TEMPERATURE
    assert fit_temperature(-right, truth, multi_label) == HIGHEST_TEMPERATURE


@KINDS
def test_if_all_temperatures_are_equally_good_it_is_one(multi_label: bool) -> None:
    truth = one_hot(np.arange(6) % 3, 3)
    assert fit_temperature(np.zeros((6, 3)), truth, multi_label) == 1.0
    assert fit_temperature(np.full((6, 3), 0.1), truth) == 1.0


# Factors


@KINDS
def test_no_other_factors_are_likelier(multi_label: bool) -> None:
    rng = np.random.default_rng(2)
    for noise in (0.5, 2.0, 8.0):
        sure, truth = sampled(400, 4, multi_label, seed=3)
        parts = [sure + noise * rng.normal(size=sure.shape) for _ in range(2)]
        best = fit_factors(parts[0], parts[1], truth, multi_label)
        grid = [(a, b) for a in np.linspace(0.05, 4, 20) for b in np.linspace(0, 8, 20)]
        losses = [
            plain_likelihood(a * parts[0] + b * parts[1], truth, 1.0, multi_label) * len(truth)
            + ((a / 0.4 - 1) ** 2 + (b / 3.2 - 1) ** 2) * 2
            for a, b in [best, *grid]
        ]
        assert losses[0] <= min(losses) + 1e-6


@KINDS
def test_what_contradicts_the_truth_gets_the_lowest_factor(multi_label: bool) -> None:
    logits, truth = sampled(400, 3, multi_label, seed=5)
    wrong = np.where(truth, -3.0, 3.0)
    alone, none = fit_factors(logits, wrong, truth, multi_label)
    assert none == 0.0
    # Calibrated logits keep their scale, if nothing else is there.
    assert alone == pytest.approx(1.0, rel=0.2)
    assert fit_factors(wrong, logits, truth, multi_label)[0] == 1 / HIGHEST_TEMPERATURE


@KINDS
def test_one_example_leaves_the_usual_factors(multi_label: bool) -> None:
    truth = np.array([[True, False]])
    right = np.where(truth, 5.0, -5.0)
    found = fit_factors(right, right, truth, multi_label)
    assert found == pytest.approx((0.4, 3.2), rel=0.01)


# Calibration error


@KINDS
@pytest.mark.parametrize("bins", [1, 7, 15])
@given(seed=st.integers(0, 10**6), examples=st.integers(1, 40), labels=st.integers(1, 4))
def test_the_calibration_error_is_that_of_a_loop_over_bins(
    multi_label: bool, bins: int, seed: int, examples: int, labels: int
) -> None:
    logits, truth = sampled(examples, labels, multi_label, seed)
    predicted = probabilities(2 * logits, multi_label=multi_label)
    if multi_label:
        decided = [
            (max(p, 1 - p), (p >= 0.5) == y)
            for p, y in zip(predicted.ravel().tolist(), truth.ravel().tolist(), strict=True)
        ]
    else:
        decided = [
            (max(row), bool(right[row.index(max(row))]))
            for row, right in zip(predicted.tolist(), truth.tolist(), strict=True)
        ]
    found = expected_calibration_error(predicted, truth, multi_label, bins)
    assert found == pytest.approx(plain_calibration_error(decided, bins), abs=1e-9)


def test_a_confidence_on_an_edge_belongs_to_the_bin_below() -> None:
    # 2/3 = 10/15 with 1 of 1 right; just above it, 0 of 1 right: in one bin they would make up.
    predicted = np.array([[2 / 3, 1 / 3], [0.67, 0.33]])
    truth = np.array([[True, False], [False, True]])
    expected = 100 * (1 / 3 + 0.67) / 2
    assert expected_calibration_error(predicted, truth) == pytest.approx(expected)


# Likelihood and decisions


@KINDS
def test_the_likelihood_is_the_formula(multi_label: bool) -> None:
    logits, truth = sampled(40, 4, multi_label, seed=8)
    found = negative_log_likelihood(probabilities(logits, 2.0, multi_label), truth, multi_label)
    assert found == pytest.approx(plain_likelihood(logits, truth, 2.0, multi_label), rel=1e-12)


@KINDS
def test_a_correct_label_of_probability_0_has_a_finite_cost(
    multi_label: bool,
) -> None:
    truth = np.array([[True, False]])
    cost = negative_log_likelihood(np.array([[0.0, 1.0]]), truth, multi_label)
    assert 700 < cost < math.inf


def test_the_first_of_equals_is_chosen_and_a_half_is_enough_for_several() -> None:
    predicted = np.array([[0.4, 0.4, 0.2], [0.5, 0.5, 0.0]])
    np.testing.assert_array_equal(decisions(predicted), [[True, False, False]] * 2)
    several = decisions(predicted, multi_label=True)
    np.testing.assert_array_equal(several, [[False] * 3, [True, True, False]])


def test_with_a_prior_few_examples_do_not_give_certainty() -> None:
    chance = np.random.default_rng(1)
    truth = np.eye(3, dtype=bool)[chance.integers(0, 3, 3000)]
    logits = 3.0 * truth + chance.normal(size=truth.shape) / 10
    few = fit_temperature(logits[:10], truth[:10], prior=1.0)
    many = fit_temperature(logits, truth, prior=1.0)
    assert fit_temperature(logits[:10], truth[:10]) == LOWEST_TEMPERATURE
    assert LOWEST_TEMPERATURE < many < few < 1.0
    before = negative_log_likelihood(probabilities(logits[:10]), truth[:10])
    assert negative_log_likelihood(probabilities(logits[:10], few), truth[:10]) <= before


def f1(chosen: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The F1 of each label in percent, 0 to 1."""
    return 2 * (chosen & truth).sum(axis=0) / np.maximum(1, chosen.sum(axis=0) + truth.sum(axis=0))


def test_thresholds_of_calibrated_probabilities_have_nearly_the_best_f1() -> None:
    rng = np.random.default_rng(1)
    means = np.array([-3.0, -1.0, 0.0])
    for examples in (200, 20_000):
        sure = 1 / (1 + np.exp(-(2 * rng.normal(size=(2, examples, 3)) + means)))
        truth = rng.random(sure.shape) < sure
        found = fit_thresholds(sure[0], truth[0])
        grid = np.linspace(0.02, 0.98, 97)
        grid = grid[grid >= LOWEST_THRESHOLD]
        best = np.max([f1(sure[1] >= each, truth[1]) for each in grid], axis=0)
        ours = f1(decisions(sure[1], True, found), truth[1])
        assert (ours > best - 5 / np.sqrt(examples)).all()
        assert (found <= 0.5).all()
    assert (ours > f1(sure[1] >= THRESHOLD, truth[1])).all()


def test_the_order_of_equal_probabilities_does_not_matter() -> None:
    truth = np.arange(100)[:, None] < 60
    sure = np.full((100, 1), 0.6)
    first, last = fit_thresholds(sure, truth), fit_thresholds(sure, truth[::-1])
    np.testing.assert_allclose([first, last], 0.6 / 1.6)


def test_a_label_that_the_probabilities_do_not_know_is_hardly_predicted() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random((1000, 1)) < 0.03
    found = fit_thresholds(0.03 + 0.01 * rng.random((1000, 1)), truth)
    assert found == LOWEST_THRESHOLD


def test_a_label_without_examples_or_without_errors_has_the_usual_threshold() -> None:
    truth = np.array([[True, False], [False, False]])
    sure = np.array([[0.9, 0.2], [0.1, 0.3]])
    np.testing.assert_array_equal(fit_thresholds(sure, truth), [THRESHOLD, THRESHOLD])
