"""Feature sequences of any form, checked alike: not empty, finite, as wide as the first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from clearhead.data.arrays import SUFFIXES, read_array_file, read_array_folder
from clearhead.data.feature_table import read_feature_table
from clearhead.data.labelled import LabelledSequence
from clearhead.data.tables import column_of, optional_column, read_csv
from clearhead.data.time_series import case_times, read_time_series
from clearhead.errors import DataError


def read_feature_sequences(
    path: str, label_column: str = "label", *, labelled: bool = True
) -> Iterator[LabelledSequence]:
    """The sequences of a file or folder, all of one width, and their labels.

    - `.ts` and `.ts.gz`: see `read_time_series`.
    - `.csv` and `.csv.gz`, one row a frame: see `read_feature_table`.
    - `.npz`, many sequences, or a lone one in an `.npy` file: see `read_array_file`.
    - a folder of `.npy` and `.npz` files: see `read_array_folder`.

    A missing value is NaN: `fill_missing` deals with it.

    Args:
        path: the file or folder.
        label_column: of a `.csv` file, and of the `labels.csv` of a folder.
        labelled: whether labels are asked for; if not, those that are there are passed over.

    Raises:
        DataError: the file is missing, unreadable or of another form, holds no sequence, or a
            sequence is empty, infinite, of another width than the first, or has no label.
    """
    return _checked(path, _read(path, label_column, labelled))


def _read(path: str, label_column: str, labelled: bool) -> Iterator[LabelledSequence]:
    folder = Path(os.path.expanduser(path))
    plain = path.lower().removesuffix(".gz")
    if os.path.isdir(folder):
        return read_array_folder(folder, label_column, labelled)
    if plain.endswith(".ts"):
        return read_time_series(path, labelled)
    if plain.endswith(".csv"):
        return read_feature_table(path, label_column, labelled)
    if path.lower().endswith(SUFFIXES):
        return read_array_file(path, labelled)
    if not os.path.exists(folder):
        raise DataError("there is no such file or folder", where=path)
    raise DataError(
        "feature sequences are read from .ts, .csv and .npz files and from folders of .npy files",
        where=path,
        todo="name the file after its form",
    )


def _checked(path: str, sequences: Iterator[LabelledSequence]) -> Iterator[LabelledSequence]:
    first: LabelledSequence | None = None
    for sequence in sequences:
        first = first or sequence
        width, expected = sequence.input.shape[1], first.input.shape[1]
        if width != expected:
            raise DataError(
                f"the sequence has {width} features, those before it {expected}",
                where=sequence.place,
                why=f"the first is {first.place}",
                todo="give every frame the same features",
            )
        yield sequence
    if first is None:
        raise DataError("there is no sequence", where=path)


# ---- data.frame_times
# The times of the frames of a sequence in a file, by which pictures name them.


def frame_times(path: str, number: int) -> tuple[str, ...] | None:
    """The times of one sequence, as they are written there; None where there are none.

    A CSV file has them in the column `time`, a `.ts` file in its tuples; no other file has times.

    Args:
        path: what `read_feature_sequences` reads.
        number: of the sequence, from 1.

    Raises:
        DataError: the file is missing, unreadable or of another form, or has fewer sequences.
    """
    name = "" if os.path.isdir(path) else path.lower().removesuffix(".gz")
    if name.endswith(".ts"):
        return case_times(path, number)
    return _column_times(path, number) if name.endswith(".csv") else None


def _column_times(path: str, number: int) -> tuple[str, ...] | None:
    """The column `time` of a sequence in a CSV file."""
    with closing(read_csv(path)) as rows:
        line, header = next(rows)
        time = optional_column(header, "time", f"{path}:{line}")
        if time is None:
            return None
        sequence = column_of(header, "sequence", f"{path}:{line}")
        groups = itertools.groupby(rows, key=lambda row: row[1][sequence].strip())
        _, found = next(itertools.islice(groups, number - 1, None), ("", None))
        if found is None:
            raise DataError(f"there is no sequence {number}", where=path)
        return tuple(cells[time].strip() for _, cells in found)
