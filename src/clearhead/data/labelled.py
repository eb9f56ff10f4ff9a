"""Labelled examples, their labels, and the readers of labelled texts (`TEXT_FORMATS`)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clearhead.data.columns import BY_POSITION, NAMED, Columns, described, likely_columns
from clearhead.data.lines import Format, Formats
from clearhead.data.tables import (
    Column,
    Header,
    Row,
    read_csv,
    read_jsonl,
    read_tsv,
    refuse_unwritable,
    string_of,
    value_of,
)
from clearhead.errors import ConfigError, DataError

SEPARATOR = "|"
"""Separates the labels of one text in a cell."""

Input = TypeVar("Input", bound="str | np.ndarray")

_LINE_BREAKS = re.compile(r"[\r\n]+")


class Labelled(NamedTuple, Generic[Input]):
    """One example.

    Attributes:
        input: a text, or features, float32 (frames, width), where NaN is a missing value.
        labels: its labels; () if it has none, or if they were not read.
        place: its file and line, for errors and reports: `train.csv:17`, `cat/3.npy`.
        columns: the name of each feature; () if its file has no names.
        weight: of its loss in training, relative to the other examples; at least 0.
    """

    input: Input
    labels: tuple[str, ...]
    place: str
    columns: tuple[str, ...] = ()
    weight: float = 1.0


LabelledText: TypeAlias = Labelled[str]
LabelledSequence: TypeAlias = Labelled[np.ndarray]


def read_labelled_texts(
    file: str,
    text_column: Column = "text",
    label_column: Column = "label",
    multi_label: bool = False,
) -> Iterator[LabelledText]:
    """The texts of a file and their labels. The name may end in `.gz`.

    - `.csv`: a header, then one text per row; line breaks inside double quotes become a space.
    - `.tsv`: the same with tabs and without quotes, or `label<TAB>text` without a header.
    - `.jsonl`: objects with the text and either one label (text or a number) or a list of labels.
      The key of the list may be the plural: `labels` if the column is `label`.
    - `.txt`: `label<TAB>text`.

    Columns that are given by position, from 1, mean that the table has no header.

    With `multi_label`, `|` separates the labels in a cell, and an empty cell or list means that no
    label applies. An empty text is read as "".

    Raises:
        DataError: the file is missing, unreadable, empty, not UTF-8 or of the wrong format, a
            label is missing, or a text has several labels without `multi_label`.
        ConfigError: the texts and the labels would be in the same column, or one has a name and
            the other a position.
    """
    if type(text_column) is not type(label_column):
        raise ConfigError(
            f"one column is named and the other is not: {text_column!r} and {label_column!r}",
            setting="data.label_column",
            why="names mean that the file has a header, positions that it has none",
            todo="give two names or two positions: --text-column and --label-column, or "
            "data.text_column and data.label_column",
        )
    if text_column == label_column:
        raise ConfigError(
            f"the texts and the labels would be in the same column, {text_column!r}",
            setting="data.label_column",
            todo="choose two different columns: --text-column and --label-column, or "
            "data.text_column and data.label_column",
        )
    read = TEXT_FORMATS.reader(file, "labelled texts")
    return _examples(file, read(file, text_column, label_column), multi_label)


def read_texts(
    file: str, text_column: Column = "text", labels: Collection[str] = ()
) -> Iterator[str]:
    """The texts of a `.csv`, `.tsv` or `.jsonl` file with or without labels, on one line each.

    A `.csv` has a header. A `.tsv` has one if the name of the column is in it; otherwise each line
    is a text, or `label<TAB>text`. A column that is given by position, from 1, means that there is
    no header. `labels` are known ones, by which a column of labels is recognised.

    Raises:
        DataError: the file is missing, unreadable, empty or of the wrong format, or lacks the
            column; or no column is given and the texts are in another one than read by default.
    """
    if file.lower().removesuffix(".gz").endswith(".jsonl"):
        for line, record in read_jsonl(file):
            where = f"{file}:{line}"
            yield join_lines(string_of(record, str(text_column), where, "text_column"))
        return
    is_csv = file.lower().removesuffix(".gz").endswith(".csv")
    with closing(read_csv(file) if is_csv else read_tsv(file)) as rows:
        line, cells = next(rows)
        where = f"{file}:{line}"
        if isinstance(text_column, str) and not is_csv and text_column not in cells:
            if len(cells) > 2:
                Header(cells, where).column(text_column, "text_column")
            text_column = len(cells)
            _check_text_column(file, text_column, labels)
        if isinstance(text_column, str):
            index = Header(cells, where).column(text_column, "text_column")
        else:
            index = text_column - 1
            if index >= len(cells):
                why = f"the columns are 1 to {len(cells)}"
                raise DataError(f"there is no column {text_column}", where=where, why=why)
            yield join_lines(cells[index])
        for _, cells in rows:
            yield join_lines(cells[index])


def _check_text_column(file: str, read: int, labels: Collection[str]) -> None:
    """Check that the texts of a file without known columns are in the column that is read."""
    likely = likely_columns(file, labels)
    if likely is not None and likely.text != read:
        raise DataError(
            f"the texts are not in column {read}, which is read by default",
            where=file,
            why=f"the cells look like {likely.described}",
            todo=f"name the column: --text-column {json.dumps(likely.text, ensure_ascii=False)}",
        )


_Rows = Generator[tuple[int, str, object], None, None]
"""The number of the line, the text, and the label or labels."""


def _examples(file: str, rows: _Rows, multi_label: bool) -> Iterator[LabelledText]:
    empty = True
    with closing(rows):
        for line, text, label in rows:
            empty = False
            where = f"{file}:{line}"
            yield LabelledText(join_lines(text), _labels(label, multi_label, where), where)
    if empty:
        raise DataError("the file has a header and no text", where=file)


def _labels(cell: object, multi_label: bool, where: str) -> tuple[str, ...]:
    if multi_label and isinstance(cell, str):
        cell = cell.split(SEPARATOR) if cell.strip() else []
    values = cell if isinstance(cell, list) else [cell]
    labels = tuple(dict.fromkeys(label_name(value, where) for value in values))
    if multi_label or len(labels) == 1:
        return labels
    raise DataError(
        f"there are {len(labels)} labels: {', '.join(labels)}" if labels else "there is no label",
        where=where,
        todo="give one label, or allow any number: classifier.multi_label = true",
    )


LABEL_FIRST = (2, 1)
"""The positions of text and label in a file without a header for which no positions are given."""


def other_columns(path: str) -> Columns | None:
    """The likely columns of a file, unless they are those that are read by default."""
    form = TEXT_FORMATS.of(path)
    likely = None if form is None or form.read is _read_jsonl else likely_columns(path)
    if form is None or likely is None or likely == NAMED:
        return None
    if form.read is _read_txt and not likely.by_position:
        return None  # its columns have no names
    is_default = form.read is not _read_csv and likely == LABEL_FIRST
    return None if is_default and _has_two_columns(path) else likely


def _has_two_columns(path: str) -> bool:
    with closing(read_tsv(path)) as rows:
        return len(next(rows)[1]) == 2


def _read_csv(path: str, text_column: Column, label_column: Column) -> _Rows:
    with closing(read_csv(path)) as rows:
        yield from _of_table(path, rows, text_column, label_column)


def _read_tsv(path: str, text_column: Column, label_column: Column) -> _Rows:
    with closing(read_tsv(path)) as rows:
        line, cells = next(rows)
        # Line 1 is a header if a column name is in it; the settings may have other names. A label
        # may be "text", but hardly "label", and a text is hardly one of these words.
        named = len(cells) != 2 or label_column in cells or cells[1] == text_column
        if isinstance(text_column, str) and not named:
            text_column, label_column = LABEL_FIRST
        yield from _of_table(path, chain([(line, cells)], rows), text_column, label_column)


def _read_txt(path: str, text_column: Column, label_column: Column) -> _Rows:
    if isinstance(text_column, int):
        yield from _read_tsv(path, text_column, label_column)
        return
    with closing(read_tsv(path, ("label", "text"))) as rows:
        yield from _of_table(path, rows, *LABEL_FIRST)


def _of_table(path: str, rows: Iterator[Row], text_column: Column, label_column: Column) -> _Rows:
    """The texts and labels of all rows, or of those after the header if columns have names."""
    line, cells = next(rows)
    if isinstance(text_column, int) and isinstance(label_column, int):
        rows = chain([(line, cells)], rows)
        text, label = text_column - 1, label_column - 1
        if (last := max(text, label)) >= len(cells):
            why = f"the columns are 1 to {len(cells)}"
            raise DataError(f"there is no column {last + 1}", where=f"{path}:{line}", why=why)
    else:
        header = Header(cells, f"{path}:{line}")
        text = _named(path, header, str(text_column), "text_column")
        label = _named(path, header, str(label_column), "label_column")
    for line, cells in rows:
        yield line, cells[text], cells[label]


def _named(path: str, header: Header, name: str, setting: str) -> int:
    """The index of a column; the error suggests the columns that are likely by their cells."""
    try:
        return header.column(name, setting)
    except DataError as error:
        if name in header.names:
            raise
        if likely := likely_columns(path):
            error.todo = f"set {likely.settings}"
            if likely.by_position:
                error.why = f"line 1 is no header: {described(header.names)}"
        else:
            error.todo = f"{error.todo}; {BY_POSITION}: data.{setting} = 1"
        raise


def _read_jsonl(path: str, text_column: Column, label_column: Column) -> _Rows:
    if not isinstance(text_column, str) or not isinstance(label_column, str):
        what, todo = "the keys of JSON objects have no positions", "give the names of two keys"
        raise DataError(what, where=path, why=f"{text_column} is not a name", todo=todo)
    plural = f"{label_column}s"
    for line, record in read_jsonl(path):
        where = f"{path}:{line}"
        text = string_of(record, text_column, where, "text_column")
        both = plural in record and label_column in record
        if both and label_column == "label":
            raise DataError(f'there are both "{label_column}" and "{plural}"', where=where)
        key = plural if plural in record and not both else label_column
        label = value_of(record, key, where, "label_column")
        # A list even for one string, because the separator has no meaning in JSON.
        yield line, text, label if isinstance(label, list) else [label]


TEXT_FORMATS: Formats[Callable[[str, Column, Column], _Rows]] = Formats(
    {
        ".csv": Format(_read_csv, "columns text and label", named_columns=True),
        ".tsv": Format(_read_tsv, "the same with tabs, or label, tab, text", named_columns=True),
        ".jsonl": Format(_read_jsonl, "keys text and label or labels", named_columns=True),
        ".txt": Format(_read_txt, "label, tab, text"),
    }
)


def join_lines(text: str) -> str:
    """A text with spaces instead of line breaks, as models read it."""
    return _LINE_BREAKS.sub(" ", text)


def label_name(value: object, where: str) -> str:
    """A label from a file or an array, as a string without white space at its ends.

    Raises:
        DataError: it is missing, empty, neither text nor a number, or has a tab or line break.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"the label is {kind}, not text or a number", where=where)
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"the label is {value}", where=where)
    name = str(value).strip()
    if not name:
        raise DataError("the label is empty", where=where)
    refuse_unwritable(name, "the label", where)
    if any(mark in name for mark in "\n\r\t"):
        what = "a tab" if "\t" in name else "a line break"
        raise DataError(f"the label has {what}", where=where, why=f"it is {name!r}")
    return name


def in_columns(example: Labelled[Any], names: Sequence[str]) -> Labelled[Any]:
    """The example with its features in the order of `names`, if it has names as well.

    Raises:
        DataError: a feature is missing, or is not among the names.
    """
    if not names or not example.columns or example.columns == tuple(names):
        return example
    missing = [name for name in names if name not in example.columns]
    more = [name for name in example.columns if name not in names]
    if missing or more:
        lacks = f"lacks the features {', '.join(missing)}" if missing else ""
        has = f"has the features {', '.join(more)}, which the training data lack" if more else ""
        raise DataError(
            f"the sequence {' and '.join(filter(None, (lacks, has)))}",
            where=example.place,
            why=f"the training data have {', '.join(names)}",
            todo="give exactly the columns of the training data, in any order",
        )
    order = [example.columns.index(name) for name in names]
    return example._replace(input=example.input[:, order], columns=tuple(names))
