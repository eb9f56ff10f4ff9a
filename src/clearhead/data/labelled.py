"""Labelled examples, their labels, and the readers of labelled texts (`TEXT_FORMATS`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clearhead.data.lines import Format, Formats
from clearhead.data.tables import (
    Header,
    csv_table,
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
    """

    input: Input
    labels: tuple[str, ...]
    place: str
    columns: tuple[str, ...] = ()


LabelledText: TypeAlias = Labelled[str]
LabelledSequence: TypeAlias = Labelled[np.ndarray]


def read_labelled_texts(
    file: str, text_column: str = "text", label_column: str = "label", multi_label: bool = False
) -> Iterator[LabelledText]:
    """The texts of a file and their labels. The name may end in `.gz`.

    - `.csv`: a header, then one text per row; line breaks inside double quotes become a space.
    - `.tsv`: the same with tabs and without quotes, or `label<TAB>text` without a header.
    - `.jsonl`: objects with the text and either one label (text or a number) or a list of labels.
      The key of the list may be the plural: `labels` if the column is `label`.
    - `.txt`: `label<TAB>text`.

    With `multi_label`, `|` separates the labels in a cell, and an empty cell or list means that no
    label applies. An empty text is read as "".

    Raises:
        DataError: the file is missing, unreadable, empty, not UTF-8 or of the wrong format, a
            label is missing, or a text has several labels without `multi_label`.
        ConfigError: the texts and the labels would be in the same column.
    """
    if text_column == label_column:
        raise ConfigError(
            f"the texts and the labels would be in the same column, {text_column!r}",
            setting="data.label_column",
            todo="name two different columns: --text-column and --label-column, or "
            "data.text_column and data.label_column",
        )
    read = TEXT_FORMATS.reader(file, "labelled texts")
    return _examples(file, read(file, text_column, label_column), multi_label)


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


def _columns(header: Header, text_column: str, label_column: str) -> tuple[int, int]:
    text = header.column(text_column, "text_column")
    return text, header.column(label_column, "label_column")


def _read_csv(path: str, text_column: str, label_column: str) -> _Rows:
    with csv_table(path) as (header, rows):
        text, label = _columns(header, text_column, label_column)
        for line, cells in rows:
            yield line, cells[text], cells[label]


def _read_tsv(path: str, text_column: str, label_column: str) -> _Rows:
    with closing(read_tsv(path)) as rows:
        line, first = next(rows)
        # Line 1 is a header if a column name is in it; the settings may have other names. A label
        # may be "text", but hardly "label", and a text is hardly one of these words.
        if len(first) != 2 or label_column in first or first[1] == text_column:
            header = Header(first, f"{path}:{line}")
            text, label = _columns(header, text_column, label_column)
        else:
            label, text = 0, 1
            yield line, first[text], first[label]
        for line, cells in rows:
            yield line, cells[text], cells[label]


def _read_jsonl(path: str, text_column: str, label_column: str) -> _Rows:
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


def _read_txt(path: str, text_column: str, label_column: str) -> _Rows:
    for line, (label, text) in read_tsv(path, ("label", "text")):
        yield line, text, label


TEXT_FORMATS: Formats[Callable[[str, str, str], _Rows]] = Formats(
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
