"""Feature sequences from CSV tables, `.ts` files and arrays, all checked the same way.

`FEATURE_FORMATS` has the formats of files; a folder of arrays is read as well.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from clearhead.data.reading.arrays import read_array_file, read_array_folder
from clearhead.data.reading.features import as_frames, read_value
from clearhead.data.reading.labelled import LabelledSequence, label_name
from clearhead.data.reading.lines import Format, Formats, read_lines
from clearhead.data.reading.tables import GROUP, Column, Row, Table, open_table
from clearhead.errors import DataError

MISSING_IN_TABLES = ("", "nan")
MISSING_IN_TS = ("?", "nan")

TIMES = ("time", "timestamp", "time_stamp", "datetime", "date")
"""Names of a column of times, in any case."""

INDEX = re.compile(r"(unnamed: \d+|index|level_0)?", re.IGNORECASE)
"""Names that the numbers of the rows have in tables of pandas and R; "" is usual."""

FEATURES = (
    "all columns except the sequence, the label, the time and the group are features; remove the "
    "column if it is not one"
)

_Sequences = Iterator[LabelledSequence]


def read_feature_sequences(
    path: str, label_column: Column = "label", *, labelled: bool = True
) -> Iterator[LabelledSequence]:
    """The sequences of a file or folder, and their labels.

    - `.csv` has one row per frame. The column `sequence` names the sequence of a row; the rows of
      one sequence are consecutive and have the same label. A column of `TIMES` has numbers or dates
      that do not go backwards within a sequence; it is not a feature, nor is a column `group`. All
      other columns are features, with distinct names; the numbers of the rows (`INDEX`) are
      refused. An empty cell or `nan` is a missing value.
    - `.ts` is the format of the UEA and UCR archives. A case is a line: its dimensions, separated
      by `:`, and last the label if the header has `@classLabel true`. A dimension is its values,
      separated by `,`; all dimensions of a case have the same number of values. `?` and `NaN` are
      missing values. Lines that start with `#` or `%` are comments. Files with time stamps are not
      read.
    - `.npz` has many sequences, `.npy` a single one without a label: see `read_array_file`.
    - A folder has `.npy` and `.npz` files: see `read_array_folder`.

    The names of `.csv` and `.ts` files may end in `.gz`. A missing value is NaN: `fill_missing`
    replaces it.

    Args:
        path: the file or folder.
        label_column: of a `.csv` file, and of the `labels.csv` of a folder.
        labelled: whether to read labels; otherwise those in the file are ignored.

    Raises:
        DataError: the file is missing, unreadable or of another format, has no sequence, or a
            sequence is empty, infinite, or without a label.
    """
    folder, label = os.path.expanduser(path), str(label_column)
    if os.path.isdir(folder):
        sequences = read_array_folder(Path(folder), label, labelled)
    else:
        read = FEATURE_FORMATS.reader(path, "feature sequences", "name a folder of .npy files")
        sequences = read(path, label, labelled)
    sequence = None
    for sequence in sequences:
        yield sequence
    if sequence is None:
        raise DataError("there is no sequence", where=path)


def of_one_width(sequences: Iterable[LabelledSequence]) -> Iterator[LabelledSequence]:
    """The same sequences; a DataError if one has another number of features than the first."""
    first: LabelledSequence | None = None
    for sequence in sequences:
        first = first or sequence
        width, expected = sequence.input.shape[1], first.input.shape[1]
        if width != expected:
            raise DataError(
                f"the sequence has {width} features, those before it {expected}",
                where=sequence.place,
                why=f"the first is {first.place}",
                todo="give every frame the same features; an array is (frames, features)",
            )
        yield sequence


def _read_arrays(path: str, label_column: str, labelled: bool) -> _Sequences:
    return read_array_file(path, labelled)


def _read_csv(path: str, label_column: str, labelled: bool) -> _Sequences:
    with open_table(path) as table:
        columns = _Columns.of(table, label_column, labelled)
        starts: dict[str, int] = {}
        by_name = itertools.groupby(
            table.rows(header=True), lambda row: row[1][columns.sequence].strip()
        )
        for name, rows in by_name:
            frames = list(rows)
            line = frames[0][0]
            if not name:
                raise DataError("the name of the sequence is empty", where=f"{path}:{line}")
            if name in starts:
                raise DataError(
                    f"the sequence {name!r} occurs a second time",
                    where=f"{path}:{line}",
                    why=f"it starts in line {starts[name]}, and another sequence comes between",
                    todo="put the rows of a sequence one after the other",
                )
            starts[name] = line
            yield _sequence(path, frames, columns)


@dataclass(frozen=True)
class _Columns:
    """The columns of a table by index; all columns without another use are features."""

    sequence: int
    label: int | None
    time: int | None
    group: int | None
    features: dict[int, str]

    @classmethod
    def of(cls, table: Table, label_column: str, labelled: bool) -> _Columns:
        sequence, group = table.index("sequence"), table.optional(GROUP)
        label = table.optional(label_column)
        if labelled:
            label = table.index(label_column, "label_column")
        times = [
            index
            for index, name in enumerate(table.names)
            if name.strip().lower() in TIMES and index not in (sequence, label)
        ]
        if len(times) > 1:
            names = ", ".join(repr(table.names[index]) for index in times)
            todo = "keep one; rename another if it is a feature"
            what = f"there are {len(times)} columns of times: {names}"
            raise DataError(what, where=table.where, todo=todo)
        others = {sequence, label, group, *times}
        features = {
            index: name.strip() for index, name in enumerate(table.names) if index not in others
        }
        _check_features(features, table.where)
        return cls(
            sequence,
            label if labelled else None,
            times[0] if times else None,
            None if group == label else group,
            features,
        )


def _check_features(names: dict[int, str], where: str) -> None:
    for index, name in names.items():
        if INDEX.fullmatch(name):
            called = f"is called {name!r}" if name else "has no name"
            raise DataError(
                f"column {index + 1} {called}, so it may have the numbers of the rows",
                where=where,
                why="in a file that is sorted by label, these numbers give the label away",
                todo="write the table without them (pandas: to_csv(…, index=False)); if they are a "
                "feature, give the column another name",
            )
    if not names:
        raise DataError("there is no column of features", where=where)
    name, count = Counter(names.values()).most_common(1)[0]
    if count > 1:
        todo = "give the features distinct names"
        raise DataError(f"there are {count} columns {name!r}", where=where, todo=todo)


def _sequence(path: str, rows: list[Row], columns: _Columns) -> LabelledSequence:
    labels: tuple[str, ...] = ()
    frames: list[list[float]] = []
    before = -math.inf
    for line, cells in rows:
        where = f"{path}:{line}"
        if columns.label is not None:
            label = label_name(cells[columns.label], where)
            labels = labels or (label,)
            if label != labels[0]:
                what = f"the label of the sequence is {label!r} here and {labels[0]!r} before"
                raise DataError(what, where=where)
        if columns.time is not None:
            time = _moment(cells[columns.time], where)
            if time < before:
                what = f"the time goes backwards, from {before:g} to {time:g}"
                raise DataError(what, where=where)
            before = time
        frames.append(
            [
                read_value(cells[i], MISSING_IN_TABLES, f"{where} (column {name!r})", FEATURES)
                for i, name in columns.features.items()
            ]
        )
    place, first = f"{path}:{rows[0][0]}", rows[0][1]
    return LabelledSequence(
        as_frames(np.array(frames), place),
        labels,
        place,
        tuple(columns.features.values()),
        group="" if columns.group is None else first[columns.group].strip(),
    )


def _moment(cell: str, where: str) -> float:
    """The time in a cell: a number, or the seconds of a date."""
    try:
        return read_value(cell, (), where)
    except DataError:
        with suppress(ValueError):
            date = datetime.fromisoformat(cell.strip())
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        raise


def _read_ts(path: str, label_column: str, labelled: bool) -> _Sequences:
    with closing(_content(path)) as lines:
        header = _read_header(path, lines)
        if labelled and not header.labels:
            raise DataError("the file has no labels: it lacks @classLabel true", where=path)
        for line, case in lines:
            yield _case(case, header, labelled, f"{path}:{line}")


def _content(path: str) -> Generator[tuple[int, str], None, None]:
    """The lines that are neither empty nor comments, with their numbers."""
    for number, line in enumerate(read_lines(path), start=1):
        line = line.strip()
        if line and line[0] not in "#%":
            yield number, line


@dataclass
class _TsHeader:
    labels: bool = False
    dimensions: int = 0


def _read_header(path: str, lines: Iterator[tuple[int, str]]) -> _TsHeader:
    header = _TsHeader()
    for number, line in lines:
        where = f"{path}:{number}"
        if not line.startswith("@") or line == "@":
            what = "a line before @data that starts with neither @ nor #"
            raise DataError(what, where=where, todo="check that this is a .ts file")
        tag, *values = line[1:].split()
        first = values[0].lower() if values else ""
        match tag.lower():
            case "data":
                return header
            case "classlabel":
                header.labels = _truth(first, line, where)
            case "dimensions" | "dimension":
                if not first.isdecimal() or int(first) == 0:
                    raise DataError(f"{line!r} has no number of dimensions", where=where)
                header.dimensions = int(first)
            case "univariate" if _truth(first, line, where):
                header.dimensions = 1
            case "timestamps" if _truth(first, line, where):
                what = "the values have time stamps (@timeStamps), which are not read"
                todo = "write the values alone, or a .csv file with a column time"
                raise DataError(what, where=where, todo=todo)
            case "targetlabel" if _truth(first, line, where):
                what = "the targets are numbers to predict (@targetLabel), not labels"
                raise DataError(what, where=where)
    raise DataError("the file has no line @data", where=path)


def _truth(word: str, line: str, where: str) -> bool:
    if word not in ("true", "false"):
        raise DataError(f"{line!r} has neither true nor false", where=where)
    return word == "true"


def _case(line: str, header: _TsHeader, labelled: bool, where: str) -> LabelledSequence:
    parts = line.split(":")
    label = parts.pop() if header.labels else ""
    labels = (label_name(label, where),) if header.labels and labelled else ()
    if header.dimensions and len(parts) != header.dimensions:
        what = f"the case has {len(parts)} dimensions, the header {header.dimensions}"
        raise DataError(what, where=where)
    series = [part.split(",") if part.strip() else [] for part in parts]
    for number, cells in enumerate(series, start=1):
        if len(cells) != len(series[0]):
            what = f"dimension {number} has {len(cells)} values, dimension 1 {len(series[0])}"
            raise DataError(what, where=where)
    values = [[read_value(cell, MISSING_IN_TS, where) for cell in cells] for cells in series]
    return LabelledSequence(as_frames(np.array(values, ndmin=2).T, where), labels, where)


FEATURE_FORMATS: Formats[Callable[[str, str, bool], _Sequences]] = Formats(
    {
        ".csv": Format(_read_csv, "one row per frame", named_columns=True),
        ".ts": Format(_read_ts, "of the UEA and UCR archives"),
        ".npz": Format(_read_arrays, "arrays x, lengths and y"),
        ".npy": Format(_read_arrays, "one sequence without a label"),
    }
)
