"""The times of the frames of a sequence in a CSV file, by which pictures name them."""

from __future__ import annotations

import itertools
import os
from contextlib import closing

from clearhead.data.tables import column_of, optional_column, read_csv
from clearhead.errors import DataError


def frame_times(path: str, number: int) -> tuple[str, ...] | None:
    """The column `time` of one sequence, as it is written there; None where there is no such.

    Args:
        path: what `read_feature_sequences` reads; only a CSV file has times.
        number: of the sequence, from 1.

    Raises:
        DataError: the file is missing, unreadable or of another form, or has fewer sequences.
    """
    if not path.lower().removesuffix(".gz").endswith(".csv") or os.path.isdir(path):
        return None
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
