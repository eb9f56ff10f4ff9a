"""The times of the frames of a sequence in a file, by which pictures name them."""

from __future__ import annotations

import itertools
import os
from contextlib import closing

from clearhead.data.tables import column_of, optional_column, read_csv
from clearhead.data.time_series import case_times
from clearhead.errors import DataError


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
