"""Markdown: the inline content of headings, paragraphs, list items and cells of tables.

markdown-it-py reads CommonMark and its tables. It gives no positions of inline markup, so each rule
that reads inline markup is wrapped to note them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token as Part

from clearhead.text.documents.markup import Token, html_tokens, inline_unit
from clearhead.text.units import Document, Skipped, Slot, Unit

_FRONT_MATTER = re.compile(r"(---|\+\+\+)\r?\n.*?\r?\n\1\r?\n", re.DOTALL)
_MARKS = re.compile(r"[\\`*\[\]]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<=~)~")
_LINE_MARKS = re.compile(r"^(#{0,5}|\d{1,9})([#>+-]|(?<=\d)[.)])(?=\s|$)")


def read_markdown(content: str, where: str, target_language: str = "") -> Document:
    """The text of a Markdown document. Code, HTML blocks and front matter stay as they are."""
    slots, skipped = list[Slot](), list[Skipped]()
    for parts, place in _inlines(content, where):
        if isinstance(parts, str):
            skipped.append(Skipped(place, parts))
            continue
        for line in _lines(parts):
            tokens = list(_tokens(content, line))
            found = inline_unit(content, tokens, place, _is_kept, spaces=True)
            if found is not None:
                start, end, unit = found
                slots.append(Slot(start, end, _with_references(unit), _written))
    return Document(content, slots, skipped=skipped)


def read_attributes(content: str, where: str, target_language: str = "") -> Document:
    """The alternative texts of images, and the titles of images and links.

    They are translated before the text that they are in.
    """
    slots = list[Slot]()
    for parts, place in _inlines(content, where):
        for part, start, end in () if isinstance(parts, str) else parts:
            raw = content[start:end]
            label = (
                raw.find(part.content, 2) if raw.startswith("![") and part.content.strip() else -1
            )
            if label >= 0:
                first, last = start + label, start + label + len(part.content)
                slots.append(Slot(first, last, Unit(part.content, place), Unit.marked))
            ends = raw.endswith(")") and part.type in ("image", "link_close")
            title = _TITLE.search(raw, max(label, 0)) if ends else None
            if title and title["text"].strip():
                unit = Unit(title["text"], place)
                slots.append(
                    Slot(start + title.start("text"), start + title.end("text"), unit, _title)
                )
    return Document(content, slots)


_TITLE = re.compile(r"""[ \t\n](?P<mark>["'])(?P<text>[^"'\\&<\n]+)(?P=mark)[ \t\n]*\)$""")
"""The title at the end of a link. One with escapes stays as it is."""


def _title(unit: Unit) -> str:
    """A translated title, in which nothing ends it."""
    return re.sub(r"[\"'\\]", r"\\\g<0>", unit.marked())


Placed = tuple[Part, int, int]
"""A token of inline content, and its range in the document."""


def _inlines(content: str, where: str) -> Iterator[tuple[list[Placed] | str, str]]:
    """The tokens of each inline content, or the reason why a text stays, and its place."""
    front = _FRONT_MATTER.match(content)
    offset = front.end() if front else 0
    starts = [offset]
    for line in re.split(r"(?<=\n)", content[offset:]):
        starts.append(starts[-1] + len(line))
    first_line = 1 + content.count("\n", 0, offset)
    found_until: dict[int, int] = {}
    for block in _parser().parse(content[offset:]):
        if block.type == "inline" and block.map is not None and block.children:
            positions = _located(block.content, content, starts, block.map, found_until)
            place = f"{where}:{first_line + block.map[0]}"
            if positions is not None:
                yield list(_placed(block.children, positions)), place
            elif any(map(str.isalpha, block.content)):
                yield "with escaped bars", place
        elif block.type == "html_block" and block.map is not None and _has_text(block.content):
            yield "in HTML", f"{where}:{first_line + block.map[0]}"


def _has_text(block: str) -> bool:
    """Whether a block of HTML has words."""
    tokens = html_tokens(block)
    return any(token.kind == "text" and any(map(str.isalpha, token.text)) for token in tokens)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    rules = parser.inline.ruler
    for rule in rules.__rules__:
        rule.fn = _noting(rule.fn)
    rules.__cache__ = None
    return parser


def _noting(rule: Callable[[Any, bool], bool]) -> Callable[[Any, bool], bool]:
    """A rule of inline markup that notes the range of each token, and the end of a link's label."""

    def wrapped(state: Any, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        is_link = not silent and state.src.startswith("[", start)
        label = state.md.helpers.parseLinkLabel(state, start) if is_link else -1
        found = rule(state, silent)
        if found and not silent:
            for token in state.tokens[count:]:
                token.meta.setdefault("range", (start, state.pos))
                token.meta.setdefault("label", label)
        return found

    return wrapped


def _located(
    inline: str,
    content: str,
    starts: Sequence[int],
    lines: Sequence[int],
    found_until: dict[int, int],
) -> list[int] | None:
    """The position in the document of each character of an inline content, and of its end.

    The lines of a block have marks of quotations and indentation, which its content has not. None
    if the content is not there as it is, such as a cell with an escaped bar.
    """
    positions = list[int]()
    line, last = lines
    for number, text in enumerate(inline.split("\n")):
        stripped = text.rstrip()
        if number:
            positions.append(starts[line] - 1)
        if line >= last:
            return None
        begin = max(found_until.get(line, 0), starts[line])
        at = content.find(stripped, begin, starts[line + 1])
        if at < 0:
            return None
        positions += range(at, at + len(text))
        found_until[line] = at + len(stripped)
        line += 1
    return [*positions, positions[-1] + 1]


def _placed(children: Sequence[Part], positions: Sequence[int]) -> Iterator[Placed]:
    """Each token with its range; that of a text is between those of the tokens beside it."""
    ranges = _ranges(children, positions)
    following, done = positions[-1], positions[0]
    ends = list[int]()
    for part, (start, _) in zip(reversed(children), reversed(ranges), strict=True):
        ends.append(following)
        following = following if part.type == "text" else start
    for part, (start, end), until in zip(children, ranges, reversed(ends), strict=True):
        if part.type == "text":
            yield part, done, until
        else:
            yield part, start, end
            done = end


def _ranges(children: Sequence[Part], positions: Sequence[int]) -> list[tuple[int, int]]:
    """The range of the markup of each token. A link has one at each end of its text."""
    found = [
        (positions[part.meta["range"][0]], positions[part.meta["range"][1]])
        if "range" in part.meta
        else (0, 0)
        for part in children
    ]
    for index, part in enumerate(children):
        if part.type == "link_open" and part.markup != "autolink":
            close = next(i for i in range(index, len(children)) if children[i].type == "link_close")
            start, end = found[index]
            label = part.meta["label"]
            found[index] = start, start + 1
            found[close] = positions[label], end
    return found


def _lines(parts: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    """The parts between hard line breaks."""
    first = 0
    for index, (part, _, _) in enumerate(parts):
        if part.type == "hardbreak":
            yield parts[first:index]
            first = index + 1
    yield parts[first:]


def _with_references(unit: Unit) -> Unit:
    """The unit with the label of each link that refers to a definition by its text."""
    tags = (
        tag._replace(closing=f"][{unit.text[tag.start : tag.end]}]")
        if tag.opening == "[" and tag.closing in ("]", "][]")
        else tag
        for tag in unit.tags
    )
    return replace(unit, tags=tuple(tags))


_FORMS = re.compile(
    r"\[\^[^\[\]\s]+\]|^\[[ xX]\](?=\s)|^\[![A-Z]+\]"
    r"|(?:https?|ftp)://[^\s<>]*[^\s<>.,;:!?*_~\"')\]]"
)
"""Footnotes, boxes of tasks, kinds of notes, and links: extensions of Markdown that are no text."""


def _tokens(content: str, parts: Sequence[Placed]) -> Iterator[Token]:
    """Inline content as tokens of markup."""
    is_link, note = False, -1
    for part, start, end in parts:
        kind = part.type
        if kind == "link_open" and content.startswith("[^", start):
            note = start
        if note >= 0:  # a footnote whose definition looks like that of a link
            if kind == "link_close":
                yield Token("empty", note, end, "form")
                note = -1
            continue
        if kind == "text":
            if is_link:
                continue
            done = start
            if content[start:end] == part.content:
                for found in _FORMS.finditer(part.content):
                    first, last = start + found.start(), start + found.end()
                    if done < first:
                        yield Token("text", done, first, text=content[done:first])
                    yield Token("empty", first, last, "form")
                    done = last
            if done < end or start == end:
                text = part.content if done == start else content[done:end]
                yield Token("text", done, end, text=text)
        elif kind == "softbreak":
            yield Token("text", start, end, text=" ")
        elif kind == "html_inline":
            token = html_tokens(part.content)[0]
            yield Token(token.kind, start, end, token.name, token.attributes)
        elif part.markup == "autolink":
            is_link = kind == "link_open"
            if is_link:
                yield Token("empty", start, end, "autolink")
        elif kind.endswith("_open"):
            yield Token("start", start, end, kind.removesuffix("_open"))
        elif kind.endswith("_close"):
            yield Token("end", start, end, kind.removesuffix("_close"))
        else:  # code_inline, image
            yield Token("empty", start, end, kind)


def _is_kept(token: Token) -> bool:
    return token.name in ("code_inline", "autolink", "form", "code", "kbd", "samp", "tt", "var")


def _written(unit: Unit) -> str:
    """A translation in Markdown; characters that would be markup are escaped."""
    text = unit.marked(lambda text: _MARKS.sub(r"\\\g<0>", text))
    return _LINE_MARKS.sub(r"\g<1>\\\g<2>", text)
