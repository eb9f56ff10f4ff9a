"""Paragraphs as sentences with the white space between them.

The rules of sentencex decide where a sentence ends: abbreviations, quotations, lists, and scripts
without spaces. Three corrections follow, each of which benchmarks/sentences.py shows the need for.
Besides, parts with nothing between them stay one sentence, such as `config.{name}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]

UNSPACED = ("zh", "ja", "th", "lo", "km", "my", "bo", "dz")
"""Languages that are written without spaces between sentences."""

_CLAUSE = re.compile(r"(?<=[;:,\u2013\u2014])\s+|(?<=[，、；：،؛])\s*")
"""Ends of clauses."""


_INITIAL = re.compile(r"(?:^|[\s(-])[^\W\d_]\.[ \u00a0]?$")
"""An initial, or the title "M.", ends no sentence."""

_OPENING = re.compile(r"(?<=\s)[«„“‘(\[]\s*$")
"""An opening quotation mark belongs to the next sentence."""

_BEFORE_NUMBER = re.compile(r"(?<=[。！？])(?=\d)")
"""A full stop in Chinese ends a sentence before a number, too."""


_READ = {0xA0: " ", 0x202F: " "}
"""Characters at which the library may fail, and what it reads instead."""

_ENDS_WITHOUT_SPACE = re.compile(r"[。．！？!?…」』”]$")
"""Ends of sentences after which scripts without spaces have none."""


class Sentence(NamedTuple):
    """A sentence, and the white space before and after it."""

    before: str
    text: str
    after: str


def sentences(text: str, language: str = "") -> list[Sentence]:
    """The sentences of a text, without those that are only white space; together they are the text.

    `language` is in BCP 47, "" if it is unknown.
    """
    found, before = list[Sentence](), ""
    read = text.translate(_READ).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    at = 0
    for length in map(len, _corrected(segment(language.partition("-")[0].lower() or "en", read))):
        part = text[at : at + length]
        at += length
        if part.strip():
            inner = part.strip()
            start = part.index(inner)
            new = Sentence(before + part[:start], inner, part[start + len(inner) :])
            before = ""
            if found and not (found[-1].after or new.before) and not _is_end(found[-1].text):
                # A name such as config.txt, or a version.
                new = new._replace(before=found[-1].before, text=found.pop().text + inner)
            found.append(new)
        elif found:
            found[-1] = found[-1]._replace(after=found[-1].after + part)
        else:
            before += part
    return found


def as_one(text: str) -> Sentence:
    """A text as one sentence."""
    inner = text.strip()
    before, _, after = text.partition(inner)
    return Sentence(before, inner, after)


def _is_end(text: str) -> bool:
    """Whether a sentence ends where no space follows."""
    return _ENDS_WITHOUT_SPACE.search(text) is not None and not text.isascii()


def _corrected(parts: Iterable[str]) -> Iterator[str]:
    """The parts, with three corrections of their ends."""
    waiting = ""
    for part in parts:
        text, waiting = waiting + part, ""
        if _INITIAL.search(text):
            waiting = text
            continue
        if opening := _OPENING.search(text):
            text, waiting = text[: opening.start()], text[opening.start() :]
        yield from _BEFORE_NUMBER.split(text)
    if waiting:
        yield waiting


def joined(parts: Sequence[Sentence], translations: Sequence[str], target: str = "") -> str:
    """The translations with the white space of their sentences.

    Between sentences that have no space between them a space is added, unless the target language
    has none; and the other way round.
    """
    unspaced = target.partition("-")[0].lower() in UNSPACED
    text = ""
    for number, (part, translation) in enumerate(zip(parts, translations, strict=True)):
        after = part.after
        if number + 1 < len(parts):
            follows = after + parts[number + 1].before
            if not follows and not unspaced:
                after = " "
            elif follows == " " and unspaced:
                after = ""
        text += part.before + translation + after
    return text


def in_parts(sentence: str, fits: Callable[[str], bool]) -> list[Sentence]:
    """A sentence as parts that fit: divided at the end of a clause, else at a space, else anywhere.

    A part is divided as near to its middle as possible. `fits` is true for short texts.
    """
    if fits(sentence) or len(sentence) < 2:
        return [Sentence("", sentence, "")]
    middle = len(sentence) / 2
    for places in (_CLAUSE.finditer(sentence), re.finditer(r"\s+", sentence)):
        inside = [place.span() for place in places if 0 < place.end() < len(sentence)]
        if inside:
            start, end = min(inside, key=lambda span: abs(span[1] - middle))
            break
    else:
        start = end = len(sentence) // 2
    return [
        *_ending(in_parts(sentence[:start], fits), sentence[start:end]),
        *in_parts(sentence[end:], fits),
    ]


def _ending(parts: Sequence[Sentence], white: str) -> Iterator[Sentence]:
    yield from parts[:-1]
    yield parts[-1]._replace(after=parts[-1].after + white)
