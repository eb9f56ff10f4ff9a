"""Translate units of text: sentence by sentence, with their kept spans and inline elements."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from clearhead.errors import Remark
from clearhead.text.placing import Range, placed, word_ranges
from clearhead.text.sentences import Sentence, as_one, in_parts, joined, sentences
from clearhead.text.spans import (
    PLACED,
    POSITIONAL,
    SPANS,
    Protection,
    find_copies,
    in_order,
)
from clearhead.text.units import Tag, Unit, moved

_BREAK = re.compile(r"\s*\n\s*")

SEVERAL = 4
"""Words of a sentence that is not a name or a term, which may stay as it is."""

BRANCHES = Remark("branches", "has an argument within other text; its branches are not translated")
"""The remark on a text with an argument such as `{n, plural, one {file} other {files}}`."""

Links = Sequence[tuple[int, int]]
"""Pairs of a source word and a target word, by `word_ranges`."""


class Translation(NamedTuple):
    """The translation of a sentence, the remarks on it, and the confidence in it, if any.

    `remembered` shows whether it is from a memory.
    """

    text: str
    remarks: tuple[Remark, ...] = ()
    confidence: float | None = None
    remembered: bool = False


@dataclass(frozen=True)
class Means:
    """What units are translated with.

    Attributes:
        translate: gives the translation of each sentence.
        link: gives the links of the words of each pair of a sentence and its translation.
        protection: the spans that become symbols.
        has_symbols: whether the model knows the symbols. Without them, spans stay in the text, and
            those that a translation lacks are put into it by the links.
        fits: whether a sentence is short enough for the model.
        remembers: whether a memory has a text; then it is not divided into sentences.
        source_language: in BCP 47, "" if it is unknown.
        target_language: in BCP 47, "" if it is unknown.
    """

    translate: Callable[[Sequence[str]], Sequence[Translation]]
    link: Callable[[Sequence[tuple[str, str]]], Sequence[Links]]
    protection: Protection
    has_symbols: bool = True
    fits: Callable[[str], bool] = lambda text: True
    remembers: Callable[[str], bool] = lambda text: False
    source_language: str = ""
    target_language: str = ""


class Pair(NamedTuple):
    """A sentence and its translation, both with their spans, and the confidence, if any."""

    source: str
    target: str
    confidence: float | None = None


class Done(NamedTuple):
    """A translated unit, None without anything to translate, and the remarks on its sentences.

    The confidence is the least of those of its sentences; None if these have none.
    `remembered` shows whether all of its translation is from a memory.
    """

    unit: Unit | None
    remarks: tuple[Remark, ...] = ()
    confidence: float | None = None
    remembered: bool = False
    sentences: tuple[Pair, ...] = ()


def translate_units(units: Sequence[Unit], means: Means) -> list[Done]:
    """The translation of each unit. Equal sentences are translated once."""
    kind = _WithSymbols if means.has_symbols else _WithoutSymbols
    paragraphs = [kind(_unwrapped(unit, means.source_language), means) for unit in units]
    asked = dict.fromkeys(text for each in paragraphs for text in each.asked())
    known = dict(zip(asked, means.translate(list(asked)), strict=True))
    pairs = dict.fromkeys(pair for each in paragraphs for pair in each.pairs_to_link(known))
    links = dict(zip(pairs, means.link(list(pairs)), strict=True))
    return [each.translated(known, links) for each in paragraphs]


class _Paragraph(ABC):
    """A unit and its sentences.

    Attributes:
        original: the unit whose text has the spans.
        ranges: where they are in it.
        unit: the unit that is divided into sentences.
    """

    def __init__(self, original: Unit, ranges: Sequence[Range], unit: Unit, means: Means) -> None:
        self.original, self.ranges, self.unit = original, ranges, unit
        self.spans = [original.text[start:end] for start, end in ranges]
        self._language = means.target_language
        if means.remembers(unit.text.strip()):
            whole, fits = [as_one(unit.text)], lambda text: True
        else:
            whole, fits = _sentences(unit, means.source_language), means.fits
        divided = [_fitting(sentence, fits) for sentence in whole]
        self._parts = [part for parts in divided for part in parts]
        self._is_divided = len(self._parts) > len(whole)

    @abstractmethod
    def written(self, start: int, end: int) -> str:
        """A range of the unit that is divided into sentences, with its spans."""

    @abstractmethod
    def has_words(self, text: str) -> bool:
        """Whether a text has letters that are not in spans."""

    @abstractmethod
    def lost(self, text: str) -> list[int]:
        """The numbers of the spans that are to be put into a translation by alignment."""

    @abstractmethod
    def keeps(self, text: str) -> bool:
        """Whether a translation has all spans but the lost ones, and no others."""

    @abstractmethod
    def changes(self, unit: Unit) -> tuple[Unit, list[_Change]]:
        """A translated unit, and where its spans are to be written."""

    def asked(self) -> list[str]:
        """The sentences that have something to translate, as the model reads them."""
        return [_read(part.text) for part in self._parts if self.has_words(part.text)]

    def pairs_to_link(self, known: Mapping[str, Translation]) -> list[tuple[str, str]]:
        """The sentences with their translations, if there is something to place by alignment."""
        pairs = [(text, known[text].text) for text in self.asked()]
        lost = pairs and self.lost(" ".join(each.text for each in self._translations(known)))
        return pairs if self.unit.tags or lost else []

    def translated(
        self, known: Mapping[str, Translation], links: Mapping[tuple[str, str], Links]
    ) -> Done:
        """The translation, from those of the sentences and the links of their words."""
        branches = (BRANCHES,) if any(map(_has_branches, self.spans)) else ()
        if not self.asked():
            return Done(None, branches)
        found = self._translations(known)
        text = joined(self._parts, [each.text for each in found], self._language)
        lost = self.lost(text)
        points = [(*self.ranges[number], f"\0{number}\0") for number in lost]
        source = _with_tags(self.unit, points) if lost else self.unit
        unit = placed(source, text, self._links(text, found, links), self._ranges_of(text, found))
        remarks = [*(remark for each in found for remark in each.remarks), *branches]
        if not self.keeps(text):
            remarks.append(SPANS)
        if lost:
            remarks.append(PLACED)
        if self._is_divided:
            remarks.append(Remark("divided", "is longer than the model reads, so it was divided"))
        if any(map(_is_untranslated, self._parts, found)):
            remarks.append(Remark("same", "has a sentence that the translation repeats as it is"))
        if "\ufffd" in text:
            remarks.append(Remark("characters", "has a translation with U+FFFD"))
        confidences = [each.confidence for each in found if each.confidence is not None]
        least = min(confidences, default=None)
        remembered = all(known[text].remembered for text in self.asked())
        new = self._with_spans(unit)
        pairs = tuple(self._pairs(unit, new, found))
        return Done(new, tuple(dict.fromkeys(remarks)), least, remembered, pairs)

    def _pairs(self, unit: Unit, new: Unit, found: Sequence[Translation]) -> Iterator[Pair]:
        """The sentences; the translated unit is given without and with its spans."""
        _, changes = self.changes(unit)
        position = moved([(start, end, len(text)) for start, end, _, text in changes])
        ranges = self._ranges_of(unit.text, found)
        for translation, (source, target) in zip(found, ranges, strict=True):
            start, end = map(position, target)
            yield Pair(self.written(*source), new.text[start:end], translation.confidence)

    def _translations(self, known: Mapping[str, Translation]) -> list[Translation]:
        return [known.get(_read(part.text), Translation(part.text)) for part in self._parts]

    def _with_spans(self, unit: Unit) -> Unit:
        """A translated unit with its spans."""
        unit, changes = self.changes(unit)
        new = unit.replaced([(start, end, text) for start, end, _, text in changes])
        keep, gained = list[Range](), 0
        for start, end, number, text in changes:
            if number >= 0 and self.ranges[number] in self.original.keep:
                keep.append((start + gained, start + gained + len(text)))
            gained += len(text) - (end - start)
        # Markup is never lost, even if a model drops its symbol.
        found = {change.number for change in changes}
        lost = [n for n, each in enumerate(self.ranges) if each in self.original.keep]
        end = len(new.text)
        tags = [Tag(end, end, self.spans[number]) for number in lost if number not in found]
        return replace(new, keep=tuple(keep), tags=(*new.tags, *tags))

    def _ranges_of(self, text: str, found: Sequence[Translation]) -> Iterator[tuple[Range, Range]]:
        """The range of each sentence in the unit and in the translation."""
        ends = 0, 0
        for part, translation in zip(self._parts, found, strict=True):
            starts = self.unit.text.index(part.text, ends[0]), text.index(translation.text, ends[1])
            ends = starts[0] + len(part.text), starts[1] + len(translation.text)
            yield (starts[0], ends[0]), (starts[1], ends[1])

    def _links(
        self,
        text: str,
        found: Sequence[Translation],
        links: Mapping[tuple[str, str], Links],
    ) -> Iterator[tuple[int, int]]:
        """The links of all sentences, with words numbered in the paragraph."""
        wholes = self.unit.text, text
        starts = [[start for start, _ in word_ranges(whole)] for whole in wholes]
        ranges = self._ranges_of(text, found)
        for part, translation, sides in zip(self._parts, found, ranges, strict=True):
            pair, at = (part.text, translation.text), [start for start, _ in sides]
            words = [word_ranges(piece) for piece in pair]
            # What has no words was not translated.
            is_same = part.text == translation.text
            same = [(n, n) for n in range(len(words[0]))] if is_same else ()
            for link in links.get((_read(part.text), translation.text), same):
                one, other = (
                    bisect_right(starts[side], at[side] + words[side][link[side]][0]) - 1
                    for side in (0, 1)
                )
                yield one, other


class _WithSymbols(_Paragraph):
    """A unit whose spans, and what it keeps, are symbols."""

    def __init__(self, unit: Unit, means: Means) -> None:
        lines = _within_lines(means.protection)
        masked, ranges = lines.mask(unit.text, unit.keep), lines.rows(unit.text, unit.keep)
        if "break" in means.protection.kinds and not unit.soft:
            breaks = _breaks(masked.text, ranges, unit.text, means.source_language)
            if breaks:
                ranges = sorted([*ranges, *breaks])
                masked = Protection().mask(unit.text, ranges)
        changes = [(*each, symbol) for each, symbol in zip(ranges, masked.symbols, strict=True)]
        super().__init__(unit, ranges, unit.replaced(changes), means)
        self._masked = masked

    def written(self, start: int, end: int) -> str:
        return self._masked.written(start, end)

    def has_words(self, text: str) -> bool:
        return any(map(str.isalpha, text))

    def lost(self, text: str) -> list[int]:
        return []

    def keeps(self, text: str) -> bool:
        return self._masked.keeps(text)

    def changes(self, unit: Unit) -> tuple[Unit, list[_Change]]:
        fillings = self._masked.fillings(unit.text)
        return unit, [_Change(at, at + 1, number, text) for at, number, text in fillings]


class _WithoutSymbols(_Paragraph):
    """A unit with its spans in the text; what it keeps are empty elements."""

    def __init__(self, unit: Unit, means: Means) -> None:
        unit = _with_empty_tags(unit)
        self._lines = _within_lines(means.protection)
        super().__init__(unit, self._lines.ranges(unit.text), unit, means)

    def written(self, start: int, end: int) -> str:
        return self.unit.text[start:end]

    def has_words(self, text: str) -> bool:
        return any(map(str.isalpha, self._lines.mask(text).text))

    def lost(self, text: str) -> list[int]:
        found = {number for *_, number in find_copies(self.spans, text)}
        return [number for number in range(len(self.spans)) if number not in found]

    def keeps(self, text: str) -> bool:
        return len(self._lines.ranges(text)) <= len(self.spans) - len(self.lost(text))

    def changes(self, unit: Unit) -> tuple[Unit, list[_Change]]:
        spans = self.spans
        copies = [_Change(*copy, spans[copy[2]]) for copy in find_copies(spans, unit.text)]
        unit, points = _without_points(unit, spans)
        found = sorted([*copies, *(_outside(point, copies) for point in points)])
        # Arguments without a number keep their order, because a program gives them in it.
        order = in_order(spans, [change.number for change in found], POSITIONAL)
        for index, number in enumerate(order):
            old = found[index]
            text = old.text.replace(spans[old.number], spans[number])
            found[index] = old._replace(number=number, text=text)
        return unit, found


def _within_lines(protection: Protection) -> Protection:
    """The protection of spans within lines; sentences get their accelerators back one by one."""
    return replace(protection.without("break"), accelerator="")


def _breaks(masked: str, ranges: Sequence[Range], text: str, language: str) -> list[Range]:
    """The line breaks within sentences of a text; `masked` has a symbol for each of the ranges."""
    origins, done = list[int](), 0  # of each character, its position in the text
    for start, end in ranges:
        origins += (*range(done, start), start)
        done = end
    origins += range(done, len(text))
    found, at = list[Range](), 0
    for sentence in sentences(masked, language):
        at = masked.index(sentence.text, at)
        inside = range(at, at + len(sentence.text))
        found += ((origins[i], origins[i] + 1) for i in inside if masked[i] == "\n")
        at += len(sentence.text)
    return found


def _read(sentence: str) -> str:
    """A sentence as the model reads it, without the spaces that surround markup within it."""
    return re.sub("  +", " ", sentence)


def _has_branches(span: str) -> bool:
    """Whether a span is an argument of ICU with text in its branches."""
    return re.match(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\b", span) is not None


def _is_untranslated(source: Sentence, translation: Translation) -> bool:
    """Whether a sentence of several words came back as it is."""
    words = re.findall(r"[^\W\d_]{2,}", source.text)
    return len(words) >= SEVERAL and translation.text.strip() == _read(source.text)


def _sentences(unit: Unit, language: str) -> list[Sentence]:
    if unit.whole:
        return [as_one(unit.text)] if unit.text.strip() else []
    return sentences(unit.text, language)


def _unwrapped(unit: Unit, language: str) -> Unit:
    """The unit with a space for each line break within a sentence, if these are soft."""
    if not unit.soft:
        return unit
    changes, at = list[tuple[int, int, str]](), 0
    for sentence in _sentences(unit, language):
        at = unit.text.index(sentence.text, at)
        breaks = _BREAK.finditer(sentence.text)
        changes += ((at + found.start(), at + found.end(), " ") for found in breaks)
        at += len(sentence.text)
    return unit.replaced(changes)


def _fitting(sentence: Sentence, fits: Callable[[str], bool]) -> list[Sentence]:
    """A sentence as parts that fit."""
    parts = in_parts(sentence.text, fits)
    parts[0] = parts[0]._replace(before=sentence.before)
    parts[-1] = parts[-1]._replace(after=sentence.after)
    return parts


class _Change(NamedTuple):
    """What replaces a range (start, end) of a translation: the text of a span, by its number."""

    start: int
    end: int
    number: int
    text: str


def _outside(point: _Change, changes: Sequence[_Change]) -> _Change:
    """A point that is not within another change."""
    index = bisect_left(changes, point.start, key=lambda change: change.start) - 1
    at = max(point.start, changes[index].end) if index >= 0 else point.start
    return point._replace(start=at, end=at)


_POINT = re.compile("\0([0-9]+)\0")
"""The opening of a tag that stands for a span, with its number."""


def _with_tags(unit: Unit, new: Iterable[tuple[int, int, str]]) -> Unit:
    """The unit with further empty tags (start, end, opening), within those around them."""
    tags = list(unit.tags)
    for start, end, opening in new:
        around = [
            n for n, t in enumerate(unit.tags) if t.start <= start and end <= t.end and t.closing
        ]
        tags.append(Tag(start, end, opening, "", around[-1] if around else -1))
    order = sorted(range(len(tags)), key=lambda n: (tags[n].start, n))
    number = {old: n for n, old in enumerate(order)}
    moved = [tags[n]._replace(parent=number.get(tags[n].parent, -1)) for n in order]
    return replace(unit, tags=tuple(moved))


def _with_empty_tags(unit: Unit) -> Unit:
    """The unit with an empty tag for each part that is kept."""
    tags = [(start, end, unit.text[start:end]) for start, end in unit.keep]
    changes = [
        (start, end, " " if _is_in_word(unit.text, start, end) else "") for start, end in unit.keep
    ]
    return _with_tags(unit, tags).replaced(changes)


def _is_in_word(text: str, start: int, end: int) -> bool:
    """Whether the text before and after a range would be one word without it."""
    return re.match(r"\w\w", text[start - 1 : start] + text[end : end + 1]) is not None


def _without_points(unit: Unit, spans: Sequence[str]) -> tuple[Unit, list[_Change]]:
    """The unit without the tags that stand for spans, and the spans in their places."""
    points, others = list[_Change](), list[int]()
    for n, tag in enumerate(unit.tags):
        if found := _POINT.search(tag.opening):
            text = _POINT.sub(lambda found: spans[int(found[1])], tag.opening)
            points.append(_Change(tag.start, tag.end, int(found[1]), text))
        else:
            others.append(n)
    number = {old: n for n, old in enumerate(others)}
    tags = [unit.tags[n]._replace(parent=number.get(unit.tags[n].parent, -1)) for n in others]
    return replace(unit, tags=tuple(tags)), points
