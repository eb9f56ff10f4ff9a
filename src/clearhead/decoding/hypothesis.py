"""What a search gives for a sentence; free of torch, so that every engine can speak it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clearhead.decoding.length import length_penalty


@dataclass(frozen=True)
class Hypothesis:
    """One output for one source, with its log-probabilities (natural logarithm).

    Attributes:
        tokens: the target ids, without the start and end symbols.
        score: the log-probability of the whole output, that of the end symbol included.
        token_scores: the log-probability of each token given those before it, and last that of
            the end symbol if the hypothesis is finished; they sum to `score`. Empty where an
            engine was told that scores are not wanted; `score` may then be NaN.
        normalised_score: `score` divided by the length penalty.
        finished: whether it ended with the end symbol, and not at the longest output.
        text: the tokens as text, filled in by whoever owns a tokenizer.
    """

    tokens: tuple[int, ...]
    score: float
    token_scores: tuple[float, ...]
    normalised_score: float
    finished: bool
    text: str = ""

    def __str__(self) -> str:
        return self.text


def hypothesis_of(tokens: Sequence[int], token_scores: Sequence[float], alpha: float) -> Hypothesis:
    """The hypothesis of these tokens, which ended if there is a score more: that of the end symbol.

    Args:
        tokens: without the start and end symbols.
        token_scores: the log-probability of each.
        alpha: as for `length_penalty`.
    """
    # Added up one by one, as a search does it: `sum` would round otherwise.
    total = 0.0
    for score in token_scores:
        total += score
    return Hypothesis(
        tokens=tuple(tokens),
        score=total,
        token_scores=tuple(token_scores),
        normalised_score=total / length_penalty(len(token_scores), alpha),
        finished=len(token_scores) > len(tokens),
    )


def without_scores(hypothesis: Hypothesis) -> Hypothesis:
    """The same output, of which nothing is said but whether it ended."""
    return replace(hypothesis, score=math.nan, token_scores=(), normalised_score=math.nan)
