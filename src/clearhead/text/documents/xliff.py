"""XLIFF 1.2 (OASIS 2008) and 2.x (OASIS 2014): bilingual files of translation tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from clearhead.errors import DataError
from clearhead.text.documents.markup import Token, attribute_range, end_of, inline_unit, xml_tokens
from clearhead.text.units import (
    Document,
    Edit,
    Skipped,
    Slot,
    Unit,
    check_target,
    line_counter,
)

NATIVE = ("bpt", "ept", "it", "bx", "ex", "sc", "ec")
"""Inline elements that stand for a tag of the original; what is in them is no text."""

PLACEHOLDERS = ("ph", "x", "cp")
"""Inline elements that stand for something else, such as an argument or an image."""

TO_TRANSLATE = ("new", "needs-translation", "initial")
"""States of a target that is not a translation yet."""

REVIEW = "needs-review-translation"
MACHINE = f'state="{REVIEW}" state-qualifier="mt-suggestion"'
"""The state of new translations in XLIFF 1.2."""

UNFINISHED = (*TO_TRANSLATE, REVIEW)
"""States of a target that is no training data, such as the translations of a machine."""


def read_xliff(content: str, where: str, target_language: str = "") -> Document:
    """The segments that have no translation yet, may be translated, and have text.

    Raises:
        DataError: it is no XLIFF, not well-formed, or in another target language.
    """
    tokens, is_first = _tokens(content, where)
    slots, edits, skipped = list[Slot](), list[Edit](), list[Skipped]()
    line = line_counter(content)
    name, key = ("file", "target-language") if is_first else ("xliff", "trgLang")
    for token in tokens:
        if token.kind == "start" and token.name == name and target_language:
            check_target(token.attributes.get(key, ""), target_language, where)
            edits += _language(content, token, key, target_language)
    for segment, allowed in _segments(tokens, is_first):
        slot = _slot(content, segment, where, line, is_first)
        if slot is None:
            continue
        if not allowed:
            skipped.append(Skipped(slot.unit.place, "not to be translated"))
        elif _is_done(segment):
            skipped.append(Skipped(slot.unit.place, "translated already"))
        else:
            slots.append(slot)
            edits += _state(content, segment, is_first)
    return Document(content, slots, edits, skipped)


def segments_of(content: str, where: str) -> Iterator[tuple[str, str, int, bool]]:
    """The source, the target ("" without one) and the line of each segment, and if it is final.

    Raises:
        DataError: it is no XLIFF, or not well-formed.
    """
    tokens, is_first = _tokens(content, where)
    line = line_counter(content)
    for segment, _ in _segments(tokens, is_first):
        sides = list[str]()
        for name in ("source", "target"):
            inner = _inline(content, _child(segment, name))
            found = inline_unit(content, inner, where, _is_kept)
            sides.append("" if found is None else found[2].text)
        target = _child(segment, "target")
        state = target[0].attributes.get("state", "") if target else ""
        is_final = _is_done(segment) and state not in UNFINISHED
        yield sides[0], sides[1], line(segment[0].start), is_final


def languages_of_xliff(content: str, where: str) -> tuple[str, str]:
    """The source and target language that the first element names which can; "": none."""
    tokens, is_first = _tokens(content, where)
    named = [
        token.attributes for token in tokens if token.name == ("file" if is_first else "xliff")
    ]
    keys = ("source-language", "target-language") if is_first else ("srcLang", "trgLang")
    return tuple(named[0].get(key, "") if named else "" for key in keys)  # type: ignore[return-value]


def _tokens(content: str, where: str) -> tuple[Sequence[Token], bool]:
    """The tokens of an XLIFF, and whether it is of version 1."""
    tokens = xml_tokens(content, where)
    root = next((token for token in tokens if token.kind in ("start", "empty")), None)
    if root is None or root.name != "xliff":
        raise DataError("this is no XLIFF", where=where, todo="name another --format")
    return tokens, root.attributes.get("version", "").startswith("1")


def _language(content: str, token: Token, key: str, language: str) -> Iterator[Edit]:
    """The change that names the target language in a tag, unless it names it."""
    ranges = attribute_range(content, token, {key.lower()})
    if not ranges:
        yield Edit(token.end - 1, token.end - 1, f' {key}="{escape(language)}"')
    elif not token.attributes.get(key):
        yield Edit(*ranges[key.lower()], escape(language))


def _segments(tokens: Sequence[Token], is_first: bool) -> Iterator[tuple[Sequence[Token], bool]]:
    """The tokens of each segment, and whether it and the elements around it may be translated."""
    name = "trans-unit" if is_first else "segment"
    allowed, start = [True], -1
    for index, token in enumerate(tokens):
        if token.kind == "start":
            own = token.attributes.get("translate", "yes" if allowed[-1] else "no")
            allowed.append(own != "no")
            if token.name == name:
                start = index
        elif token.kind == "end":
            if token.name == name:
                yield tokens[start : index + 1], allowed[-1]
            allowed.pop()


def _child(segment: Sequence[Token], name: str) -> Sequence[Token]:
    """The tokens of a child of a segment, with its tags; none without it."""
    index = 1
    while index < len(segment) - 1:
        end = end_of(segment, index)
        if segment[index].name == name:
            return segment[index : end + 1]
        index = end + 1
    return ()


def _is_done(segment: Sequence[Token]) -> bool:
    """Whether a segment has a translation, or one that may not be changed."""
    target, attributes = _child(segment, "target"), segment[0].attributes
    has_text = any(token.kind == "text" and token.text.strip() for token in target)
    state = (target[0].attributes if target else {}).get("state", attributes.get("state", ""))
    return attributes.get("approved") == "yes" or (has_text and state not in TO_TRANSLATE)


def _slot(
    content: str,
    segment: Sequence[Token],
    where: str,
    line: Callable[[int], int],
    is_first: bool,
) -> Slot | None:
    source = _child(segment, "seg-source") or _child(segment, "source")
    inner = _inline(content, source)
    identifier = segment[0].attributes.get("id", "")
    place = f"{where}:{line(segment[0].start)}" + (f" ({identifier})" if identifier else "")
    found = inline_unit(content, inner, place, _is_kept)
    if found is None:
        return None
    start, end, unit = found
    before, after = content[inner[0].start : start], content[end : inner[-1].end]
    target = _child(segment, "target")
    # The target has the prefix of a namespace that its source has.
    prefix = content[source[0].start + 1 : source[0].end].partition("source")[0]
    prefix = prefix.removesuffix("seg-")
    name = f"{prefix}target"
    state = f" {MACHINE}" if is_first else ""

    def inside(translation: Unit) -> str:
        return before + translation.marked(lambda text: escape(text, quote=False)) + after

    def whole(translation: Unit) -> str:
        return f"<{name}{state}>{inside(translation)}</{name}>"

    if len(target) > 1:
        return Slot(target[0].end, target[-1].start, unit, inside)
    if target:
        return Slot(target[0].start, target[0].end, unit, whole)
    last = source[-1].end
    line_start = content.rfind("\n", 0, source[0].start) + 1
    indent = content[line_start : source[0].start]
    new_line = f"\n{indent}" if line_start and not indent.strip() else ""
    return Slot(last, last, unit, lambda translation: new_line + whole(translation))


def _state(content: str, segment: Sequence[Token], is_first: bool) -> Iterator[Edit]:
    """The change of a state, such as `new`, that a segment has without a translation."""
    target = _child(segment, "target")
    tag = (target[0] if len(target) > 1 else None) if is_first else segment[0]
    if tag is not None and (found := attribute_range(content, tag, {"state"})):
        yield Edit(*found["state"], REVIEW if is_first else "translated")


def _inline(content: str, element: Sequence[Token]) -> list[Token]:
    """The content of an element. The text of a CDATA section is text like any other."""
    marks = "<![CDATA[", "]]>"
    tokens = _with_native(element[1:-1])
    return [token for token in tokens if not content.startswith(marks, token.start)]


def _with_native(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with each element that stands for native markup as one empty element."""
    index = 0
    while index < len(tokens):
        token, end = tokens[index], index
        if token.kind == "start" and token.name in NATIVE:
            end = end_of(tokens, index)
            token = Token("empty", token.start, tokens[end].end, token.name)
        yield token
        index = end + 1


def _is_kept(token: Token) -> bool:
    if token.name in PLACEHOLDERS:
        return True
    return token.attributes.get("translate") == "no" or token.attributes.get("mtype") == "protected"
