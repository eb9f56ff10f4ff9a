"""Labelled examples, their labels, and the readers of labelled texts (`TEXT_FORMATS`)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clearhead.data.reading.columns import (
    NAMED,
    TEXT_OPTION,
    Columns,
    columns_of,
    index_of,
    text_column_of,
)
from clearhead.data.reading.lines import Format, Formats, has_ending
from clearhead.data.reading.tables import (
    CONTROL,
    GROUP,
    Column,
    no_column,
    open_table,
    read_jsonl,
    refuse_unwritable,
    string_of,
)
from clearhead.errors import DataError, type_of
from clearhead.tokenizer.normal_form import LABEL

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
        group: its cell in the column `group`, such as a person; "" if there is none.
    """

    input: Input
    labels: tuple[str, ...]
    place: str
    columns: tuple[str, ...] = ()
    weight: float = 1.0
    group: str = ""


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
    - `.tsv`: the same with tabs, or `label<TAB>text` without a header; `_has_quoted_cells` has the
      rule for quotes.
    - `.jsonl`: objects with the text and either one label (text or a number) or a list of labels.
      The key of the list may be the plural: `labels` if the column is `label`.
    - `.txt`: `label<TAB>text`.

    Columns that are given by position, from 1, mean that the table has no header.

    With `multi_label`, `|` separates the labels in a cell, and an empty cell or list means that no
    label applies. An empty text is read as "". `known` are labels by which columns are recognised.
    """
    columns = Columns(text_column, label_column)
    columns.check()
    otherwise = ""
    if os.path.isdir(os.path.expanduser(file)) or file.lower().endswith(OF_FEATURES):
        otherwise = 'for sequences of features, set input = "features" (init: --input features)'
    read = TEXT_FORMATS.reader(file, "labelled texts", otherwise)
    return read(file, columns, multi_label, known)


def read_texts(file: str, columns: Columns = NAMED, known: Collection[str] = ()) -> Iterator[str]:
    """The texts of a `.csv`, `.tsv` or `.jsonl` file with or without labels, on one line each.

    With `known` labels, a file with tabs may also have no header: see `text_column_of`.
    """
    if has_ending(file, ".jsonl"):
        for line, record in read_jsonl(file):
            text = string_of(record, str(columns.text), f"{file}:{line}", TEXT_OPTION)
            yield join_lines(text)
        return
    with open_table(file) as table:
        text = text_column_of(table, columns, known) if known else columns.text
        index = index_of(table, text, TEXT_OPTION)
        for _, cells in table.rows(header=isinstance(text, str)):
            yield join_lines(cells[index])


def _read_table(
    path: str, chosen: Columns, multi_label: bool, known: Collection[str]
) -> Iterator[LabelledText]:
    form = ("label", "text") if has_ending(path, ".txt") and not chosen.by_position else ()
    with open_table(path, form) as table:
        columns, empty = columns_of(table, chosen, known), True
        text = index_of(table, columns.text, "text_column")
        label = index_of(table, columns.label, "label_column")
        has_groups = GROUP not in columns and not columns.by_position
        group = table.optional(GROUP) if has_groups else None
        for line, cells in table.rows(header=not columns.by_position):
            empty, where, values = False, f"{path}:{line}", [cells[label]]
            if multi_label:
                values = cells[label].split(SEPARATOR) if cells[label].strip() else []
            labels = labels_of(values, multi_label, where)
            its_group = "" if group is None else cells[group].strip()
            yield LabelledText(join_lines(cells[text]), labels, where, group=its_group)
    if empty:
        raise DataError("the file has a header and no text", where=path)


def _read_jsonl(
    path: str, chosen: Columns, multi_label: bool, known: Collection[str]
) -> Iterator[LabelledText]:
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
        if key not in record:
            raise no_column(key, list(record), where, "label_column")
        # The separator has no meaning in JSON.
        values = record[key] if isinstance(record[key], list) else [record[key]]
        labels = labels_of(values, multi_label, where)
        group = "" if GROUP in chosen else str(record.get(GROUP) or "").strip()
        yield LabelledText(join_lines(text), labels, where, group=group)


_Reader = Callable[[str, Columns, bool, Collection[str]], Iterator[LabelledText]]

TEXT_FORMATS: Formats[_Reader] = Formats(
    {
        ".csv": Format(_read_table, "columns text and label", named_columns=True),
        ".tsv": Format(_read_table, "the same with tabs, or label, tab, text", named_columns=True),
        ".jsonl": Format(_read_jsonl, "keys text and label or labels", named_columns=True),
        ".txt": Format(_read_table, "label, tab, text"),
    }
)


def labels_of(values: Sequence[object], multi_label: bool, where: str) -> tuple[str, ...]:
    """The labels of an example from their values: one, or any number with `multi_label`."""
    labels = tuple(dict.fromkeys(label_name(value, where) for value in values))
    if multi_label or len(labels) == 1:
        return labels
    raise DataError(
        f"there are {len(labels)} labels: {', '.join(labels)}" if labels else "there is no label",
        where=where,
        todo="give one label, or allow any number: classifier.multi_label = true",
    )


def join_lines(text: str) -> str:
    """A text with spaces instead of line breaks, as models read it."""
    return _LINE_BREAKS.sub(" ", text)


def label_name(value: object, where: str) -> str:
    """A label from a file or an array, as a string in its normal form."""
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


def feature_names(table: Any) -> tuple[str, ...]:
    """The names of the columns of a table, if it is one and all names are strings."""
    names = tuple(getattr(table, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else ()


def in_columns(example: Labelled[Any], names: Sequence[str]) -> Labelled[Any]:
    """The example with its features in the order of `names`, if it has names as well."""
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
