"""Who shows a run to people: a live screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
from typing import TextIO, cast

from clearhead.training.events import (
    Event,
    Note,
    Observer,
    Progress,
    RunEnded,
    RunStarted,
    Validated,
)
from clearhead.training.wording import ended_lines, progress_line, started_line, validation_line

INTERVAL_S = 10.0


def displays(stream: TextIO | None) -> list[Observer]:
    """What shows a run to the person who began it: nothing where the stream is closed (None)."""
    return [] if stream is None else [choose_display(stream)]


def choose_display(stream: TextIO) -> Observer:
    """A live screen where the stream is a terminal that can show one, else plain lines."""
    if stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        from clearhead.training.screen import LiveScreen

        return LiveScreen(stream)
    return PlainLines(stream)


class ForgivingStream:
    """A stream that falls silent for good when it cannot be written, e.g. to a broken pipe.

    Training goes on when nobody watches it any more.

    Args:
        stream: what is written to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._silent = False
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write the text, or nothing once the stream is silent."""
        if not self._silent:
            try:
                self._stream.write(text)
            except OSError:
                self._silent = True
        return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        if not self._silent:
            try:
                self._stream.flush()
            except OSError:
                self._silent = True

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The number of the stream's file."""
        return self._stream.fileno()


def forgiving(stream: TextIO) -> TextIO:
    """The stream, but falling silent instead of failing; enough of one for what is shown here."""
    return cast(TextIO, ForgivingStream(stream))


class PlainLines:
    """One line an interval and one a validation, fit for a log file.

    Args:
        stream: where the lines go.
        interval_s: the least seconds of training between two lines of progress.
    """

    def __init__(self, stream: TextIO, interval_s: float = INTERVAL_S) -> None:
        self._stream = forgiving(stream)
        self._interval_s = interval_s
        self._max_steps: int | None = None
        self._shown_s: float | None = None

    def observe(self, event: Event) -> None:
        """Write the event as a line, unless it is progress and the last line is too fresh."""
        match event:
            case RunStarted():
                self._max_steps = event.max_steps
                self._write(started_line(event))
            case Progress():
                if self._shown_s is None or event.elapsed_s - self._shown_s >= self._interval_s:
                    self._shown_s = event.elapsed_s
                    self._write(progress_line(event, self._max_steps))
            case Validated():
                self._write(validation_line(event))
            case RunEnded():
                for line in ended_lines(event):
                    self._write(line)
            case Note():
                self._write(event.text)

    def close(self) -> None:
        """Nothing is left to do: every line was flushed."""

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()
