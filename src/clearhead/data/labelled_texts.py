"""Files of labelled texts, read as a stream and checked strictly."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import NamedTuple

from clearhead.data.labelled import LabelledText, label_name, one_line, refuse_unwritable
from clearhead.data.readers import read_lines
from clearhead.data.tables import column_of, read_csv
from clearhead.errors import DataError

SEPARATOR = "|"
"""Between the labels of one text, in files that have a cell for them."""


class _Row(NamedTuple):
    line: int
    text: str
    label: object


def read_labelled_texts(
    file: str, text_column: str = "text", label_column: str = "label", multi_label: bool = False
) -> Iterator[LabelledText]:
    """The texts of a file and their labels. The name may end in `.gz`.

    - `.csv`: a header, then one text a row; line breaks inside double quotes become a space.
    - `.tsv`: likewise with tabs and without quotes, or no header and `label<TAB>text`.
    - `.jsonl`: objects with the text and either one label (text or a number) or a list of them,
      which may go by the plural: `labels` where the column is called `label`.
    - `.txt`: `label<TAB>text`.

    With `multi_label` a cell holds labels separated by `|`, and an empty cell or list says that
    no label applies. An empty text is read as "".

    Raises:
        DataError: the file is missing, unreadable, empty, not UTF-8 or of the wrong form, or a
            label is missing, or there are several labels without `multi_label`.
    """
    plain = file.lower().removesuffix(".gz")
    if plain.endswith(".csv"):
        rows = _csv_rows(file, text_column, label_column)
    elif plain.endswith(".tsv"):
        rows = _tsv_rows(file, text_column, label_column)
    elif plain.endswith(".jsonl"):
        rows = _json_rows(file, text_column, label_column)
    elif plain.endswith(".txt"):
        rows = _plain_rows(file)
    else:
        raise DataError(
            "labelled texts are read from .csv, .tsv, .jsonl and .txt files",
            where=file,
            todo="name the file after its form; a .txt file has label, tab, text on each line",
        )
    return _examples(file, rows, multi_label)


def _examples(
    file: str, rows: Generator[_Row, None, None], multi_label: bool
) -> Iterator[LabelledText]:
    empty = True
    with closing(rows):
        for row in rows:
            empty = False
            where = f"{file}:{row.line}"
            refuse_unwritable(row.text, "the text", where)
            yield LabelledText(one_line(row.text), _labels(row.label, multi_label, where), where)
    if empty:
        raise DataError("the file has a header and no text", where=file)


def _labels(cell: object, multi_label: bool, where: str) -> tuple[str, ...]:
    if multi_label and isinstance(cell, str):
        cell = cell.split(SEPARATOR) if cell.strip() else []
    values = cell if isinstance(cell, list) else [cell]
    labels = tuple(dict.fromkeys(label_name(value, where) for value in values))
    if multi_label or len(labels) == 1:
        return labels
    if not labels:
        raise DataError(
            "the label is missing: the list is empty",
            where=where,
            todo="give one label, or allow none: classifier.multi_label = true",
        )
    raise DataError(
        f"there are {len(labels)} labels: {', '.join(labels)}",
        where=where,
        todo="give one label, or allow several: classifier.multi_label = true",
    )


def _csv_rows(file: str, text_column: str, label_column: str) -> Generator[_Row, None, None]:
    with closing(read_csv(file)) as rows:
        line, header = next(rows)
        where = f"{file}:{line}"
        text, label = (column_of(header, name, where) for name in (text_column, label_column))
        for line, row in rows:
            yield _Row(line, row[text], row[label])


def _tsv_rows(file: str, text_column: str, label_column: str) -> Generator[_Row, None, None]:
    with closing(read_lines(file)) as lines:
        first = next(lines).split("\t")
        where = f"{file}:1"
        # Columns may have other names than were asked for. A label may well be called "text", but
        # hardly "label", and a text hardly consists of either.
        named = {text_column, label_column} <= set(first)
        if named or len(first) != 2 or label_column in first or first[1] == text_column:
            text, label = (column_of(first, name, where) for name in (text_column, label_column))
        else:
            label, text = 0, 1
            yield _Row(1, first[text], first[label])
        for number, line in enumerate(lines, start=2):
            cells = line.split("\t")
            if len(cells) != len(first):
                what = f"the line has {len(cells) - 1} tabs, the first line {len(first) - 1}"
                raise DataError(what, where=f"{file}:{number}")
            yield _Row(number, cells[text], cells[label])


def _plain_rows(file: str) -> Generator[_Row, None, None]:
    with closing(read_lines(file)) as lines:
        for number, line in enumerate(lines, start=1):
            label, tab, text = line.partition("\t")
            if not tab or "\t" in text:
                raise DataError(
                    "the line is not label, tab, text",
                    where=f"{file}:{number}",
                    why=f"it has {line.count(chr(9))} tabs",
                )
            yield _Row(number, text, label)


def _json_rows(file: str, text_column: str, label_column: str) -> Generator[_Row, None, None]:
    with closing(read_lines(file)) as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{file}:{number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError("the line is not JSON", where=where, why=str(error)) from None
            if not isinstance(record, dict):
                raise DataError("the line is not a JSON object", where=where)
            keys = list(record)
            column_of(keys, text_column, where)
            if not isinstance(text := record[text_column], str):
                raise DataError(f'"{text_column}" is not a string', where=where)
            label = record[_label_key(keys, label_column, where)]
            yield _Row(number, text, label if isinstance(label, list) else [label])


def _label_key(keys: list[str], label_column: str, where: str) -> str:
    several = f"{label_column}s"
    if several not in keys or (label_column in keys and label_column != "label"):
        column_of(keys, label_column, where)
        return label_column
    if label_column in keys:
        raise DataError(f'there are both "{label_column}" and "{several}"', where=where)
    return several
