"""XML of any kind, or a part of such a document: its text shows which elements end a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from html import escape

from clearhead.text.documents.markup import Token, end_of, inline_unit, xml_tokens
from clearhead.text.units import Document, Slot, line_counter

_PROLOGUE = re.compile(r"\s*<(?:\?xml\s|!DOCTYPE\s)")

_ROOT = "<x>", "</x>"
"""An element around a part of a document."""

NONE = frozenset[str]()


def read_xml(
    content: str,
    where: str,
    target_language: str = "",
    *,
    kept: Set[str] = NONE,
    inline: Set[str] = NONE,
    splitting: Set[str] = NONE,
    outline: bool = True,
) -> Document:
    """The text of XML. An element beside which there is text is within a sentence.

    Args:
        content: a document, or a part of one.
        where: its name for people.
        target_language: is not used.
        kept: names of elements whose content stays as it is.
        inline: names of elements that are within a sentence.
        splitting: names of elements that end one.
        outline: whether elements end a sentence that are neither beside text nor `inline`.

    Raises:
        DataError: it is not well-formed, or it declares entities.
    """
    if _PROLOGUE.match(content):
        tokens = xml_tokens(content, where)
    else:
        shift = len(_ROOT[0])
        tokens = [
            replace(token, start=token.start - shift, end=token.end - shift)
            for token in xml_tokens(content.join(_ROOT), where)[1:-1]
        ]
    tokens = list(_with_kept(content, tokens, kept))
    slots, run, line = list[Slot](), list[Token](), line_counter(content)

    def end_run() -> None:
        place = f"{where}:{line(run[0].start)}" if run else ""
        if (found := inline_unit(content, run, place, spaces=True)) is not None:
            start, end, unit = found
            slots.append(Slot(start, end, unit, lambda new: new.marked(_escape)))
        run.clear()

    ends = _ends(tokens, inline, splitting, outline)
    for number, token in enumerate(tokens):
        if number in ends:
            end_run()
        else:
            run.append(token)
    end_run()
    return Document(content, slots)


def _with_kept(content: str, tokens: Sequence[Token], kept: Set[str]) -> Iterator[Token]:
    """The tokens, with each kept element and each CDATA section as one token."""
    index = 0
    while index < len(tokens):
        token, last = tokens[index], index
        if content.startswith("<![CDATA[", token.start):
            while not content.endswith("]]>", 0, tokens[last].end):
                last += 1
            token = Token("kept", token.start, tokens[last].end)
        elif token.kind == "start" and token.name in kept:
            last = end_of(tokens, index)
            token = Token("kept", token.start, tokens[last].end)
        yield token
        index = last + 1


def _ends(
    tokens: Sequence[Token], inline: Set[str], splitting: Set[str], outline: bool
) -> set[int]:
    """The numbers of the tags that end a sentence."""
    around, stack = dict[int, int](), [-1]  # of each element, the one around it; -1: none
    closing, with_text, found = dict[int, int](), set[int](), set[int]()
    for number, token in enumerate(tokens):
        if token.kind in ("start", "empty"):
            around[number] = stack[-1]
            if token.name in splitting:
                found.update([number, *stack])  # also what has such an element in it
        if token.kind == "start":
            stack.append(number)
        elif token.kind == "end":
            closing[stack.pop()] = number
        elif token.kind == "text" and token.text.strip():
            with_text.add(stack[-1])
    is_inline = dict[int, bool]()
    for number, parent in around.items():
        named = tokens[number].name in inline or not outline
        beside = parent in with_text or is_inline.get(parent, False)
        is_inline[number] = number not in found and (named or beside)
        if not is_inline[number]:
            found.add(number)
    return found | {closing[number] for number in found if number in closing}


def _escape(text: str) -> str:
    return escape(text, quote=False)
