"""What a head does: the share of its attention that goes to certain places, over a sample.

A head has a role if the share is above `THRESHOLD`; the shares are reported either way.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from clearhead.inspect.heads import Head
from clearhead.inspect.record import Array
from clearhead.inspect.replay import effects
from clearhead.inspect.subject import Subject

THRESHOLD = 0.5
"""The share of attention from which a role is named."""

BROAD = 0.8
"""The entropy, as a share of its maximum, from which a head is a broad average."""

ROLES = (
    *("previous token", "next token", "same token", "first token"),
    *("separator", "punctuation", "aligned word", "broad average"),
)


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
