"""Spans that a translation keeps as they are: placeholders, tags, links, code.

Before a text is encoded, each span is replaced by one of a few symbols. The model learns to copy
symbols, and a search can be made to copy all of them (`decoding/constraints.py`). The spans are put
back into the translation afterwards.

A symbol is a character for private use, so that a tokenizer never joins it with others. A text that
has such a character itself keeps it as a span, so symbols in a masked text are never ambiguous.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import NamedTuple

from clearhead.errors import Remark
from clearhead.settings import TokenizerConfig
from clearhead.text.accelerators import with_accelerator, without_accelerator
from clearhead.tokenizer import SYMBOLS

_SYMBOL = re.compile(f"[{SYMBOLS}]")

Range = tuple[int, int]

_LENGTH = r"(?:hh?|ll?|[jztLqI]|I64|I32)?"
_CONVERSION = r"(?:[diouxefgcspn@](?![a-zß-ÿ])|[XEFG](?![A-Z0-9_a-zß-ÿ]))"
_EMOJI = (
    "[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u2b00-\u2bff]"
    "[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?"
)

_ELEMENTS = (
    "a|abbr|b|bdi|big|blockquote|br|button|cite|code|dd|del|dfn|div|dl|dt|em|font|h[1-6]|hr|i|img|"
    "input|ins|kbd|label|li|link|mark|ol|option|p|pre|q|s|samp|select|small|span|strike|strong|sub|"
    "sup|table|tbody|td|th|thead|time|tr|tt|u|ul|var|wbr"
)

KINDS: dict[str, str] = {
    "url": (
        r"(?:(?:https?|ftp|file)://|\bwww\.(?=[\w-]+\.))[^\s<>\"'`{}“”„«»]*[^\s<>\"'`{}“”„«».,;:!?)\]]"
    ),
    "email": r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}",
    # Elements of HTML, and other names that look like an element: in "<none>" the word is text.
    "tag": (
        rf"</?(?i:{_ELEMENTS})(?:\s[^<>]*)?/?>|<!--.*?-->|</[A-Za-z][\w:.-]*>"
        r"|<[A-Za-z][\w:.-]*(?:\s[^<>]*=[^<>]*|\s?/)>"
        r"|<(?P<element>[A-Za-z][\w:.-]*)>(?=[^<]*(?:<(?!/?(?P=element)>)[^<]*)*</(?P=element)>)"
    ),
    "entity": r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    # Not the quotation marks of `GNU programs'.
    "code": r"``[^`\n]+``|`(?:(?!'(?:[\s.,;:)]|$))[^`\n])+`",
    "shell": r"\$\([A-Za-z_]\w*\)|\$\{[^{}\s]+\}|\$[A-Za-z_]\w*\$?"
    r"|\$\d(?!\d|[.,]\d|\s?(?:[mb]illion|thousand|[kmb])\b)",
    # An argument of ICU with its branches, which may have arguments of their own.
    "icu": (
        r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal|number|date|time)\b"
        r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
    ),
    "brace": r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}|\{[\w.!:,+<>^=%#\[\]-]*\}",
    "percent": (
        r"%\([A-Za-z_][\w. -]*\)[-+#0]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa]"
        r"|%[sd]\d"
        rf"|%(?:\d+\$)?[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?{_LENGTH}{_CONVERSION}"
        r"|%[A-Z][A-Z0-9_]+%?|%L?\d+|%n\b|%%"
    ),
    "escape": r"\\(?:[ntr\"'\\]|u[0-9a-fA-F]{4})",
    "break": r"\n|\\n",
    # Neither dates (12.05.2024) nor thousands (1.000.000).
    "version": (
        r"\b(?!\d{1,2}\.\d{1,2}\.\d{4}\b|\d{1,3}(?:\.\d{3})+\b)"
        r"v?\d+(?:\.\d+){2,}(?:[-+][0-9A-Za-z.]+)?\b|\bv\d+(?:\.\d+)*\b"
    ),
    "emoji": rf"{_EMOJI}(?:\u200d{_EMOJI})*",
    "number": r"(?<![\w.,])[-+]?\d+(?:[.,:]\d+)*(?!\w)",
}
"""The pattern of each kind of span. Where two kinds match at a place, the first one counts."""

WEB = ("url", "email", "tag", "entity", "code", "emoji")
SETS: dict[str, tuple[str, ...]] = {
    "web": WEB,
    "software": (*WEB, "shell", "icu", "brace", "percent", "escape", "break", "version"),
}
"""Sets of kinds for kinds of text. Numbers are in none: a model learns to write them its way."""


POSITIONAL = re.compile(rf"%[-+#0]*[\d.*]*{_LENGTH}[diouxXeEfFgGcspn@]|\{{\}}")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*)[^<>]*>")


@dataclass(frozen=True)
class Masked:
    """A text with symbols for spans; `spans` has the text of each symbol, in their order.

    `accelerator` has the mark and the letter of a label, such as `_S`. Without `has_symbols`, the
    characters that are symbols elsewhere are text.
    """

    text: str
    spans: tuple[str, ...] = ()
    accelerator: str = ""
    has_symbols: bool = True

    @property
    def symbols(self) -> list[str]:
        """The symbol of each span."""
        return _SYMBOL.findall(self.text) if self.has_symbols else []

    @cached_property
    def _starts(self) -> list[int]:
        return [found.start() for found in _SYMBOL.finditer(self.text)]

    def written(self, start: int, end: int) -> str:
        """A range of the text with its spans."""
        spans = iter(self.spans[bisect_left(self._starts, start) :])
        return _SYMBOL.sub(lambda _: next(spans), self.text[start:end])

    def places(self, translation: str) -> list[tuple[int, int]]:
        """The position of each symbol of a translation, and the number of its span, or -1.

        The n-th occurrence of a symbol is the n-th span that it replaced. It is none if the symbol
        occurs more often than in the text. Arguments without a name or a number (`%s`, `{}`) keep
        their order, and so do tags that would no longer be nested.
        """
        waiting: dict[str, list[int]] = {}
        for number, symbol in enumerate(self.symbols):
            waiting.setdefault(symbol, []).append(number)
        numbers = [
            each.pop(0) if (each := waiting.get(symbol)) else -1
            for symbol in _SYMBOL.findall(translation)
        ]
        numbers = in_order(self.spans, numbers, POSITIONAL)
        if self._are_nested(range(len(self.spans))) and not self._are_nested(numbers):
            numbers = in_order(self.spans, numbers, _TAG)
        starts = (found.start() for found in _SYMBOL.finditer(translation))
        return list(zip(starts, numbers, strict=True))

    def _are_nested(self, numbers: Iterable[int]) -> bool:
        """Whether tags close in the order in which they open."""
        names = list[str]()
        texts = (self.spans[number] for number in numbers if number >= 0)
        for found in _TAG.finditer(" ".join(texts)):
            if found[0].endswith("/>") or found["name"].lower() in ("br", "img", "hr"):
                continue
            if not found["end"]:
                names.append(found["name"])
            elif not names or names.pop() != found["name"]:
                return False
        return not names

    def restored(self, translation: str) -> str:
        """A translation with its spans and accelerator; a symbol without a span is dropped."""
        if self.accelerator:
            translation = with_accelerator(translation, *self.accelerator)
        if not self.has_symbols:
            return translation
        found = iter([text for _, _, text in self.fillings(translation)])
        return _SYMBOL.sub(lambda _: next(found), translation)

    def fillings(self, translation: str) -> list[tuple[int, int, str]]:
        """The position of each symbol of a translation, the number of its span, and its text.

        A space keeps a span apart from a word that it would run into, unless it does so in the
        source. A symbol without a span has the number -1, and no text.
        """
        starts = self._starts
        found = list[tuple[int, int, str]]()
        for at, number in self.places(translation):
            span = self.spans[number] if number >= 0 else ""
            if span:
                start = starts[number]
                left = found[-1][2] if found and found[-1][0] == at - 1 else translation[:at]
                is_beside = number > 0 and starts[number - 1] == start - 1
                own = self.spans[number - 1] if is_beside else self.text[:start]
                before = _runs_into(left, span) and not _runs_into(own, span)
                right, own = translation[at + 1 :], self.text[start + 1 :]
                after = _runs_into(span, right) and not _runs_into(span, own)
                span = " " * before + span + " " * after
            found.append((at, number, span))
        return found

    def keeps(self, translation: str) -> bool:
        """Whether a translation has the symbols of the masked text and no others."""
        found = _SYMBOL.findall(translation) if self.has_symbols else []
        return Counter(found) == Counter(self.symbols)


def in_order(spans: Sequence[str], numbers: Sequence[int], pattern: re.Pattern[str]) -> list[int]:
    """The numbers of spans, with those of a pattern in ascending order; -1 stands for none."""

    def matches(number: int) -> bool:
        return number >= 0 and pattern.search(spans[number]) is not None

    ordered = iter(sorted(filter(matches, numbers)))
    return [next(ordered) if matches(number) else number for number in numbers]


def _runs_into(left: str, right: str) -> bool:
    """Whether two texts without a space between them would be one word, in scripts with spaces."""
    return re.match(r"[A-Za-z0-9_\u00c0-\u0dff]{2}", left[-1:] + right[:1]) is not None


@dataclass(frozen=True)
class Protection:
    """Which spans of texts are protected.

    Attributes:
        kinds: names of `KINDS`.
        patterns: regular expressions of the user, which count before the kinds.
        accelerator: the mark of keyboard accelerators, "" if labels have none.
    """

    kinds: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    accelerator: str = ""

    def __bool__(self) -> bool:
        return bool(self.kinds or self.patterns or self.accelerator)

    @property
    def has_symbols(self) -> bool:
        """Whether spans become symbols."""
        return bool(self.kinds or self.patterns)

    @cached_property
    def expression(self) -> str:
        """The regular expression of all spans; those of the user have no group in common."""
        kinds = [KINDS[name] for name in KINDS if name in self.kinds]
        alternatives = [*self.patterns, *kinds, f"[{SYMBOLS}]"]
        return "|".join(f"(?:{each})" for each in alternatives)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.expression, re.DOTALL)

    def without(self, kind: str) -> Protection:
        """The same without a kind of span."""
        return replace(self, kinds=tuple(name for name in self.kinds if name != kind))

    def ranges(self, text: str, keep: Sequence[Range] = ()) -> list[Range]:
        """The range of each protected span of a text, and the ranges `keep`, in ascending order."""
        if not (self.has_symbols or keep):
            return []
        found, done = list[Range](), 0
        for start, end in [*keep, (len(text), len(text))]:
            # A pattern of the user may match nothing.
            found += (s.span() for s in self._pattern.finditer(text, done, start) if s[0])
            found += [(start, end)] if start < end else []
            done = end
        return found

    def rows(self, text: str, keep: Sequence[Range] = ()) -> list[Range]:
        """The same ranges; those that follow each other, such as `<b>%s</b>`, are one.

        So they stay together in a translation.
        """
        found = list[Range]()
        kept = set(keep)
        for start, end in self.ranges(text, keep):
            if found and found[-1][1] == start and not kept & {found[-1], (start, end)}:
                found[-1] = found[-1][0], end
            else:
                found.append((start, end))
        return found

    def mask(self, text: str, keep: Sequence[Range] = ()) -> Masked:
        """The text with symbols for its rows of spans; those that are equal get the same symbol."""
        ranges = self.rows(text, keep)
        spans = tuple(text[start:end] for start, end in ranges)
        has_symbols = self.has_symbols or bool(keep)
        chosen = {span: SYMBOLS[n % len(SYMBOLS)] for n, span in enumerate(dict.fromkeys(spans))}
        masked = _with(text, ranges, [chosen[span] for span in spans])
        if not self.accelerator:
            return Masked(masked, spans, has_symbols=has_symbols)
        masked, letter = without_accelerator(masked, self.accelerator)
        return Masked(masked, spans, letter and self.accelerator + letter, has_symbols)

    def mask_like(self, text: str, source: Masked) -> str:
        """A translation, or its beginning, with the symbols of its source, each as often at most.

        It has no accelerator.
        """
        waiting = Counter(source.spans)
        known = dict(zip(source.spans, source.symbols, strict=True))
        ranges, parts = self.rows(text), list[str]()
        for start, end in ranges:
            span = text[start:end]
            waiting[span] -= 1
            parts.append(known[span] if waiting[span] >= 0 else span)
        return self.unmarked(_with(text, ranges, parts))

    def mask_pair(self, source: str, target: str, seed: int) -> tuple[str, str] | None:
        """Both sides of a training pair, masked alike; None if their spans differ.

        The symbols are in an order that depends on the seed, so that a model learns to copy all of
        them. A pair with more different spans than symbols keeps them.
        """
        if not self:
            return source, target
        sides = source, target
        for find in (self.rows, self.ranges):
            ranges = [find(side) for side in sides]
            spans = [[side[a:b] for a, b in each] for side, each in zip(sides, ranges, strict=True)]
            if Counter(spans[0]) == Counter(spans[1]):
                break
        else:
            return None
        different = dict.fromkeys(spans[0])
        if not different or len(different) > len(SYMBOLS):
            return self.unmarked(source), self.unmarked(target)
        symbols = Random(seed).sample(SYMBOLS, len(different))
        chosen = dict(zip(different, symbols, strict=True))
        one, other = (
            _with(side, each, [chosen[span] for span in found])
            for side, each, found in zip(sides, ranges, spans, strict=True)
        )
        return self.unmarked(one), self.unmarked(other)

    def unmarked(self, text: str) -> str:
        """The text without its accelerator."""
        return without_accelerator(text, self.accelerator)[0] if self.accelerator else text


def _with(text: str, ranges: Sequence[Range], parts: Sequence[str]) -> str:
    """The text with other parts in these ranges."""
    found, done = "", 0
    for (start, end), part in zip(ranges, parts, strict=True):
        found += text[done:start] + part
        done = end
    return found + text[done:]


def find_copies(spans: Sequence[str], text: str) -> list[tuple[int, int, int]]:
    """Where a text has a copy of each span, (start, end, number of the span), in ascending order.

    A model that does not know a span may write it with spaces in it; exact copies count first.
    """
    waiting: dict[str, list[int]] = {}
    for number, span in enumerate(spans):
        waiting.setdefault(span, []).append(number)
    found = list[tuple[int, int, int]]()
    for between, after in (("", ""), (r"\s*", r"(?!\w)")):
        names = sorted((span for span, left in waiting.items() if left), key=len, reverse=True)
        alternatives = (f"({between.join(map(re.escape, name))}{after})" for name in names)
        for copy in re.finditer("|".join(alternatives), text) if names else ():
            span = names[(copy.lastindex or 1) - 1]
            if waiting[span]:
                found.append((*copy.span(), waiting[span].pop(0)))
        found.sort()
        text = _with(text, [(a, b) for a, b, _ in found], ["\0" * (b - a) for a, b, _ in found])
    return found


SPANS = Remark("spans", "has a translation that lacks a placeholder, or has another one")
"""The remark on a text whose translation has other spans."""

PLACED = Remark("placed", "has a placeholder that the model lost; it was put in by alignment")
"""The remark on a text with spans that a model without symbols did not copy."""


class Kept(NamedTuple):
    """Of how many sentences the source or the translation has spans, and how many are the same."""

    sentences: int
    exact: int


def count_kept(protection: Protection, sources: Sequence[str], outputs: Sequence[str]) -> Kept:
    """Compare the spans of sentences with those of their translations."""
    found = Counter[bool]()
    for source, output in zip(sources, outputs, strict=True):
        ours, theirs = (
            Counter(text[start:end] for start, end in protection.ranges(text))
            for text in (source, output)
        )
        if ours or theirs:
            found[ours == theirs] += 1
    return Kept(found.total(), found[True])


NOTHING = Protection()
"""Protects nothing."""


def protection_of(config: TokenizerConfig) -> Protection:
    """The protection that a configuration has."""
    mark = "" if config.accelerator == "none" else config.accelerator
    return protection(config.protect, config.protect_patterns, mark)


def protection(
    names: Iterable[str], patterns: Iterable[str] = (), accelerator: str = ""
) -> Protection:
    """The protection of sets and kinds by their names."""
    kinds = {kind for name in names for kind in SETS.get(name, (name,))}
    names = tuple(kind for kind in KINDS if kind in kinds)
    return Protection(names, tuple(patterns), accelerator)


SOFTWARE = protection(["software"])
"""The spans that count for a model without protection of its own."""
