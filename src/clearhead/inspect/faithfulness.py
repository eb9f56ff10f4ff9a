"""Which measure may be believed: delete source words in the order in which a measure ranks them.

If a measure is faithful, the probability of the output falls fast when the words that it ranks
first are deleted (comprehensiveness), and hardly when they are all that is left (sufficiency;
DeYoung et al. 2020, section 4). A random order, and the order of exact removal one by one, are the
two lines to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.inspect.importance import ratio_intervals
from clearhead.inspect.measures import MEASURES, integrated_gradients_with_error, measures_for
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
    label is the probability itself. The ends of the grid are the same for every order.
    """

    measures: tuple[str, ...]  # the last one is the random order
    deletion: Array  # (measures, sentences, grid) without the words that rank first
    retention: Array  # (measures, sentences, grid) with these words alone

    @property
    def comprehensiveness(self) -> Array:
        """(measures, sentences) mean fall of the probability over the grid; high is good."""
        return (self.deletion[..., :1] - self.deletion)[..., 1:-1].mean(axis=-1)

    @property
    def sufficiency(self) -> Array:
        """(measures, sentences) mean of what is missing over the grid; low is good."""
        return (self.retention[..., -1:] - self.retention)[..., 1:-1].mean(axis=-1)


def faithfulness(
    subjects: Sequence[Subject],
    measures: Mapping[str, Score],
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Faithfulness:
    """Test measures by deletion."""
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


def belief(found: Faithfulness) -> dict[str, Any]:
    """Which measures may be believed, as data: one sentence, a table, and the curves.

    `believed` has the measure with the largest comprehensiveness, and then those that do not differ
    from it: the 95 % interval of the difference, paired by sentence, contains 0. It is empty if
    none is better than a random order. Exact removal is one of the measures, but not judged.
    """
    lost = dict(zip(found.measures, found.comprehensiveness, strict=True))
    missing = dict(zip(found.measures, found.sufficiency, strict=True))
    sentences = len(lost[RANDOM])
    order = sorted(found.measures, key=lambda name: -lost[name].mean())
    estimates = [name for name in order if name not in (RANDOM, "removal")]
    good = [name for name in estimates if _interval(lost[name] - lost[RANDOM])[1] > 0]
    believed = [
        name for name in good if name == good[0] or _interval(lost[good[0]] - lost[name])[1] <= 0
    ]
    return {
        "text": _sentence(lost, believed, [name for name in estimates if name not in good]),
        "believed": believed,
        "sentences": sentences,
        "rows": [
            {
                "measure": name,
                "title": title_of(name),
                "comprehensiveness": _interval(lost[name]),
                "sufficiency": _interval(missing[name]),
            }
            for name in order
        ],
        "grid": GRID.tolist(),
        "curves": {
            name: x.mean(axis=0).tolist()
            for name, x in zip(found.measures, found.deletion, strict=True)
        },
    }


def measured_belief(
    subjects: Sequence[Subject], progress: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Test all measures by deletion; `belief` with the error of integrated gradients."""
    errors: list[float] = []

    def integrated_gradients(subject: Subject) -> Array:
        found, error = integrated_gradients_with_error(subject)
        errors.extend(np.abs(error))
        return found

    known = measures_for(subjects[0].model)
    measures = {name: measure.compute for name, measure in known.items()}
    measures["integrated_gradients"] = integrated_gradients
    found = faithfulness(subjects, measures, progress=progress)
    return belief(found) | {"completeness_error": float(np.mean(errors))}


def title_of(name: str) -> str:
    """The title of a measure, or of the random order."""
    return "Random order" if name == RANDOM else MEASURES[name].title


def _sentence(lost: Mapping[str, Array], believed: Sequence[str], poor: Sequence[str]) -> str:
    """Which measures may be believed, and which are no better than chance."""
    if not believed:
        return (
            "Believe none of these measures but exact removal: no other one ranks source words "
            f"better than a random order over {len(lost[RANDOM])} sentences."
        )
    first, *equal = believed
    fall, exact, chance = (float(lost[name].mean()) for name in (first, "removal", RANDOM))
    text = (
        f"Believe “{title_of(first)}”: deleting the source words that it ranks first lowers the "
        f"probability of the output by {fall:.3f} on average ({exact:.3f} for exact removal, "
        f"{chance:.3f} for a random order)."
    )
    if equal:
        text += f" Not measurably worse: {_titles(equal)}."
    return f"{text} No better than a random order: {_titles(poor)}." if poor else text


def _titles(names: Sequence[str]) -> str:
    return ", ".join(f"“{title_of(name)}”" for name in names)


def _interval(values: Array) -> list[float]:
    """Mean over sentences and its 95 % interval."""
    return ratio_intervals(values[None], np.ones(len(values)))[0].tolist()
