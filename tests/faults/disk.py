"""What a power cut may leave of the files of a folder, from the log of the layer (`layer.c`).

A disk keeps only what was synced: the content of a file when the file is synced, and its name when
its folder is. What was not synced may be there, or not, or in part. A folder that was made and
whose own name was not synced is lost with all that is in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Call(NamedTuple):
    """A call that changes a file or a name; see `layer.c` for the kinds."""

    kind: str
    offset: int
    path: Path
    second: Path
    data: bytes


def read_calls(log: Path) -> Iterator[Call]:
    """The calls of a log in their order."""
    content, at = log.read_bytes(), 0
    while at < len(content):
        end = content.index(b"\n", at)
        kind, offset, size, path, second = content[at:end].decode().split("\t")
        at = end + 1 + int(size)
        yield Call(kind, int(offset), Path(path), Path(second), content[end + 1 : at])
        at += 1


@dataclass(eq=False)
class File:
    """A file: what programs read, and what is on the disk."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass(eq=False)
class Folder:
    """A folder: the names that programs see, those on the disk, and the changes in between.

    A change gives names a new file or folder, or None if they are removed.
    """

    names: dict[str, File | Folder] = field(default_factory=dict)
    synced: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, names: dict[str, File | Folder | None]) -> None:
        """Change names, all together."""
        apply(self.names, names)
        self.changes.append(names)

    def sync(self) -> None:
        """Write the names to the disk."""
        self.synced = dict(self.names)
        self.changes = []

    def after(self, changes: int) -> dict[str, File | Folder]:
        """The names on the disk and the first few changes."""
        names = dict(self.synced)
        for changed in self.changes[:changes]:
            apply(names, changed)
        return names


def apply(names: dict[str, File | Folder], changed: dict[str, File | Folder | None]) -> None:
    """Change names in place."""
    for name, new in changed.items():
        if new is None:
            names.pop(name, None)
        else:
            names[name] = new


Image = dict[Path, bytes | None]
"""The contents of files by name; None: a folder."""

NamesOf = Callable[[Folder], dict[str, File | Folder]]
ContentOf = Callable[[File], bytes]


class Disk:
    """The files in a folder that is itself on the disk and empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = Folder()

    def make(self, call: Call) -> None:
        """Make a call."""
        if call.kind == "-":
            return
        folder, name = self._folder(call.path), call.path.name
        match call.kind:
            case "O" | "W" | "T":
                file = folder.names.get(name)
                if file is None:
                    file = File()
                    folder.change({name: file})
                assert isinstance(file, File)
                change_content(file.content, call)
            case "S":
                node = self._node(call.path)
                if isinstance(node, File):
                    node.synced = bytes(node.content)
                else:
                    node.sync()
            case "R" | "L":
                other, new = self._folder(call.second), call.second.name
                gone: dict[str, File | Folder | None] = {name: None} if call.kind == "R" else {}
                node = folder.names[name]
                if other is folder:
                    folder.change({**gone, new: node})
                else:
                    other.change({new: node})
                    folder.change(gone)
            case "D":
                folder.change({name: Folder()})
            case _:
                folder.change({name: None})

    def _node(self, path: Path) -> File | Folder:
        node: File | Folder = self.root
        for part in path.relative_to(self.path).parts:
            assert isinstance(node, Folder)
            node = node.names[part]
        return node

    def _folder(self, path: Path) -> Folder:
        """The folder in which a path is; the root itself has no name."""
        if path == self.path:
            return self.root
        found = self._node(path.parent)
        assert isinstance(found, Folder)
        return found

    def now(self) -> Image:
        """What programs see."""
        return self._image(lambda folder: folder.names, lambda file: bytes(file.content))

    def only_synced(self) -> Image:
        """After a power cut: nothing that was not synced."""
        return self._image(lambda folder: folder.synced, lambda file: file.synced)

    def names_alone(self) -> Image:
        """After a power cut: all names, but only contents that were synced."""
        return self._image(lambda folder: folder.names, lambda file: file.synced)

    def parts(self, chance: random.Random) -> Image:
        """After a power cut: in each folder the first few changes, and parts of contents."""

        def content(file: File) -> bytes:
            half = file.content[: len(file.content) // 2]
            found = (file.synced, half, file.content)
            return file.synced if file.synced == file.content else bytes(chance.choice(found))

        return self._image(
            lambda folder: folder.after(chance.randint(0, len(folder.changes))), content
        )

    def _image(self, names: NamesOf, content: ContentOf) -> Image:
        found: Image = {}

        def add(folder: Folder, path: Path) -> None:
            for name, node in names(folder).items():
                if isinstance(node, File):
                    found[path / name] = content(node)
                else:
                    found[path / name] = None
                    add(node, path / name)

        add(self.root, self.path)
        return found


def change_content(content: bytearray, call: Call) -> None:
    """Write, set the size, or truncate if a file was opened so."""
    if call.kind == "W":
        end = call.offset + len(call.data)
        content.extend(bytes(max(0, end - len(content))))
        content[call.offset : end] = call.data
    elif call.kind == "T":
        content.extend(bytes(max(0, call.offset - len(content))))
        del content[call.offset :]
    elif call.offset:
        content.clear()


def write_image(image: Image) -> None:
    """Write files and folders; their names are absolute."""
    for path, content in image.items():
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def evenly(count: int, of: int) -> list[int]:
    """At most so many of the numbers from 1 to `of`, evenly spread, the last one included."""
    count = min(count, of)
    return [round((number + 1) * of / count) for number in range(count)]
