"""Whether two classifiers differ in accuracy by more than chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clearhead.evaluation import calibration


class Comparison(NamedTuple):
    """How many examples only the one or only the other classifies rightly, and if by chance."""

    first_only: int
    second_only: int
    p_value: float


def right_answers(
    probabilities: np.ndarray, truth: np.ndarray, multi_label: bool = False
) -> np.ndarray:
    """Which examples are classified rightly, bool (N,).

    Args:
        probabilities: (N, labels).
        truth: the right labels, bool (N, labels).
        multi_label: an example may have several labels, or none; all have to be right.

    Raises:
        DataError: the arrays do not fit, are empty, or are no probabilities.
        TypeError: `truth` is not of bools.
    """
    probabilities, truth = calibration.checked(probabilities, truth, multi_label)
    return (calibration.decisions(probabilities, multi_label) == truth).all(axis=1)


def compare(first: np.ndarray, second: np.ndarray) -> Comparison:
    """McNemar's exact test.

    Of the examples that only one of two classifiers has right, each would have half if they were
    equally good: the p-value is the two-sided one of the binomial distribution (McNemar 1947, in
    its exact form; Dietterich 1998 recommends the test for classifiers). Which labels they know
    does not matter.

    Args:
        first, second: which of the same examples each has right, bool (N,).
    """
    first_only, second_only = int((first & ~second).sum()), int((second & ~first).sum())
    number = first_only + second_only
    k = np.arange(1, min(first_only, second_only) + 1)
    # ln of "number over k" from k = 0 on; the numbers themselves overflow soon.
    ways = np.concatenate([[0.0], np.cumsum(np.log((number - k + 1) / k))])
    p_value = 2 * float(np.exp(ways - number * np.log(2)).sum())
    return Comparison(first_only, second_only, min(1.0, p_value))
