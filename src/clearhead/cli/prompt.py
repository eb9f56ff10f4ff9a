"""Lines that a user types at a terminal, with a prompt and line editing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from io import TextIOWrapper
from typing import cast

PROMPT = "> "


def is_typed() -> bool:
    """Whether the standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def typed_lines() -> Iterator[str]:
    """The lines that are typed until Ctrl-D, each after a prompt."""
    with suppress(ImportError):
        import readline  # noqa: F401  (`input` then edits lines and has a history)
    cast(TextIOWrapper, sys.stdin).reconfigure(errors="replace")
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    while True:
        try:
            line = input(PROMPT) if on_terminal else _line_without_editing()
        except EOFError:
            print(file=sys.stderr)  # the next prompt of the shell begins a line
            return
        yield line


def _line_without_editing() -> str:
    """A line of input while the output is redirected: `input` would write the prompt into it."""
    print(PROMPT, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
