"""Tables: the rows of files with commas or tabs, and the objects of files of JSON lines.

`open_table` opens a file once and gives a `Table`, which finds columns by name or position. All
functions raise a DataError with the file and line for a file of another format.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from clearhead.data.reading.lines import MAX_LINE_BYTES, has_ending, is_read_once, read_lines
from clearhead.errors import DataError, first_few, nearest

Row = tuple[int, list[str]]
"""The number of the line where a row begins, and its cells."""

Column: TypeAlias = str | int
"""The name of a column in a table with a header, or its position, from 1, in one without."""

GROUP = "group"
"""The column whose examples belong together, such as the sequences of one person.

If some of them are trained on and others validate, the scores are too high.
"""

SHOWN_COLUMNS = 50

MOST_LINES = 10_000
"""Lines of a cell, at most; a quote that is open for longer is part of a text."""

CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
"""A line break or another control character."""

_USUAL = frozenset(("text", "label", "source", "target"))
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')
_CELL = rf'(?:{_QUOTED.pattern}|[^"\t]*)'
_ROW = re.compile(rf"{_CELL}(?:\t{_CELL})*")

# The default, 131,072 characters, is too short for a cell with a long document.
csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))


@dataclass(frozen=True)
class Table:
    """An open table: line 1, which is a header or a row like the others, and the rows after it."""

    path: str
    first: Row
    rest: Iterator[Row]

    @property
    def names(self) -> Sequence[str]:
        """The cells of line 1."""
        return self.first[1]

    @property
    def where(self) -> str:
        """The place of line 1."""
        return f"{self.path}:{self.first[0]}"

    def rows(self, *, header: bool) -> Iterator[Row]:
        """The rows, without line 1 if it is a header."""
        return self.rest if header else chain([self.first], self.rest)

    def optional(self, name: str) -> int | None:
        """The index of the column with this name, None if there is none; DataError for two."""
        count = self.names.count(name)
        if count > 1:
            raise DataError(f"there are {count} columns {name!r}", where=self.where)
        return self.names.index(name) if count else None

    def index(self, column: Column, setting: str | None = None) -> int:
        """The index of a column; DataError for none or two. See `no_column` for `setting`."""
        if isinstance(column, str):
            found = self.optional(column)
            if found is None:
                raise no_column(column, self.names, self.where, setting)
            return found
        if column > len(self.names):
            why = f"the columns are 1 to {len(self.names)}"
            raise DataError(f"there is no column {column}", where=self.where, why=why)
        return column - 1


@contextmanager
def open_table(path: str, form: Sequence[str] = ()) -> Iterator[Table]:
    """Open a table: of a `.csv` file, or of any other with tabs.

    All rows have as many cells as the first one. `form` has the names of the cells that the rows of
    a file with tabs must have, for example label and text.
    """
    with closing(_csv_rows(path) if has_ending(path, ".csv") else _tab_rows(path)) as rows:
        checked = _of_one_width(rows, path, form)
        yield Table(path, next(checked), checked)


def _of_one_width(rows: Iterator[Row], path: str, form: Sequence[str]) -> Iterator[Row]:
    expected = len(form)
    for line, row in rows:
        expected = expected or len(row)
        if len(row) != expected:
            raise DataError(
                f"the row has {len(row)} cell{'s' * (len(row) > 1)}, not {expected}",
                where=f"{path}:{line}",
                why=f"a line is {', tab, '.join(form)}" if form else "line 1 has so many",
                todo='put a cell with a comma in double quotes: "yes, please"'
                if has_ending(path, ".csv")
                else "separate the columns by one tab, and remove tabs inside texts (cut -f 2,3 "
                "FILE keeps only columns 2 and 3)",
            )
        yield line, row


def no_column(name: str, names: Sequence[str], where: str, setting: str | None = None) -> DataError:
    """The error for a column that is not among the names, or for a missing key.

    `setting` is the setting of `data` that has its name, or an option such as `--text-column`;
    None if the name is fixed.
    """
    listed = first_few(list(map(repr, names)), SHOWN_COLUMNS) or "none"
    return DataError(
        f"there is no column {name!r}",
        where=where,
        why=f"the columns are {listed}",
        todo=_instead_of(name, names, setting),
    )


def _instead_of(name: str, names: Sequence[str], setting: str | None) -> str:
    """What to do about a missing column."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        # Only texts are also read from .tsv files with a header.
        tabs = "" if setting is None else ", or by tabs and name the file .tsv"
        return f"separate the columns by commas{tabs}"
    if setting is None:
        if name == "sequence" and "text" in names:
            return 'for a classifier of texts, set input = "text" (init: without --input)'
        return f"add this column, or rename another to {name!r}"
    if "label" in setting and len(names) == 1:
        return "a file with texts alone has no labels; to predict them: clearhead classify"
    like = nearest(name, names)
    meant = f"did you mean {like!r}? " if like else ""
    value = json.dumps(like or "NAME", ensure_ascii=False)
    if setting.startswith("--"):
        return f"{meant}Name the column: {setting} {value}"
    option = f"--{setting.replace('_', '-')}"
    return f"{meant}Set data.{setting} = {value} (init and evaluate: {option})"


def _csv_rows(path: str) -> Generator[Row, None, None]:
    r"""The rows of a CSV file, the header first; empty lines between rows are skipped.

    A cell may be in double quotes; a line break in it becomes `\n`.
    """
    empty = True
    with closing(read_lines(path)) as lines:
        for line, row in _parsed(lines, path, ","):
            if row:
                empty = False
                yield line, row
    if empty:
        raise DataError("the file has only empty lines", where=path)


def _parsed(lines: Iterable[str], path: str, mark: str, before: int = 0) -> Iterator[Row]:
    """Lines as rows of CSV, of which none is longer than a line may be; [] is an empty line.

    `before` is the number of lines that come before these.
    """
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
        line, size = before + rows.line_num + 1, 0
        try:
            row = next(rows, None)
        except csv.Error as error:
            why = str(error) if "new-line" not in str(error) else "a carriage return inside a line"
            raise DataError(
                "the row is not CSV",
                where=f"{path}:{line}",
                why=why,
                todo="close each double quote, write one inside a cell twice, and put cells with "
                "line breaks in double quotes",
            ) from None
        if row is None:
            return
        yield line, row


def _tab_rows(path: str) -> Generator[Row, None, None]:
    """The rows of a file with tabs: the first line with a quote decides if cells are quoted."""
    may_be_quoted = not is_read_once(path)
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, start=1):
            if may_be_quoted and '"' in line:
                may_be_quoted = False
                if _has_quoted_cells(path):
                    rows = _parsed(chain([line], lines), path, "\t", before=number - 1)
                    yield from ((number, row or [""]) for number, row in rows)
                    return
            yield number, line.split("\t")


def _has_quoted_cells(path: str) -> bool:
    """Whether cells of a file with tabs are in double quotes as in CSV: pandas writes such files.

    Then all quotes are around cells, or written twice inside such cells, and all rows have as many
    cells. Texts may have such quotes themselves. So a cell must also have a quote that is written
    twice, or a tab or a line break, without which its lines are no rows; or line 1 has a usual name
    in quotes.
    """
    lines, expected, is_open, is_shown = list[str](), 0, False, False
    with closing(read_lines(path)) as all_lines:
        for line in all_lines:
            lines.append(line)
            is_open ^= line.count('"') % 2 == 1
            if is_open:
                if len(lines) > MOST_LINES:
                    return False
                continue
            row = "\n".join(lines)
            if '"' in row and not _ROW.fullmatch(row):
                return False
            tabs, quoted = _QUOTED.sub("", row).count("\t"), _QUOTED.findall(row)
            is_shown |= any(line.count("\t") != tabs for line in lines)
            is_shown |= any('""' in cell[1:-1] for cell in quoted)
            is_shown |= not expected and any(cell[1:-1] in _USUAL for cell in quoted)
            expected, lines = expected or 1 + tabs, []
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


def string_of(record: dict[str, Any], key: str, where: str, setting: str | None = None) -> str:
    """The string with this key in a JSON object; see `no_column` and `refuse_unwritable`."""
    if key not in record:
        raise no_column(key, list(record), where, setting)
    text = record[key]
    if not isinstance(text, str):
        raise DataError(f'"{key}" is not a string', where=where)
    refuse_unwritable(text, f'"{key}"', where)
    return text


def refuse_unwritable(text: str, what: str, where: str | None) -> None:
    """Raise a DataError for characters that are possible in JSON, but not in a text file."""
    if re.search("[\0\ud800-\udfff]", text):
        raise DataError(f"{what} has a NUL or half a character (a lone surrogate)", where=where)
