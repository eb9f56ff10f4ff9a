"""Every finding of a check, in a file: a line each, its place, a tab, and what is found there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

FINDINGS = "findings.tsv"

Note = Callable[[str, str], object]
"""Takes a finding: its place, and what is found there."""


def open_findings(path: Path) -> TextIO:
    """A new file for findings; names of files that are no UTF-8 stand there as they are on disk.

    Raises:
        OSError: it cannot be written.
    """
    return path.open("w", encoding="utf-8", errors="surrogateescape")


def note_into(stream: TextIO) -> Note:
    """Writes findings into a file that is open."""

    def note(place: str, found: str) -> None:
        stream.write(f"{place}\t{found}\n")

    return note
