"""Files that change together: a manifest has the size and the SHA-256 hash of each of them.

    "files": {"weights.safetensors": {"size": 1234, "sha256": "9f86d0…"}, …},
    "sha256": a hash of the manifest itself

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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.errors import ClearheadError, ModelFolderError, UnreadableError
from clearhead.folder.files import (
    COPY_AGAIN,
    Write,
    atomic_file,
    link,
    read_json,
    sync,
    unreadable,
    unwritable,
    write_json,
)

MANIFEST = "manifest.json"
"""The manifest of a model folder."""

NAME = re.compile(r"(?!\.)[\w.-]+")
"""The name of a file or folder in a manifest."""

ASIDE = re.compile(r"\.(.+)\.[0-9a-f]{16}")
"""The name of a new file that is not yet in its place."""

BLOCK = 2**20
"""Bytes of a file that are read at a time."""


class Entry(NamedTuple):
    """What a manifest has about a file: its size in bytes, and 64 hexadecimal digits."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Entry:
        """The entry of a file with this content."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


Entries = Mapping[str, Entry]
"""The entries of a manifest by the paths of the files, relative to the folder of the manifest."""


def entry_of(path: Path) -> Entry:
    """The entry of a file as it is on disk; raises an OSError if it cannot be read."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            digest.update(block)
            size += len(block)
    return Entry(size, digest.hexdigest())


def sealed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of a manifest with a hash of it."""
    content = json.dumps(tree, sort_keys=True).encode()
    return {**tree, "sha256": Entry.of(content).sha256}


def unsealed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree without its hash; raises a ValueError if that is not the hash of the tree."""
    content = {key: value for key, value in tree.items() if key != "sha256"}
    if sealed(content) != tree:
        raise ValueError("its content and its hash disagree")
    return content


def entries_in(tree: Mapping[str, Any]) -> dict[str, Entry]:
    """The entries in the tree of a manifest; raises a ValueError if they have another form."""
    files, found = tree.get("files"), dict[str, Entry]()
    if not isinstance(files, dict):
        raise ValueError("it has no files")
    for name, facts in files.items():
        # A path such as ../x or /x would lead out of the folder.
        if not all(map(NAME.fullmatch, name.split("/"))):
            raise ValueError(f"{name!r} is not the path of a file in this folder")
        size, digest = (
            facts.get(key) if isinstance(facts, dict) else None for key in Entry._fields
        )
        if type(size) is not int or size < 0 or not re.fullmatch("[0-9a-f]{64}", str(digest)):
            raise ValueError(f"{name} has no size and SHA-256 hash")
        found[name] = Entry(size, str(digest))
    return found


def read_manifest(folder: Path, manifest: str = MANIFEST) -> tuple[dict[str, Any], Entries]:
    """The tree of a manifest and its entries, after the files were put into place."""
    path = folder / manifest
    tree = read_json(path)
    try:
        content = unsealed(tree)
        entries = entries_in(content)
    except ValueError as error:
        what = "the manifest is damaged, or of another version"
        raise ModelFolderError(what, where=path, why=str(error), todo=COPY_AGAIN) from None
    with suppress(OSError):  # then the files that are not in place are found by their hashes
        settle(folder, entries)
    return content, entries


def read_entries(folder: Path, manifest: str = MANIFEST) -> Entries:
    """The entries of a manifest, whose files are put into place; none without a manifest."""
    if not (folder / manifest).exists():
        return {}
    try:
        return read_manifest(folder, manifest)[1]
    except UnreadableError:
        raise
    except ModelFolderError as error:
        error.todo = f"copy the folder again; or, if it is your own, remove {manifest}"
        raise


def replace_together(
    folder: Path,
    before: Entries,
    files: Mapping[str, Write | str],
    removed: Iterable[str] = (),
    *,
    manifest: str = MANIFEST,
    facts: Mapping[str, Any] | None = None,
    kind: type[ClearheadError] = ModelFolderError,
) -> Entries:
    """Replace and remove files and their manifest, all or none, even if the process is killed.

    Args:
        folder: of the manifest; it exists.
        before: the entries of the manifest; those of other files stay as they are.
        files: by their paths in the folder; each is written by its function to the path that this
            receives. Instead of a function, the path of a file that the manifest has: the new file
            is the same, with a second name.
        removed: paths of files that are removed, if they are not among the new ones.
        manifest: the name of the manifest.
        facts: what the manifest has besides the entries.
        kind: of the error.

    Returns:
        The entries of the new manifest.

    Raises:
        ClearheadError: of this `kind`; a file cannot be written, e.g. because the disk is full.
            Then all are replaced or none.
    """
    gone = set(removed) - files.keys()
    new: dict[str, Entry] = {}
    _remove_leftovers(folder, files, before)
    try:
        for name, write in files.items():

            def aside(unfinished: Path, name: str = name, write: Write | str = write) -> Path:
                known = before.get(write) if isinstance(write, str) else None
                new[name] = known or entry_of(unfinished)
                return _aside(folder, name, new[name])

            with atomic_file(folder / name, kind, aside) as unfinished:
                if isinstance(write, str):
                    link(folder / write, unfinished)
                else:
                    write(unfinished)
        after = {name: each for name, each in sorted({**before, **new}.items()) if name not in gone}
        listed = {name: entry._asdict() for name, entry in after.items()}
        write_json(folder / manifest, sealed({**(facts or {}), "files": listed}), kind)
    except BaseException:
        # It is not known here whether the manifest was replaced.
        with suppress(OSError, ModelFolderError):
            _remove_leftovers(folder, files, read_entries(folder, manifest))
        raise
    try:
        settle(folder, new)
        for name in gone:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder, error, kind) from None
    return after


def settle(folder: Path, entries: Entries) -> None:
    """Complete the renames of a `replace_together` that was killed; usually there are none."""
    moved = set[Path]()
    for name, entry in entries.items():
        aside = _aside(folder, name, entry)
        if os.path.lexists(aside):
            with suppress(FileNotFoundError):  # another process was faster
                os.replace(aside, folder / name)
                moved.add(aside.parent)
    for each in moved:
        sync(each)


def _aside(folder: Path, name: str, entry: Entry) -> Path:
    path = folder / name
    return path.with_name(f".{path.name}.{entry.sha256[:16]}")


def is_leftover(path: Path) -> bool:
    """Whether a killed `replace_together` may have left this file."""
    unfinished = path.name.startswith(".") and path.suffix == ".unfinished"
    return path.is_file() and (unfinished or ASIDE.fullmatch(path.name) is not None)


def _remove_leftovers(folder: Path, names: Iterable[str], entries: Entries) -> None:
    """Remove new versions of these files that a manifest with these entries does not have."""
    kept = {_aside(folder, name, entry) for name, entry in entries.items()}
    wanted = {folder / name for name in names}
    with suppress(OSError):
        for above in {path.parent for path in wanted if path.parent.is_dir()}:
            for each in above.iterdir():
                found = ASIDE.fullmatch(each.name)
                if found and above / found[1] in wanted and each not in kept:
                    each.unlink()


def check(path: Path, entry: Entry) -> None:
    """Compare a file with its entry."""
    try:
        status = path.stat()
        # A device or a pipe could be read for ever.
        is_same_size = stat.S_ISREG(status.st_mode) and status.st_size == entry.size
        same = is_same_size and entry_of(path) == entry
    except FileNotFoundError:
        raise ModelFolderError("the file is missing", where=path, todo=COPY_AGAIN) from None
    except OSError as error:
        raise unreadable(path, error) from None
    if not same:
        raise differs(path)


def differs(path: Path) -> ModelFolderError:
    """The error of a file that is not the one of its entry."""
    return ModelFolderError(
        "the file is damaged, or was changed",
        where=path,
        why="its size or SHA-256 hash is not the one in the manifest of its folder",
        todo=f"{COPY_AGAIN}; if you changed the file on purpose, remove {MANIFEST}",
    )
