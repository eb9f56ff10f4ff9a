"""Lines that a user types at a terminal: a prompt, line editing, and Ctrl-C at any moment."""

from __future__ import annotations

import atexit
import os
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import TextIOWrapper
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, cast

PROMPT = "> "
POLL_S = 0.1


def is_typed() -> bool:
    """Whether the standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def typed_lines() -> Iterator[str]:
    """The lines that are typed until Ctrl-D, each after a prompt.

    Another thread waits for the keys, while this one only looks from time to time whether a line is
    complete. A call that waits for keys here could miss Ctrl-C: a signal that comes just before the
    call does not interrupt it.
    """
    requests: SimpleQueue[bool] = SimpleQueue()
    lines: SimpleQueue[str | Exception | None] = SimpleQueue()
    Thread(target=_read, args=(_reader(), requests, lines), daemon=True).start()
    # Line editing changes the settings of the terminal; the thread may do so even after Ctrl-C.
    atexit.register(_restore, termios.tcgetattr(sys.stdin))
    while True:
        requests.put(True)
        line = _next(lines)
        if isinstance(line, Exception):
            raise line
        if line is None:
            print(file=sys.stderr)  # the next prompt of the shell begins a line
            requests.put(False)
            return
        yield line


def _restore(settings: list[Any]) -> None:
    with suppress(termios.error, OSError, ValueError):  # the terminal is closed
        termios.tcsetattr(sys.stdin, termios.TCSANOW, settings)


def _next(lines: SimpleQueue[str | Exception | None]) -> str | Exception | None:
    while True:
        with suppress(Empty):
            return lines.get(timeout=POLL_S)


def _read(
    read_line: Callable[[], str],
    requests: SimpleQueue[bool],
    lines: SimpleQueue[str | Exception | None],
) -> None:
    """Answer each request by a line, None at the end, or the exception of the reader."""
    while requests.get():
        try:
            lines.put(read_line())
        except EOFError:
            lines.put(None)
        except Exception as error:
            lines.put(error)


def _reader() -> Callable[[], str]:
    """The function that shows the prompt and reads a line; it raises an EOFError at the end."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _read_plain
    with suppress(ImportError):
        import readline  # noqa: F401  (`input` then edits lines and has a history)
    cast(TextIOWrapper, sys.stdin).reconfigure(errors="replace")
    return lambda: input(PROMPT)


def _read_plain() -> str:
    """A line without line editing; `input` would write the prompt into the redirected output."""
    print(PROMPT, end="", file=sys.stderr, flush=True)
    # Not through the buffer of `sys.stdin`: Python waits for its lock when it exits.
    line = os.read(sys.stdin.fileno(), 2**16)
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace").rstrip("\n")
