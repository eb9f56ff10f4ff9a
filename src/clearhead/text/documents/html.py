"""HTML: text between block elements, and the attributes that people read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from html import escape, unescape

from clearhead.text.documents.markup import Token, attribute_range, html_tokens, inline_unit
from clearhead.text.units import Document, Edit, Skipped, Slot, Unit, line_counter

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark "
    "meter nobr output progress q ruby rb rp rt s samp small span strike strong sub sup time tt u "
    "var wbr button picture source".split()
)
"""Elements within a sentence; all others end one."""

CODE = frozenset("script style svg math template noembed xmp".split())
"""Elements whose content is not text."""

UNTOUCHED = {"pre": "preformatted", "textarea": "in a text area"}
"""Elements whose text stays as it is, and the reason."""

NO = "not to be translated"
"""The reason why the text in an element with `translate="no"` stays."""

KEPT = frozenset("code kbd samp tt var".split())
"""Inline elements whose content stays as it is."""

READ = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description", "summary"))
"""Attributes that people read."""

DESCRIBING = frozenset(
    (
        "description",
        "keywords",
        "og:title",
        "og:description",
        "twitter:title",
        "twitter:description",
    )
)
"""Names of a `meta` element whose content people read."""


def read_attributes(content: str, where: str, target_language: str = "") -> Document:
    """The attributes that people read. They are translated before the text: some are within it."""
    slots, line = list[Slot](), line_counter(content)
    for token, barrier in _barriers(html_tokens(content), frozenset()):
        if barrier or _is_no(token) or token.kind not in ("start", "empty"):
            continue
        for start, end in sorted(attribute_range(content, token, _read_names(token)).values()):
            text = unescape(content[start:end])
            if text.strip():
                unit = Unit(text, f"{where}:{line(start)}")
                mark = "" if content[start - 1] in "\"'" else '"'
                slots.append(Slot(start, end, unit, _value(mark)))
    return Document(content, slots)


def read_html(
    content: str, where: str, target_language: str = "", *, kept: Set[str] = frozenset()
) -> Document:
    """The text of block elements, with inline elements as tags.

    Further elements that are `kept` are inline, and their content stays as it is.
    """
    tokens = html_tokens(content)
    slots, edits, run, line = list[Slot](), list[Edit](), list[Token](), line_counter(content)

    def end_run() -> None:
        place = f"{where}:{line(run[0].start)}" if run else ""
        found = inline_unit(
            content, run, place, lambda each: each.name in kept or _is_kept(each), spaces=True
        )
        if found is not None:
            start, end, unit = found
            slots.append(Slot(start, end, unit, lambda new: new.marked(_escape)))
        run.clear()

    skipped, last = list[Skipped](), ""
    inline = INLINE | kept
    for token, barrier in _barriers(tokens, inline):
        is_inline = token.kind in ("text", "other") or token.name in inline
        if not barrier and is_inline and not _is_declaration(content, token):
            run.append(token)
        else:
            end_run()
        if barrier and barrier != last and barrier not in CODE and token.text.strip():
            skipped.append(Skipped(f"{where}:{line(token.start)}", UNTOUCHED.get(barrier, barrier)))
            last = barrier
        last = last if barrier else ""
        if token.kind == "start" and token.name == "html" and target_language:
            edits += _language(content, token, target_language)
    end_run()
    return Document(content, slots, edits, skipped)


def _barriers(tokens: Sequence[Token], inline: Set[str]) -> Iterator[tuple[Token, str]]:
    """Each token, and what forbids to translate it: the name of an element, `NO`, or "".

    An inline element that is not translated is kept within its sentence, so it forbids nothing.
    """
    stack: list[tuple[str, str]] = []
    opened = Counter[str]()  # elements on the stack by name: an end without a start closes none
    for token in tokens:
        around = stack[-1][1] if stack else ""
        yield token, around
        if token.kind == "start":
            barrier = around
            if token.name not in inline:
                is_yes = token.attributes.get("translate", "").lower() == "yes"
                barrier = "" if is_yes else NO if _is_no(token) and not around else around
                if token.name in CODE or token.name in UNTOUCHED:
                    barrier = token.name
            stack.append((token.name, barrier))
            opened[token.name] += 1
        elif token.kind == "end":
            name = ""
            while opened[token.name] and name != token.name:
                name, _ = stack.pop()
                opened[name] -= 1


def _is_no(token: Token) -> bool:
    attributes = token.attributes
    is_no = attributes.get("translate", "").lower() == "no"
    return is_no or "notranslate" in attributes.get("class", "").split()


def _is_kept(token: Token) -> bool:
    return token.name in KEPT or _is_no(token)


def _is_declaration(content: str, token: Token) -> bool:
    is_markup = token.kind == "other"
    return is_markup and not content.startswith("<!--", token.start)


def _read_names(token: Token) -> frozenset[str]:
    """The attributes of a tag that people read."""
    described = token.attributes.get("name", token.attributes.get("property", "")).lower()
    if token.name == "meta":
        return frozenset(("content",)) if described in DESCRIBING else frozenset()
    kind = token.attributes.get("type", "").lower()
    if token.name == "input" and kind in ("submit", "button", "reset"):
        return READ | {"value"}
    return READ


def _value(mark: str) -> Callable[[Unit], str]:
    """Writes the value of an attribute, with quotation marks if it had none."""
    return lambda unit: f"{mark}{escape(unit.marked())}{mark}"


def _language(content: str, token: Token, language: str) -> Iterator[Edit]:
    found = attribute_range(content, token, {"lang", "xml:lang"})
    for start, end in found.values():
        yield Edit(start, end, escape(language))
    if not found:
        yield Edit(token.end - 1, token.end - 1, f' lang="{escape(language)}"')


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&#160;")
