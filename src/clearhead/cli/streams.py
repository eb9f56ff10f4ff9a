"""Where the sentences of a command come from, and where its output goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from clearhead.cli.failures import say
from clearhead.errors import DataError

STANDARD = "-"


def refuse_standard(path: str) -> None:
    """Say that a model of features reads a file, and not the standard input.

    Raises:
        DataError: the path is `-`.
    """
    if path == STANDARD:
        raise DataError(
            "this model classifies sequences of features, which are read from a file",
            todo="name it: --input sequences.ts",
        )


def input_lines(path: str) -> Iterator[str]:
    """The lines of a file, or of the standard input where the path is `-`.

    An empty standard input has no lines; an empty file is an error, for it is hardly meant.

    Raises:
        DataError: the input is unreadable, binary or not UTF-8, with the number of the line.
    """
    from clearhead.data.readers import read_lines, read_stream

    if path != STANDARD:
        return read_lines(path)
    if sys.stdin is None:
        raise DataError("there is no standard input", todo="name a file: -i in.txt")
    return read_stream(sys.stdin.buffer, "standard input")


def counted_lines(path: str) -> int | None:
    """The lines of a file, all of which are checked; None where it cannot be read twice.

    Raises:
        DataError: the file is missing, unreadable, empty, binary or not UTF-8.
    """
    from clearhead.data.readers import read_lines

    if path == STANDARD:
        return None
    # As the reader will look for it; what may not be looked at is its to refuse.
    found = os.path.expanduser(path)
    if os.path.exists(found) and not os.path.isfile(found):
        return None
    return sum(1 for _ in read_lines(path))


class Output:
    """Where results go.

    Args:
        stream: a file, or the standard output.
        where: its name for messages.
        old: whether the file holds what another command left, which is to go when this one begins.
    """

    def __init__(self, stream: BinaryIO, where: str, old: bool = False) -> None:
        self._stream = stream
        self._where = where
        self.old = old

    def begin(self) -> None:
        """Let go what another command left in the file."""
        if self.old:
            self._stream.truncate(0)
            self.old = False

    def write(self, text: str) -> None:
        """Write a text, through to whoever reads it; half a character (a surrogate) becomes `?`.

        Raises:
            DataError: it cannot be written.
            BrokenPipeError: nobody reads it any more.
        """
        with _unwritable_said(self._where):
            self.begin()
            self._stream.write(text.encode("utf-8", errors="replace"))
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether a person reads it on a terminal."""
        return self._stream.isatty()


@contextmanager
def opened_output(path: str) -> Iterator[Output]:
    """An output to a file, or to the standard output where the path is `-`.

    The file appears under its name when all of it is written. If that does not come to pass, what
    was written stays beside it as `name.part`, until another command has something to write there.

    Raises:
        DataError: the file cannot be written.
    """
    if path == STANDARD:
        if sys.stdout is None:
            raise DataError("there is no standard output", todo="name a file: -o out.txt")
        yield Output(sys.stdout.buffer, "standard output")
        return
    with _unwritable_said(path):
        whole = Path(os.path.expanduser(path)).resolve()
        # A device or a pipe is written to; moving a file to its name would take its place.
        special = whole.exists() and not whole.is_file()
        part = whole if special else whole.with_name(f"{whole.name}.part")
        stream = part.open("wb" if special else "ab")
    output = Output(stream, path, old=not special)
    try:
        yield output
        with _unwritable_said(path):
            output.begin()
            stream.close()
            if not special:
                os.replace(part, whole)
    except BaseException:
        with suppress(OSError):  # what it still holds cannot be written either
            stream.close()
        if not special:
            _settle(part, said=not output.old)
        raise


@contextmanager
def _unwritable_said(where: str) -> Iterator[None]:
    """Tell what the system refuses within as an error of the output; a broken pipe stays one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError) as error:  # of links in a circle, pathlib's is a RuntimeError
        raise DataError("the output cannot be written", where=where, why=str(error)) from None


def _settle(part: Path, said: bool) -> None:
    """Keep what is worth keeping of an output that was not finished."""
    if not part.stat().st_size:
        part.unlink()
    elif said:
        say(f"what was written so far is in {part}")
