"""A document as its content and the parts of it that are translated.

Each format gives a `Document`: the whole content, and a slot for each unit of text in it. Only the
slots change when translations are written, so everything else stays as it is, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from clearhead.errors import DataError


def line_counter(content: str) -> Callable[[int], int]:
    """Gives the number of the line, from 1, of a position in a content."""
    starts = [found.end() for found in re.finditer("\n", content)]
    return lambda position: bisect_right(starts, position) + 1


def moved(changes: Sequence[tuple[int, int, int]]) -> Callable[[int], int]:
    """Gives the new position of an old one, if ranges (start, end) get other lengths.

    The changes are in ascending order. A position within a range moves to its start.
    """
    gains = [0]  # what positions gain after so many ranges
    for start, end, length in changes:
        gains.append(gains[-1] + length - (end - start))
    ends = [end for _, end, _ in changes]

    def position(old: int) -> int:
        before = bisect_right(ends, old)
        if before < len(changes):
            old = min(old, changes[before][0])
        return old + gains[before]

    return position


class Tag(NamedTuple):
    """An inline element around `text[start:end]`, as it is written; an empty one has no closing.

    `parent` is the number of the tag around it, -1 without one. The tags of a unit are in the order
    in which they open.
    """

    start: int
    end: int
    opening: str
    closing: str = ""
    parent: int = -1


@dataclass(frozen=True)
class Unit:
    """A paragraph, string, heading or cell: text without markup, and the tags in it.

    `place` is for people, such as `app.po:14`. `keep` are ranges (start, end) of the text that stay
    as they are, such as inline code with its marks. With `soft`, a line break within a sentence is
    a space. With `whole`, the text is one sentence. A translation of a unit is a unit, too.
    """

    text: str
    place: str = ""
    tags: tuple[Tag, ...] = ()
    keep: tuple[tuple[int, int], ...] = ()
    soft: bool = False
    whole: bool = False

    def replaced(self, changes: Sequence[tuple[int, int, str]]) -> Unit:
        """The unit with another text in each range (start, end), in ascending order.

        Tags move with the text. Nothing of the new text is kept.
        """
        text, done = "", 0
        for start, end, new in changes:
            text += self.text[done:start] + new
            done = end
        position = moved([(start, end, len(new)) for start, end, new in changes])
        tags = [t._replace(start=position(t.start), end=position(t.end)) for t in self.tags]
        return replace(self, text=text + self.text[done:], tags=tuple(tags), keep=())

    def marked(self, escape: Callable[[str], str] = str) -> str:
        """The text with its tags; `escape` writes a part of the text that is not kept."""
        parts, done, kept = list[str](), 0, deque(self.keep)
        around = list[int]()  # the numbers of the tags that are open

        def write(until: int, mark: str) -> None:
            nonlocal done
            while kept and kept[0][1] <= until:
                first, last = kept.popleft()
                parts.extend((escape(self.text[done:first]), self.text[first:last]))
                done = last
            parts.extend((escape(self.text[done:until]), mark))
            done = until

        for number, tag in enumerate(self.tags):
            while around and around[-1] != tag.parent:
                closed = self.tags[around.pop()]
                write(closed.end, closed.closing)
            write(tag.start, tag.opening)
            if tag.closing:
                around.append(number)
        for number in reversed(around):
            write(self.tags[number].end, self.tags[number].closing)
        write(len(self.text), "")
        return "".join(parts)


class Slot(NamedTuple):
    """The range (start, end) of a unit in the content, and how a translation is written there."""

    start: int
    end: int
    unit: Unit
    write: Callable[[Unit], str]


class Edit(NamedTuple):
    """What a translated document has in a range (start, end) instead, such as its language."""

    start: int
    end: int
    text: str


class Skipped(NamedTuple):
    """A text that is not translated: its place, and the reason."""

    place: str
    reason: str


@dataclass(frozen=True)
class Document:
    """The content of a file, its slots, and the texts that are not translated."""

    content: str
    slots: Sequence[Slot]
    edits: Sequence[Edit] = ()
    skipped: Sequence[Skipped] = ()

    def translated(self, units: Sequence[Unit | None]) -> str:
        """The content with a translation in each slot; None leaves the slot as it is.

        The edits are made if there is any translation.
        """
        pairs = zip(self.slots, units, strict=True)
        changes = [Edit(s.start, s.end, s.write(unit)) for s, unit in pairs if unit is not None]
        if changes:
            changes += self.edits
        found, done = list[str](), 0
        for start, end, text in sorted(changes):
            assert start >= done, "two slots have the same text"
            found += self.content[done:start], text
            done = end
        return "".join([*found, self.content[done:]])


_SAME = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "ji": "yi", "mo": "ro"}
"""Codes of a language that have another one."""


def check_target(found: str, wanted: str, where: str) -> None:
    """Raise a `DataError` if a document names another target language than the model's."""
    codes = [re.split("[-_@]", name)[0].lower() for name in (found, wanted)]
    languages = [_SAME.get(code, code) for code in codes]
    if all(languages) and languages[0] != languages[1]:
        raise DataError(
            f"the document is a translation into {found}",
            where=where,
            why=f"the model translates into {wanted}",
            todo="give a document without translations, or correct the language that it names",
        )
