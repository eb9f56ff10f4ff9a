"""How far a long command has come, on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

PATIENCE_S = 2.0
INTERVAL_S = 0.5
CLEAR = "\r\x1b[K"

CLASSIFIED = {"text": "texts", "features": "sequences"}
"""What a classifier's inputs are called, by their kind."""


class Counter:
    """One line on a terminal that is written over and over, and gone at the end.

    It says nothing in the first two seconds, and nothing at all where the stream is no terminal.

    Args:
        stream: where it writes; None, as Python has it, where it is closed.
        total: how many there are, if that is known.
        noun: what is counted: `sentences`.
        wanted: False if it would be in the way.
        clock: tells seconds that never go back.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int | None,
        noun: str,
        wanted: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal = stream if wanted and stream is not None and stream.isatty() else None
        self._total = total
        self._noun = noun
        self._clock = clock
        self._began = clock()
        self._next = self._began + PATIENCE_S
        self._shown = False

    def show(self, done: int) -> None:
        """So many are done."""
        now = self._clock()
        if self._terminal is None or now < self._next:
            return
        self._next = now + INTERVAL_S
        self._shown = True
        rate = done / (now - self._began)
        of_all = "" if self._total is None else f" of {self._total:,}"
        line = f"{done:,}{of_all} {self._noun}, {rate:,.1f} a second"
        if self._total is not None and rate > 0:
            from clearhead.training.wording import duration

            line += f", {duration((self._total - done) / rate)} left"
        self._terminal.write(CLEAR + line)
        self._terminal.flush()

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._terminal is not None and self._shown:
            self._terminal.write(CLEAR)
            self._terminal.flush()
            self._shown = False
