"""Options and exit codes that all benchmarks share."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from clearhead.cli.failures import failures_reported
from clearhead.device import keep_freed_memory


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


def exit_code_of(work: Callable[[], object]) -> int:
    """Do the work as a command of clearhead would.

    Returns 0, or another exit code after an expected error was printed.
    """
    keep_freed_memory()
    try:
        with failures_reported():
            work()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def add_threads(parser: ArgumentParser) -> None:
    """Add the option `--threads`."""
    parser.add_argument(
        "--threads", type=whole(0), default=0, help="CPU threads (default: PyTorch's)"
    )


def has_data() -> bool:
    """Whether `CLEARHEAD_DATA` is set; if not, print that the benchmark is skipped."""
    if os.environ.get("CLEARHEAD_DATA"):
        return True
    print("skipped: CLEARHEAD_DATA is not set (see examples/fetch_data.py)")
    return False


def whole(least: int, most: int = sys.maxsize) -> Callable[[str], int]:
    """The type of an option that is a whole number within bounds."""

    def whole_number(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            bounds = f"at least {least}" + (f" and at most {most}" if most < sys.maxsize else "")
            raise ArgumentTypeError(f"must be {bounds}, not {text}")
        return number

    return whole_number


positive = whole(1)


def new_file(text: str) -> str:
    """The type of an option that names a file to write; fails early if it cannot be written."""
    # The file is replaced as a whole, so the folder must be writable.
    if Path(text).is_dir() or not os.access(Path(text).resolve().parent, os.W_OK):
        raise ArgumentTypeError(f"{text} cannot be written")
    return text


def log(text: str) -> None:
    """Print to stderr, because stdout only contains results."""
    print(text, file=sys.stderr, flush=True)
