"""Feature sequences of any form, checked alike: not empty, finite, as wide as the first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from clearhead.data.feature_arrays import SUFFIXES, read_array_file, read_array_folder
from clearhead.data.feature_table import read_feature_table
from clearhead.data.labelled import LabelledSequence
from clearhead.data.time_series import read_time_series
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
