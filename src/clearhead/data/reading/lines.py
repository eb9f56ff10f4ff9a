r"""Text files as streams of checked lines, and tables of file formats.

Text is UTF-8. A line ends at `\n` or `\r\n` (not at U+2028, for example), and at `\r` in a file
whose only `\n`, if any, is at its end. A byte order mark at the start of a file is dropped. A file
whose name ends in `.gz` is unpacked.
"""

from __future__ import annotations

import gzip
import itertools
import os
import re
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeVar

from clearhead.data.reading.encodings import SAMPLE_BYTES, kind_of_file, likely_encoding
from clearhead.errors import DataError, reason

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Limits the memory: a line of a megabyte may be text, a line of a hundred is not.
MAX_LINE_BYTES = 16 * 2**20

EXPANDED_BYTES, EXPANSION = 2**30, 200
"""A packed file may expand to so many bytes, or to so many times its size if that is more.

Text and numbers expand to 3 to 20 times their size, the worst file to more than 1,000 times.
"""

UNPACKED_BYTES = 2**17  # that are unpacked at a time

HEAD_BYTES = 16  # show what kind of file it is

_PLAIN = "save its text without markup as a .txt file in UTF-8, one sentence per line"
_ONE_COLUMN = "save the column of the texts as a .txt file in UTF-8, one text per line"
NO_LINES = {
    ".json .jsonl .ndjson": "write the texts one per line: jq -r .text FILE > NEW_FILE",
    ".csv .xlsx .xls .ods .parquet": _ONE_COLUMN,
    ".po .pot .xlf .xliff .sdlxliff .tmx .resx .strings .properties .yaml .yml": "extract its "
    "texts into a .txt file, one per line",
    ".html .htm .xhtml .xml .sgm .sgml .rtf .tex": _PLAIN,
    ".srt .vtt .sub .ass .ssa .sbv": "save its sentences without numbers and times as a .txt file, "
    "one per line",
    ".docx .doc .odt .pdf .epub .pptx .ppt .odp": _PLAIN,
}
"""Endings of files whose lines are no texts, and what to do about them; `.gz` may follow."""

NO_TEXT = re.compile(r"\s*(?:\{\s*\"|\[\s*[\[{\"]|<\?xml|<!doctype|<html|WEBVTT\b|msgid \")", re.I)
"""The start of line 1 of JSON, of markup, of subtitles or of a gettext catalogue."""


R = TypeVar("R")


def check_path(path: str) -> str:
    """What to do about a file or folder that does not exist."""
    if os.path.isabs(os.path.expanduser(path)):
        return "check the name; a relative path in a TOML file starts in the folder of that file"
    return f"check the name; it starts in the current folder, {os.getcwd()}"


class Format(NamedTuple, Generic[R]):
    """A file format.

    Attributes:
        read: reads a file of this format.
        content: of the file, for help texts and errors.
        named_columns: whether the columns have names (the keys of JSON objects count).
    """

    read: R
    content: str
    named_columns: bool = False


class Formats(dict[str, Format[R]]):
    """File formats by the ending of the file name, which `.gz` may follow."""

    def of(self, path: str) -> Format[R] | None:
        """The format of a file by the ending of its name; None for another ending."""
        name = path.lower().removesuffix(".gz")
        return next((found for ending, found in self.items() if name.endswith(ending)), None)

    def reader(self, path: str, content: str, otherwise: str = "") -> R:
        """The reader for a file.

        For the error, `content` is what the file should have ("sentence pairs"), and `otherwise`
        another way to give it.

        Raises:
            DataError: the name has another ending.
        """
        found = self.of(path)
        if found is not None:
            return found.read
        if not os.path.exists(os.path.expanduser(path)):
            raise DataError("there is no such file or folder", where=path, todo=check_path(path))
        raise DataError(
            f"{content} are not read from files with this ending",
            where=path,
            why=f"the formats are {self.described('and')}",
            todo="name the file after its format" + (f", or {otherwise}" if otherwise else ""),
        )

    def described(self, last: str) -> str:
        """All endings with their contents; `last` joins the last two: "and" or "or"."""
        *most, final = (f"{ending} ({found.content})" for ending, found in self.items())
        return f"{', '.join(most)} {last} {final}"


def read_texts_in_lines(path: str) -> Generator[str, None, None]:
    """The lines of a file of one text per line; it raises as `read_lines`."""
    name = path.lower().removesuffix(".gz")
    for endings, todo in NO_LINES.items():
        if name.endswith(tuple(endings.split())) and os.path.exists(os.path.expanduser(path)):
            what = "files with this ending are not read line by line"
            raise DataError(what, where=path, why="their lines are no texts", todo=todo)
    return read_lines(path)


def read_lines(path: str) -> Generator[str, None, None]:
    """The lines of one text file, without their ends.

    Raises:
        DataError: the file is missing, unreadable, empty, binary or not UTF-8.
    """
    empty = True
    with open_unpacked(path) as stream:
        for line in read_stream(stream, path):
            empty = False
            yield line
    if empty:
        raise DataError("the file is empty", where=path)


def read_stream(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of an open stream, which may be empty, such as the standard input.

    Raises:
        DataError: it is unreadable, binary or not UTF-8.
    """
    head, lines = b"", _raw_lines(stream)
    for number in itertools.count(1):
        try:
            raw = next(lines, b"")
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(name, error, number) from None
        if number == 1:
            head = raw[:HEAD_BYTES]
        if not raw:
            return
        try:
            text = _text(raw)
        except ValueError as error:
            raise _not_text(error, raw, f"{name}:{number}", head, stream) from None
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
        block = stream.read(UNPACKED_BYTES)
    yield rest


def _text(raw: bytes) -> str:
    """A line without its end; a ValueError if it is too long, binary or not UTF-8."""
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(f"a line has more than {MAX_LINE_BYTES // 2**20} MiB")
    if b"\0" in raw:
        raise ValueError("a NUL byte: this is a binary file, or text in UTF-16")
    return raw.removesuffix(b"\n").rstrip(b"\r").decode("utf-8")


def _not_text(
    error: ValueError, raw: bytes, where: str, head: bytes, stream: BinaryIO
) -> DataError:
    """The error for a line that is not text in UTF-8.

    Args:
        error: of `_text`.
        raw: the line.
        where: its place, `file:line`.
        head: the first bytes of the file.
        stream: what follows the line.
    """
    if found := kind_of_file(head):
        kind, todo = found
        return DataError(f"this is {kind}, not text", where=where.rpartition(":")[0], todo=todo)
    if len(raw) > MAX_LINE_BYTES:
        return DataError(str(error), where=where, todo="give a text file with one text per line")
    sample = raw
    with suppress(OSError, EOFError, zlib.error):
        sample += stream.read(SAMPLE_BYTES)
    encoding = likely_encoding(head, sample)
    if not encoding:
        todo = "save the text in UTF-8 in the program that wrote it, or convert it with iconv"
    else:
        todo = f"convert it: iconv -f {encoding} -t utf-8 FILE > NEW_FILE"
    if not isinstance(error, UnicodeDecodeError):
        what = f"this is text in {encoding}, not in UTF-8" if encoding else str(error)
        return DataError(what, where=where, todo=todo)
    why = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
    if encoding:
        why += f"; the encoding is probably {encoding}"
    return DataError("this is not UTF-8", where=where, why=why, todo=todo)


def check_expansion(packed: int, expanded: int) -> None:
    """Check that a packed file does not expand to far more bytes than data do.

    Raises:
        ExpansionError: it does.
    """
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
        what, where = "the .gz file is cut short", f"{path}:{line}"
    elif isinstance(error, zlib.error | gzip.BadGzipFile):
        what, where = "the .gz file is damaged", f"{path}:{line}"
    else:
        return DataError("the file cannot be read", where=path, why=reason(error))
    return DataError(what, where=where, todo="copy or download it again")


def refuse_pipe(path: str) -> None:
    """Raise a DataError for a pipe or a device, which can be read only once."""
    with suppress(OSError, ValueError):  # reading it raises the error
        mode = os.stat(os.path.expanduser(path)).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise DataError(
                "this is a pipe or a device, not a file",
                where=path,
                why="it can be read only once, and its content is needed several times",
                todo="save its content in a file, and name that",
            )


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
            yield BufferedReader(_Unpacked(stream), UNPACKED_BYTES)
        else:
            yield stream


def open_packed(path: str, *, regular: bool = False) -> BufferedReader:
    """The bytes of a file as they are on disk, not unpacked.

    Args:
        path: of the file. A pipe, such as `/dev/stdin`, is a file too.
        regular: whether it must be a file on a disk. Opening a pipe without a writer never ends.

    Raises:
        DataError: the file is missing, a folder, or cannot be read; or `regular` is not met.
    """
    if regular:
        refuse_pipe(path)
    try:
        return open(os.path.expanduser(path), "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", where=path, todo=check_path(path)) from None
    except IsADirectoryError:
        todo = "name a file in it"
        raise DataError("this is a folder, not a file", where=path, todo=todo) from None
    except (OSError, ValueError) as error:
        raise DataError("the file cannot be read", where=path, why=reason(error)) from None
