"""Files that are written wholly or not at all, and read with care."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clearhead.errors import ModelFolderError


def write_json(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a JSON file, wholly or not at all.

    Raises:
        ModelFolderError: it cannot be written, e.g. because the disk is full.
    """
    text = json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a model folder.

    Raises:
        ModelFolderError: it is missing or not a JSON object.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        what = "the file is missing or damaged"
        raise ModelFolderError(what, where=path, why=str(error)) from None
    if not isinstance(tree, dict):
        raise ModelFolderError("the file is damaged", where=path, why="it is not a JSON object")
    return tree


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Another name to write a file under; it gets its own once all of it is on the disk."""
    from safetensors import SafetensorError

    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except (OSError, SafetensorError) as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> ModelFolderError:
    """The error of a file or folder that cannot be written."""
    return ModelFolderError(
        "it cannot be written",
        where=path,
        why=str(error),
        todo="free some space if the disk is full, then say the command again",
    )
