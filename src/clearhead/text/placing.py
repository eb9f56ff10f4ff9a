"""Put inline elements into a translation, at the words that come from those in the source."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate, pairwise

from clearhead.text.units import Tag, Unit

_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W{_NO_SPACES}]+|[^\w\s]")
"""A word, a punctuation mark, or one character of a script without spaces."""

CLOSING = ".,;:!?)]}»”’…、。，！？"
"""Marks that follow a word without a space."""

Range = tuple[int, int]


def word_ranges(text: str) -> list[Range]:
    """The range (start, end) of each word and punctuation mark of a text."""
    return [found.span() for found in _WORD.finditer(text)]


def placed(
    unit: Unit,
    translation: str,
    links: Iterable[tuple[int, int]],
    parts: Iterable[tuple[Range, Range]] = (),
) -> Unit:
    """The translation of a unit with all its tags, each once, nested as in the source.

    `links` are pairs of a source word and a target word, by `word_ranges`; `parts` are the ranges
    of each sentence in the source and in the translation, in which empty elements stay. An element
    is around the run of target words of which most come from its words and fewest from others (the
    maximum-sum subarray). One that is a part of a word is around the same part. An empty element is
    where most words are on their side.
    """
    placing = _Placing(unit, translation, links, parts)
    found: list[Tag | None] = [None] * len(unit.tags)
    within: dict[int, list[tuple[int, Tag]]] = {}
    for number, tag in enumerate(unit.tags):
        within.setdefault(tag.parent, []).append((number, tag))
    pending = [(-1, (0, len(placing.target)), (0, len(translation)))]
    while pending:
        parent, words, (done, last) = pending.pop()
        children = within.get(parent, [])
        around = unit.tags[parent] if parent >= 0 else None
        # In an element without text, the element itself has the white space beside it.
        is_empty = around is not None and around.start == around.end
        beside = [(True, True) for _ in children] if is_empty else _beside(children)
        runs = zip(placing.runs(children, words), beside, children, strict=True)
        for run, sides, (number, tag) in sorted(runs, key=lambda each: (each[0], each[2][0])):
            before, after = (placing.gap(place, done, last) for place in run)
            if run[0] == run[1]:
                new = placing.at(tag, before, sides)
            elif (word := placing.word_of(tag)) is not None:
                new = placing.in_word(tag, word, run[0])
            else:
                new = placing.around(tag, before, after)
            start = min(max(new.start, done), last)
            done = min(max(new.end, start), last)
            found[number] = new._replace(start=start, end=done)
            pending.append((number, run, (start, done)))
    return _in_order(unit, translation, [tag for tag in found if tag is not None])


def _beside(children: Sequence[tuple[int, Tag]]) -> list[tuple[bool, bool]]:
    """Whether an empty element stands directly before, and directly after, each empty element."""
    same = [
        _is_point(one) and _is_point(other) and one.end == other.start
        for (_, one), (_, other) in pairwise(children)
    ]
    return list(zip([False, *same], [*same, False], strict=True))[: len(children)]


def _is_point(tag: Tag) -> bool:
    """Whether an element has no words around which it could be placed."""
    return not tag.closing or tag.start == tag.end


class _Placing:
    """The words of a unit and its translation, and where its elements belong."""

    def __init__(
        self,
        unit: Unit,
        translation: str,
        links: Iterable[tuple[int, int]],
        parts: Iterable[tuple[Range, Range]],
    ) -> None:
        self._text, self._translation = unit.text, translation
        self._source, self.target = word_ranges(unit.text), word_ranges(translation)
        self._starts = [start for start, _ in self._source]
        self._ends = [end for _, end in self._source]
        self._origins: list[list[int]] = [[] for _ in self.target]
        self._images: list[list[int]] = [[] for _ in self._source]
        for one, other in links:
            self._origins[other].append(one)
            self._images[one].append(other)
        starts = [start for start, _ in self.target]
        # The end of each part in the source, and its target words.
        self._parts = [
            (source[1], bisect_left(starts, target[0]), bisect_left(starts, target[1]))
            for source, target in parts
        ]

    def _words(self, tag: Tag) -> range:
        """The source words that are in an element, as a whole or in part."""
        return range(bisect_right(self._ends, tag.start), bisect_left(self._starts, tag.end))

    def word_of(self, tag: Tag) -> int | None:
        """The source word of which an element is only a part."""
        words = self._words(tag)
        if len(words) != 1 or not tag.closing:
            return None
        start, end = self._source[words[0]]
        inner = self._text[tag.start : tag.end].strip()
        return words[0] if len(inner) < end - start else None

    def runs(self, children: Sequence[tuple[int, Tag]], words: Range) -> list[Range]:
        """The target words of each element, from `words`, those of its parent.

        They are disjoint, except those of parts of a word.
        """
        found: dict[int, Range] = {}
        free = [words]
        # Long elements first: a short one can take the words that they leave.
        for number, tag in sorted(children, key=lambda child: child[1].start - child[1].end):
            inside = self._words(tag)
            linked = sorted({other for one in inside for other in self._images[one]})
            linked = [other for other in linked if words[0] <= other < words[1]]
            if not tag.closing or not inside:
                continue
            if (word := self.word_of(tag)) is not None:
                if (place := self._same_word(word, linked, words)) is not None:
                    found[number] = place, place + 1
                continue
            if not linked:
                continue
            first, last = linked[0], linked[-1] + 1
            at = max(bisect_right(free, (first, last)) - 1, 0)
            overlapping = list[Range]()
            for gap in free[at:]:
                if gap[0] >= last:
                    break
                if gap[1] > first:
                    overlapping.append((max(gap[0], first), min(gap[1], last)))
            gains = {
                i: sum(1 if one in inside else -1 for one in self._origins[i])
                for a, b in overlapping
                for i in range(a, b)
            }
            run = max(
                (_best_run(gains, gap) for gap in overlapping if gap[0] < gap[1]), default=None
            )
            if run is None or run[0] <= 0:
                continue
            _, start, end = run
            found[number] = start, end
            at = next(n for n, (a, b) in enumerate(free) if a <= start and end <= b)
            left, right = (free[at][0], start), (end, free[at][1])
            free[at : at + 1] = [(a, b) for a, b in (left, right) if a < b]
        blocked = {place for start, end in found.values() for place in range(start + 1, end)}
        for number, tag in children:
            if number not in found:
                found[number] = self._between(tag, words, blocked)
        return [found[number] for number, _ in children]

    def _same_word(self, word: int, linked: Sequence[int], words: Range) -> int | None:
        """The target word that is equal to a source word, or else one that comes from it."""
        start, end = self._source[word]
        wanted = self._text[start:end].lower()
        for places in (linked, range(*words)):
            for place in places:
                a, b = self.target[place]
                if self._translation[a:b].lower() == wanted:
                    return place
        return linked[0] if linked else None

    def _between(self, tag: Tag, words: Range, blocked: Set[int]) -> Range:
        """The place of an empty element between two target words, as an empty range."""
        first, last = words
        if self._parts:
            index = bisect_left(self._parts, (tag.start, -1, -1))
            _, begin, end = self._parts[min(index, len(self._parts) - 1)]
            first, last = min(max(begin, first), last), max(min(end, last), first)
        # For each place, the links of the words on its left that come from the left, less others.
        gains = [
            sum(1 if self._ends[one] <= tag.start else -1 for one in self._origins[i])
            for i in range(first, last)
        ]
        sums = list(accumulate(gains, initial=0))
        places = [i for i in range(first, last + 1) if i not in blocked] or [words[1]]
        best = max(places, key=lambda i: sums[i - first] if i - first < len(sums) else 0)
        return best, best

    def gap(self, place: int, done: int, last: int) -> Range:
        """The white space before a target word, from `done` and not after `last`."""
        start = min(max(self.target[place - 1][1] if place else 0, done), last)
        end = self.target[place][0] if place < len(self.target) else last
        return start, max(start, min(end, last))

    def around(self, tag: Tag, before: Range, after: Range) -> Tag:
        """An element around words, with white space at its ends if it has some in the source."""
        inner = self._text[tag.start : tag.end]
        start = before[0 if inner[:1].isspace() else 1]
        return tag._replace(start=start, end=after[1 if inner[-1:].isspace() else 0])

    def in_word(self, tag: Tag, word: int, place: int) -> Tag:
        """An element around a part of a word: the same part, or else at its end without text."""
        (a, b), (start, end) = self._source[word], self.target[place]
        first, last = max(tag.start, a), min(tag.end, b)
        inner, target = self._text[first:last], self._translation[start:end]
        if target.lower() == self._text[a:b].lower():
            return tag._replace(start=start + first - a, end=min(start + last - a, end))
        if last == b and target.lower().endswith(inner.lower()):
            return tag._replace(start=end - len(inner), end=end)
        if first == a:
            return tag._replace(start=start, end=min(start + len(inner), end))
        return tag._replace(start=end, end=end)

    def at(self, tag: Tag, gap: Range, beside: tuple[bool, bool]) -> Tag:
        """An empty element in a gap, with white space on the sides where it has some in the source.

        Where the gap has less white space than that, the opening brings it. `beside` says on which
        sides another empty element stands.
        """
        start, end = gap
        is_first, is_last = _is_blank(self._text, 0, tag.start), _is_blank(self._text, tag.end)
        at_start, at_end = _is_blank(self._translation, 0, start), _is_blank(self._translation, end)
        spaces = (
            not beside[0] and self._text[max(tag.start - 1, 0) : tag.start].isspace(),
            not beside[1] and self._text[tag.end : tag.end + 1].isspace(),
        )
        follows = spaces[0] or (is_first and not beside[0])
        precedes = spaces[1] or (is_last and not beside[1])
        before = after = False
        # The white space at the ends of a text is that of its source.
        if is_first and at_start:
            place = min(max(tag.start, start), end)
            after = spaces[1] and start == end and not at_end
        elif is_last and at_end:
            place = len(self._translation) - (len(self._text) - tag.end)
            place = min(max(place, start), end)
            before = spaces[0] and start == end and not at_start
        else:
            place = end if follows else start
            before = follows and start == end and not at_start
            after = precedes and place == end and not at_end
            # No space before a full stop that follows the word before.
            after = after and (start < end or self._translation[end] not in CLOSING)
        opening, closing = tag.opening, tag.closing
        if any(spaces) and _is_point(tag):
            opening = " " * before + opening
            opening, closing = (
                (opening, closing + " " * after) if closing else (opening + " " * after, "")
            )
        return tag._replace(start=place, end=place, opening=opening, closing=closing)


def _is_blank(text: str, start: int, end: int | None = None) -> bool:
    """Whether text[start:end] is white space or empty."""
    return re.compile(r"\s*").fullmatch(text, start, len(text) if end is None else end) is not None


def _best_run(gains: dict[int, int], gap: Range) -> tuple[int, int, int]:
    """The largest sum of gains of a run in a gap, and its range (start, end)."""
    best, total, start = (0, gap[0], gap[0]), 0, gap[0]
    for i in range(*gap):
        if total <= 0:
            total, start = 0, i
        total += gains[i]
        best = max(best, (total, start, i + 1), key=lambda run: run[0])
    return best


def _in_order(unit: Unit, translation: str, tags: Sequence[Tag]) -> Unit:
    """The unit with tags in the order in which they now open."""
    children: dict[int, list[int]] = {}
    for number in sorted(range(len(tags)), key=lambda i: (tags[i].start, tags[i].end, i)):
        children.setdefault(tags[number].parent, []).append(number)
    order, pending = list[int](), children.get(-1, [])[::-1]
    while pending:
        order.append(pending.pop())
        pending += children.get(order[-1], [])[::-1]
    new = {old: number for number, old in enumerate(order)}
    moved = tuple(tags[i]._replace(parent=new.get(tags[i].parent, -1)) for i in order)
    return Unit(translation, unit.place, moved)
