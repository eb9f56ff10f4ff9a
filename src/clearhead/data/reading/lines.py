r"""Text files as streams of checked lines, and the one place that opens data files.

Text is UTF-8. A line ends at `\n` or `\r\n` (not at U+2028, for example), and at `\r` in a file
whose only `\n`, if any, is at its end. A byte order mark at the start of a file is dropped. A file
whose name ends in `.gz` is unpacked.
"""

from __future__ import annotations

import gzip
import itertools
import os
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeVar

from clearhead.data.reading.encodings import NO_LINES, not_text
from clearhead.errors import DataError, reason

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Limits the memory: a line of a megabyte may be text, a line of a hundred is not.
MAX_LINE_BYTES = 16 * 2**20

EXPANDED_BYTES, EXPANSION = 2**30, 200
"""A packed file may expand to so many bytes, or to so many times its size if that is more.

Text and numbers expand to 3 to 20 times their size, the worst file to more than 1,000 times.
"""

BLOCK_BYTES = 2**17  # that are unpacked at a time
HEAD_BYTES = 16  # show what kind of file it is

R = TypeVar("R")


class Format(NamedTuple, Generic[R]):
    """A file format: how it is read, and for errors its content."""

    read: R
    content: str
    named_columns: bool = False  # the keys of JSON objects count


class Formats(dict[str, Format[R]]):
    """File formats by the ending of the file name, which `.gz` may follow."""

    def of(self, path: str) -> Format[R] | None:
        """The format of a file by the ending of its name; None for another ending."""
        return next((found for ending, found in self.items() if has_ending(path, ending)), None)

    def reader(self, path: str, content: str, otherwise: str = "") -> R:
        """The reader for a file; a DataError with its content and another way to give it."""
        if found := self.of(path):
            return found.read
        if not os.path.exists(os.path.expanduser(path)):
            raise DataError("there is no such file or folder", where=path, todo=check_path(path))
        *most, last = (f"{ending} ({form.content})" for ending, form in self.items())
        raise DataError(
            f"{content} are not read from files with this ending",
            where=path,
            why=f"the formats are {', '.join(most)} and {last}",
            todo="name the file after its format" + (f", or {otherwise}" if otherwise else ""),
        )


def has_ending(path: str, *endings: str) -> bool:
    """Whether the name of a file has one of these endings, which `.gz` may follow."""
    return path.lower().removesuffix(".gz").endswith(endings)


def read_texts_in_lines(path: str) -> Generator[str, None, None]:
    """The lines of a file of one text per line; it raises as `read_lines`."""
    if has_ending(path, *NO_LINES) and os.path.exists(os.path.expanduser(path)):
        raise DataError(
            "files with this ending are not read line by line",
            where=path,
            why="their lines are no texts",
            todo="save the texts as a .txt file in UTF-8, one per line; to translate a document: "
            "clearhead translate MODEL DOCUMENT -o OUTPUT",
        )
    return read_lines(path)


def read_lines(path: str) -> Generator[str, None, None]:
    """The lines of a text file, without their ends; a DataError if it is empty or no text."""
    empty = True
    with open_unpacked(path) as stream:
        for line in read_stream(stream, path):
            empty = False
            yield line
    if empty:
        raise DataError("the file is empty", where=path)


def read_stream(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of an open stream, which may be empty, such as the standard input."""
    head, lines = b"", _raw_lines(stream)
    for number in itertools.count(1):
        where = f"{name}:{number}"
        try:
            raw = next(lines, b"")
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(name, error, number) from None
        if not raw:
            return
        if number == 1:
            head = raw[:HEAD_BYTES]
        try:
            text = _text(raw)
        except (ValueError, OverflowError) as error:
            raise not_text(error, raw, where, head, stream) from None
        yield text.removeprefix("\ufeff") if number == 1 else text


def _raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a stream with their ends, at most `MAX_LINE_BYTES` + 1 bytes of each."""
    first, second = stream.readline(MAX_LINE_BYTES + 1), b""
    if first.endswith(b"\n") and first.count(b"\r", 0, -2) > 1:
        second = stream.readline(MAX_LINE_BYTES + 1)
        if not second:  # a program has added the only line feed
            first = first.rstrip(b"\r\n") + b"\r"
    if first.endswith(b"\n") or b"\r" not in first[:-1]:
        yield first
        if second:
            yield second
        yield from iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b"")
        return
    block, rest = first, b""  # the lines end at carriage returns, as in old files of a Mac
    while block and len(rest) <= MAX_LINE_BYTES:
        *lines, rest = (rest + block).split(b"\r")
        yield from (line + b"\r" for line in lines)
        block = stream.read(BLOCK_BYTES)
    yield rest


def _text(raw: bytes) -> str:
    """A line without its end; an OverflowError if it is too long, or a ValueError if no UTF-8."""
    if len(raw) > MAX_LINE_BYTES:
        raise OverflowError(f"a line has more than {MAX_LINE_BYTES // 2**20} MiB")
    if b"\0" in raw:
        raise ValueError("a NUL byte: this is a binary file, or text in UTF-16")
    return raw.removesuffix(b"\n").rstrip(b"\r").decode("utf-8")


def check_expansion(packed: int, expanded: int) -> None:
    """Raise an ExpansionError if a packed file expands to far more bytes than data do."""
    if expanded > max(EXPANDED_BYTES, EXPANSION * packed):
        raise ExpansionError(f"{packed:,} bytes expand to {expanded:,} or more")


class ExpansionError(OSError, ValueError):
    """A packed file expands to far more bytes than data do."""


class _Unpacked(RawIOBase):
    """A gzip file that is unpacked as far as `check_expansion` allows."""

    def __init__(self, packed: BufferedReader) -> None:
        self._packed, self._expanded = packed, 0
        self._unpacked = gzip.GzipFile(fileobj=packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        count = self._unpacked.readinto1(buffer)
        self._expanded += count
        check_expansion(self._packed.tell(), self._expanded)
        return count


def unreadable(path: str, error: Exception, line: int = 1) -> DataError:
    """The error for a file that was opened and then cannot be read or unpacked."""
    if isinstance(error, ExpansionError):
        return DataError(
            "the file expands to far more than text does",
            where=path,
            why=str(error),
            todo="do not use it; if you trust it, unpack it with gunzip",
        )
    if isinstance(error, EOFError):
        what = "the .gz file is cut short"
    elif isinstance(error, zlib.error | gzip.BadGzipFile):
        what = "the .gz file is damaged"
    else:
        return DataError("the file cannot be read", where=path, why=reason(error))
    return DataError(what, where=f"{path}:{line}", todo="copy or download it again")


@contextmanager
def open_unpacked(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if its name ends in `.gz`; it raises as `open_packed`."""
    with open_packed(path) as stream:
        if path.lower().endswith(".gz"):
            if stream.peek(2)[:2] not in (b"\x1f\x8b", b""):
                todo = "remove .gz from its name, or compress it"
                raise DataError(
                    "the name ends in .gz, but it is no gzip file", where=path, todo=todo
                )
            yield BufferedReader(_Unpacked(stream), BLOCK_BYTES)
        else:
            yield stream


def open_packed(path: str, *, regular: bool = False) -> BufferedReader:
    """The bytes of a file, not unpacked; a DataError if it is missing, a folder, or unreadable.

    A pipe, such as `/dev/stdin`, is a file too unless the file must be `regular`. Opening a pipe
    without a writer never ends.
    """
    if regular:
        check_regular(path)
    try:
        return open(os.path.expanduser(path), "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", where=path, todo=check_path(path)) from None
    except IsADirectoryError:
        raise _folder(path) from None
    except (OSError, ValueError) as error:
        raise DataError("the file cannot be read", where=path, why=reason(error)) from None


def check_regular(path: str, *, folder: bool = False) -> None:
    """Raise a DataError for a pipe, a device, or a folder unless it may be a `folder`."""
    if is_read_once(path):
        raise DataError(
            "this is a pipe or a device, not a file",
            where=path,
            why="it can be read only once, and its content is needed several times",
            todo="save its content in a file, and name that",
        )
    if not folder and os.path.isdir(os.path.expanduser(path)):
        raise _folder(path)


def is_read_once(path: str) -> bool:
    """Whether this is a pipe or a device."""
    with suppress(OSError, ValueError):
        mode = os.stat(os.path.expanduser(path)).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def _folder(path: str) -> DataError:
    return DataError("this is a folder, not a file", where=path, todo="name a file in it")


def check_path(path: str) -> str:
    """What to do about a file or folder that does not exist."""
    if os.path.isabs(os.path.expanduser(path)):
        return "check the name; a relative path in a TOML file starts in the folder of that file"
    return f"check the name; it starts in the current folder, {os.getcwd()}"
