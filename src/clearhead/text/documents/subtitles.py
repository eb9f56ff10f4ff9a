"""SubRip (.srt) and WebVTT (.vtt): cues of a film, each with its time.

A sentence that runs over several cues is one unit. Its translation is divided again in proportion
to the lengths of the parts, at the nearest space, rather after a clause.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from clearhead.errors import DataError
from clearhead.text.documents.markup import Token, html_tokens, inline_unit
from clearhead.text.units import Document, Slot, Tag, Unit

_TIME = re.compile(r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{3}\s*-->\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{3}.*")
_SENTENCE_END = re.compile(r"[.!?…。！？:;][\"'”’»)\]]*$|[♪♫]$")
_DASHES = ("-", "–", "—")
_CODE = re.compile(r"\{\\[^{}]*\}|<[\d:.]+>")
_CLAUSE_END = re.compile(r"[,;:.!?–—)，、；：]$")
MOST_JOINED = 4  # cues of one sentence
EXTRA = 0.25  # of a part: how much farther from its place a division after a clause may be


@dataclass(frozen=True)
class Cue:
    """The text of a cue: content[start:end], its unit, and the number of its lines."""

    start: int
    end: int
    unit: Unit
    lines: int

    @property
    def continues(self) -> bool:
        """Whether the sentence goes on in the next cue."""
        return not _SENTENCE_END.search(self.unit.text)


def read_subtitles(content: str, where: str, target_language: str = "") -> Document:
    """The sentences of subtitles.

    Raises:
        DataError: there is no cue.
    """
    cues = list(_cues(content, where))
    if not cues and not any(map(_TIME.fullmatch, content.splitlines())):
        raise DataError("there are no subtitles", where=where, todo="name another --format")
    slots, group = list[Slot](), list[Cue]()
    for cue, following in zip_longest(cues, cues[1:]):
        group.append(cue)
        goes_on = following is not None and cue.continues and _begins_within(following.unit)
        if not goes_on or len(group) == MOST_JOINED:
            slots.append(_slot(content, group))
            group = []
    return Document(content, slots)


def _begins_within(unit: Unit) -> bool:
    """Whether a text begins within a sentence, as far as its first letter and voice show it."""
    text = unit.text
    if any(tag.start == 0 and tag.opening.startswith("<v") for tag in unit.tags):
        return False
    letter = next((character for character in text if character.isalpha()), "")
    return bool(letter) and not letter.isupper() and not text.startswith(_DASHES)


def _cues(content: str, where: str) -> Iterator[Cue]:
    lines, position = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", content), 0
    index = 0
    while index < len(lines):
        line = lines[index]
        position += len(line)
        index += 1
        if not _TIME.fullmatch(line.strip()):
            continue
        first, start = index, position
        while index < len(lines) and lines[index].strip() and not _begins_cue(lines, index):
            # Each line of a dialogue is of another speaker.
            if index > first and lines[index].lstrip().startswith(_DASHES):
                yield from _cue(content, start, position, f"{where}:{first + 1}", index - first)
                first, start = index, position
            position += len(lines[index])
            index += 1
        yield from _cue(content, start, position, f"{where}:{first + 1}", index - first)


def _begins_cue(lines: Sequence[str], index: int) -> bool:
    """Whether a line is the time of a cue, or the number before it; a blank line may be missing."""
    if lines[index].strip().isdigit():
        index += 1
    return index < len(lines) and _TIME.fullmatch(lines[index].strip()) is not None


def _cue(content: str, start: int, end: int, place: str, lines: int) -> Iterator[Cue]:
    tokens = [
        replace(each, start=each.start + start, end=each.end + start)
        for token in html_tokens(content[start:end])
        for each in _with_codes(token, content[start:end])
    ]
    found = inline_unit(content, tokens, place, spaces=True)
    if found is not None:
        yield Cue(found[0], found[1], found[2], lines)


def _with_codes(token: Token, content: str) -> Iterator[Token]:
    r"""A token, with codes such as `{\an8}` and `<00:00:01.500>` as elements of their own."""
    if token.kind != "text" or token.text != content[token.start : token.end]:
        yield token
        return
    done = token.start
    for found in _CODE.finditer(content, token.start, token.end):
        if done < found.start():
            yield Token("text", done, found.start(), text=content[done : found.start()])
        yield Token("empty", found.start(), found.end(), "code")
        done = found.end()
    if done < token.end:
        yield Token("text", done, token.end, text=content[done : token.end])


def _slot(content: str, group: Sequence[Cue]) -> Slot:
    """One unit of the cues of a sentence."""
    text, tags = "", list[Tag]()
    ends = list[int]()
    for cue in group:
        text += " " if text else ""
        first = len(tags)
        tags += (
            tag._replace(
                start=tag.start + len(text),
                end=tag.end + len(text),
                parent=tag.parent + first if tag.parent >= 0 else -1,
            )
            for tag in cue.unit.tags
        )
        text += cue.unit.text
        ends.append(len(text))
    between = [content[cue.end : following.start] for cue, following in pairwise(group)]

    def write(unit: Unit) -> str:
        places = _divisions(unit, [end / len(text) for end in ends[:-1]])
        parts = list[str]()
        ranges = pairwise([0, *places, len(unit.text)])
        for number, ((start, end), cue) in enumerate(zip(ranges, group, strict=True)):
            # An empty element at a division is of the later part.
            part = _part(unit, start, end, is_last=number + 1 == len(group))
            parts.append(_in_lines(part, cue.lines, content))
        return "".join(part + gap for part, gap in zip(parts, [*between, ""], strict=True))

    unit = Unit(text, group[0].unit.place, tuple(tags))
    return Slot(group[0].start, group[-1].end, unit, write)


def _divisions(unit: Unit, shares: Sequence[float]) -> list[int]:
    """Where the text is divided: at spaces outside of tags, near its shares of the length."""
    text = unit.text
    inside = [(tag.start, tag.end) for tag in unit.tags if tag.closing]
    spaces = [
        found.end()
        for found in re.finditer(r"\s+", text)
        if not any(start < found.end() < end for start, end in inside)
    ]
    if len(spaces) < len(shares) and not re.search(r"[A-Za-z\u00c0-\u0dff]{2}", text):
        # A script without spaces.
        spaces = [
            place
            for place in range(1, len(text))
            if not any(start < place < end for start, end in inside)
        ]
    places, last = list[int](), 0
    for number, share in enumerate(shares):
        wanted = share * len(text)
        left = len(shares) - number - 1
        possible = [place for place in spaces if place > last]
        possible = possible[: len(possible) - left] if left else possible
        if not possible:
            last = len(text)
            places.append(last)
            continue
        size = max(1.0, len(text) / (len(shares) + 1))

        def distance(place: int, wanted: float = wanted, size: float = size) -> float:
            clause = _CLAUSE_END.search(text[:place].rstrip())
            return abs(place - wanted) / size - (EXTRA if clause else 0.0)

        last = min(possible, key=distance)
        places.append(last)
    return places


def _part(unit: Unit, start: int, end: int, is_last: bool) -> str:
    """A part of a unit with its tags."""
    chosen = [
        number
        for number, tag in enumerate(unit.tags)
        if start <= tag.start and tag.end <= end and (tag.start < end or is_last)
    ]
    new = {old: number for number, old in enumerate(chosen)}
    tags = tuple(
        unit.tags[old]._replace(
            start=unit.tags[old].start - start,
            end=unit.tags[old].end - start,
            parent=new.get(unit.tags[old].parent, -1),
        )
        for old in chosen
    )
    return Unit(unit.text[start:end], unit.place, tags).marked(_escape).strip()


def _escape(text: str) -> str:
    """A text in which nothing looks like a tag or an entity."""
    return re.sub(r"&(?=#?\w+;)", "&amp;", re.sub(r"<(?=[A-Za-z/])", "&lt;", text))


def _in_lines(text: str, lines: int, content: str) -> str:
    """A text in as many lines as the cue had, of about the same length."""
    if lines < 2 or ("<" in text and " " in re.sub(r"[^<]*(<[^>]*>)?", r"\1", text)):
        return text
    end = "\r\n" if "\r\n" in content else "\n"
    width = max(len(text) // lines, 1)
    while (
        len(found := textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))
        > lines
    ):
        width += 1
    return end.join(found)
