"""Uploaded documents and glossaries, in a bounded folder that all processes of a server share."""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from clearhead.errors import DataError
from clearhead.folder.files import write_bytes
from clearhead.serve.models import UnknownError

KEPT = 3600.0
"""Seconds after which an uploaded document and its translation are removed."""

MOST_FILES = 10_000
"""Files in a store."""

_ID = re.compile(r"[0-9a-f]{32}")


class FullError(DataError):
    """The store has no space for another file."""


class Store:
    """Entries of a kind, each a JSON object with files; an entry has a random id.

    A request names an entry by its id alone, so it reaches no other file.

    Args:
        folder: where the files are.
        most: bytes of all files.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._lock: IO[str] | None = None
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @cached_property
    def process(self) -> str:
        """A name of this process, for `runs`."""
        name = secrets.token_hex(16)
        # The lock ends with the process, however it ends; its number may be used again.
        self._lock = self._path("process", name, "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return name

    def runs(self, process: object) -> bool:
        """Whether a process still runs."""
        if not isinstance(process, str):
            return False  # of an earlier version
        path = self._path("process", process, "lock")
        try:
            with path.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """Release and remove the lock of this process."""
        if self._lock is not None:
            self._lock.close()
            Path(self._lock.name).unlink(missing_ok=True)

    def add(
        self, kind: str, entry: dict[str, Any], files: dict[str, bytes], expected: int = 0
    ) -> str:
        """Store an entry with its files, of so many bytes in the end; returns its id.

        Raises:
            FullError: there is no space.
        """
        sizes = self._sizes()
        size = max(expected, sum(map(len, files.values())))
        if size + sum(sizes) > self._most or len(sizes) >= MOST_FILES:
            what, todo = "the server keeps too many documents", "try again in some minutes"
            raise FullError(what, todo=todo)
        key = secrets.token_hex(16)
        for name, content in files.items():
            self.write(kind, key, name, content)
        self.write(kind, key, "entry", json.dumps(entry).encode())
        return key

    def update(self, kind: str, key: str, entry: dict[str, Any]) -> bool:
        """Replace an entry; returns whether it is still there."""
        if not self._path(kind, key, "entry").exists():
            return False
        self.write(kind, key, "entry", json.dumps(entry).encode())
        return True

    def entry(self, kind: str, key: str) -> dict[str, Any]:
        """An entry; an `UnknownError` if there is none."""
        return json.loads(self.read(kind, key, "entry"))

    def entries(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """All entries of a kind."""
        for path in sorted(self._folder.glob(f"{kind}.*.entry")):
            key = path.name.split(".")[1]
            try:
                entry = self.entry(kind, key)
            except UnknownError:
                continue  # it was removed meanwhile
            yield key, entry

    def write(self, kind: str, key: str, name: str, content: bytes) -> None:
        """Write a file of an entry."""
        write_bytes(self._path(kind, key, name), content, FullError)

    def read(self, kind: str, key: str, name: str) -> bytes:
        """A file of an entry; an `UnknownError` if there is none."""
        try:
            return self._path(kind, key, name).read_bytes()
        except OSError:
            raise UnknownError(f"there is no such {kind}") from None

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry; an `UnknownError` if there is none."""
        self.entry(kind, key)
        for path in self._folder.glob(f"{kind}.{key}.*"):
            path.unlink(missing_ok=True)

    def _path(self, kind: str, key: str, name: str) -> Path:
        if not _ID.fullmatch(key):
            raise UnknownError(f"there is no such {kind}")
        return self._folder / f"{kind}.{key}.{name}"

    def _sizes(self) -> list[int]:
        """The sizes of all files, after old documents are removed."""
        sizes = list[int]()
        for path in self._folder.iterdir():
            try:
                state = path.stat()
                if path.name.startswith("document.") and time.time() - state.st_mtime > KEPT:
                    path.unlink()
                else:
                    sizes.append(state.st_size)
            except FileNotFoundError:
                continue  # another process has removed it
        return sizes
