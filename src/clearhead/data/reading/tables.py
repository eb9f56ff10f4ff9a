"""Rows of text files: CSV, tab-separated, and JSON lines; columns by name or position.

All functions raise a DataError with the file and line for a file of another format.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from clearhead.data.reading.lines import MAX_LINE_BYTES, read_lines
from clearhead.errors import DataError, first_few, nearest

Row = tuple[int, list[str]]
"""The number of the line where a row begins, and its cells."""

Column: TypeAlias = str | int
"""The name of a column in a table with a header, or its position, from 1, in one without."""

FIXED_COLUMNS = {
    "source": "has the sentence to translate",
    "target": "has its translation",
    "sequence": "names the sequence that the frame of its row belongs to",
    "file": "names the file that the label of its row is for",
}
"""The meaning of the columns whose names cannot be changed by a setting."""

SHOWN_COLUMNS = 50

MOST_LINES = 10_000
"""Lines of a cell, at most; a quote that is open for longer is part of a text."""

_USUAL = frozenset(("text", "label", "source", "target"))
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')
_CELL = rf'(?:{_QUOTED.pattern}|[^"\t]*)'
_ROW = re.compile(rf"{_CELL}(?:\t{_CELL})*")
_OPEN_ROW = re.compile(rf'(?:{_CELL}\t)*"[^"]*(?:""[^"]*)*')
"""A cell in double quotes; a row; the first line of a row whose last cell goes on."""

CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
"""A line break or another control character."""

# The default, 131,072 characters, is too short for a cell with a long document.
csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))


class Header(NamedTuple):
    """The columns of a table or the keys of a JSON object, with their file and line."""

    names: Sequence[str]
    where: str

    def optional(self, name: str) -> int | None:
        """The index of the column with this name, None if there is none; DataError for two."""
        count = self.names.count(name)
        if count > 1:
            raise DataError(f"there are {count} columns {name!r}", where=self.where)
        return self.names.index(name) if count else None

    def column(self, name: str, setting: str | None = None) -> int:
        """The index of the column with this name; DataError for none or two.

        `setting` is the setting of `data` that has the name, or an option such as `--text-column`;
        None if the name is fixed.
        """
        found = self.optional(name)
        if found is None:
            names = first_few(list(map(repr, self.names)), SHOWN_COLUMNS) or "none"
            what, why = f"there is no column {name!r}", f"the columns are {names}"
            raise DataError(what, where=self.where, why=why, todo=self._instead_of(name, setting))
        return found

    def _instead_of(self, name: str, setting: str | None) -> str:
        """What to do about a missing column."""
        if len(self.names) == 1 and any(mark in self.names[0] for mark in ";\t"):
            # Only texts are also read from .tsv files with a header.
            tabs = "" if setting is None else ", or by tabs and name the file .tsv"
            return f"separate the columns by commas{tabs}"
        like = nearest(name, self.names)
        meant = f"did you mean {like!r}? " if like else ""
        if setting is None:
            if name == "sequence" and "text" in self.names:
                return 'for a classifier of texts, set input = "text" (init: without --input)'
            change = f"Rename it to {name!r}" if like else "add this column"
            return f"{meant}{change}: it {FIXED_COLUMNS[name]}"
        value = json.dumps(like or "NAME", ensure_ascii=False)
        if setting.startswith("--"):
            return f"{meant}Name the column: {setting} {value}"
        start = f"{meant}Set" if like else "rename a column, or set"
        option = f"--{setting.replace('_', '-')}"
        return f"{start} data.{setting} = {value} (init and evaluate: {option})"


@contextmanager
def csv_table(path: str) -> Iterator[tuple[Header, Iterator[Row]]]:
    """The header of an open CSV file and its other rows; `read_csv` has the rules and errors."""
    with closing(read_csv(path)) as rows:
        line, names = next(rows)
        yield Header(names, f"{path}:{line}"), rows


def is_csv(path: str) -> bool:
    """Whether a table has commas and quotes, by its name; otherwise it has tabs."""
    return path.lower().removesuffix(".gz").endswith(".csv")


def read_rows(path: str) -> Generator[Row, None, None]:
    """The rows of a table: those of `read_csv` or `read_tsv`, by its name."""
    return read_csv(path) if is_csv(path) else read_tsv(path)


def read_csv(path: str, mark: str = ",") -> Generator[Row, None, None]:
    r"""The rows of a CSV file, the header first.

    Commas, or another `mark`, separate cells. A cell may be in double quotes; a line break in it
    becomes `\n`. Empty lines between rows are skipped. All rows have as many cells as the header.
    """
    columns = 0
    with closing(read_lines(path)) as lines:
        size = 0

        def of_one_row() -> Iterator[str]:
            nonlocal size
            for line in lines:
                size += len(line) + 1
                if size > MAX_LINE_BYTES:
                    raise csv.Error(f"field larger than {MAX_LINE_BYTES // 2**20} MiB")
                yield line + "\n"

        rows = csv.reader(of_one_row(), delimiter=mark, strict=True)
        while True:
            line, size = rows.line_num + 1, 0
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise _not_csv(f"{path}:{line}", str(error)) from None
            if row is None:
                break
            columns = columns or len(row)
            if row and len(row) != columns:
                what = f"the row has {len(row)} cells, the header {columns}"
                todo = 'put a cell with a comma in double quotes: "yes, please"'
                raise DataError(what, where=f"{path}:{line}", todo=todo)
            if row:
                yield line, row
    if columns == 0:
        raise DataError("the file has only empty lines", where=path)


def _not_csv(where: str, why: str) -> DataError:
    todo = 'write a double quote inside a cell twice: "she said ""no"""'
    # An error at the end of the file, or at the limit of the csv module, is usually an open quote.
    if "unexpected end of data" in why or "field larger" in why:
        todo = "look for a double quote that is not closed after this line"
        todo += ", or for a cell that is too long" if "field larger" in why else ""
    elif "new-line" in why:
        why, todo = "a carriage return inside a line", "put cells with line breaks in double quotes"
    return DataError("the row is not CSV", where=where, why=why, todo=todo)


def read_tsv(path: str, cells: Sequence[str] = ()) -> Generator[Row, None, None]:
    """The rows of a file with tabs: its lines, or rows of CSV if the cells are quoted.

    Each row must have these cells (for example label and text), or as many as the first one.
    """
    form, expected = ", tab, ".join(cells) or "like the first line", len(cells)
    lines = ((number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1))
    for number, row in read_csv(path, "\t") if _has_quoted_cells(path) else lines:
        expected = expected or len(row)
        if len(row) != expected:
            what, why = f"the line is not {form}", f"it has {len(row) - 1} tabs, not {expected - 1}"
            todo = "separate the columns by one tab"
            if len(row) > expected:
                todo = "remove tabs inside texts"
                todo += "; cut -f 2,3 FILE keeps only columns 2 and 3" if cells else ""
            raise DataError(what, where=f"{path}:{number}", why=why, todo=todo)
        yield number, row


def _has_quoted_cells(path: str) -> bool:
    """Whether cells of a file with tabs are in double quotes as in CSV: pandas writes such files.

    Then all quotes are around cells, or written twice inside such cells, and all rows have as many
    cells. Texts may have such quotes themselves. So a cell must also have a quote that is written
    twice, or a tab or a line break, without which its lines are no rows; or line 1 has a usual name
    in quotes.
    """
    expanded = os.path.expanduser(path)
    if not os.path.isfile(expanded):
        return False  # a pipe is read only once
    found = os.stat(expanded)
    return _is_quoted(path, (found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=32)  # training opens a file several times
def _is_quoted(path: str, version: tuple[int, ...]) -> bool:
    lines, expected, is_open, is_shown = list[str](), 0, False, False
    with closing(read_lines(path)) as all_lines:
        for line in all_lines:
            lines.append(line)
            is_open ^= line.count('"') % 2 == 1
            if is_open:
                if len(lines) > MOST_LINES or (len(lines) == 1 and not _OPEN_ROW.fullmatch(line)):
                    return False
                continue
            tabs = line.count("\t")
            if len(lines) > 1 or '"' in line:
                row = "\n".join(lines)
                if not _ROW.fullmatch(row):
                    return False
                tabs = _QUOTED.sub("", row).count("\t")
                is_shown |= any(line.count("\t") != tabs for line in lines)
                quoted = [cell[1:-1] for cell in _QUOTED.findall(row)]
                is_shown |= any('"' in cell for cell in quoted)
                is_shown |= not expected and not _USUAL.isdisjoint(quoted)
            lines = []
            expected = expected or 1 + tabs
            if 1 + tabs != expected:
                return False
    return is_shown and not is_open


def read_jsonl(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with one in each line, with the numbers of the lines."""
    for number, line in enumerate(read_lines(path), start=1):
        why = None
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            record, why = None, str(error)
            if isinstance(error, json.JSONDecodeError):
                why = f"{error.msg}, at character {error.pos + 1}"
        if not isinstance(record, dict):
            raise DataError("the line is not a JSON object", where=f"{path}:{number}", why=why)
        yield number, record


def value_of(record: dict[str, Any], key: str, where: str, setting: str | None = None) -> Any:
    """The value with this key in a JSON object; `setting` as for `Header.column`."""
    if key not in record:
        Header(list(record), where).column(key, setting)
    return record[key]


def string_of(record: dict[str, Any], key: str, where: str, setting: str | None = None) -> str:
    """The string with this key in a JSON object; see `value_of` and `refuse_unwritable`."""
    text = value_of(record, key, where, setting)
    if not isinstance(text, str):
        raise DataError(f'"{key}" is not a string', where=where)
    refuse_unwritable(text, f'"{key}"', where)
    return text


def refuse_unwritable(text: str, what: str, where: str | None) -> None:
    """Raise a DataError for characters that are possible in JSON, but not in a text file."""
    if re.search("[\0\ud800-\udfff]", text):
        raise DataError(f"{what} has a NUL or half a character (a lone surrogate)", where=where)
