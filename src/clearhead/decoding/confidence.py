"""The confidence in a translation: the chrF that it is expected to have. Imports no torch.

It is the estimate of a logistic regression on three properties of a translation (`_properties`).
Each validation fits the regression to the chrF of its translations. `scores.json` has the one of
the kept weights. Further properties did not make the estimate better (docs/experiments.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import ModelFolder

KEY = "confidence"
"""The key of a `Confidence` in `scores.json`."""

FEWEST = 50
"""Translations from which a regression is fitted."""

USUAL = 0.75
"""The quantile of the relative lengths on the validation data that counts as the full length."""

STEPS = 200
"""Steps of the fit. 20 are enough, unless nearly all translations are perfect or useless."""


@dataclass(frozen=True)
class Confidence:
    """A fitted estimate of the chrF of a translation.

    Attributes:
        full_length: the logarithm of characters of a translation over characters of its source,
            from which a translation counts as complete.
        bias: the log-odds of the estimate if all properties are 0.
        weights: of the properties (likelihood, shortness, repetition).
    """

    full_length: float
    bias: float
    weights: tuple[float, float, float]

    def __call__(self, source: str, hypothesis: Hypothesis) -> float | None:
        """The expected chrF of a translation, from 0 to 1; None if its score is unknown."""
        if math.isnan(hypothesis.score):
            return None
        properties = _properties(source, hypothesis, self.full_length)
        odds = self.bias + sum(map(float.__mul__, self.weights, properties))
        return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0

    @classmethod
    def fit(
        cls, sources: Sequence[str], found: Sequence[Hypothesis], qualities: Sequence[float]
    ) -> Confidence | None:
        """The estimate for N translations of known chrF, from 0 to 1; None if they are too few.

        It minimises the cross-entropy between chrF and estimate (Papke and Wooldridge 1996) with a
        standard normal prior on the bias and on the weights of standardised properties, so that a
        few translations do not give extreme weights. Each step minimises an upper bound (Böhning
        1992), so none makes the fit worse. The scores must be known.
        """
        if len(found) < FEWEST:
            return None
        pairs = list(zip(sources, found, strict=True))
        lengths = [_relative_length(*pair) for pair in pairs]
        full_length = _rounded(np.quantile(lengths, USUAL))
        rows = np.array([_properties(*pair, full_length) for pair in pairs])
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale < 1e-9] = 1.0
        inputs = np.column_stack([np.ones(len(rows)), (rows - mean) / scale])
        targets, prior = np.asarray(qualities), np.eye(inputs.shape[1])
        bound = np.linalg.inv(inputs.T @ inputs / 4 + prior)
        weights = np.zeros(len(bound))
        for _ in range(STEPS):
            estimates = 1 / (1 + np.exp(-inputs @ weights))
            weights -= bound @ (inputs.T @ (estimates - targets) + weights)
        own = weights[1:] / scale
        first, second, third = map(_rounded, own)
        return cls(full_length, _rounded(weights[0] - own @ mean), (first, second, third))

    @classmethod
    def of(cls, folder: ModelFolder) -> Confidence | None:
        """The one in the file of scores of a folder; None for a checkpoint, and without one."""
        if folder.is_checkpoint:
            return None
        try:
            return folder.built("scores", "the confidence", lambda tree: _read(tree.get(KEY)))
        except ModelFolderError:
            return None  # a translator does not need its file of scores


def _read(tree: Any) -> Confidence | None:
    if tree is None:
        return None
    first, second, third = map(float, tree["weights"])
    found = Confidence(float(tree["full_length"]), float(tree["bias"]), (first, second, third))
    if not all(map(math.isfinite, (found.full_length, found.bias, *found.weights))):
        raise ValueError("a number is not finite")
    return found


def _properties(
    source: str, hypothesis: Hypothesis, full_length: float
) -> tuple[float, float, float]:
    """The geometric mean of the token probabilities, the shortness, and the repeated share.

    The shortness is 0 for a translation of full length and negative for a shorter one. A longer one
    is not better. The share is that of tokens which occur earlier in the translation.
    """
    steps = len(hypothesis.tokens) + hypothesis.finished
    likelihood = math.exp(hypothesis.score / max(1, steps))
    shortness = min(0.0, _relative_length(source, hypothesis) - full_length)
    repeated = 1 - len(set(hypothesis.tokens)) / max(1, len(hypothesis.tokens))
    return likelihood, shortness, repeated


def _relative_length(source: str, hypothesis: Hypothesis) -> float:
    """The logarithm of the characters of a translation over those of its source."""
    return math.log((len(hypothesis.text) + 1) / (len(source) + 1))


def _rounded(value: float) -> float:
    """Six digits, so that the last bits of a sum do not count."""
    return float(f"{value:.6g}")
