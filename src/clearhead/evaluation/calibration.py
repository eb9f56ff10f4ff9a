"""From logits to probabilities that can be believed: temperature scaling (Guo et al. 2017).

A calibrated classifier is right in 80 % of the cases where it says 0.8. All arrays here are
(examples, labels). Where an example has one label, the labels share one softmax; where it may
have several (`multi_label`), each label has a sigmoid of its own.
"""

from __future__ import annotations

import math

import numpy as np

from clearhead.errors import ConfigError, DataError

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
"""Where the temperature is sought."""

BINS = 15
"""Bins of the expected calibration error, as many as in Guo et al. 2017."""

THRESHOLD = 0.5
"""From this probability on a label is given, where an example may have several."""


def probabilities(
    logits: np.ndarray, temperature: float = 1.0, multi_label: bool = False
) -> np.ndarray:
    """softmax(logits / temperature), or the sigmoid of each: float64 (N, labels).

    Args:
        logits: what the model gives (N, labels).
        temperature: above 1 makes the probabilities more even, below 1 more extreme.
        multi_label: an example may have several labels.

    Raises:
        ConfigError: the temperature is not a positive number.
        DataError: a logit is NaN or infinite.
    """
    if not 0 < temperature < math.inf:
        raise ConfigError(f"the temperature is {temperature}, which is not a positive number")
    logits = _finite(logits)
    if multi_label:
        return np.exp(-np.logaddexp(0.0, -logits / temperature))
    weights = np.exp((logits - logits.max(axis=-1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=-1, keepdims=True)


def fit_temperature(
    logits: np.ndarray, truth: np.ndarray, multi_label: bool = False, prior: float = 0.0
) -> float:
    """The temperature with the lowest negative log-likelihood (Guo et al. 2017, section 4.2).

    The likelihood is log-concave in 1 / temperature, so that the sign of its slope tells on which
    side the best one lies, and halving the interval finds it. Fit it on examples that were not
    trained on. Where they are all classified rightly, or no better than by chance, the best
    temperature is without limit and the nearest end of [0.05, 20] is given; where all temperatures
    are alike, because all logits are, 1.

    Args:
        logits: what the model gives (N, labels).
        truth: the right labels, bool (N, labels).
        multi_label: an example may have several labels, or none.
        prior: adds prior · (1 / temperature − 1)² / 2 to the summed negative log-likelihood, as a
            normal distribution around 1 would: a few examples, all classified rightly, then do
            not make the classifier sure of everything.

    Raises:
        DataError: the shapes differ, there is no example, a logit is NaN or infinite, or an
            example that should have one label does not.
        TypeError: `truth` is not of bools.
    """
    logits, truth = _finite(logits), np.asarray(truth)
    check_truth(logits, truth, multi_label)
    if not multi_label:
        # The softmax is the same, and the sum below loses no digits to what labels share.
        logits = logits - logits.max(axis=1, keepdims=True)
    if not logits.any():
        return 1.0

    def slope(temperature: float) -> float:
        """The derivative of the negative log-likelihood by 1 / temperature, the prior's with it."""
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


def expected_calibration_error(
    probabilities: np.ndarray, truth: np.ndarray, multi_label: bool = False, bins: int = BINS
) -> float:
    """How far confidence is from accuracy, in percent (Guo et al. 2017, equation 3).

    Σ_m |B_m| / n · |accuracy(B_m) - confidence(B_m)| over bins ((m - 1) / M, m / M] of equal
    width. An example's confidence is its highest probability. Where it may have several labels,
    each label of each example is one decision, yes or no, with the probability of what was
    decided as its confidence.

    Args:
        probabilities: what the classifier says (N, labels).
        truth: the right labels, bool (N, labels).
        multi_label: an example may have several labels, or none.
        bins: their number M.

    Raises:
        DataError: the arrays do not fit each other, or these are no probabilities.
        TypeError: `truth` is not of bools.
    """
    probabilities, truth = checked(probabilities, truth, multi_label)
    if multi_label:
        confidence = np.maximum(probabilities, 1 - probabilities).ravel()
        right = (decisions(probabilities, multi_label) == truth).ravel()
    else:
        confidence = probabilities.max(axis=1)
        right = truth[np.arange(len(truth)), probabilities.argmax(axis=1)]
    places = np.searchsorted(np.arange(1, bins) / bins, confidence)
    gaps = np.bincount(places, weights=confidence - right, minlength=bins)
    return float(100 * np.abs(gaps).sum() / len(confidence))


def negative_log_likelihood(
    probabilities: np.ndarray, truth: np.ndarray, multi_label: bool = False
) -> float:
    """-ln of the probability given to what is right, in nats, the mean over the examples.

    Where an example may have several labels, the sum over its labels. A probability of 0 is taken
    as the smallest positive number of normal precision, so that the result is finite.

    Args:
        probabilities: what the classifier says (N, labels).
        truth: the right labels, bool (N, labels).
        multi_label: an example may have several labels, or none.

    Raises:
        DataError: the arrays do not fit each other, or these are no probabilities.
        TypeError: `truth` is not of bools.
    """
    probabilities, truth = checked(probabilities, truth, multi_label)
    if multi_label:
        given = np.where(truth, probabilities, 1 - probabilities)
    else:
        given = probabilities[truth]
    logs = np.log(np.maximum(given, np.finfo(np.float64).tiny))
    return float(-logs.sum() / len(truth))


def decisions(probabilities: np.ndarray, multi_label: bool = False) -> np.ndarray:
    """The labels given, bool (N, labels): the likeliest (the first of equals), or all from 0.5."""
    if multi_label:
        return probabilities >= THRESHOLD
    chosen = probabilities.argmax(axis=1)
    return chosen[:, None] == np.arange(probabilities.shape[1])


def checked(
    probabilities: np.ndarray, truth: np.ndarray, multi_label: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays, float64 and bool (N, labels), found to be what they should.

    Raises:
        DataError: the arrays do not fit each other, or these are no probabilities.
        TypeError: `truth` is not of bools.
    """
    probabilities, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(truth)
    check_truth(probabilities, truth, multi_label)
    # Written so that NaN is refused; the tolerances leave room for rounding in float32.
    if not ((probabilities >= -1e-6) & (probabilities <= 1 + 1e-6)).all():
        raise DataError("a probability is NaN or not between 0 and 1")
    if not multi_label and (abs(probabilities.sum(axis=1) - 1) > 1e-3).any():
        raise DataError("the probabilities of an example do not add up to 1")
    return probabilities.clip(0, 1), truth


def check_truth(values: np.ndarray, truth: np.ndarray, multi_label: bool) -> None:
    """Refuse right labels (N, labels) that do not fit the values (N, labels) given to them.

    Raises:
        DataError: the shapes differ, there is no example, or one that should have one label has
            none or several.
        TypeError: `truth` is not of bools.
    """
    if truth.dtype != np.bool_:
        raise TypeError(f"truth is of {truth.dtype}: give bools, True where a label is right")
    if values.ndim != 2 or values.shape != truth.shape:
        raise DataError(
            f"what was given is {values.shape}, and what is right is {truth.shape}",
            why="both should be (examples, labels)",
        )
    if not values.size:
        raise DataError("there is nothing to score")
    counts = truth.sum(axis=1)
    if not multi_label and (counts != 1).any():
        number = int((counts != 1).argmax())
        raise DataError(
            f"example {number + 1} has {counts[number]} right labels, and should have one",
            todo="set classifier.multi_label where an example may have several labels, or none",
        )


def _finite(logits: np.ndarray) -> np.ndarray:
    logits = np.asarray(logits, dtype=np.float64)
    if not np.isfinite(logits).all():
        raise DataError(
            "a logit is NaN or infinite", why="the model's weights or its input are not finite"
        )
    return logits
