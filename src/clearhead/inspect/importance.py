"""How much a model needs each of its heads: the loss without it, over a sample of sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.inspect.heads import Head
from clearhead.inspect.record import Array
from clearhead.inspect.replay import Change, Means
from clearhead.inspect.subject import Subject

RESAMPLES = 1000
"""Resamples of the bootstrap by sentence (Koehn 2004)."""


@dataclass(frozen=True, eq=False)
class Importance:
    """The importance of all heads of a model.

    Attributes:
        heads: the heads.
        loss: (sentences,) the loss of each sentence, summed over its outputs, in nats.
        rise: (heads, sentences) how much it rises without the head.
        outputs: (sentences,) the number of outputs.
        gradient: (heads,) the mean of |∂loss/∂factor|, per output, for a factor of the head's
            output (Michel et al. 2019, section 4.1).
    """

    heads: tuple[Head, ...]
    loss: Array
    rise: Array
    outputs: Array
    gradient: Array

    def intervals(self) -> Array:
        """(heads, 3) the rise of the loss per output: mean, and its 95 % interval by bootstrap."""
        return ratio_intervals(self.rise, self.outputs)


def head_importance(
    subjects: Sequence[Subject],
    means: Means | None = None,
    progress: Callable[[int], None] | None = None,
) -> Importance:
    """Replay each sentence without each head.

    Args:
        subjects: sentences with their references, or inputs with their labels.
        means: replace the outputs of heads; by default zero does.
        progress: called with the number of sentences that are done.
    """
    heads = subjects[0].replay.heads
    changes = [Change(), *(Change(heads=(head,)) for head in heads)]
    losses, gradients = [], np.zeros(len(heads))
    for number, subject in enumerate(subjects, start=1):
        losses.append(-subject.replay.log_probabilities(changes, means=means)[..., 0].sum(axis=1))
        gradients += np.abs(subject.replay.head_gradients())
        if progress is not None:
            progress(number)
    found = np.array(losses).T
    outputs = np.array([subject.places for subject in subjects])
    return Importance(heads, found[0], found[1:] - found[0], outputs, gradients / outputs.sum())


def ratio_intervals(numerators: Array, denominators: Array, seed: int = 12345) -> Array:
    """(n, 3) Σ numerators / Σ denominators, and the 95 % interval by bootstrap.

    Args:
        numerators: (n, sentences).
        denominators: (sentences,).
        seed: of the resamples.
    """
    generator = np.random.default_rng(seed)
    count = len(denominators)
    sample = generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    ratios = numerators @ sample.T / (sample @ denominators)
    low, high = np.quantile(ratios, (0.025, 0.975), axis=1)
    return np.stack((numerators.sum(axis=1) / denominators.sum(), low, high), axis=1)
