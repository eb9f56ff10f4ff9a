"""Labelled examples, their labels, and the readers of labelled texts (`TEXT_FORMATS`)."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clearhead.data.reading.columns import (
    BY_POSITION,
    LABEL_FIRST,
    NAMED,
    NO_HEADER,
    Columns,
    columns_of,
    described,
    likely_columns,
)
from clearhead.data.reading.lines import Format, Formats
from clearhead.data.reading.tables import (
    CONTROL,
    Column,
    Header,
    Row,
    is_csv,
    read_jsonl,
    read_rows,
    read_tsv,
    refuse_unwritable,
    string_of,
    value_of,
)
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.tokenizer.normal_form import LABEL

TEXT_OPTION = "--text-column"
"""The option of `clearhead classify` for the column of the texts."""

OF_FEATURES = (".ts", ".ts.gz", ".npy", ".npz")
"""The endings of files of feature sequences that no file of texts has."""

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
    known: Collection[str] = (),
) -> Iterator[LabelledText]:
    """The texts of a file and their labels. The name may end in `.gz`.

    - `.csv`: a header, then one text per row; line breaks inside double quotes become a space.
    - `.tsv`: the same with tabs, or `label<TAB>text` without a header; `read_tsv` has the rule for
      quotes.
    - `.jsonl`: objects with the text and either one label (text or a number) or a list of labels.
      The key of the list may be the plural: `labels` if the column is `label`.
    - `.txt`: `label<TAB>text`.

    Columns that are given by position, from 1, mean that the table has no header.

    With `multi_label`, `|` separates the labels in a cell, and an empty cell or list means that no
    label applies. An empty text is read as "". `known` are labels by which columns are recognised.

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
    otherwise = ""
    if os.path.isdir(os.path.expanduser(file)) or file.lower().endswith(OF_FEATURES):
        otherwise = 'for sequences of features, set input = "features" (init: --input features)'
    read = TEXT_FORMATS.reader(file, "labelled texts", otherwise)
    return _examples(file, read(file, Columns(text_column, label_column), known), multi_label)


def read_texts(file: str, columns: Columns = NAMED, known: Collection[str] = ()) -> Iterator[str]:
    """The texts of a `.csv`, `.tsv` or `.jsonl` file with or without labels, on one line each.

    Args:
        file: its name, which may end in `.gz`.
        columns: the text column, and the label column if there is one.
        known: labels. With them, a file with tabs may also have no header: a line is then a text,
            or `label<TAB>text`.

    Raises:
        DataError: the file is missing, unreadable, empty or of the wrong format, or lacks the
            column; or with `known` labels, the texts are likely in another column.
    """
    form = TEXT_FORMATS.of(file)
    if form is not None and form.read is _read_jsonl:
        for line, record in read_jsonl(file):
            where = f"{file}:{line}"
            yield join_lines(string_of(record, str(columns.text), where, TEXT_OPTION))
        return
    with closing(read_rows(file)) as rows:
        first = next(rows)
        text = _text_column(file, first[1], columns, known) if known else columns.text
        index = _index(file, first, text, TEXT_OPTION, known)
        for _, cells in _examples_of(text, first, rows):
            yield join_lines(cells[index])


def _text_column(
    file: str, cells: Sequence[str], chosen: Columns, known: Collection[str]
) -> Column:
    if len(cells) == 1 and not is_csv(file) and chosen.text not in cells:
        return 1
    columns = columns_of(file, cells, chosen, known)
    likely = likely_columns(file, known) if columns.by_position else None
    if likely is not None and likely.text != columns.text:
        raise DataError(
            f"the texts are not in column {columns.text}, which is read by default",
            where=file,
            why=f"the cells look like {likely.described}",
            todo=_name_the_texts(likely),
        )
    return columns.text


def _name_the_texts(likely: Columns) -> str:
    return f"name the column: {TEXT_OPTION} {json.dumps(likely.text, ensure_ascii=False)}"


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


def other_columns(path: str) -> Columns | None:
    """The likely columns of a file, unless they are those that are read by default."""
    form = TEXT_FORMATS.of(path)
    likely = None if form is None or form.read is _read_jsonl else likely_columns(path)
    if form is None or likely is None or likely == NAMED:
        return None
    if form.read is _read_txt and not likely.by_position:
        return None  # its columns have no names
    is_default = not is_csv(path) and likely == LABEL_FIRST
    return None if is_default and _has_two_columns(path) else likely


def columns_read(path: str, chosen: Columns) -> Columns:
    """The columns of a file of labelled texts that are read: positions if it has no header.

    Raises:
        DataError: the file cannot be read.
    """
    form = TEXT_FORMATS.of(path)
    if chosen.by_position or form is None or form.read is _read_jsonl:
        return chosen
    if form.read is _read_txt:
        return LABEL_FIRST
    with closing(read_rows(path)) as rows:
        return columns_of(path, next(rows)[1], chosen)


def _has_two_columns(path: str) -> bool:
    with closing(read_tsv(path)) as rows:
        return len(next(rows)[1]) == 2


def _read_table(path: str, chosen: Columns, known: Collection[str]) -> _Rows:
    with closing(read_rows(path)) as rows:
        first = next(rows)
        columns = columns_of(path, first[1], chosen, known)
        yield from _of_table(path, first, rows, columns, known)


def _read_txt(path: str, chosen: Columns, known: Collection[str]) -> _Rows:
    columns, form = (chosen, ()) if chosen.by_position else (LABEL_FIRST, ("label", "text"))
    with closing(read_tsv(path, form)) as rows:
        yield from _of_table(path, next(rows), rows, columns, known)


def _of_table(
    path: str, first: Row, rows: Iterator[Row], columns: Columns, known: Collection[str]
) -> _Rows:
    text = _index(path, first, columns.text, "text_column", known)
    label = _index(path, first, columns.label, "label_column", known)
    for line, cells in _examples_of(columns.text, first, rows):
        yield line, cells[text], cells[label]


def _examples_of(text_column: Column, first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    """All rows, or those after the header if the columns have names."""
    return chain([first], rows) if isinstance(text_column, int) else rows


def _index(path: str, first: Row, column: Column, setting: str, known: Collection[str]) -> int:
    """The index of a column; the error suggests the columns that are likely by their cells."""
    line, cells = first
    if isinstance(column, int):
        if column > len(cells):
            why = f"the columns are 1 to {len(cells)}"
            raise DataError(f"there is no column {column}", where=f"{path}:{line}", why=why)
        return column - 1
    try:
        return Header(cells, f"{path}:{line}").column(column, setting)
    except DataError as error:
        if column in cells:
            raise
        if likely := likely_columns(path, known):
            is_option = setting == TEXT_OPTION
            error.todo = _name_the_texts(likely) if is_option else f"set {likely.settings}"
            if likely.by_position:
                error.why = f"line 1 is no header: {described(cells)}"
        elif setting == TEXT_OPTION:
            error.todo = f"{error.todo}; {NO_HEADER}, give its position, from 1: {setting} 1"
        else:
            error.todo = f"{error.todo}; {BY_POSITION}: data.{setting} = 1"
        raise


def _read_jsonl(path: str, chosen: Columns, known: Collection[str]) -> _Rows:
    text_column, label_column = chosen
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


TEXT_FORMATS: Formats[Callable[[str, Columns, Collection[str]], _Rows]] = Formats(
    {
        ".csv": Format(_read_table, "columns text and label", named_columns=True),
        ".tsv": Format(_read_table, "the same with tabs, or label, tab, text", named_columns=True),
        ".jsonl": Format(_read_jsonl, "keys text and label or labels", named_columns=True),
        ".txt": Format(_read_txt, "label, tab, text"),
    }
)


def join_lines(text: str) -> str:
    """A text with spaces instead of line breaks, as models read it."""
    return _LINE_BREAKS.sub(" ", text)


def label_name(value: object, where: str) -> str:
    """A label from a file or an array, as a string in its normal form.

    Raises:
        DataError: it is missing, empty, neither text nor a number, or has a control character.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        kind = "missing" if value is None else type_of(value)
        raise DataError(f"the label is {kind}, not text or a number", where=where)
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"the label is {value}", where=where)
    name = str(value).strip()
    if not name:
        raise DataError("the label is empty", where=where)
    refuse_unwritable(name, "the label", where)
    if CONTROL.search(name):
        what = "a tab" if "\t" in name else "a line break or another control character"
        raise DataError(f"the label has {what}", where=where, why=f"it is {name!r}")
    if not (name := LABEL(name)):
        raise DataError("the label is empty", where=where, why="its characters are invisible")
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
