"""Files that appear together, each of them whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from clearhead.errors import DataError

Write = Callable[[Path], Any]
"""Writes one file under the path that it is given."""


def write_together(folder: Path, files: Iterable[tuple[str, Write]]) -> list[Path]:
    """Write files under other names, and give them their own when the last one is on the disk.

    Args:
        folder: where they go; made if need be, and not left behind empty.
        files: the name of each and what writes it; asked for one after the other.

    Raises:
        DataError: they cannot be written, e.g. because the disk is full.
    """
    made = not folder.exists()
    unfinished: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in files:
            part = folder / f".{name}.unfinished"
            unfinished[folder / name] = part
            write(part)
        for whole, part in unfinished.items():
            os.replace(part, whole)
    except OSError as error:
        raise DataError(
            "it cannot be written",
            where=folder,
            why=str(error),
            todo="name a folder that can be written to, and free some space if the disk is full",
        ) from None
    finally:
        for part in unfinished.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)
        if made:
            with suppress(OSError):
                folder.rmdir()  # which fails, as it should, where anything is in it
    return list(unfinished)
