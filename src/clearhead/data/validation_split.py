"""Validation examples split off the training data, class by class or in whole groups."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from clearhead.data.judging.checks import input_hash, text_hash
from clearhead.data.reading.labelled import Labelled

T = TypeVar("T", bound=Labelled[Any])

CANDIDATES = 200  # groups that are compared before one is chosen, at most


@dataclass(frozen=True)
class _Group:
    """The rows of all examples that have the same input, or belong together."""

    rows: tuple[int, ...]
    stratum: str
    rank: int
    labels: frozenset[str]


def split_validation(
    examples: Sequence[T],
    share: float,
    seed: int,
    smallest_class: int = 1,
) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """The training and the validation examples, both in their original order.

    The first label of an example is its class. `share` of all examples, rounded, is divided among
    the classes in proportion to their size, at least one for each if there are enough. The choice
    within a class depends on the seed and the contents, so that most examples stay in their part
    when others are added.

    Examples with the same input stay together, and every label keeps `smallest_class` different
    inputs to train on. For both reasons the validation part may be smaller than `share`.

    If examples have groups, whole groups are chosen: each time the one that brings the numbers of
    the labels nearest to `share`.
    """
    groups = _groups(examples, seed)
    if any(example.group for example in examples):
        return _parted(examples, _whole_groups(groups, examples, share, smallest_class))
    strata: dict[str, list[_Group]] = defaultdict(list)
    for group in groups:
        strata[group.stratum].append(group)
    sizes = {
        stratum: sum(len(group.rows) for group in members)
        for stratum, members in strata.items()
        if len(members) > smallest_class
    }
    portions = _portions(sizes, round(share * len(examples)), smallest_class)
    remaining = Counter(name for group in groups for name in group.labels)
    chosen: set[int] = set()
    for stratum in sorted(portions):
        chosen.update(_take(strata[stratum], portions[stratum], remaining, smallest_class))
    return _parted(examples, chosen)


def count_apart(examples: Sequence[Labelled[Any]]) -> int:
    """How many different inputs or groups there are, which can be held out one without another."""
    return len(_groups(examples, 0))


def fold_numbers(examples: Sequence[Labelled[Any]], folds: int, seed: int) -> np.ndarray:
    """The number of the fold of each example, (N,), from 0.

    Each label is divided evenly among the folds. Examples with the same input, or of the same
    group, are in one fold.
    """
    groups = sorted(_groups(examples, seed), key=lambda group: (-len(group.rows), group.rank))
    labels = sorted({name for group in groups for name in group.labels})
    column = {name: number for number, name in enumerate(labels)}
    counts = np.zeros((folds, len(labels)))
    sizes, found = np.zeros(folds), np.zeros(len(examples), dtype=int)
    for group in groups:
        own = [column[name] for row in group.rows for name in examples[row].labels]
        fold = min(range(folds), key=lambda n: (counts[n, own].sum(), sizes[n], n))
        np.add.at(counts[fold], own, 1)
        sizes[fold] += len(group.rows)
        found[list(group.rows)] = fold
    return found


def _parted(examples: Sequence[T], chosen: Collection[int]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    training = tuple(example for row, example in enumerate(examples) if row not in chosen)
    return training, tuple(examples[row] for row in sorted(chosen))


def _groups(examples: Sequence[Labelled[Any]], seed: int) -> list[_Group]:
    contents = [input_hash(example.input) for example in examples]
    first: dict[int | str, int] = {}  # the first row with an input or a group
    above = list(range(len(examples)))  # an earlier row that the row belongs with, or itself

    def top(row: int) -> int:
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    for row, content in enumerate(contents):
        for key in (content, examples[row].group):
            if key != "":
                other = top(first.setdefault(key, row))
                above[max(top(row), other)] = min(top(row), other)
    rows: dict[int, list[int]] = defaultdict(list)
    for row in range(len(examples)):
        rows[contents[top(row)]].append(row)
    groups = []
    for content, members in rows.items():
        labels = frozenset(name for row in members for name in examples[row].labels)
        stratum = next(iter(examples[members[0]].labels), "")
        rank = text_hash(str(seed), str(content))
        groups.append(_Group(tuple(members), stratum, rank, labels))
    return groups


def _whole_groups(
    groups: list[_Group], examples: Sequence[Labelled[Any]], share: float, smallest_class: int
) -> set[int]:
    """The rows of whole groups with about `share` of the examples of each label."""
    labels = sorted({name for group in groups for name in group.labels})
    column = {name: number for number, name in enumerate(labels)}
    left = sorted(groups, key=lambda group: group.rank)
    counts = {group.rank: np.zeros(len(labels)) for group in left}
    for group in left:
        for name in (name for row in group.rows for name in examples[row].labels):
            counts[group.rank][column[name]] += 1
    missing = share * sum(counts.values(), np.zeros(len(labels)))
    remaining = Counter(name for group in groups for name in group.labels)
    chosen: set[int] = set()
    while True:
        free = (g for g in left if all(remaining[name] > smallest_class for name in g.labels))
        some = list(islice(free, CANDIDATES))
        if not some:
            return chosen
        best = min(some, key=lambda group: np.abs(missing - counts[group.rank]).sum())
        after = missing - counts[best.rank]
        if chosen and np.abs(after).sum() >= np.abs(missing).sum():
            return chosen
        missing = after
        left.remove(best)
        remaining -= Counter(best.labels)
        chosen.update(best.rows)


def _portions(sizes: Mapping[str, int], total: int, smallest_class: int) -> Counter[str]:
    """`total` divided in proportion to the sizes, by Sainte-Laguë's method of odd divisors.

    Each class first gets one if there are enough.
    """
    portions = Counter(dict.fromkeys(sizes, 1 if total >= len(sizes) else 0))
    queue = [(-size / (2 * portions[name] + 1), name) for name, size in sizes.items()]
    heapq.heapify(queue)
    remaining = total - portions.total()
    while queue and remaining > 0:
        _, name = heapq.heappop(queue)
        if portions[name] + smallest_class < sizes[name]:
            portions[name] += 1
            remaining -= 1
            heapq.heappush(queue, (-sizes[name] / (2 * portions[name] + 1), name))
    return portions


def _take(
    groups: list[_Group], portion: int, remaining: Counter[str], smallest_class: int
) -> list[int]:
    """At most `portion` rows, in complete groups; subtracts their labels from `remaining`."""
    rows: list[int] = []
    for group in sorted(groups, key=lambda group: group.rank):
        fits = len(rows) + len(group.rows) <= portion
        if fits and all(remaining[name] > smallest_class for name in group.labels):
            rows += group.rows
            remaining -= Counter(group.labels)
    return rows
