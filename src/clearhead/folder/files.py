"""Atomic file writing, and JSON files that are checked when they are read."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from clearhead.errors import (
    ClearheadError,
    DataError,
    ModelFolderError,
    UnreadableError,
    is_of_system,
    reason,
    what_helps,
)

COPY_AGAIN = "copy the folder again, or train the model again"
"""What to do about a damaged file of a model folder."""

LARGEST_FILE = 2**27
"""The largest file of a model folder besides its weights, in bytes.

A vocabulary of a million pieces has some 20 MB as a SentencePiece model and 60 MB as JSON.
"""

UNSYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""Errors of the system for a folder that cannot be synced."""

READABLE = "make the file readable, and run the command again; or copy the folder again"

PERMITTED = "check the name and the permissions of the folder, or choose another one"
"""What to do about a file that cannot be written, if the disk is not the reason."""


@contextmanager
def atomic_file(
    path: Path,
    kind: type[ClearheadError] = ModelFolderError,
    final: Callable[[Path], Path] | None = None,
) -> Iterator[Path]:
    """Replace a file only when its new content is complete and on the disk.

    Yields a temporary path in the same folder, which is created if necessary. If the block ends
    without an error, the content is synced and renamed to `path`, and the folder is synced. Readers
    see the old file or the new one, never a part, even after a power cut. The new file has the
    permissions of the umask, whatever library wrote it. No symbolic link is followed.

    Args:
        path: the file.
        kind: of the error.
        final: (path of the complete content) -> another path in this folder, instead of `path`.

    Raises:
        ClearheadError: of this `kind`; the file cannot be written, e.g. because the disk is full.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        make_folder(path.parent)
        unfinished.unlink(missing_ok=True)
        unfinished.touch(exist_ok=False)
        mode = unfinished.stat().st_mode
        yield unfinished
        # safetensors replaces the file with one that only its owner may read.
        os.chmod(unfinished, mode)
        move_into_place(unfinished, path if final is None else final(unfinished))
    except Exception as error:
        if not is_of_system(error):
            raise
        raise unwritable(path, error, kind) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def link(source: Path, path: Path) -> None:
    """Make a file the same as another, by a hard link where the file system has them."""
    # The path is one that `atomic_file` has yielded. Neither file may be changed in place
    # afterwards.
    path.unlink()
    try:
        os.link(source, path)
    except OSError:  # no hard links on this file system
        shutil.copyfile(source, path)


def move_into_place(unfinished: Path, path: Path) -> None:
    """Rename a complete file, or a folder of synced files, so that this survives a power cut."""
    sync(unfinished)
    os.replace(unfinished, path)
    sync(path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and those above it, so that they survive a power cut."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync(each.parent)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # Some file systems sync no folders, and some folders may be written but not read.
        if error.errno not in UNSYNCED or not path.is_dir():
            raise


def not_followed(path: str, flags: int) -> int:
    """An opener for `open` that fails if the file is a symbolic link."""
    # A folder from someone else may have a link where a log or a lock is written. It could lead to
    # any file of the user.
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def open_to_append(path: Path) -> FileIO:
    """Open a log or a lock, unbuffered, for reading and appending. It is created if necessary."""
    file = FileIO(path, "a+", opener=not_followed)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))
    return file


def unwritable(
    path: Path, error: Exception, kind: type[ClearheadError] = ModelFolderError
) -> ClearheadError:
    """The error of a file or folder that cannot be written: an OSError, or one of safetensors."""
    what, todo = "it cannot be written", what_helps(error, PERMITTED)
    return kind(what, where=path, why=reason(error), todo=todo)


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """The error of a file that the system cannot read now; it may be good."""
    what = "the file cannot be read"
    return UnreadableError(what, where=path, why=reason(error), todo=READABLE)


def refuse_links(folder: Path, output: Path, kind: type[ClearheadError]) -> None:
    """Check that no symbolic link is in the folder of a model, if the output is in this folder."""
    # A command that writes or removes files behind a link would change files of the user. The
    # folder itself may be a link.
    folder, output = (Path(os.path.abspath(path)) for path in (folder, output))
    if not output.is_relative_to(folder):
        return
    for above, folders, files in os.walk(folder):
        for path in (Path(above, name) for name in (*folders, *files)):
            if path.is_symlink():
                raise kind(
                    "a symbolic link is in the folder of a model; nothing was changed",
                    where=path,
                    why=f"it leads to {os.readlink(path)}, and clearhead writes and removes files "
                    "in this folder",
                    todo=f"remove the link; to use another disk, move the whole folder {folder} "
                    "there and name the new path (or link to it)",
                )


def remove_named(folder: Path, names: re.Pattern[str]) -> None:
    """Remove the files of a folder that have such names, and the folder if it is then empty."""
    # No symbolic link is followed.
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        if names.fullmatch(path.name) and (path.is_symlink() or not path.is_dir()):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()  # fails if the folder has files, which is intended


def write_bytes(path: Path, content: bytes, kind: type[ClearheadError] = ModelFolderError) -> None:
    """Write a file as `atomic_file` does; it raises the same errors."""
    with atomic_file(path, kind) as unfinished:
        unfinished.write_bytes(content)


def write_json(
    path: Path, tree: Mapping[str, Any], kind: type[ClearheadError] = ModelFolderError
) -> None:
    """Write a JSON file as `atomic_file` does; it raises the same errors."""
    write_bytes(path, json_bytes(tree), kind)


def json_bytes(tree: Mapping[str, Any]) -> bytes:
    """The content of a JSON file."""
    return (json.dumps(tree, indent=2, ensure_ascii=False) + "\n").encode()


def json_file(name: str, tree: Mapping[str, Any]) -> dict[str, bytes]:
    """The content of `name.json`, for any text in the tree."""
    return {f"{name}.json": (json.dumps(tree, indent=1) + "\n").encode()}


def read_bounded(path: Path, limit: int = LARGEST_FILE) -> bytes:
    """The content of a file that is not larger than the limit in bytes."""
    status = path.stat()
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode):
        raise ValueError("it is not a file, but a device or pipe")
    if status.st_size > limit:
        raise ValueError(f"it has {status.st_size:,} bytes; at most {limit:,} are read")
    return path.read_bytes()


def parse_json(content: bytes) -> Any:
    """The value of a JSON text whose numbers are finite."""

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError(f"{digits[:20]} is not a finite number")
        return value

    text = content.decode("utf-8")
    return json.loads(text, parse_float=finite, parse_constant=finite)


def parse_object(content: bytes, where: Path) -> dict[str, Any]:
    """The JSON object in the content of a file of a model folder."""
    try:
        tree = parse_json(content)
        if not isinstance(tree, dict):
            raise ValueError("it is not a JSON object")
        return tree
    except (ValueError, RecursionError) as error:
        what = "the file is damaged"
        raise ModelFolderError(what, where=where, why=reason(error), todo=COPY_AGAIN) from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file; it raises the same errors as `read_file` and `parse_object`."""
    return parse_object(read_file(path), path)


def read_file(path: Path) -> bytes:
    """Read a file of a model folder that is not large."""
    try:
        return read_bounded(path)
    except FileNotFoundError:
        raise ModelFolderError("the file is missing", where=path, todo=COPY_AGAIN) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        what = "the file is damaged"
        raise ModelFolderError(what, where=path, why=reason(error), todo=COPY_AGAIN) from None


Write = Callable[[Path], Any]
"""Writes one file to the path that it receives."""


def write_together(folder: Path, files: Iterable[tuple[str, Write]]) -> list[Path]:
    """Write several files by name, and rename them when the last one is complete."""
    # The folder is created if necessary, and removed again if nothing was written.
    if folder.exists() and not folder.is_dir():
        what = "this is a file, not a folder"
        raise DataError(what, where=folder, todo="name a folder for the output")
    is_new, written = not folder.exists(), list[Path]()
    try:
        with ExitStack() as renamed_at_the_end:
            for name, write in files:
                written.append(folder / name)
                write(renamed_at_the_end.enter_context(atomic_file(written[-1], DataError)))
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()  # fails if the folder has files, which is intended
    return written
