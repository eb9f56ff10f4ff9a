"""What the commands of all benchmarks share: the checks of their options, and how they end."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError, DataError

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

BROKEN_PIPE = 141
"""That of a program whose output nobody reads any more, as `head` does not."""


def exit_code_of(work: Callable[[], object], interrupted: str = "interrupted") -> int:
    """Do the work; 0, or another exit code once what went wrong was said in a line or a few.

    Args:
        work: what the benchmark does.
        interrupted: what is said after Ctrl-C.
    """
    try:
        work()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python would fail again when it flushes at its end.
        with suppress(OSError, ValueError):
            if sys.stdout is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except ClearheadError as error:
        say(str(error))
        return error.exit_code
    except OSError as error:
        # Of two files the second is the one that somebody named.
        named = error.filename2 or error.filename
        refused = DataError("this cannot be read or written", where=named, why=str(error))
        say(str(refused))
        return refused.exit_code
    except KeyboardInterrupt:
        # On a terminal a line of progress may have no end yet.
        say("\n" * sys.stderr.isatty() + interrupted)
        return INTERRUPTED
    return 0


def has_data() -> bool:
    """Whether `CLEARHEAD_DATA` names the data; if not, it is said that the benchmark is skipped."""
    if os.environ.get("CLEARHEAD_DATA"):
        return True
    print("skipped: CLEARHEAD_DATA names no folder with the data (examples/fetch_data.py)")
    return False


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that is a whole number within two bounds."""
    bounds = f"at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least or (most is not None and number > most):
            raise ArgumentTypeError(f"must be {bounds}, not {text}")
        return number

    return parse


positive = whole(1)


def rate(text: str) -> float:
    """The type of an option that is a share of at least 0 and less than 1."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= number < 1:
        raise ArgumentTypeError(f"must be at least 0 and less than 1, not {text}")
    return number


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """The type of an argument that has one of these names.

    Argparse's own `choices` would hold them against an empty list too.
    """

    def parse(text: str) -> str:
        if text not in names:
            raise ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return parse


def new_file(*suffixes: str) -> Callable[[str], str]:
    """The type of an option that names a file to be written, with one of these endings if any.

    What could not be written is refused before minutes go into it.
    """

    def parse(text: str) -> str:
        path = Path(text)
        if suffixes and path.suffix not in suffixes:
            raise ArgumentTypeError(f"{text} does not end in {' or '.join(suffixes)}")
        if not path.resolve().parent.is_dir():
            raise ArgumentTypeError(f"there is no folder for {text}")
        if path.is_dir():
            raise ArgumentTypeError(f"{text} is a folder")
        # JSON takes the place of an old file, so that the folder has to let it too.
        for place in (path.resolve().parent, path):
            if place.exists() and not os.access(place, os.W_OK):
                raise ArgumentTypeError(f"{text} cannot be written: {place} is closed to you")
        return text

    return parse


def existing_folder(text: str) -> str:
    """The type of an option that names a folder."""
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"there is no folder {text}")
    return text


def write_json(path: str, tree: dict[str, Any]) -> None:
    """Write JSON; a file that is there already is replaced as a whole."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.unfinished")
    text = json.dumps(tree, indent=1, ensure_ascii=False)
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(target)


def say(text: str) -> None:
    """Tell what is being done, on stderr: stdout has the results alone."""
    print(text, file=sys.stderr, flush=True)
