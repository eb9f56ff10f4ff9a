"""How a tokenizer lies on disk: `name.json`, which describes it, and what belongs to it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from clearhead.errors import DataError, ModelFolderError

FORMAT_VERSION = 1


def write_description(folder: Path, name: str, tree: dict[str, Any], fingerprint: str) -> None:
    """Write `name.json` with the format's version and the fingerprint."""
    tree = {"version": FORMAT_VERSION, "fingerprint": fingerprint, **tree}
    replace_file(folder / f"{name}.json", (json.dumps(tree, indent=1) + "\n").encode())


class Described(Protocol):
    """What can be written as a description: it has a hash that changes with its content."""

    def fingerprint(self) -> str: ...  # noqa: D102


D = TypeVar("D", bound=Described)


def read_description(folder: Path, name: str, what: str, build: Callable[[dict[str, Any]], D]) -> D:
    """What `write_description` wrote to `name.json`, checked.

    Args:
        folder: the model folder.
        name: of the file, without `.json`; `name.model` may belong to it.
        what: its name in errors: "the label set".
        build: makes it from the content of the file; a ValueError, KeyError, TypeError,
            AttributeError or RuntimeError means that the content is damaged.

    Raises:
        ModelFolderError: a file is missing, damaged, or of another version.
    """
    path = folder / f"{name}.json"
    beside = folder / f"{name}.model"
    where = f"{path} or {beside.name}" if beside.exists() else path
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["version"] != FORMAT_VERSION:
            raise ModelFolderError(
                f"{what} has format {tree['version']}; this clearhead reads {FORMAT_VERSION}",
                where=path,
            )
        described = build(tree)
    except FileNotFoundError as error:
        raise ModelFolderError(f"the file of {what} is missing", where=error.filename) from None
    except OSError as error:
        raise ModelFolderError(f"{what} cannot be read", where=path, why=str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ModelFolderError(f"{what} is damaged", where=where, why=repr(error)) from None
    if described.fingerprint() != tree.get("fingerprint"):
        why = "its contents and its hash disagree"
        raise ModelFolderError(f"{what} is damaged", where=where, why=why)
    return described


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written, not even after a power cut."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def content_hash(content: bytes) -> str:
    """32 hex digits that change with the content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# ---- checkpoint.files
# Files that are written wholly or not at all, and read with care.


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


# ---- inspect.writing
# Files that appear together, each of them whole, or not at all.

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
