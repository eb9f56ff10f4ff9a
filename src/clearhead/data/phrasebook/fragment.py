"""Fragments of a sentence pair, and the one operation that builds them: weaving.

A rule of a synchronous grammar has two sides that grow together. Here a rule is two templates:

    weave("A/a B car/n", "A/a car/n B", ...)

A word in capitals is a slot, filled on both sides by the same fragment. Any other word stands for
itself, and the letters behind its slash are its ties: words of the two sides that share a tie
are linked. A tie on a slot ties the first word of what fills it. So the alignment is never
guessed: it grows with the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clearhead.data.phrasebook.pair import AlignedPair


@dataclass(frozen=True)
class Fragment:
    """Some words of the source, what they become in the target, and the links between them."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]

    def as_pair(self) -> AlignedPair:
        """The fragment as a finished sentence pair."""
        return AlignedPair(" ".join(self.source), " ".join(self.target), tuple(sorted(self.links)))


@dataclass
class _Side:
    """One side of a rule, laid out: its words, where each tie is, where each slot begins."""

    words: list[str]
    ties: dict[str, list[int]]
    starts: dict[str, int]


def tie(words: str, ties: str) -> str:
    """Template text that ties every word of a phrase: `look for` becomes `look/v for/v`."""
    return " ".join(f"{word}/{ties}" for word in words.split())


def weave(source: str, target: str, **slots: Fragment) -> Fragment:
    """The fragment of two templates (see above) and of the fragments that fill their slots.

    Raises:
        ValueError: a slot is named nowhere or twice, or has words on a side that does not name it.
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
    """The fragment with pairs of source words drawn together, as German `in dem` to `im`."""
    flipped = contract_target(_flip(fragment), contractions)
    return _flip(flipped)


def contract_target(fragment: Fragment, contractions: Mapping[tuple[str, str], str]) -> Fragment:
    """The fragment with pairs of target words drawn together, as Spanish `a el` to `al`."""
    words: list[str] = []
    place: list[int] = []  # where each old word is in the new sentence
    for word in fragment.target:
        if words and (short := contractions.get((words[-1], word))):
            words[-1] = short
        else:
            words.append(word)
        place.append(len(words) - 1)
    links = {(i, place[j]) for i, j in fragment.links}
    return Fragment(fragment.source, tuple(words), tuple(sorted(links)))


def _flip(fragment: Fragment) -> Fragment:
    links = tuple((j, i) for i, j in fragment.links)
    return Fragment(fragment.target, fragment.source, links)
