"""Every finding of a check, in a file: a line each, its place, a tab, and what is found there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

FINDINGS = "findings.tsv"

Note = Callable[[str, str], object]
"""Takes a finding: its place, and what is found there."""


@contextmanager
def noting(path: Path) -> Iterator[Note]:
    """Writes findings into a new file; names of files that are no UTF-8 stay as they are on disk.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("w", encoding="utf-8", errors="surrogateescape") as file:
        yield lambda place, found: file.write(f"{place}\t{found}\n")
