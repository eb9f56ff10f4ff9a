"""Text in paragraphs, the strings of JSON, and a column of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from clearhead.errors import DataError
from clearhead.text.spans import SOFTWARE
from clearhead.text.units import Document, Slot, Unit

PARAGRAPHS = re.compile(r"\S(?:[^\n]|\n(?!\s*(?:\n|$)))*")
"""Parts of a text that blank lines separate."""

LINES, WHOLE = re.compile(r"\S.*"), re.compile(r"\S.*", re.DOTALL)
"""The lines of a text, and the text as one part."""


def read_text(
    content: str, where: str, target_language: str = "", *, parts: re.Pattern[str] = PARAGRAPHS
) -> Document:
    """The parts of a text, by default its paragraphs."""
    slots = list[Slot]()
    line, done = 1, 0
    for found in parts.finditer(content):
        text = found[0].rstrip()
        line += content.count("\n", done, found.start())
        done = found.start()
        unit = Unit(text, f"{where}:{line}", soft=True)
        slots.append(Slot(done, done + len(text), unit, Unit.marked))
    return Document(content, slots)


_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+')


def read_json_strings(content: str, where: str, target_language: str = "") -> Document:
    """The strings of a JSON document, but not its keys.

    Raises:
        DataError: it is no JSON.
    """
    try:
        json.loads(content)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        todo = "check the file with python -m json.tool"
        raise DataError(
            "this is no JSON", where=f"{where}:{line}", why=str(error), todo=todo
        ) from None
    # In JSON that is valid, a string is a key if a colon follows.
    ascii_only = content.isascii() and "\\u" in content
    slots = list[Slot]()
    for path, start, end in _json_values(content):
        text, raw = json.loads(content[start:end]), content[start + 1 : end - 1]
        # Of each character of the text, its position in the content; and of the end.
        places = [start + 1 + found.start() for found in _CHARACTER.finditer(raw)] + [end - 1]
        if len(places) == len(text) + 1 and (branches := icu_branches(text)):
            for first, last in branches:
                unit = _branch(text[first:last], f"{where}: {path}")
                slots.append(Slot(places[first], places[last], unit, _in_json(ascii_only)))
        elif text.strip():
            slots.append(
                Slot(
                    start,
                    end,
                    Unit(text, f"{where}: {path}"),
                    lambda unit: json.dumps(unit.marked(), ensure_ascii=ascii_only),
                )
            )
    return Document(content, slots)


_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)


def _branch(text: str, place: str) -> Unit:
    """The unit of a branch, which keeps each `#`, the number of the argument."""
    spans = SOFTWARE.ranges(text)
    numbers = (found.span() for found in re.finditer("#", text))
    keep = (each for each in numbers if not any(a <= each[0] < b for a, b in spans))
    return Unit(text, place, keep=tuple(keep))


def _in_json(ascii_only: bool) -> Callable[[Unit], str]:
    return lambda unit: json.dumps(unit.marked(), ensure_ascii=ascii_only)[1:-1]


_ARGUMENT = re.compile(r"\s*\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")


def icu_branches(text: str) -> list[tuple[int, int]]:
    """The ranges of the branches of a message that is one argument of ICU, without white space.

    `{n, plural, one {# file} other {# files}}` has two branches, and those of an argument that is a
    whole branch. Other messages have none.
    """
    begun = _ARGUMENT.match(text)
    if begun is None:
        return []
    found, depth, start, end = list[tuple[int, int]](), 1, 0, 0
    for at in range(begun.end(), len(text)):
        if text[at] == "{":
            depth += 1
            start = at + 1 if depth == 2 else start
        elif text[at] == "}":
            depth -= 1
            if depth == 1:
                inner = text[start:at]
                lead = len(inner) - len(inner.lstrip())
                begin = start + lead
                within = [(begin + a, begin + b) for a, b in icu_branches(inner.strip())]
                if inner.strip():
                    found += within or [(begin, begin + len(inner.strip()))]
            elif depth == 0:
                end = at + 1
                break
    return found if end and not text[end:].strip() else []


def _json_values(content: str) -> Iterator[tuple[str, int, int]]:
    """The path of each string value, such as `menu.items.0`, and its range."""
    path: list[str | int] = []
    key, tokens = "", list(_JSON.finditer(content))
    for index, token in enumerate(tokens):
        text = token[0]
        if text in "{[":
            path.append(key if text == "{" else 0)
            path[-1] = 0 if text == "[" else ""
        elif text in "}]":
            path.pop()
        elif text == "," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif text.startswith('"'):
            if index + 1 < len(tokens) and tokens[index + 1][0] == ":":
                path[-1] = json.loads(text)
            else:
                yield ".".join(map(str, path)), token.start(), token.end()


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_column(
    content: str, where: str, target_language: str = "", column: str | int = 0, separator: str = ","
) -> Document:
    """The cells of one column of a table, by its name in the first line or by its number from 0.

    Raises:
        DataError: there is no such column, or a line has no such cell.
    """
    first_line = content.partition("\n")[0]
    if separator == "," and "," not in first_line and ";" in first_line:
        separator = ";"  # as spreadsheets write it where the comma is the decimal mark
    rows = list(_rows(content, separator))
    if isinstance(column, str):
        names = [_cell(content[start:end], separator) for start, end in rows[0][1]] if rows else []
        if column not in names:
            raise DataError(
                f"there is no column {column!r}",
                where=where,
                why=f"the columns are {', '.join(map(repr, names))}",
                todo="name one of them: --text-column NAME",
            )
        column, rows = names.index(column), rows[1:]
    slots = list[Slot]()
    for line, cells in rows:
        if column >= len(cells):
            if len(cells) == 1 and cells[0][0] == cells[0][1]:
                continue  # a blank line
            raise DataError(f"the line has no column {column + 1}", where=f"{where}:{line}")
        start, end = cells[column]
        text = _cell(content[start:end], separator)
        if text.strip():
            is_quoted = text != content[start:end]
            unit = Unit(text, f"{where}:{line}")
            slots.append(
                Slot(start, end, unit, lambda new, q=is_quoted: _quoted(new.marked(), separator, q))
            )
    return Document(content, slots)


def _rows(content: str, separator: str) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The first line of each row, from 1, and the ranges of its cells (RFC 4180)."""
    bare = re.compile(rf"[^{re.escape(separator)}\r\n]*")
    position, line = 0, 1
    while position < len(content):
        cells, first = list[tuple[int, int]](), position
        while True:
            found = _QUOTED.match(content, position) if separator != "\t" else None
            if found is None or (
                found.end() < len(content) and content[found.end()] not in f"{separator}\r\n"
            ):
                found = bare.match(content, position)
            assert found is not None
            cells.append(found.span())
            position = found.end()
            if not content.startswith(separator, position):
                break
            position += 1
        yield line, cells
        position += 2 if content.startswith("\r\n", position) else 1
        line += content.count("\n", first, position)


def _cell(raw: str, separator: str) -> str:
    is_quoted = separator != "\t" and _QUOTED.fullmatch(raw) is not None
    return raw[1:-1].replace('""', '"') if is_quoted else raw


def _quoted(text: str, separator: str, is_quoted: bool) -> str:
    if separator == "\t":
        return re.sub(r"[\t\r\n]+", " ", text)
    if is_quoted or any(character in text for character in f'{separator}"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
