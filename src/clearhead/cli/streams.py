"""Where the sentences of a command come from, and where its output goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def opened_output(path: str) -> Iterator[BinaryIO]:
    """A stream to a file, or to the standard output where the path is `-`.

    The file appears under its name when all of it is written. If that does not come to pass, what
    was written stays beside it as `name.part`.

    Raises:
        DataError: the file cannot be written.
    """
    if path == STANDARD:
        if sys.stdout is None:
            raise DataError("there is no standard output", todo="name a file: -o out.txt")
        try:
            yield sys.stdout.buffer
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable("standard output", error) from None
        return
    try:
        whole = Path(os.path.expanduser(path)).resolve()
        # A device or a pipe is written to; moving a file to its name would take its place.
        special = whole.exists() and not whole.is_file()
        part = whole if special else whole.with_name(f"{whole.name}.part")
        stream = part.open("wb")
    except (OSError, RuntimeError) as error:  # of links in a circle, pathlib's is a RuntimeError
        raise _unwritable(path, error) from None
    try:
        with stream:
            yield stream
        if not special:
            os.replace(part, whole)
    except OSError as error:
        _settle(part, special)
        if isinstance(error, BrokenPipeError):
            raise
        raise _unwritable(path, error) from None
    except BaseException:
        _settle(part, special)
        raise


def _unwritable(where: str, error: Exception) -> DataError:
    return DataError("the output cannot be written", where=where, why=str(error))


def _settle(part: Path, special: bool) -> None:
    """Keep what is worth keeping of an output that was not finished, and say so."""
    if special:
        return
    if part.stat().st_size:
        say(f"what was written so far is in {part}")
    else:
        part.unlink()
