"""Feature sequences in a CSV file with one row a frame."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from clearhead.data.features import as_frames, read_value
from clearhead.data.labelled import LabelledSequence, label_name
from clearhead.data.tables import column_of, optional_column, read_csv
from clearhead.errors import DataError

MISSING = ("", "nan")

Row = tuple[int, list[str]]


@dataclass(frozen=True)
class _Columns:
    """Which column is what; `features` are all that are nothing else."""

    names: Sequence[str]
    sequence: int
    label: int | None
    time: int | None
    features: Sequence[int]

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(self.names[index].strip() for index in self.features)


def read_feature_table(
    path: str, label_column: str = "label", labelled: bool = True
) -> Iterator[LabelledSequence]:
    """The sequences of a CSV file, whose name may end in `.gz`.

    The column `sequence` says which rows, one after the other, belong together; they agree in
    the label. A column `time` must not go backwards within a sequence and is no feature. All
    other columns are features, each with a name of its own; an empty cell or `nan` is a missing
    value.

    Raises:
        DataError: the file is missing, unreadable or of another form.
    """
    with closing(read_csv(path)) as rows:
        line, header = next(rows)
        columns = _columns(header, label_column, labelled, f"{path}:{line}")
        begun: dict[str, int] = {}
        groups = itertools.groupby(rows, key=lambda row: row[1][columns.sequence].strip())
        for name, group in groups:
            block = list(group)
            where = f"{path}:{block[0][0]}"
            if not name:
                raise DataError("the name of the sequence is empty", where=where)
            if name in begun:
                raise DataError(
                    f"the sequence {name!r} comes a second time",
                    where=where,
                    why=f"it began in line {begun[name]}, and another came between",
                    todo="put the rows of a sequence one after the other",
                )
            begun[name] = block[0][0]
            yield _sequence(path, block, columns, labelled)


def _columns(header: list[str], label_column: str, labelled: bool, where: str) -> _Columns:
    sequence = column_of(header, "sequence", where)
    find = column_of if labelled else optional_column
    label, time = find(header, label_column, where), optional_column(header, "time", where)
    others = {sequence, label, time}
    features = [index for index in range(len(header)) if index not in others]
    if not features:
        raise DataError("there is no column of features", where=where)
    columns = _Columns(header, sequence, label, time, features)
    name, count = Counter(columns.feature_names).most_common(1)[0]
    if count > 1:
        what = f"the column {name!r} is there {count} times"
        raise DataError(what, where=where, todo="give each feature a name of its own")
    return columns


def _sequence(path: str, rows: list[Row], columns: _Columns, labelled: bool) -> LabelledSequence:
    place = f"{path}:{rows[0][0]}"
    labels = (_label(path, rows, columns.label),) if labelled and columns.label is not None else ()
    if columns.time is not None:
        _check_time(path, rows, columns.time)
    frames = [[_value(path, row, index, columns) for index in columns.features] for row in rows]
    values = as_frames(np.array(frames), place)
    return LabelledSequence(values, labels, place, columns.feature_names)


def _value(path: str, row: Row, index: int, columns: _Columns) -> float:
    line, cells = row
    try:
        return read_value(cells[index], MISSING, f"{path}:{line} (column {columns.names[index]!r})")
    except DataError as error:
        raise DataError(
            error.what,
            where=error.where,
            why="all columns but those of the sequence, the label and the time are features",
            todo=f"{error.todo}; or leave the column out, if it is no feature",
        ) from None


def _label(path: str, rows: list[Row], column: int) -> str:
    label = label_name(rows[0][1][column], f"{path}:{rows[0][0]}")
    for line, cells in rows[1:]:
        other = label_name(cells[column], f"{path}:{line}")
        if other != label:
            what = f"the label of the sequence is {other!r} here and {label!r} before"
            raise DataError(what, where=f"{path}:{line}")
    return label


def _time(cell: str, where: str) -> float:
    try:
        time = read_value(cell, MISSING, where)
    except DataError:
        raise DataError(
            f"the time {cell!r} is not a number",
            where=where,
            todo="give a number, as of seconds or of the frame; a date is none",
        ) from None
    if math.isnan(time):
        raise DataError("the time is missing", where=where)
    return time


def _check_time(path: str, rows: list[Row], column: int) -> None:
    before = -math.inf
    for line, cells in rows:
        time = _time(cells[column], f"{path}:{line}")
        if time < before:
            what = f"the time goes backwards, from {before:g} to {time:g}"
            raise DataError(what, where=f"{path}:{line}")
        before = time
