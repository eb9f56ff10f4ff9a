"""XML and HTML as flat lists of tokens with their ranges, and inline markup as units.

The parsers of the standard library read the content. Only their positions are used to change it, so
the rest of a file stays as it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Literal
from xml.parsers import expat

from clearhead.errors import DataError
from clearhead.text.units import Tag, Unit

Kind = Literal["start", "end", "empty", "text", "kept", "other"]


@dataclass(frozen=True, slots=True)
class Token:
    """A tag, a piece of text, or something else (a comment, a kept element), at content[start:end].

    `text` is that of a piece, without escapes. Names of XML have no prefix.
    """

    kind: Kind
    start: int
    end: int
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


def xml_parser(where: str, encoding: str | None = None) -> expat.XMLParserType:
    """A parser of XML that refuses declarations of entities with a `DataError`."""
    parser = expat.ParserCreate(encoding)

    def refuse(*_: object) -> None:
        raise DataError(
            "the document declares entities",
            where=f"{where}:{parser.CurrentLineNumber}",
            why="their text may be of any size, or of another file",
            todo="replace the entities by their text",
        )

    parser.EntityDeclHandler = refuse
    return parser


def parse(parser: expat.XMLParserType, data: bytes, is_last: bool, where: str) -> None:
    """Parse a part of a document.

    Raises:
        DataError: it is not well-formed, or it declares entities.
    """
    try:
        parser.Parse(data, is_last)
    except expat.ExpatError as error:
        raise DataError(
            "this is no well-formed XML",
            where=f"{where}:{error.lineno}",
            why=expat.ErrorString(error.code),
            todo="check the file with xmllint",
        ) from None


def xml_tokens(content: str, where: str) -> list[Token]:
    """The tokens of an XML document.

    Raises:
        DataError: it is not well-formed, or it declares entities.
    """
    data = content.encode("utf-8", "surrogatepass")
    parser = xml_parser(where, "utf-8")
    parser.buffer_text = False
    found: list[tuple[Kind, int, str, Mapping[str, str], str]] = []

    def add(kind: Kind, name: str = "", attributes: Mapping[str, str] = {}, text: str = "") -> None:
        found.append((kind, parser.CurrentByteIndex, name, attributes, text))

    parser.StartElementHandler = lambda name, attributes: add("start", _local(name), attributes)
    parser.EndElementHandler = lambda name: add("end", _local(name))
    parser.CharacterDataHandler = lambda text: add("text", text=text)
    parser.CommentHandler = lambda _: add("other")
    parser.ProcessingInstructionHandler = lambda *_: add("other")
    parser.StartCdataSectionHandler = lambda: add("other")
    parser.EndCdataSectionHandler = lambda: add("other")
    parse(parser, data, True, where)
    at = _characters(data, sorted({start for _, start, *_ in found}), len(content))
    tokens: list[Token] = []
    for index, (kind, start, name, attributes, text) in enumerate(found):
        end = found[index + 1][1] if index + 1 < len(found) else len(data)
        if (
            kind == "end"
            and index
            and found[index - 1][0] == "start"
            and data[start - 2 : start] == b"/>"
        ):
            opened = tokens[-1]
            if opened.name == name and opened.end == at[start]:
                tokens[-1] = Token("empty", opened.start, opened.end, name, opened.attributes)
                continue
        tokens.append(Token(kind, at[start], at.get(end, len(content)), name, attributes, text))
    return tokens


def end_of(tokens: Sequence[Token], start: int) -> int:
    """The index of the last token of the element of XML that begins at an index."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"start": 1, "end": -1}.get(tokens[index].kind, 0)
        if depth <= 0:
            return index
    return len(tokens) - 1


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _characters(data: bytes, offsets: Sequence[int], length: int) -> dict[int, int]:
    """The number of the character that begins at each offset of UTF-8 bytes."""
    found, done, characters = dict[int, int](), 0, 0
    for offset in offsets:
        characters += len(data[done:offset].decode("utf-8", "surrogatepass"))
        found[offset], done = characters, offset
    return found | {len(data): length}


class _HTML(HTMLParser):
    """Collects the tokens of HTML."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self._content = content
        starts = [0, *(found.end() for found in re.finditer("\n", content))]
        self._line_starts = starts
        self.feed(content)
        self.close()
        ends = [*(token.start for token in self.tokens[1:]), len(content)]
        self.tokens = [
            replace(token, end=end, text=html.unescape(content[token.start : end]))
            if token.kind == "text" and content.startswith("&", token.start)
            else replace(token, end=end)
            for token, end in zip(self.tokens, ends, strict=False)
        ]

    def _add(self, kind: Kind, name: str = "", attributes: object = (), text: str = "") -> None:
        line, column = self.getpos()
        start = self._line_starts[line - 1] + column
        named = {key: value or "" for key, value in attributes}  # type: ignore[attr-defined]
        self.tokens.append(Token(kind, start, start, name, named, text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("empty" if tag in VOID else "start", tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("empty", tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        self._add("text", text=data)

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        # The method of the library asserts that a name follows.
        if self.rawdata.startswith("<![CDATA[", i):
            return super().parse_marked_section(i, report)
        return self.parse_bogus_comment(i, report)

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements of HTML without content."""


def html_tokens(content: str) -> list[Token]:
    """The tokens of HTML, which need not be well-formed."""
    return _HTML(content).tokens


def inline_unit(
    content: str,
    tokens: Sequence[Token],
    place: str,
    keep: Callable[[Token], bool] = lambda token: False,
    spaces: bool = False,
) -> tuple[int, int, Unit] | None:
    """The range and the unit of inline markup; None if it has no text.

    White space and markup without text at both ends stay outside. Elements for which `keep` is true
    are kept with their content; alone they are no text. With `spaces`, white space counts as one
    space, but not beside an element without text, such as an image.
    """
    tokens = _trimmed(list(_kept(tokens, keep)))
    if not any(token.kind == "text" and token.text.strip() for token in tokens):
        return None
    text = ""
    kept: list[tuple[int, int]] = []
    tags: list[Tag] = []
    open_tags: list[int] = []
    names: list[str] = []
    beside = False  # an element without text
    for token in tokens:
        raw = content[token.start : token.end]
        if token.kind == "text":
            piece = re.sub(r"[ \t\n\r\f]+", " ", token.text) if spaces else token.text
            text += (
                piece.removeprefix(" ") if spaces and text.endswith(" ") and not beside else piece
            )
            beside = False
        elif token.kind == "kept":
            kept.append((len(text), len(text) + len(raw)))
            text += raw
            beside = False
        elif token.kind == "end" and token.name in names:
            while True:
                name, number = names.pop(), open_tags.pop()
                if name == token.name:
                    tags[number] = tags[number]._replace(end=len(text), closing=raw)
                    beside = beside or tags[number].start == len(text)
                    break
        else:
            if token.kind == "start":
                open_tags.append(len(tags))
                names.append(token.name)
            beside = beside or token.kind == "empty"
            parent = next((i for i in reversed(open_tags) if i < len(tags)), -1)
            tags.append(Tag(len(text), len(text), raw, "", parent))
    start, end = tokens[0].start, tokens[-1].end
    lead, inner = 0, text
    if tokens[0].kind == "text":
        start += _spaces(content[tokens[0].start : tokens[0].end])
        inner = inner.lstrip()
        lead = len(text) - len(inner)
    if tokens[-1].kind == "text":
        end -= _spaces(content[tokens[-1].start : tokens[-1].end][::-1])
        inner = inner.rstrip()

    def moved(position: int) -> int:
        return min(max(position - lead, 0), len(inner))

    unit = Unit(
        inner,
        place,
        tuple(_with_open_parents(tags, moved)),
        tuple((moved(first), moved(last)) for first, last in kept),
    )
    return start, end, unit


def _spaces(raw: str) -> int:
    return len(raw) - len(raw.lstrip())


def _with_open_parents(tags: Sequence[Tag], moved: Callable[[int], int]) -> Iterator[Tag]:
    """The tags where they are after a move; an element that is never closed has none within it."""
    for tag in tags:
        parent = tag.parent
        while parent >= 0 and not tags[parent].closing:
            parent = tags[parent].parent
        yield tag._replace(start=moved(tag.start), end=moved(tag.end), parent=parent)


def _kept(tokens: Sequence[Token], keep: Callable[[Token], bool]) -> Iterator[Token]:
    """The tokens, with each element for which `keep` is true as one token."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind in ("start", "empty") and keep(token):
            closing = index if token.kind == "empty" else _closing(tokens, index)
            if closing >= 0:
                yield Token("kept", token.start, tokens[closing].end, token.name)
                index = closing + 1
                continue
        yield token
        index += 1


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without those at both ends that hold no text: white space, comments, elements."""
    first, last = 0, len(tokens)
    while first < last:
        token, end = tokens[first], tokens[last - 1]
        if token.kind in ("other", "empty") or (token.kind == "text" and not token.text.strip()):
            first += 1
        elif end.kind in ("other", "empty") or (end.kind == "text" and not end.text.strip()):
            last -= 1
        elif token.kind == "start" and _closing(tokens, first) == last - 1:
            first, last = first + 1, last - 1
        else:
            break
    return tokens[first:last]


def _closing(tokens: Sequence[Token], start: int) -> int:
    """The index of the token that closes an element; -1 if none does."""
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token.name == tokens[start].name:
            depth += {"start": 1, "end": -1}.get(token.kind, 0)
        if depth == 0:
            return index
    return -1


def attribute_range(
    content: str, token: Token, names: Collection[str]
) -> dict[str, tuple[int, int]]:
    """The range of the value of each of these attributes in a tag, without quotation marks."""
    found: dict[str, tuple[int, int]] = {}
    raw = content[token.start : token.end]
    for match in _ATTRIBUTE.finditer(raw):
        name = match["name"].lower()
        group = next(group for group in ("double", "single", "bare") if match[group] is not None)
        if name in names and name not in found:
            found[name] = token.start + match.start(group), token.start + match.end(group)
    return found


_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s"'<>/=]+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+))"""
)
