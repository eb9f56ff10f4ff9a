"""CSV files with a header: their rows as a stream, their columns by name."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator, Sequence
from contextlib import closing

from clearhead.data.readers import MAX_LINE_BYTES, read_lines
from clearhead.errors import DataError
from clearhead.settings.nearest import nearest

FIXED = {
    "sequence": "says which rows, one after the other, belong together",
    "file": "says which file the label of its row is for",
}
"""What the columns say whose names no setting can change; all are of feature sequences."""

DEFAULTS = {"text": "text_column", "label": "label_column"}
"""The names that are looked for unless a setting, these of `data`, says another."""

# Else a cell ends at 131,072 characters, which a long document has.
csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))


def read_csv(path: str) -> Generator[tuple[int, list[str]], None, None]:
    r"""The rows of a CSV file, the header first, each with the number of the line it begins at.

    Cells are separated by commas and may stand in double quotes, where a line break is part of
    the cell and reads `\n`. Empty lines between rows are passed over.

    Raises:
        DataError: the file is missing, unreadable, empty or not CSV, or a row has more or fewer
            cells than the header.
    """
    columns = 0
    with closing(read_lines(path)) as lines:
        rows = csv.reader((line + "\n" for line in lines), strict=True)
        while True:
            number = rows.line_num + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise _broken(f"{path}:{number}", str(error)) from None
            if row is None:
                break
            if not row:
                continue
            columns = columns or len(row)
            if len(row) != columns:
                what = f"the row has {len(row)} cells, the header {columns}"
                todo = 'put a cell that holds a comma in double quotes: "yes, please"'
                raise DataError(what, where=f"{path}:{number}", todo=todo)
            yield number, row
    if columns == 0:
        raise DataError("the file holds nothing but empty lines", where=path)


def column_of(header: Sequence[str], name: str, where: str) -> int:
    """The index of the column of this name.

    Raises:
        DataError: there is none, or more than one; those that there are are named.
    """
    found = optional_column(header, name, where)
    if found is not None:
        return found
    todo = _naming(name, nearest(name, header))
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        todo = "separate the columns by commas"
        # Texts alone are read from such files.
        todo += "" if name in FIXED else ", or write tabs and name the file .tsv"
    raise DataError(
        f"there is no column {name!r}",
        where=where,
        why=f"there are {', '.join(repr(column) for column in header) or 'none'}",
        todo=todo,
    )


def _naming(name: str, like: str | None) -> str:
    """How another column is named instead of the one that is not there."""
    if name in FIXED:
        meant = f"did you mean {like!r}? It must be called {name!r}: it" if like else "add it: it"
        return f"{meant} {FIXED[name]}"
    begins = f"did you mean {like!r}? Then say" if like else "mend the header, or say"
    setting = DEFAULTS.get(name)
    if setting is None:  # so one of them was said
        return f"{begins} so in data.text_column or data.label_column, or to clearhead evaluate"
    option = f"--{setting.replace('_', '-')}"
    value = json.dumps(like or "NAME", ensure_ascii=False)
    return f"{begins} data.{setting} = {value} (to clearhead init and evaluate: {option})"


def header_hint(place: str | None) -> str:
    """What may be wrong with the label of line 1, where a file may have a header or none.

    Args:
        place: of the example, `train.tsv:1`.
    """
    file, _, line = (place or "").rpartition(":")
    if line != "1" or not file.lower().removesuffix(".gz").endswith(".tsv"):
        return ""
    columns = "data.text_column, data.label_column (to clearhead evaluate: --text-column …)"
    return f"; if line 1 is a header, name its columns: {columns}"


def optional_column(header: Sequence[str], name: str, where: str) -> int | None:
    """The index of the column of this name, None if there is none.

    Raises:
        DataError: there is more than one.
    """
    if header.count(name) > 1:
        raise DataError(f"the column {name!r} is there {header.count(name)} times", where=where)
    return header.index(name) if name in header else None


def _broken(where: str, why: str) -> DataError:
    todo = 'write a double quote inside a cell twice: "she said ""no"""'
    # What ends at the end of the file, or at the module's limit, is most often an open quote.
    if "unexpected end of data" in why or "field larger" in why:
        todo = "look for a double quote that is not closed after this line"
        if "field larger" in why:
            todo += ", or for a cell that is too long"
    elif "new-line" in why:
        why, todo = "a carriage return inside a line", "put cells with line breaks in double quotes"
    return DataError("the row is not CSV", where=where, why=why, todo=todo)
