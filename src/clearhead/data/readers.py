r"""Files of sentence pairs and of lines, read as a stream and checked strictly.

A line ends at `\n` or `\r\n` and nowhere else (not at U+2028 and its like); a byte order mark
at the beginning of a file is dropped; text is UTF-8.

The built-in data are named like a file, see `builtin`.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import BinaryIO, NamedTuple, cast

from clearhead.data.phrasebook import PHRASEBOOK, Part, phrasebook_pairs
from clearhead.errors import DataError

BYTE_ORDER_MARK = "\ufeff"
# A guard for the memory: a line of a megabyte is text, one of a hundred is something else.
MAX_LINE_BYTES = 64 * 2**20


class Pair(NamedTuple):
    """A sentence, its translation, and the number of its line in the files (from 1)."""

    source: str
    target: str
    line: int


def read_pairs(files: Sequence[str], part: Part = "train") -> Iterator[Pair]:
    """The pairs of two parallel files, of one `.tsv` or `.jsonl` file, or of the phrasebook.

    A `.tsv` line is source, tab, target; a `.jsonl` line has the strings `source` and `target`.
    Each file may end in `.gz`. `part` is the part of a phrasebook named without one.

    Raises:
        DataError: a file is missing, unreadable, empty, binary, not UTF-8 or of the wrong form;
            parallel files differ in length (known when the shorter one has ended).
    """
    match [str(file) for file in files]:
        case [single] if single.startswith(PHRASEBOOK):
            return _read_phrasebook(single, part)
        case [single] if _plain_name(single).endswith(".tsv"):
            return _read_tsv(single)
        case [single] if _plain_name(single).endswith(".jsonl"):
            return _read_jsonl(single)
        case [single]:
            raise DataError(
                "one file of pairs must be a .tsv or .jsonl file",
                where=single,
                todo="name two parallel files, source and target",
            )
        case [source, target]:
            for name in (source, target):
                if name.startswith(PHRASEBOOK) or _plain_name(name).endswith((".tsv", ".jsonl")):
                    raise DataError("this holds source and target: name it alone", where=name)
            return _read_parallel(source, target)
        case names:
            raise DataError(f"{len(names)} files were named", todo="name one or two files")


def read_lines(path: str) -> Generator[str, None, None]:
    """The lines of one text file, which may end in `.gz`, without their ends.

    Raises:
        DataError: the file is missing, unreadable, empty, binary or not UTF-8.
    """
    empty = True
    with _unpacked(path) as stream:
        for line in read_stream(stream, path):
            empty = False
            yield line
    if empty:
        raise DataError("the file is empty", where=path)


def read_stream(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of an open stream, such as the standard input; there may be none.

    Args:
        stream: its bytes.
        name: what it is called in errors.

    Raises:
        DataError: it is unreadable, binary or not UTF-8.
    """
    number = 0
    while raw := _read_raw(stream, name, number + 1):
        number += 1
        yield _decode(raw, name, number)


def place(files: Sequence[str], line: int, in_target: bool = False) -> str:
    """Where a line of pairs is, or the target in it, as reports name it: `train.de:17`.

    Of two files that have one name as much of the paths is said as tells them apart.
    """
    paths = [str(file).split("/") for file in files]
    for parts in range(1, 1 + max(map(len, paths))):
        names = ["/".join(path[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return f"{names[-1 if in_target else 0]}:{line}"
    return f"{paths[0][-1]}:{line}"  # one file is both sides


def open_packed(path: str) -> BinaryIO:
    """The bytes of a file as they lie on disk.

    Raises:
        DataError: the file is missing, a folder, or may not be read.
    """
    try:
        return open(os.path.expanduser(path), "rb")
    except FileNotFoundError:
        raise DataError("there is no such file", where=path) from None
    except IsADirectoryError:
        raise DataError("this is a folder, not a file", where=path) from None
    except (OSError, ValueError) as error:
        raise DataError("the file cannot be read", where=path, why=str(error)) from None


@contextmanager
def _unpacked(path: str) -> Iterator[BinaryIO]:
    with open_packed(path) as stream:
        if path.lower().endswith(".gz"):
            with gzip.open(stream, "rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield stream


def _plain_name(path: str) -> str:
    return path.lower().removesuffix(".gz")


def _read_raw(stream: BinaryIO, path: str, number: int) -> bytes:
    try:
        raw = stream.readline(MAX_LINE_BYTES + 1)
    except EOFError:
        raise DataError("the .gz file is cut short", where=f"{path}:{number}") from None
    except (OSError, zlib.error) as error:
        raise DataError("the file cannot be read", where=path, why=str(error)) from None
    if len(raw) > MAX_LINE_BYTES:
        raise DataError(
            f"a line of more than {MAX_LINE_BYTES // 2**20} MiB",
            where=f"{path}:{number}",
            todo="give a text file with one sentence a line",
        )
    return raw


def _decode(raw: bytes, path: str, number: int) -> str:
    if b"\0" in raw:
        raise DataError(
            "a NUL byte: this is not a text file in UTF-8",
            where=f"{path}:{number}",
            todo="give plain text with one sentence a line (a file in UTF-16 must be converted)",
        )
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            "this is not UTF-8",
            where=f"{path}:{number}",
            why=f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}",
            todo="convert the file, e.g. iconv -f latin1 -t utf-8",
        ) from None
    return text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def _read_parallel(source: str, target: str) -> Iterator[Pair]:
    count = 0
    with closing(read_lines(source)) as sources, closing(read_lines(target)) as targets:
        for count, (left, right) in enumerate(itertools.zip_longest(sources, targets), start=1):
            if left is None or right is None:
                rest = count + sum(1 for _ in (targets if left is None else sources))
                counts = (count - 1, rest) if left is None else (rest, count - 1)
                raise DataError(
                    "the files differ in length, so their lines do not belong together",
                    where=f"{source}, {target}",
                    why=f"{counts[0]:,} lines and {counts[1]:,} lines",
                )
            yield Pair(left, right, count)


def _read_tsv(path: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise DataError(
                "the line is not source, tab, target",
                where=f"{path}:{number}",
                why=f"it has {len(columns) - 1} tabs",
            )
        yield Pair(columns[0], columns[1], number)


def _read_jsonl(path: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError("the line is not JSON", where=where, why=str(error)) from None
        if not isinstance(record, dict):
            raise DataError("the line is not a JSON object", where=where)
        yield Pair(_text(record, "source", where), _text(record, "target", where), number)


def _text(record: dict[str, object], name: str, where: str) -> str:
    text = record.get(name)
    if not isinstance(text, str):
        raise DataError(f'"{name}" is missing or not a string', where=where)
    if any(mark in text for mark in "\n\r\0") or any("\ud800" <= mark <= "\udfff" for mark in text):
        raise DataError(
            f'"{name}" holds a line break, a NUL or half a character (a lone surrogate)',
            where=where,
            todo="give one sentence, on one line",
        )
    return text


def _read_phrasebook(name: str, part: Part) -> Iterator[Pair]:
    for number, (source, target) in enumerate(phrasebook_pairs(name, part), start=1):
        yield Pair(source, target, number)
