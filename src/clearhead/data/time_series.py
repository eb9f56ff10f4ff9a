"""The `.ts` format of the UEA and UCR archives, as sktime and aeon read it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from clearhead.data.features import as_frames, read_value
from clearhead.data.labelled import LabelledSequence, label_name
from clearhead.data.readers import read_lines
from clearhead.errors import DataError

MISSING = ("?", "nan")
TUPLE = re.compile(r"\s*\(([^(),]*),([^(),]*)\)\s*")


@dataclass
class _Header:
    """What the lines that begin with @ say, as far as it matters here."""

    classes: bool = False
    dimensions: int = 0
    times: bool = False

    def read(self, line: str, where: str) -> bool:
        """Take in one such line; whether the data begin after it."""
        tag, *values = line[1:].split()
        first = values[0].lower() if values else ""
        match tag.lower():
            case "data":
                return True
            case "classlabel":
                self.classes = _truth(first, line, where)
            case "dimensions" | "dimension":
                if not first.isdecimal() or int(first) == 0:
                    raise DataError(f"{line!r} says no number of dimensions", where=where)
                self.dimensions = int(first)
            case "univariate" if _truth(first, line, where):
                self.dimensions = 1
            case "timestamps":
                self.times = _truth(first, line, where)
            case "targetlabel" if _truth(first, line, where):
                what = "the targets are numbers to predict (@targetLabel), not labels"
                raise DataError(what, where=where)
        return False


def read_time_series(path: str, labelled: bool = True) -> Iterator[LabelledSequence]:
    """The cases of a `.ts` file, which may end in `.gz`.

    A case is a line: its dimensions separated by `:`, the values of one by `,`, and last the
    label if the header says `@classLabel true`. All dimensions of a case have as many values;
    `?` and `NaN` are missing ones. Lines that begin with `#` or `%` are comments.

    If the header says `@timeStamps true`, each value is a tuple `(time,value)`. A frame is what all
    dimensions have at a time, so they must have the same times. Beyond that the times, numbers or
    dates, are not read: frames stay in the order in which they are written, at whatever distances.

    Raises:
        DataError: the file is missing, unreadable or of another form, or is to be labelled and
            has no labels.
    """
    with closing(_content(path)) as lines:
        header = _read_header(path, lines)
        if labelled and not header.classes:
            raise DataError("the file has no labels: it does not say @classLabel true", where=path)
        for number, line in lines:
            yield _case(line, header, labelled, f"{path}:{number}")


def case_times(path: str, number: int) -> tuple[str, ...] | None:
    """The times of the frames of a case, as they are written; None where the file has none.

    Args:
        path: a `.ts` file, which may end in `.gz`.
        number: of the case, from 1.

    Raises:
        DataError: the file is missing, unreadable or of another form, or has fewer cases.
    """
    with closing(_content(path)) as lines:
        header = _read_header(path, lines)
        if not header.times:
            return None
        line, case = next(itertools.islice(lines, number - 1, None), (0, None))
        if case is None:
            raise DataError(f"there is no sequence {number}", where=path)
        times, _ = _timed_series(_parts(case)[0], f"{path}:{line}")
        return tuple(times)


def _content(path: str) -> Generator[tuple[int, str], None, None]:
    """The lines, with their numbers, that are neither empty nor comments."""
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, start=1):
            line = line.strip()
            if line and line[0] not in "#%":
                yield number, line


def _read_header(path: str, lines: Iterator[tuple[int, str]]) -> _Header:
    header = _Header()
    for number, line in lines:
        where = f"{path}:{number}"
        if not line.startswith("@") or line == "@":
            raise DataError(
                "a line before @data that begins with neither @ nor #",
                where=where,
                todo="check that this is a .ts file",
            )
        if header.read(line, where):
            return header
    raise DataError("the file has no line @data", where=path)


def _case(line: str, header: _Header, labelled: bool, where: str) -> LabelledSequence:
    parts = _parts(line) if header.times else line.split(":")
    labels = ()
    if header.classes:
        label = parts.pop()
        labels = (label_name(label, where),) if labelled else ()
    if header.dimensions and len(parts) != header.dimensions:
        what = f"the case has {len(parts)} dimensions, the header says {header.dimensions}"
        raise DataError(what, where=where)
    read = _timed_series if header.times else _series
    series = [read(part, where) for part in parts]
    _check_alike(series, where)
    frames = np.array([values for _, values in series], ndmin=2).T
    return LabelledSequence(as_frames(frames, where), labels, where)


def _parts(line: str) -> list[str]:
    """The dimensions and the label of a case; a colon in a tuple is part of a time of day."""
    masked = re.sub(r"\([^()]*\)", lambda tuple_: tuple_[0].replace(":", "\0"), line)
    return [part.replace("\0", ":") for part in masked.split(":")]


_Series = tuple[list[str], list[float]]
"""The times, where there are any, and the values of a dimension."""


def _series(part: str, where: str) -> _Series:
    cells = part.split(",") if part.strip() else []
    return [], [read_value(cell, MISSING, where) for cell in cells]


def _timed_series(part: str, where: str) -> _Series:
    times: list[str] = []
    values: list[float] = []
    for cell in re.split(r"(?<=\))\s*,", part) if part.strip() else []:
        found = TUPLE.fullmatch(cell)
        if found is None:
            what = f"{cell.strip()[:30]!r} is not a tuple (time,value)"
            raise DataError(what, where=where, why="the header says @timeStamps true")
        times.append(found[1].strip())
        values.append(read_value(found[2], MISSING, where))
    return times, values


def _check_alike(series: list[_Series], where: str) -> None:
    """Refuse dimensions that have not as many values as the first, or not its times."""
    first_times, first = series[0] if series else ([], [])
    for number, (times, values) in enumerate(series, start=1):
        if len(values) != len(first):
            what = f"dimension {number} has {len(values)} values, dimension 1 {len(first)}"
            raise DataError(what, where=where)
        for time, expected in zip(times, first_times, strict=True):
            if time != expected:
                raise DataError(
                    f"dimension {number} has the time {time!r}, where dimension 1 has {expected!r}",
                    where=where,
                    todo="give all dimensions the same times, ? for a value that is missing there",
                )


def _truth(word: str, line: str, where: str) -> bool:
    if word not in ("true", "false"):
        raise DataError(f"{line!r} says neither true nor false", where=where)
    return word == "true"
