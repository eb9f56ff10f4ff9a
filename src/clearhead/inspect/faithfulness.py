"""Which measure may be believed: delete source words in the order in which a measure ranks them.

If a measure is faithful, the probability of the output falls fast when the words that it ranks
first are deleted (comprehensiveness), and hardly when they are all that is left (sufficiency;
DeYoung et al. 2020, section 4). A random order, and the order of exact removal one by one, are the
two lines to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.inspect.record import Array
from clearhead.inspect.replay import Change
from clearhead.inspect.subject import Subject

GRID = np.linspace(0, 1, 11)
"""Shares of the source words that are deleted, or kept."""

RANDOM = "random"
"""The name of the random order."""

ORDERS = 5
"""Random orders of each sentence."""

Score = Callable[[Subject], Array]


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """How the probability of outputs falls when source words are deleted.

    The probability of an output is the geometric mean over its tokens; that of a classifier's
    label is the probability itself.

    Attributes:
        measures: the name of each measure; the last one is the random order.
        deletion: (measures, sentences, grid) the probability without the words that rank first.
        retention: (measures, sentences, grid) the probability with these words alone.
    """

    measures: tuple[str, ...]
    deletion: Array
    retention: Array

    @property
    def comprehensiveness(self) -> Array:
        """(measures, sentences) mean fall of the probability over the grid; high is good.

        Without the ends of the grid, which are the same for every order.
        """
        return (self.deletion[..., :1] - self.deletion)[..., 1:-1].mean(axis=-1)

    @property
    def sufficiency(self) -> Array:
        """(measures, sentences) mean of what is missing over the grid; low is good.

        Without the ends of the grid, which are the same for every order.
        """
        return (self.retention[..., -1:] - self.retention)[..., 1:-1].mean(axis=-1)


def faithfulness(
    subjects: Sequence[Subject],
    measures: Mapping[str, Score],
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Faithfulness:
    """Test measures by deletion.

    Args:
        subjects: sentences with their outputs. Positions outside the source words, such as that of
            an end symbol, are never deleted.
        measures: by name.
        seed: of the random orders.
        progress: called with the number of sentences that are done.
    """
    generator = np.random.default_rng(seed)
    deleted, retained = [], []
    for number, subject in enumerate(subjects, start=1):
        spans = [word.positions for word in subject.source_words]
        orders = [_ranked(measure(subject), spans) for measure in measures.values()]
        orders += [list(generator.permutation(len(spans))) for _ in range(ORDERS)]
        falls, rises = _curves(subject, spans, orders)
        count = len(measures)
        deleted.append([*falls[:count], falls[count:].mean(axis=0)])
        retained.append([*rises[:count], rises[count:].mean(axis=0)])
        if progress is not None:
            progress(number)
    return Faithfulness(
        (*measures, RANDOM),
        np.array(deleted).swapaxes(0, 1),
        np.array(retained).swapaxes(0, 1),
    )


def _ranked(scores: Array, spans: Sequence[Sequence[int]]) -> list[int]:
    """The words, the most important first: the sum over their positions and all places."""
    totals = scores.sum(axis=0)
    return list(np.argsort([-totals[list(span)].sum() for span in spans], kind="stable"))


def _curves(
    subject: Subject, spans: Sequence[Sequence[int]], orders: Sequence[Sequence[int]]
) -> tuple[Array, Array]:
    """(orders, grid) the probability without the first words of an order, and with them alone."""
    count = len(spans)
    sets: dict[frozenset[int], int] = {}  # of removed words, each replayed once
    without = [[frozenset(order[:k]) for k in range(count + 1)] for order in orders]
    alone = [[frozenset(order[k:]) for k in range(count + 1)] for order in orders]
    for words in (each for rows in (*without, *alone) for each in rows):
        sets.setdefault(words, len(sets))
    changes = [Change(source=tuple(i for word in words for i in spans[word])) for words in sets]
    found = subject.replay.log_probabilities(changes)[..., 0].mean(axis=1)
    shares = np.arange(count + 1) / count

    def curve(rows: Sequence[frozenset[int]]) -> Array:
        return np.interp(GRID, shares, np.exp(found[[sets[words] for words in rows]]))

    return np.array([curve(rows) for rows in without]), np.array([curve(rows) for rows in alone])
