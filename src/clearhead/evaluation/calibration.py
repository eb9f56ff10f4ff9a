"""Calibrated probabilities from logits: temperature scaling (Guo et al. 2017), and its measures.

A calibrated classifier is correct in 80 % of the cases to which it gives the probability 0.8.

All arrays are (N, labels): the logits or probabilities of N > 0 examples, and their correct labels
`truth`, bool. If an example has one label, the labels share a softmax; if it may have several, or
none (`multi_label`), each label has its own sigmoid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from clearhead.errors import ConfigError, DataError

LINEAR_ODDS = 4.0
"""The log-odds of a linear support vector machine are about this times its margin."""

FACTORS = (0.4, 3.2)
"""The usual factors of the logits of an encoder and of the margins of a linear model beside it.

Both know much of the same, so each counts for less than alone.
"""

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
"""The interval that `fit_temperature` searches."""

DEVIATIONS = np.array(FACTORS) / 2
"""The standard deviations of the prior of `fit_factors`."""

MOST_STEPS, SMALLEST_GAIN = 50, 1e-9
"""Maximum of Newton steps. `fit_factors` stops when one gains less than this per example."""

BINS = 15
"""Bins of the expected calibration error, as in Guo et al. 2017."""

THRESHOLD = 0.5
"""If an example may have several labels, those of at least this probability are predicted, unless
`fit_thresholds` has found other thresholds."""

LOWEST_THRESHOLD = 0.25
"""The lowest threshold of `fit_thresholds`."""


def probabilities(
    logits: np.ndarray, temperature: float = 1.0, multi_label: bool = False
) -> np.ndarray:
    """softmax(logits / temperature), or the sigmoid of each: float64 (N, labels).

    A temperature above 1 makes the probabilities more even, one below 1 more extreme.

    Raises:
        ConfigError: the temperature is not a positive number.
        DataError: a logit is NaN or infinite.
    """
    if not 0 < temperature < math.inf:
        raise ConfigError(f"the temperature is {temperature}, but must be a positive number")
    logits = _finite(logits)
    if multi_label:
        return np.exp(-np.logaddexp(0.0, -logits / temperature))
    weights = np.exp((logits - logits.max(axis=-1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=-1, keepdims=True)


def fit_temperature(
    logits: np.ndarray, truth: np.ndarray, multi_label: bool = False, prior: float = 0.0
) -> float:
    """The temperature with the lowest negative log-likelihood (Guo et al. 2017, section 4.2).

    The likelihood is log-concave in 1 / temperature, so bisection on the sign of its slope finds
    the optimum, or the nearer end of [0.05, 20]. If all logits are equal, the result is 1.

    `prior` adds prior · (1 / temperature − 1)² / 2 to the summed negative log-likelihood, like a
    normal distribution around 1. Without it, a few examples that are all classified correctly make
    the classifier certain of everything.
    """
    logits = _finite(logits)
    if not multi_label:
        # The softmax stays the same, and the sum below keeps more digits.
        logits = logits - logits.max(axis=1, keepdims=True)
    if not logits.any():
        return 1.0

    def slope(temperature: float) -> float:
        """The derivative of the loss, prior included, with respect to 1 / temperature."""
        errors = probabilities(logits, temperature, multi_label) - truth
        return float((errors * logits).sum()) + prior * (1 / temperature - 1)

    if slope(LOWEST_TEMPERATURE) <= 0:
        return LOWEST_TEMPERATURE
    if slope(HIGHEST_TEMPERATURE) >= 0:
        return HIGHEST_TEMPERATURE
    low, high = math.log(LOWEST_TEMPERATURE), math.log(HIGHEST_TEMPERATURE)
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(math.exp(middle)) > 0 else (low, middle)
    return math.exp((low + high) / 2)


def fit_factors(
    logits: np.ndarray, margins: np.ndarray, truth: np.ndarray, multi_label: bool
) -> tuple[float, float]:
    """The factors of logits and margins whose sum has the lowest negative log-likelihood.

    That of the logits is at least 1 / 20, that of the margins at least 0. The likelihood is
    log-concave in them, so Newton's method finds the optimum. Like the prior of `fit_temperature`,
    normal distributions around `FACTORS`, with half of these as deviations, keep a few examples
    from deciding alone.
    """
    mixture = _Mixture(np.stack((_finite(logits), _finite(margins))), truth, multi_label)
    factors = mixture.minimised(np.array(FACTORS), [0, 1])
    for index, least in enumerate((1 / HIGHEST_TEMPERATURE, 0.0)):
        if factors[index] < least:
            factors[index] = least
            factors = mixture.minimised(factors, [1 - index])
    of_logits, of_margins = np.maximum(factors, (1 / HIGHEST_TEMPERATURE, 0.0)).tolist()
    return of_logits, of_margins


class _Mixture(NamedTuple):
    """Logits and margins (2, N, labels) that are added, and the truth (N, labels)."""

    parts: np.ndarray
    truth: np.ndarray
    multi_label: bool

    def minimised(self, factors: np.ndarray, free: list[int]) -> np.ndarray:
        """The factors after the minimisation of the loss over the free ones."""
        factors, loss = factors.copy(), self.loss(factors)
        for _ in range(MOST_STEPS):
            gradient, curvature = self.slopes(factors)
            step = np.zeros(2)
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
            # The whole step may be too long where the likelihood is not quadratic.
            while (new := self.loss(factors - step)) > loss:
                step /= 2
            factors, loss, gain = factors - step, new, loss - new
            if gain <= SMALLEST_GAIN * len(self.truth):
                break
        return factors

    def loss(self, factors: np.ndarray) -> float:
        """The summed negative log-likelihood, and the prior."""
        likelihood = negative_log_likelihood(self._found(factors), self.truth, self.multi_label)
        return likelihood * len(self.truth) + float((self._deviations(factors) ** 2).sum()) / 2

    def slopes(self, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient (2,) and the second derivatives (2, 2) of the loss."""
        parts, found = self.parts, self._found(factors)
        gradient = np.tensordot(parts, found - self.truth, 2)
        gradient += self._deviations(factors) / DEVIATIONS
        if self.multi_label:
            spread = np.einsum("inl,jnl,nl->ij", parts, parts, found * (1 - found))
        else:
            around = parts - (parts * found).sum(axis=2, keepdims=True)
            spread = np.einsum("inl,jnl,nl->ij", around, around, found)
        return gradient, spread + np.diag(DEVIATIONS**-2)

    def _deviations(self, factors: np.ndarray) -> np.ndarray:
        """The differences of the factors from the usual ones, in standard deviations."""
        return (factors - FACTORS) / DEVIATIONS

    def _found(self, factors: np.ndarray) -> np.ndarray:
        return probabilities(np.tensordot(factors, self.parts, 1), 1.0, self.multi_label)


def fit_thresholds(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The threshold of each label (labels,), if an example may have several: half of its best F1.

    The best F1 is the highest that any threshold reaches on these examples. If the probabilities
    are calibrated, half of it is the threshold that reaches it (Lipton, Elkan and Naryanaswamy
    2014, section 4), and it depends on few examples less than the threshold that is the best on
    them. It is at least `LOWEST_THRESHOLD`: a label that the model does not know would otherwise be
    predicted nearly everywhere. A label that no example has gets `THRESHOLD`.
    """
    order = (-probabilities).argsort(axis=0, kind="stable")
    hits = np.take_along_axis(truth, order, axis=0).cumsum(axis=0)
    predicted = np.arange(1, len(truth) + 1)[:, None]
    scores = 2 * hits / (predicted + truth.sum(axis=0))
    # No threshold lies between equal probabilities.
    ranked = np.take_along_axis(probabilities, order, axis=0)
    scores[:-1][ranked[:-1] == ranked[1:]] = 0.0
    best = np.maximum(scores.max(axis=0) / 2, LOWEST_THRESHOLD)
    return np.where(truth.any(axis=0), best, THRESHOLD)


def expected_calibration_error(
    probabilities: np.ndarray, truth: np.ndarray, multi_label: bool = False, bins: int = BINS
) -> float:
    """The mean distance of confidence from accuracy, in percent (Guo et al. 2017, equation 3).

    Σ_m |B_m| / n · |accuracy(B_m) - confidence(B_m)| over bins ((m - 1) / M, m / M] of equal
    width (M = `bins`). An example's confidence is its highest probability. If it may have several
    labels, each label of each example is one decision, yes or no, whose confidence is the
    probability of the decision.
    """
    if multi_label:
        confidence = np.maximum(probabilities, 1 - probabilities).ravel()
        correct = (decisions(probabilities, multi_label) == truth).ravel()
    else:
        confidence = probabilities.max(axis=1)
        correct = truth[np.arange(len(truth)), probabilities.argmax(axis=1)]
    numbers = np.searchsorted(np.arange(1, bins) / bins, confidence)
    gaps = np.bincount(numbers, weights=confidence - correct, minlength=bins)
    return float(100 * np.abs(gaps).sum() / len(confidence))


def negative_log_likelihood(
    probabilities: np.ndarray, truth: np.ndarray, multi_label: bool = False
) -> float:
    """The mean over the examples of -ln of the probability of the correct label, in nats.

    If an example may have several labels, it is the sum over all labels. A probability of 0
    counts as the smallest normal number, so that the result is finite.
    """
    if multi_label:
        likelihoods = np.where(truth, probabilities, 1 - probabilities)
    else:
        likelihoods = probabilities[truth]
    logs = np.log(np.maximum(likelihoods, np.finfo(np.float64).tiny))
    return float(-logs.sum() / len(truth))


def decisions(
    probabilities: np.ndarray,
    multi_label: bool = False,
    thresholds: float | np.ndarray = THRESHOLD,
) -> np.ndarray:
    """The predicted labels, bool (N, labels): the (first) likeliest, or all from their threshold.

    `thresholds` (labels,) are those of the labels, or (N, labels) those of each example.
    """
    if multi_label:
        return probabilities >= thresholds
    likeliest = probabilities.argmax(axis=1)
    return likeliest[:, None] == np.arange(probabilities.shape[1])


def _finite(logits: np.ndarray) -> np.ndarray:
    logits = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(logits).all():
        raise DataError(
            "a logit is NaN or infinite", why="the weights of the model or its input are not finite"
        )
    return logits
