"""Options and exit codes that all benchmarks share."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Collection
from pathlib import Path

from clearhead.errors import ClearheadError, DataError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def make_parser(doc: str | None) -> ArgumentParser:
    """A parser with the first line of a script's docstring and the option `--output`."""
    parser = ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument(
        "--output",
        type=new_file,
        metavar="FILE.jsonl",
        help="file for the records (default: the script's file in benchmarks/results)",
    )
    return parser


def exit_code_of(work: Callable[[], object], interrupted: str = "interrupted") -> int:
    """Do the work; return 0, or another exit code after an error was printed to stderr.

    Args:
        work: what the benchmark does.
        interrupted: printed after Ctrl-C.
    """
    try:
        work()
    except ClearheadError as error:
        log(str(error))
        return error.exit_code
    except OSError as error:
        # When a file replaces another, the second name is the one that the user gave.
        named = error.filename2 or error.filename
        refused = DataError("this cannot be read or written", where=named, why=str(error))
        log(str(refused))
        return refused.exit_code
    except KeyboardInterrupt:
        # On a terminal a line of progress may not have ended yet.
        log("\n" * sys.stderr.isatty() + interrupted)
        return INTERRUPTED
    return 0


def has_data() -> bool:
    """Whether `CLEARHEAD_DATA` names the data folder; if not, print that the run is skipped."""
    if os.environ.get("CLEARHEAD_DATA"):
        return True
    print("skipped: CLEARHEAD_DATA names no folder with the data (examples/fetch_data.py)")
    return False


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that is a whole number within bounds."""
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


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """The type of an argument with a fixed set of values.

    Argparse would check its own `choices` against an empty list too.
    """

    def parse(text: str) -> str:
        if text not in names:
            raise ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return parse


def new_file(text: str) -> str:
    """The type of an option that names a file to write; fails early if it cannot be written."""
    path = Path(text)
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ArgumentTypeError(f"there is no folder for {text}")
    if path.is_dir():
        raise ArgumentTypeError(f"{text} is a folder")
    # The file is replaced as a whole, so the folder must be writable too.
    for place in (folder, path):
        if place.exists() and not os.access(place, os.W_OK):
            raise ArgumentTypeError(f"{text} cannot be written: no permission for {place}")
    return text


def existing_folder(text: str) -> str:
    """The type of an option that names a folder."""
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"there is no folder {text}")
    return text


def log(text: str) -> None:
    """Print to stderr: stdout has the results alone."""
    print(text, file=sys.stderr, flush=True)
