"""Files that change together: a manifest has the size and the SHA-256 hash of each of them.

    "files": {"weights.safetensors": {"size": 1234, "sha256": "9f86d0…"}, …},
    "fingerprint": a hash of the manifest itself

`replace_together` writes each new file beside its place, as `.NAME.HASH` with the first digits of
its hash; then it replaces the manifest, and then it renames the files. If it is killed before the
manifest is replaced, the previous files are all there. If it is killed after, the new ones are, and
`settle` completes the renames before anything is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.errors import ClearheadError, ModelFolderError, UnreadableError, reason
from clearhead.folder.files import (
    COPY_AGAIN,
    LARGEST_FILE,
    READABLE,
    Write,
    atomic_file,
    fingerprint_of,
    read_json,
    sync,
    unwritable,
    write_json,
)

MANIFEST = "manifest.json"
"""The manifest of a model folder."""

VERSION = 1
"""The version of the manifest of a model folder."""

WEIGHTS = "weights.safetensors"
"""Name of the weights in a model folder, the only file in its manifest that may have any size."""

LARGEST_REST = 4 * LARGEST_FILE
"""The size in bytes of all other files in this manifest together."""

ASIDE = re.compile(r"\.(.+)\.[0-9a-f]{16}")
"""The name of a new file that is not yet in its place."""


BLOCK = 2**20
"""Bytes of a file that are read at a time."""


class Entry(NamedTuple):
    """What a manifest has about a file: its size in bytes, and 64 hexadecimal digits."""

    size: int
    sha256: str


Entries = Mapping[str, Entry]
"""The entries of a manifest by the names of the files, which are in the folder of the manifest."""


def entry_of(path: Path, progress: Callable[[int], object] = lambda count: None) -> Entry:
    """The entry of a file as it is on disk.

    Args:
        path: the file.
        progress: receives the number of bytes of each block that has been read.

    Raises:
        OSError: it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
            progress(len(block))
    return Entry(size, digest.hexdigest())


def sealed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of a manifest with a hash of it."""
    return {**tree, "fingerprint": fingerprint_of(json.dumps(tree, sort_keys=True).encode())}


def unsealed(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree without its hash.

    Raises:
        ValueError: the hash is missing, or not that of the tree.
    """
    tree = dict(tree)
    if tree.pop("fingerprint", None) != sealed(tree)["fingerprint"]:
        raise ValueError("its content and its hash disagree")
    return tree


def entries_in(tree: Mapping[str, Any]) -> dict[str, Entry]:
    """The entries in the tree of a manifest.

    Raises:
        ValueError: it has none, or they have another form.
    """
    files, found = tree.get("files"), dict[str, Entry]()
    if not isinstance(files, dict):
        raise ValueError("it has no files")
    for name, facts in files.items():
        if Path(name).name != name or name.startswith("."):
            raise ValueError(f"{name!r} is not the name of a file in this folder")
        size, digest = (
            facts.get(key) if isinstance(facts, dict) else None for key in Entry._fields
        )
        if type(size) is not int or size < 0 or not re.fullmatch("[0-9a-f]{64}", str(digest)):
            raise ValueError(f"{name} has no size and SHA-256 hash")
        found[name] = Entry(size, str(digest))
    return found


def replace_together(
    folder: Path,
    files: Mapping[str, Write],
    manifest: str,
    tree: Callable[[Entries], Mapping[str, Any]],
    kind: type[ClearheadError] = ModelFolderError,
) -> None:
    """Replace several files and their manifest, all or none, even if the process is killed.

    Args:
        folder: of all the files; it exists.
        files: by name; each is written by its function to the path that this receives.
        manifest: the name of the manifest.
        tree: (entries of the new files) -> the content of the manifest. Entries of other files that
            stay as they are belong into it too.
        kind: of the error.

    Raises:
        ClearheadError: of this `kind`; a file cannot be written, e.g. because the disk is full.
            Then all are replaced or none.
    """
    new: dict[str, Entry] = {}
    _remove_leftovers(folder, files, manifest)
    try:
        for name, write in files.items():

            def aside(unfinished: Path, name: str = name) -> Path:
                new[name] = entry_of(unfinished)
                return _aside(folder, name, new[name])

            with atomic_file(folder / name, kind, aside) as unfinished:
                write(unfinished)
        write_json(folder / manifest, sealed(tree(new)), kind)
    finally:
        _remove_leftovers(folder, files, manifest)
    try:
        settle(folder, new)
    except OSError as error:
        raise unwritable(folder, error, kind) from None


def settle(folder: Path, entries: Entries) -> None:
    """Complete the renames of a `replace_together` that was killed; usually there are none.

    Raises:
        OSError: the folder cannot be written. `check` finds the files that are not in place.
    """
    moved = False
    for name, entry in entries.items():
        aside = _aside(folder, name, entry)
        if os.path.lexists(aside):
            with suppress(FileNotFoundError):  # another process was faster
                os.replace(aside, folder / name)
                moved = True
    if moved:
        sync(folder)


def _aside(folder: Path, name: str, entry: Entry) -> Path:
    return folder / f".{name}.{entry.sha256[:16]}"


def is_leftover(path: Path) -> bool:
    """Whether a killed `replace_together` may have left this file."""
    unfinished = path.name.startswith(".") and path.suffix == ".unfinished"
    return path.is_file() and (unfinished or ASIDE.fullmatch(path.name) is not None)


def _remove_leftovers(folder: Path, names: Collection[str], manifest: str) -> None:
    """Remove new versions of these files that the manifest does not have."""
    with suppress(OSError, ModelFolderError, ValueError):  # what belongs to it is not known
        path = folder / manifest
        listed = entries_in(read_json(path)) if path.exists() else {}
        kept = {_aside(folder, name, entry) for name, entry in listed.items()}
        for each in folder.iterdir():
            found = ASIDE.fullmatch(each.name)
            if found and found[1] in names and each not in kept:
                each.unlink()


def check(path: Path, entry: Entry) -> None:
    """Compare a file with its entry.

    Raises:
        ModelFolderError: the file is missing, cannot be read, or differs.
    """
    try:
        status = path.stat()
        # A device or a pipe could be read for ever.
        is_same_size = stat.S_ISREG(status.st_mode) and status.st_size == entry.size
        same = is_same_size and entry_of(path) == entry
    except FileNotFoundError:
        raise ModelFolderError("the file is missing", where=path, todo=COPY_AGAIN) from None
    except OSError as error:
        what = "the file cannot be read"
        raise UnreadableError(what, where=path, why=reason(error), todo=READABLE) from None
    if not same:
        raise ModelFolderError(
            "the file is damaged, or was changed",
            where=path,
            why="its size or SHA-256 hash is not the one in the manifest of its folder",
            todo=f"{COPY_AGAIN}; if you changed the file on purpose, remove {MANIFEST}",
        )


# The manifest of a model folder


def replace_in_model_folder(folder: Path, files: Mapping[str, Write]) -> None:
    """Replace files of a model folder with `replace_together`; the other entries stay."""
    entries = settled_entries(folder)

    def tree(new: Entries) -> dict[str, Any]:
        names = sorted({*entries, *new})
        found = {name: (new.get(name) or entries[name])._asdict() for name in names}
        return {"version": VERSION, "files": found}

    replace_together(folder, files, MANIFEST, tree)


def settled_entries(folder: Path) -> dict[str, Entry]:
    """The entries of a model folder whose files are in place; none in a folder without a manifest.

    Raises:
        ModelFolderError: the manifest is damaged or of another version.
    """
    path = folder / MANIFEST
    if not path.exists():
        return {}
    todo = (
        f"copy the folder again; or, if it is your own, remove {MANIFEST}: the weights, the "
        "training state and the vocabulary have hashes of their own"
    )
    try:
        tree = read_json(path)
    except UnreadableError:
        raise
    except ModelFolderError as error:
        raise ModelFolderError(error.what, where=path, why=error.why, todo=todo) from None
    try:
        if tree.get("version") != VERSION:
            raise ValueError(f"its version is {tree.get('version')!r}, not {VERSION}")
        entries = entries_in(unsealed(tree))
        rest = {name: entry.size for name, entry in entries.items() if name != WEIGHTS}
        for name, size in rest.items():
            if name == MANIFEST or size > LARGEST_FILE:
                raise ValueError(f"it has {name} with {size:,} bytes")
        if sum(rest.values()) > LARGEST_REST:
            raise ValueError(f"its files have {sum(rest.values()):,} bytes besides the weights")
    except ValueError as error:
        what = "the manifest is damaged, or of another version"
        raise ModelFolderError(what, where=path, why=str(error), todo=todo) from None
    with suppress(OSError):  # then the files that are not in place are found by their hashes
        settle(folder, entries)
    return entries


def checked_entries(folder: Path, unread: Collection[str] = ()) -> dict[str, Entry]:
    """The entries of a model folder, after the files that are there were compared with them.

    Args:
        folder: the model folder.
        unread: names of files that are not compared.

    Raises:
        ModelFolderError: a file is damaged or was changed, or the manifest is damaged.
    """
    entries = settled_entries(folder)
    while True:
        try:
            for name in entries.keys() - set(unread):
                # What needs a missing file has an error of its own.
                if (folder / name).exists():
                    check(folder / name, entries[name])
        except ModelFolderError:
            before, entries = entries, settled_entries(folder)
            if before == entries:
                raise
            continue  # a run has replaced the files meanwhile
        return entries
