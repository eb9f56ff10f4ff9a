"""What the rules of both grammars use: random choices, and fragments woven from templates.

A rule of a synchronous grammar builds the source and the target together. Here a rule is a pair of
templates:

    weave("A/a B car/n", "A/a car/n B", ...)

A word in capitals is a slot; the same fragment fills it on both sides. Any other word stands for
itself. The letters after a slash are the ties of a word: source and target words that share a tie
are aligned. A tie on a slot ties the first word of its filling. So every alignment is known by
construction.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from clearhead.data.reading.phrasebook import AlignedPair

T = TypeVar("T")


class Dice:
    """Random choices that depend on the seed alone.

    They use only `random()` of Python's generator, the one method that is documented to return
    the same numbers in every version.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self._random.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        order = list(items)
        for last in range(len(order) - 1, 0, -1):
            other = int(self._random.random() * (last + 1))
            order[last], order[other] = order[other], order[last]
        return order


@dataclass(frozen=True)
class Fragment:
    """Some words of the source, their translation, and the links between them."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]

    def as_pair(self) -> AlignedPair:
        """The fragment as a finished sentence pair."""
        return AlignedPair(" ".join(self.source), " ".join(self.target), tuple(sorted(self.links)))


@dataclass
class _Side:
    """One side of a rule: its words, the positions of each tie, the start of each slot."""

    words: list[str]
    ties: dict[str, list[int]]
    starts: dict[str, int]


def tie(words: str, ties: str) -> str:
    """Template text that ties every word of a phrase: `look for` becomes `look/v for/v`."""
    return " ".join(f"{word}/{ties}" for word in words.split())


def weave(source: str, target: str, **slots: Fragment) -> Fragment:
    """Fill the slots of two templates (see above) and link the words that share a tie.

    Raises:
        ValueError: a slot is unknown or occurs twice, or a filling has words on a side whose
            template lacks the slot.
    """
    left = _lay_out(source, {name: slot.source for name, slot in slots.items()})
    right = _lay_out(target, {name: slot.target for name, slot in slots.items()})
    links = {
        (i, j)
        for letter, positions in left.ties.items()
        for i in positions
        for j in right.ties.get(letter, ())
    }
    for name, slot in slots.items():
        links.update((left.starts[name] + i, right.starts[name] + j) for i, j in slot.links)
    return Fragment(tuple(left.words), tuple(right.words), tuple(sorted(links)))


def _lay_out(template: str, slots: Mapping[str, tuple[str, ...]]) -> _Side:
    side = _Side([], {}, {})
    for token in template.split():
        word, _, ties = token.partition("/")
        for letter in ties:
            side.ties.setdefault(letter, []).append(len(side.words))
        if not word.isupper():
            side.words.append(word)
        elif word in side.starts or word not in slots or (ties and not slots[word]):
            raise ValueError(f"slot {word} in {template!r} is unknown, used twice, or tied empty")
        else:
            side.starts[word] = len(side.words)
            side.words.extend(slots[word])
    if lost := [name for name, words in slots.items() if words and name not in side.starts]:
        raise ValueError(f"slots {lost} have words, but {template!r} does not name them")
    return side


def contract_source(fragment: Fragment, contractions: Mapping[tuple[str, str], str]) -> Fragment:
    """The fragment with pairs of source words contracted, such as German `in dem` to `im`."""
    flipped = contract_target(_flip(fragment), contractions)
    return _flip(flipped)


def contract_target(fragment: Fragment, contractions: Mapping[tuple[str, str], str]) -> Fragment:
    """The fragment with pairs of target words contracted, such as Spanish `a el` to `al`."""
    words: list[str] = []
    positions: list[int] = []  # of each old word in the new sentence
    for word in fragment.target:
        if words and (short := contractions.get((words[-1], word))):
            words[-1] = short
        else:
            words.append(word)
        positions.append(len(words) - 1)
    links = {(i, positions[j]) for i, j in fragment.links}
    return Fragment(fragment.source, tuple(words), tuple(sorted(links)))


def _flip(fragment: Fragment) -> Fragment:
    links = tuple((j, i) for i, j in fragment.links)
    return Fragment(fragment.target, fragment.source, links)
