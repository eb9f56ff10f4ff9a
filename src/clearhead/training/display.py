"""Displays of a run: plain lines, or a live screen on a terminal."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clearhead.terminal import printable, printable_line, unfiltered
from clearhead.training.events import (
    Event,
    Note,
    Observer,
    Progress,
    RunEnded,
    RunStarted,
    Validated,
)
from clearhead.training.task import Sample

INTERVAL_S = 10.0
"""Seconds between two plain lines of progress."""

REFRESHES_A_SECOND = 2
LABEL_WIDTH = 12
FIGURES_HEIGHT = 11  # lines of the picture without samples, and one for the cursor
MOST_SAMPLE_LINES = 3
BLOCKS = "▁▂▃▄▅▆▇█"


def displays(stream: TextIO | None) -> list[Observer]:
    """The display for a stream, in a list that is empty if the stream is closed (None)."""
    return [] if stream is None else [choose_display(stream)]


def choose_display(stream: TextIO) -> Observer:
    """A live screen if the stream is a terminal that can show one, else plain lines."""
    if stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        return LiveScreen(stream)
    return PlainLines(stream)


class PlainLines:
    """Writes lines for a log file: progress once an interval, and every other event.

    Args:
        stream: to write to.
        interval_s: least number of seconds between two lines of progress.
    """

    def __init__(self, stream: TextIO, interval_s: float = INTERVAL_S) -> None:
        self._stream = forgiving(stream)
        self._interval_s = interval_s
        self._max_steps: int | None = None
        self._written_s: float | None = None

    def observe(self, event: Event) -> None:
        """Write the event as a line. Progress within the interval is skipped."""
        match event:
            case RunStarted():
                self._max_steps = event.max_steps
                self._write(started_line(event))
            case Progress():
                if self._written_s is None or event.elapsed_s - self._written_s >= self._interval_s:
                    self._written_s = event.elapsed_s
                    self._write(progress_line(event, self._max_steps))
            case Validated():
                self._write(validation_line(event))
            case RunEnded():
                for line in ended_lines(event):
                    self._write(line)
            case Note():
                self._write(event.text)

    def close(self) -> None:
        """Do nothing: every line is flushed."""

    def _write(self, line: str) -> None:
        self._stream.write(printable(line) + "\n")
        self._stream.flush()


class LiveScreen:
    """Redraws one picture of the run in place. Notes are printed above it.

    Args:
        stream: a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=forgiving(unfiltered(stream)))  # `plain` filters its texts
        self._live: Live | None = None
        self._picture: Picture | None = None

    def observe(self, event: Event) -> None:
        """Show the event."""
        match event:
            case Note():
                self._console.print(plain(event.text))
            case RunStarted():
                self._console.print(plain(started_line(event)))
                self._picture = Picture(event)
                self._live = Live(
                    self._picture,
                    console=self._console,
                    refresh_per_second=REFRESHES_A_SECOND,
                    vertical_overflow="crop",
                )
                self._live.start()
            case RunEnded():
                self.close()
                for line in ended_lines(event):
                    self._console.print(plain(line))
            case Progress() | Validated() if self._picture is not None:
                self._picture.take(event)

    def close(self) -> None:
        """Leave the last picture on the terminal and show the cursor again."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class Picture:
    """The current figures of a run, which Rich can draw at any width.

    Args:
        started: the start of the run.
        clock: returns seconds and never goes back. The time shown advances between two events.
    """

    def __init__(self, started: RunStarted, clock: Callable[[], float] = time.monotonic) -> None:
        self._started = started
        self._clock = clock
        self._reported_at = clock()
        self._progress: Progress | None = None
        self._validated: Validated | None = None
        self._history: list[float] = []

    def take(self, event: Progress | Validated) -> None:
        """Replace the figures by those of this event."""
        if isinstance(event, Progress):
            self._progress = event
            self._reported_at = self._clock()
            return
        self._validated = event
        if event.weights == "current":
            self._history.append(event.scores[event.measure])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        parts = [self._training(width)]
        if self._validated is not None:
            parts.append(self._validation(self._validated, width))
            height = options.height or console.size.height
            parts += self._samples(self._validated.samples, height, width)
        yield Group(*parts)

    def _training(self, width: int) -> Table:
        progress = self._progress
        if progress is None:
            return _table(width, ("training", "the first steps …"))
        steps = _steps(progress.step, self._started.max_steps)
        since = self._clock() - self._reported_at
        times = f"{duration(progress.elapsed_s + since)} so far"
        if progress.remaining_s is not None:
            times += f", {duration(progress.remaining_s - since)} left"
        loss = (
            f"{progress.loss:.3f}   learning rate {progress.learning_rate:.2e}   "
            f"gradient norm {progress.gradient_norm:.2f}"
        )
        rates = [f"{name} {_rate(value)}" for name, value in progress.rates.items()]
        costs = [f"{name} {_share(value)}" for name, value in progress.shares.items()]
        costs.append(f"memory {megabytes(progress.memory_mb)}")
        return _table(
            width,
            ("training", f"{steps}, epoch {progress.epoch}"),
            ("", self._bar(progress)),
            ("time", times),
            ("loss", loss),
            ("speed", "   ".join(rates)),
            ("", "   ".join(costs)),
        )

    def _bar(self, progress: Progress) -> ProgressBar:
        if self._started.max_steps:
            return ProgressBar(total=self._started.max_steps, completed=progress.step)
        if progress.remaining_s is not None:
            whole = progress.elapsed_s + progress.remaining_s
            return ProgressBar(total=whole or 1.0, completed=progress.elapsed_s)
        return ProgressBar(pulse=True)

    def _validation(self, event: Validated, width: int) -> Table:
        weights = "" if event.weights == "current" else f", {event.weights} weights"
        trend = sparkline(self._history[-max(8, width - 50) :])
        return _table(
            width,
            ("", ""),
            ("validation", f"at step {event.step:,}{weights}"),
            ("", _scores(event.scores, event.measure)),
            ("best", f"{_best(event.measure, event.best_score, event.best_step)}   {trend}"),
        )

    def _samples(self, samples: tuple[Sample, ...], height: int, width: int) -> list[Table]:
        """Source, reference and output of each sample, with as many lines as the terminal has."""
        rows = 4 * len(samples) or 1
        lines = max(1, min(MOST_SAMPLE_LINES, (height - FIGURES_HEIGHT) // rows))
        text_width = max(1, width - LABEL_WIDTH)
        return [
            _table(
                width,
                ("", ""),
                ("source", shortened(sample.source, text_width, lines)),
                ("reference", shortened(sample.reference, text_width, lines)),
                ("output", shortened(sample.output, text_width, lines, "bold")),
            )
            for sample in samples
        ]


def _table(width: int, *rows: tuple[str, str | RenderableType]) -> Table:
    """Rows of a label and its content."""
    table = Table.grid(padding=(0, 0))
    table.width = width
    table.add_column(width=LABEL_WIDTH, style="cyan", no_wrap=True)
    table.add_column(ratio=1)
    for label, content in rows:
        table.add_row(label, plain(content) if isinstance(content, str) else content)
    return table


def sparkline(values: list[float]) -> str:
    """The finite values as blocks, scaled from the lowest to the highest."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(BLOCKS) - 1) / (high - low or 1.0)
    return "".join(BLOCKS[round((value - low) * scale)] for value in finite)


def plain(text: str, style: str = "") -> Text:
    """A text without markup and without control characters."""
    return Text(printable_line(text), style, overflow="fold")


def shortened(text: str, width: int, lines: int, style: str = "") -> Text:
    """A text cut with an ellipsis, so that it fits into this many lines of this width."""
    # Wrapping at words wastes at most a word at the end of each line.
    result = plain(text, style)
    result.truncate(width if lines == 1 else max(1, lines * (width - 8)), overflow="ellipsis")
    return result


def started_line(event: RunStarted) -> str:
    """The start of a run in one line."""
    doing = f"resumes at step {event.step:,}" if event.step else "starts"
    line = (
        f"{event.folder} {doing}: {event.parameters:,} parameters, {event.device} "
        f"{event.precision}, {event.batches_per_epoch:,} batches an epoch"
    )
    if event.best_score is not None:
        line += f"; best {_best(event.measure, event.best_score, event.best_step)}"
    return line


def progress_line(event: Progress, max_steps: int | None) -> str:
    """The progress of a run in one line."""
    parts = [
        _steps(event.step, max_steps),
        f"epoch {event.epoch}",
        f"loss {event.loss:.3f}",
        f"rate {event.learning_rate:.2e}",
        f"gradient {event.gradient_norm:.2f}",
        *(f"{name} {_rate(value)}" for name, value in event.rates.items()),
        *(f"{name} {_share(value)}" for name, value in event.shares.items()),
        f"memory {megabytes(event.memory_mb)}",
    ]
    if event.remaining_s is not None:
        parts.append(f"left {duration(event.remaining_s)}")
    return "  ".join(parts)


def validation_line(event: Validated) -> str:
    """A validation in one line: the score that selects the model first."""
    value = _score(event.measure, event.scores[event.measure])
    best = _score(event.measure, event.best_score)
    verdict = f"best {best} at step {event.best_step:,}"
    if event.is_best:
        verdict = "the best so far" if event.weights == "current" else "kept as the model"
    elif not math.isfinite(event.best_score):
        verdict = "no finite score yet"
    weights = "" if event.weights == "current" else f" of the {event.weights} weights"
    others = {name: score for name, score in event.scores.items() if name != event.measure}
    parts = (
        f"validation{weights}: {event.measure} {value}, {verdict}",
        f"step {event.step:,}, epoch {event.epoch}",
        _scores(others),
    )
    return "; ".join(filter(None, parts))


def ended_lines(event: RunEnded) -> list[str]:
    """The end of a run in one line, and a line for each signature of a score."""
    ended = "finished" if event.finished else "stopped"
    line = f"{ended} at step {event.step:,} after {duration(event.elapsed_s)} ({event.reason})"
    if event.scores:
        line += f": {_scores(event.scores, event.measure)}"
    signatures = [f"{name}: {text}" for name, text in event.signatures.items()]
    return [f"{line}; {event.folder}", *signatures]


def duration(seconds: float) -> str:
    """A time in its two largest units: `45 s`, `3 min 20 s`, `1 h 12 min`, `2 d 3 h`."""
    if not math.isfinite(seconds):
        return "unknown"
    left = max(0, round(seconds))
    minutes, s = divmod(left, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {s} s" if minutes else f"{s} s"


def megabytes(value: float) -> str:
    """Megabytes as `812 MB` or `12.3 GB`."""
    return f"{value / 1000:.1f} GB" if value >= 10_000 else f"{value:,.0f} MB"


def _score(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "loss" else f"{value:.2f}"


def _scores(values: Mapping[str, float], first: str = "") -> str:
    names = sorted(values, key=lambda name: name != first)
    return ", ".join(f"{name} {_score(name, values[name])}" for name in names)


def _rate(value: float) -> str:
    return f"{value:,.0f}/s"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _steps(step: int, max_steps: int | None) -> str:
    return f"step {step:,}" + (f" of {max_steps:,}" if max_steps else "")


def _best(measure: str, value: float, step: int) -> str:
    return f"{measure} {_score(measure, value)} at step {step:,}"


class ForgivingStream:
    """A stream that ignores all writes after the first that fails, e.g. to a broken pipe.

    Training continues when nobody reads its output any more.

    Args:
        stream: to write to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, unless a write failed before."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._try(self._stream.flush)

    def _try(self, method: Callable[..., object], *arguments: str) -> None:
        if not self._failed:
            try:
                method(*arguments)
            except OSError:
                self._failed = True


def forgiving(stream: TextIO) -> TextIO:
    """The stream as a `ForgivingStream`, which has as much of `TextIO` as displays need."""
    return cast(TextIO, ForgivingStream(stream))
