"""What the heads of a model do over a sample: how much it needs each, and what each attends to.

A head has a role if the share of its attention that goes to certain places is above `THRESHOLD`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.inspect.heads import Head
from clearhead.inspect.record import Array
from clearhead.inspect.replay import Change, effects
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import Means

RESAMPLES = 1000
"""Resamples of the bootstrap by sentence (Koehn 2004)."""

THRESHOLD = 0.5
"""The share of attention from which a role is named."""

BROAD = 0.8
"""The entropy, as a share of its maximum, from which a head is a broad average."""

ROLES = (
    *("previous token", "next token", "same token", "first token"),
    *("separator", "punctuation", "aligned word", "broad average"),
)


@dataclass(frozen=True, eq=False)
class Importance:
    """The importance of all heads of a model.

    The gradient is the mean of |∂loss/∂factor|, per output, for a factor of the head's output
    (Michel et al. 2019, section 4.1).
    """

    heads: tuple[Head, ...]
    loss: Array  # (sentences,) summed over the outputs of each, in nats
    rise: Array  # (heads, sentences) how much it rises without the head
    outputs: Array  # (sentences,) their number
    gradient: Array  # (heads,)

    def intervals(self) -> Array:
        """(heads, 3) the rise of the loss per output: mean, and its 95 % interval by bootstrap."""
        return ratio_intervals(self.rise, self.outputs)


def head_importance(
    subjects: Sequence[Subject],
    means: Means | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Importance:
    """Replay each sentence without each head."""
    heads = subjects[0].replay.heads
    changes = [Change(), *(Change(heads=(head,)) for head in heads)]
    losses, gradients = [], np.zeros(len(heads))
    for number, subject in enumerate(subjects, start=1):
        losses.append(-subject.replay.log_probabilities(changes, means=means)[..., 0].sum(axis=1))
        gradients += np.abs(subject.replay.head_gradients())
        progress(number)
    found = np.array(losses).T
    outputs = np.array([subject.places for subject in subjects])
    return Importance(heads, found[0], found[1:] - found[0], outputs, gradients / outputs.sum())


def ratio_intervals(numerators: Array, denominators: Array, seed: int = 12345) -> Array:
    """(n, 3) Σ numerators / Σ denominators, and the 95 % interval by bootstrap."""
    generator = np.random.default_rng(seed)
    count = len(denominators)
    sample = generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    ratios = numerators @ sample.T / (sample @ denominators)
    low, high = np.quantile(ratios, (0.025, 0.975), axis=1)
    return np.stack((numerators.sum(axis=1) / denominators.sum(), low, high), axis=1)


def importance_rows(
    found: Importance, scores: Mapping[Head, Sequence[float]] | None = None
) -> list[dict[str, Any]]:
    """The importance of each head as data, the most important first."""
    rows = [
        {
            "head": str(head),
            "loss": list(map(float, interval)),
            "gradient": float(gradient),
            "chrf": None if scores is None else list(map(float, scores[head])),
        }
        for head, interval, gradient in zip(
            found.heads, found.intervals(), found.gradient, strict=True
        )
    ]
    return sorted(rows, key=lambda row: -row["loss"][0])


def head_roles(subjects: Sequence[Subject]) -> dict[Head, dict[str, float]]:
    """For each head its score in each role that its attention can have, from 0 to 1.

    The score is the mean share of a query's weight on that place, over all queries that have such a
    place. That of `broad average` is the mean entropy of the weights divided by the largest
    possible one. The aligned word of an output is the source word whose removal lowers its
    probability most.
    """
    totals: dict[Head, dict[str, list[float]]] = {}
    for subject in subjects:
        for head, weights, places in _attentions(subject):
            scores = totals.setdefault(head, {})
            for role, mask in places.items():
                if mask.any():
                    rows = mask.any(axis=1)
                    scores.setdefault(role, []).append(
                        float((weights * mask).sum(axis=1)[rows].mean())
                    )
            scores.setdefault("broad average", []).append(_entropy(weights))
    return {
        head: {role: float(np.mean(scores[role])) for role in ROLES if role in scores}
        for head, scores in totals.items()
    }


def roles_by_name(scores: Mapping[Head, Mapping[str, float]]) -> dict[str, list[list[Any]]]:
    """The roles of the heads that have any, as data."""
    named = {str(head): [list(each) for each in named_roles(x)] for head, x in scores.items()}
    return {head: roles for head, roles in named.items() if roles}


def named_roles(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """The roles of a head, the clearest first."""
    limits = {"broad average": BROAD}
    found = [(role, x) for role, x in scores.items() if x >= limits.get(role, THRESHOLD)]
    return sorted(found, key=lambda each: -each[1])


def _attentions(subject: Subject):  # type: ignore[no-untyped-def]
    """Each head with its weights (queries, keys), and for each role a mask of the same shape."""
    record = subject.record
    source, target = subject.source_pieces, subject.target_pieces
    by_source = _by_key(source, subject.source_special)
    of_source = by_source | _by_distance(len(source))
    heads = iter(subject.replay.heads)
    for layer in record.encoder:
        for weights in layer.attention:
            yield next(heads), weights, _shaped(of_source, weights)
    if not record.decoder:
        return
    of_target = _by_key(target, subject.target_special) | _by_distance(len(target))
    cross = by_source | {"aligned word": _aligned(subject)}
    for layer in record.decoder:
        for weights in layer.self_attention:
            yield next(heads), weights, _shaped(of_target, weights)
        for weights in layer.cross_attention:
            yield next(heads), weights, _shaped(cross, weights)


def _shaped(masks: Mapping[str, Array], weights: Array) -> dict[str, Array]:
    return {role: np.broadcast_to(mask, weights.shape) for role, mask in masks.items()}


def _by_distance(length: int) -> dict[str, Array]:
    return {
        "previous token": np.eye(length, k=-1, dtype=bool),
        "next token": np.eye(length, k=1, dtype=bool),
        "same token": np.eye(length, dtype=bool),
    }


def _by_key(pieces: Sequence[str], special: Collection[int]) -> dict[str, Array]:
    """Masks (1, keys) of the roles that depend on the key alone."""
    first = np.arange(len(pieces)) == 0
    symbols = np.isin(np.arange(len(pieces)), list(special))
    marks = np.array([_is_punctuation(piece) for piece in pieces])
    return {
        "first token": first[None],
        "separator": (symbols & ~first)[None],
        "punctuation": marks[None],
    }


def _is_punctuation(piece: str) -> bool:
    text = piece.lstrip("▁Ġ")
    return bool(text) and all(unicodedata.category(mark)[0] == "P" for mark in text)


def _aligned(subject: Subject) -> Array:
    """(target, source) True at the source word that counts most for each output."""
    words = [word.positions for word in subject.source_words]
    found = effects(subject.replay, words, [], heads=[]).by_source[..., 0]
    mask = np.zeros((len(subject.target_pieces), len(subject.source_pieces)), dtype=bool)
    for place, word in enumerate(found.argmax(axis=0)):
        mask[place, list(words[word])] = True
    return mask


def _entropy(weights: Array) -> float:
    """Mean entropy of the rows, as a share of that of equal weights on the keys that are seen."""
    seen = (weights > 0).sum(axis=1)
    rows = seen > 1
    if not rows.any():
        return 0.0
    logs = np.log(np.where(weights > 0, weights, 1.0))
    return float((-(weights * logs).sum(axis=1)[rows] / np.log(seen[rows])).mean())
