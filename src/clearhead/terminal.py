"""Text for a terminal: what would steer the terminal, or reorder its text, becomes U+FFFD.

A label, a file name or a translation may contain an escape sequence. Written to a terminal, it
could clear the screen, write the clipboard, or show something else than the text says.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO, cast

REPLACEMENT = "\ufffd"

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")
"""Control characters but line break and tab (a carriage return overwrites the line), line and
paragraph separators, embeddings, overrides and isolates of bidirectional text, and lone surrogates.
The marks U+061C, U+200E and U+200F and the joiners U+200C and U+200D stay: ordinary text needs
them, and they change the order of neighbouring characters at most."""


def printable(text: str) -> str:
    """The text with U+FFFD for each character that is not safe on a terminal."""
    return UNSAFE.sub(REPLACEMENT, text)


def printable_line(text: str) -> str:
    """`printable` text in one line: also with U+FFFD for line breaks and tabs."""
    return printable(text).replace("\n", REPLACEMENT).replace("\t", REPLACEMENT)


class FilteredStream:
    """A text stream that writes `printable` text to another stream.

    Args:
        unfiltered: the stream to write to; its other attributes are those of this stream.
    """

    def __init__(self, unfiltered: TextIO) -> None:
        self.unfiltered = unfiltered

    def __getattr__(self, name: str) -> object:
        return getattr(self.unfiltered, name)

    def write(self, text: str) -> int:
        """Write the text, filtered; the result counts its characters."""
        self.unfiltered.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, filtered."""
        for line in lines:
            self.write(line)


def filtered(stream: TextIO) -> TextIO:
    """The stream as a `FilteredStream`."""
    return stream if isinstance(stream, FilteredStream) else cast(TextIO, FilteredStream(stream))


def unfiltered(stream: TextIO) -> TextIO:
    """The stream below a `FilteredStream`, for a display that sends its own escape sequences."""
    return stream.unfiltered if isinstance(stream, FilteredStream) else stream


@contextmanager
def filtered_output() -> Iterator[None]:
    """Filter the standard error, and the standard output if it is a terminal."""
    # In a file or a pipe a result is data, and stays as it is. The standard error is filtered there
    # too, since logs are read on terminals. The traceback of an exception is filtered when Python
    # prints it.
    before = sys.stdout, sys.stderr
    try:
        if sys.stdout is not None and sys.stdout.isatty():
            sys.stdout = filtered(sys.stdout)
        if sys.stderr is not None:
            sys.stderr = filtered(sys.stderr)
        yield
    except Exception:
        sys.excepthook = _print_traceback
        raise
    finally:
        sys.stdout, sys.stderr = before


def _print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback like Python, filtered and without the colours of newer versions."""
    if sys.stderr is not None:
        traceback.print_exception(kind, error, trace, file=filtered(sys.stderr))
