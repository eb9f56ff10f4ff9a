"""Which labelled examples belong together: the column or key `group` of their file.

The examples of a group, such as the sequences of one person, are alike. If some of them are trained
on and others validate, the scores are too high.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

from clearhead.data.reading.arrays import LIST
from clearhead.data.reading.tables import csv_table, read_jsonl, read_rows
from clearhead.settings import DataConfig

GROUP = "group"
"""The name of the column, or of the key in a `.jsonl` file."""


def groups_of(path: str, data: DataConfig) -> dict[str, str]:
    """The group of each example of a file or folder, by the place of the example."""
    if GROUP in (data.text_column, data.label_column):
        return {}
    return {place: name.strip() for place, name in _groups(path) if name.strip()}


def _groups(path: str) -> Iterator[tuple[str, str]]:
    folder = os.path.expanduser(path)
    ending = path.lower().removesuffix(".gz")
    if os.path.isdir(folder):
        if os.path.isfile(os.path.join(folder, LIST)):
            with csv_table(os.path.join(folder, LIST)) as (header, rows):
                if (group := header.optional(GROUP)) is not None:
                    file = header.column("file")
                    for _, cells in rows:
                        yield os.path.join(folder, cells[file]), cells[group]
    elif ending.endswith(".jsonl"):
        for line, record in read_jsonl(path):
            yield f"{path}:{line}", str(record.get(GROUP) or "")
    elif ending.endswith((".csv", ".tsv")):
        with closing(read_rows(path)) as rows:
            _, header = next(rows)
            if GROUP in header:
                index = header.index(GROUP)
                for line, cells in rows:
                    yield f"{path}:{line}", cells[index]
