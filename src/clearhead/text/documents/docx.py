"""Word documents (.docx, ECMA-376): the paragraphs of the text, headers, footers and notes."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Literal, NamedTuple

from clearhead.errors import DataError
from clearhead.text.documents.markup import Token, end_of, xml_tokens
from clearhead.text.units import Document, Skipped, Slot, Tag, Unit

_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
MOST_BYTES = 2**25  # of the parts with text together: a small file can hold very large ones

UNSEEN = frozenset(("proofErr", "lastRenderedPageBreak", "softHyphen"))
"""Elements that do not show in the text."""

POINTS = frozenset(("bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd"))
"""Elements between runs that mark a point of the text."""

NESTED = "paragraph"
"""The name of a token in place of a paragraph within another one, in a text box."""

_UNIMPORTANT = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^<>]*/>")
_EMPTY = re.compile(r"<(?:\w+:)?rPr\s*/>|<(?:\w+:)?rPr>\s*</(?:\w+:)?rPr>|")


def parts_of(data: bytes, where: str) -> dict[str, str]:
    """The XML of each part of a document that has text, by its name.

    Raises:
        DataError: it is no Word document, or a part is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if _PARTS.fullmatch(name)]
            if (size := sum(archive.getinfo(name).file_size for name in names)) > MOST_BYTES:
                why = f"its text has {size:,} bytes as XML; {MOST_BYTES:,} are read at most"
                raise DataError("the document is too large", where=where, why=why)
            found = {name: archive.read(name).decode() for name in names}
    except _DAMAGE as error:
        raise _unreadable(where, error) from None
    if "word/document.xml" not in found:
        raise DataError("this is no Word document", where=where, why="it has no word/document.xml")
    return found


def with_parts(data: bytes, parts: dict[str, str], where: str) -> bytes:
    """A document with other content in some of its parts; all others stay as they are."""
    written = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(written, "w") as new:
            for info in old.infolist():
                content = parts.get(info.filename)
                new.writestr(info, old.read(info) if content is None else content.encode())
    except _DAMAGE as error:
        raise _unreadable(where, error) from None
    return written.getvalue()


_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError),
    *(UnicodeDecodeError, NotImplementedError, RuntimeError),
)
"""What the library raises for a damaged archive, or one that it cannot read."""


def _unreadable(where: str, error: Exception) -> DataError:
    what, todo = "this is no Word document", "save it as .docx"
    return DataError(what, where=where, why=str(error), todo=todo)


def read_part(content: str, where: str, target_language: str = "") -> Document:
    """The paragraphs of a part. Runs of other formatting and links are tags."""
    tokens, slots, skipped = xml_tokens(content, where), list[Slot](), list[Skipped]()
    for number, paragraph in enumerate(_paragraphs(tokens), start=1):
        place = f"{where}: paragraph {number}"
        found = list(_slots(content, paragraph, place))
        slots += found
        if _letters(_texts(paragraph)) > sum(_letters(slot.unit.text) for slot in found):
            skipped.append(Skipped(place, "has text in a form, a formula or a tracked change"))
    return Document(content, sorted(slots), skipped=skipped)


def _texts(paragraph: Sequence[Token]) -> str:
    """The text of a paragraph, wherever it is."""
    found, within = "", False
    for token in paragraph:
        if token.name == "t":
            within = token.kind == "start"
        elif within:
            found += token.text
    return found


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _paragraphs(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens in each paragraph, without those of paragraphs within it (in text boxes)."""
    stack: list[list[Token]] = []
    for token in tokens:
        if token.kind == "start" and token.name == "p":
            stack.append([])
        elif token.kind == "end" and token.name == "p":
            yield stack.pop()
            if stack:
                stack[-1].append(Token("other", token.start, token.end, NESTED))
        elif stack:
            stack[-1].append(token)


class _Piece(NamedTuple):
    """A part of a row in content[start:end]: text with its properties, a link's end, or other.

    `raw` is what is written of a part that is no text.
    """

    start: int
    end: int
    kind: Literal["text", "link", "end of link", "other"]
    properties: str = ""
    text: str = ""
    raw: str = ""


def _slots(content: str, paragraph: Sequence[Token], place: str) -> Iterator[Slot]:
    """A slot for each row of runs of a paragraph; other elements than runs and links end a row."""
    row, index, links = list[_Piece](), 0, set[int]()
    while index < len(paragraph):
        token, end = paragraph[index], end_of(paragraph, index)
        inner = paragraph[index + 1 : end]
        if token.name == "hyperlink" and token.kind == "start" and _has_runs_only(inner):
            raw = content[token.start : token.end]
            row.append(_Piece(token.start, token.end, "link", raw=raw))
            links.add(end)
            index += 1
            continue
        if index in links:
            raw = content[token.start : token.end]
            row.append(_Piece(token.start, token.end, "end of link", raw=raw))
        elif token.name == "r" and token.kind == "start" and not _has_nested(inner):
            end = _end_of_field(paragraph, index, end)
            row += _pieces(content, paragraph[index : end + 1])
        elif token.name in POINTS:
            raw = content[token.start : paragraph[end].end]
            row.append(_Piece(token.start, paragraph[end].end, "other", raw=raw))
        elif token.name not in UNSEEN:
            yield from _slot(content, row, place)
            row = []
            if token.name == "hyperlink" and token.kind == "start":
                end = index  # its runs are a row of their own
        index = end + 1
    yield from _slot(content, row, place)


def _has_nested(tokens: Sequence[Token]) -> bool:
    return any(token.name == NESTED for token in tokens)


def _has_runs_only(tokens: Sequence[Token]) -> bool:
    """Whether the content of a link is runs, and points between them."""
    index = 0
    while index < len(tokens):
        token, end = tokens[index], end_of(tokens, index)
        is_run = token.name == "r" and not _has_nested(tokens[index:end])
        if not (is_run or token.name in UNSEEN | POINTS or not token.text.strip()):
            return False
        if token.kind in ("start", "empty") and not is_run and token.name not in UNSEEN | POINTS:
            return False
        index = end + 1
    return True


def _end_of_field(paragraph: Sequence[Token], index: int, end: int) -> int:
    """The end of the run with which a field ends, if one begins in this run; or `end`."""
    depth = 0
    for at in range(index, len(paragraph)):
        token = paragraph[at]
        if token.name == "fldChar":
            kind = next((v for k, v in token.attributes.items() if k.endswith("fldCharType")), "")
            depth += {"begin": 1, "end": -1}.get(kind, 0)
        if at >= end and depth <= 0 and token.name == "r" and token.kind == "end":
            return at
    return end


def _pieces(content: str, run: Sequence[Token]) -> Iterator[_Piece]:
    """The parts of a run, or of the runs of a field, which is one part."""
    start, end = run[0].start, run[-1].end
    is_field = any(token.name == "fldChar" for token in run)
    if is_field or not any(token.name in ("t", "tab", "br") for token in run):
        yield _Piece(start, end, "other", raw=content[start:end])
        return
    opening, closing = content[start : run[0].end], content[run[-1].start : end]
    properties, text, index = "", "", 1
    while index < len(run) - 1:
        token, last = run[index], end_of(run, index)
        raw = content[token.start : run[last].end]
        if token.name == "rPr":
            opening, properties = opening + raw, _UNIMPORTANT.sub("", raw)
            properties = "" if _EMPTY.fullmatch(properties) else properties
        elif token.name == "t":
            text += "".join(each.text for each in run[index : last + 1])
        elif token.name in ("tab", "br") and not token.attributes:
            text += {"tab": "\t", "br": "\n"}[token.name]
        elif token.name == "noBreakHyphen":
            text += "\u2011"
        elif token.name not in UNSEEN and raw.strip():
            if text:
                yield _Piece(start, end, "text", properties, text)
            yield _Piece(start, end, "other", raw=opening + raw + closing)
            text = ""
        index = last + 1
    if text:
        yield _Piece(start, end, "text", properties, text)


def _slot(content: str, row: Sequence[_Piece], place: str) -> Iterator[Slot]:
    """The slot of a row of runs, if they have text."""
    texts = [piece for piece in row if piece.kind == "text"]
    if not "".join(piece.text for piece in texts).strip():
        return
    # The properties of most of the text are those outside of tags.
    amounts = Counter[str]()
    for piece in texts:
        amounts[piece.properties] += len(piece.text)
    base = amounts.most_common(1)[0][0]
    prefix = re.match(r"<(\w+:)?", content[texts[0].start : texts[0].end])
    w = (prefix[1] or "") if prefix else ""
    close = f"</{w}t></{w}r>"

    def opened(properties: str) -> str:
        return f'<{w}r>{properties}<{w}t xml:space="preserve">'

    text, tags, link = "", list[Tag](), -1
    before = _Piece(0, 0, "other")
    for piece in row:
        raw = piece.raw
        if piece.kind == "link":
            link = len(tags)
            tags.append(Tag(len(text), len(text), f"{close}{raw}{opened(base)}"))
        elif piece.kind == "end of link" and link >= 0:
            closing = f"{close}{raw}{opened(base)}"
            tags[link] = tags[link]._replace(end=len(text), closing=closing)
            link = -1
        elif piece.kind == "other":
            tags.append(Tag(len(text), len(text), f"{close}{raw}{opened(base)}", "", link))
        elif piece.kind == "text":
            is_same = before.kind == "text" and before.properties == piece.properties
            if piece.properties != base and is_same and tags:
                tags[-1] = tags[-1]._replace(end=len(text) + len(piece.text))
            elif piece.properties != base:
                opening, closing = f"{close}{opened(piece.properties)}", f"{close}{opened(base)}"
                end = len(text) + len(piece.text)
                tags.append(Tag(len(text), end, opening, closing, link))
            text += piece.text
        before = piece
    # White space stays within the unit beside something else, such as a note.
    inner = text.lstrip() if row[0].kind == "text" else text
    lead = text[: len(text) - len(inner)]
    bare = inner.rstrip() if row[-1].kind == "text" else inner
    inner, tail = bare, inner[len(bare) :]

    def moved(position: int) -> int:
        return min(max(position - len(lead), 0), len(inner))

    def escaped(part: str) -> str:
        found = escape(part, quote=False)
        again = f'<{w}t xml:space="preserve">'
        for character, name in (("\t", "tab"), ("\n", "br"), ("\u2011", "noBreakHyphen")):
            found = found.replace(character, f"</{w}t><{w}{name}/>{again}")
        return found

    def write(unit: Unit) -> str:
        runs = opened(base) + escaped(lead) + unit.marked(escaped) + escaped(tail) + close
        runs = runs.replace(f'<{w}t xml:space="preserve"></{w}t>', "")
        return re.sub(rf"<{w}r>(?:<{w}rPr>(?:(?!</{w}rPr>).)*</{w}rPr>)?</{w}r>", "", runs)

    placed = tuple(tag._replace(start=moved(tag.start), end=moved(tag.end)) for tag in tags)
    yield Slot(row[0].start, row[-1].end, Unit(inner, place, placed), write)
