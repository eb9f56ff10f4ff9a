"""How the figures of a run are written for people, on the screen and in plain lines."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

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


def score(name: str, value: float) -> str:
    """A score with the decimals that mean something: `38.21`, but `1.812` for a loss."""
    return f"{value:.3f}" if name == "loss" else f"{value:.2f}"


def scores(values: Mapping[str, float], first: str = "") -> str:
    """Scores by name, the most telling one first: `bleu 38.21, chrf 62.10, loss 1.812`."""
    names = sorted(values, key=lambda name: (name != first, name))
    return ", ".join(f"{name} {score(name, values[name])}" for name in names)


def rate(value: float) -> str:
    """So many a second."""
    return f"{value:,.0f}/s"


def share(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def megabytes(value: float) -> str:
    """An amount of memory given in megabytes."""
    return f"{value / 1000:.1f} GB" if value >= 10_000 else f"{value:,.0f} MB"


def steps(step: int, max_steps: int | None) -> str:
    """`step 4,200 of 30,000`, or without the end where it is not known."""
    return f"step {step:,}" + (f" of {max_steps:,}" if max_steps else "")


def best(measure: str, value: float, step: int) -> str:
    """The best score so far, and when it was reached: `bleu 38.40 at step 3,500`."""
    return f"{measure} {score(measure, value)} at step {step:,}"


def started_line(event: RunStarted) -> str:
    """What begins, in one line."""
    doing = f"goes on from step {event.step:,}" if event.step else "begins"
    line = (
        f"{event.folder} {doing}: {event.parameters:,} parameters, {event.device} "
        f"{event.precision}, {event.batches_per_epoch:,} batches an epoch"
    )
    if event.best_score is not None:
        line += f"; best {best(event.measure, event.best_score, event.best_step)}"
    return line


def progress_line(event: Progress, max_steps: int | None) -> str:
    """The state of the training in one line."""
    parts = [
        steps(event.step, max_steps),
        f"epoch {event.epoch}",
        f"loss {event.loss:.3f}",
        f"rate {event.learning_rate:.2e}",
        f"gradient {event.gradient_norm:.2f}",
        *(f"{name} {rate(value)}" for name, value in event.rates.items()),
        *(f"{name} {share(value)}" for name, value in event.shares.items()),
        f"memory {megabytes(event.memory_mb)}",
    ]
    if event.remaining_s is not None:
        parts.append(f"left {duration(event.remaining_s)}")
    return "  ".join(parts)


def validation_line(event: Validated) -> str:
    """The scores of a validation in one line."""
    verdict = f"best {best(event.measure, event.best_score, event.best_step)}"
    if event.is_best:
        verdict = "the best so far" if event.weights == "current" else "kept as the model"
    weights = "" if event.weights == "current" else f", {event.weights} weights"
    return (
        f"validation at step {event.step:,} (epoch {event.epoch}{weights}): "
        f"{scores(event.scores, event.measure)}; {verdict}"
    )


def ended_lines(event: RunEnded) -> list[str]:
    """How a run ended, in one line, and one for the signature of each score that has one."""
    ended = "finished" if event.finished else "stopped"
    line = f"{ended} at step {event.step:,} after {duration(event.elapsed_s)} ({event.reason})"
    if event.scores:
        line += f": {scores(event.scores)}"
    signatures = [f"{name}: {text}" for name, text in event.signatures.items()]
    return [f"{line}; {event.folder}", *signatures]


# ---- training.screen
# The live screen of a run on a terminal, drawn by Rich.

BLOCKS = "▁▂▃▄▅▆▇█"
LABEL_WIDTH = 12
FIGURES_HEIGHT = 11  # lines of the picture without its samples, and one for the cursor
MOST_SAMPLE_LINES = 3
REFRESHES_A_SECOND = 2


class LiveScreen:
    """Redraws one picture of the run in place; notes scroll by above it.

    Args:
        stream: a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=forgiving(stream))
        self._live: Live | None = None
        self._picture: Picture | None = None

    def observe(self, event: Event) -> None:
        """Take the event into the picture."""
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
            case _ if self._picture is not None:
                self._picture.take(event)

    def close(self) -> None:
        """Leave the last picture on the terminal and give the cursor back."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class Picture:
    """What is known of the run now, as something that Rich can draw at any width.

    Args:
        started: the run's beginning.
        clock: tells seconds that never go back; time goes on between two events.
    """

    def __init__(self, started: RunStarted, clock: Callable[[], float] = time.monotonic) -> None:
        self._started = started
        self._clock = clock
        self._told_at = clock()
        self._progress: Progress | None = None
        self._validated: Validated | None = None
        self._history: list[float] = []

    def take(self, event: Progress | Validated) -> None:
        """Show this from now on."""
        if isinstance(event, Progress):
            self._progress = event
            self._told_at = self._clock()
            return
        self._validated = event
        if event.weights == "current":
            self._history.append(event.scores[event.measure])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = [self._training(options.max_width)]
        if self._validated is not None:
            parts.append(self._validation(self._validated, options.max_width))
            height = options.height or console.size.height
            parts += [
                self._sample(sample, height, options.max_width)
                for sample in self._validated.samples
            ]
        elif self._started.best_score is not None:
            parts.append(self._best_before(self._started.best_score, options.max_width))
        yield Group(*parts)

    def _training(self, width: int) -> Table:
        table = _table(width)
        progress = self._progress
        if progress is None:
            table.add_row("training", plain("the first steps …"))
            return table
        since = self._clock() - self._told_at
        times = f"{duration(progress.elapsed_s + since)} so far"
        if progress.remaining_s is not None:
            times += f", {duration(progress.remaining_s - since)} left"
        table.add_row(
            "training",
            plain(f"{steps(progress.step, self._started.max_steps)}, epoch {progress.epoch}"),
        )
        table.add_row("", self._bar(progress))
        table.add_row("time", plain(times))
        table.add_row(
            "loss",
            plain(
                f"{progress.loss:.3f}   learning rate {progress.learning_rate:.2e}   "
                f"gradient norm {progress.gradient_norm:.2f}"
            ),
        )
        table.add_row(
            "speed",
            plain("   ".join(f"{name} {rate(value)}" for name, value in progress.rates.items())),
        )
        costs = [f"{name} {share(value)}" for name, value in progress.shares.items()]
        table.add_row("", plain("   ".join([*costs, f"memory {megabytes(progress.memory_mb)}"])))
        return table

    def _bar(self, progress: Progress) -> ProgressBar:
        if self._started.max_steps:
            return ProgressBar(total=self._started.max_steps, completed=progress.step)
        if progress.remaining_s is not None:
            whole = progress.elapsed_s + progress.remaining_s
            return ProgressBar(total=whole or 1.0, completed=progress.elapsed_s)
        return ProgressBar(pulse=True)

    def _validation(self, event: Validated, width: int) -> Table:
        table = _table(width)
        table.add_row("", "")
        weights = "" if event.weights == "current" else f", {event.weights} weights"
        table.add_row("validation", plain(f"at step {event.step:,}{weights}"))
        table.add_row("", plain(scores(event.scores, event.measure)))
        reached = best(event.measure, event.best_score, event.best_step)
        trend = sparkline(self._history[-max(8, width - 50) :])
        table.add_row("best", plain(f"{reached}   {trend}"))
        return table

    def _best_before(self, value: float, width: int) -> Table:
        """What a run that goes on has reached, until it validates again."""
        table = _table(width)
        table.add_row("", "")
        table.add_row("best", plain(best(self._started.measure, value, self._started.best_step)))
        return table

    def _sample(self, sample: Sample, height: int, width: int) -> Table:
        """Source, reference and output, each on as many lines as the terminal has room for."""
        assert self._validated is not None
        rows = 3 * len(self._validated.samples)
        room = max(1, min(MOST_SAMPLE_LINES, (height - FIGURES_HEIGHT) // rows))
        table = _table(width)
        if FIGURES_HEIGHT + rows * room + len(self._validated.samples) <= height:
            table.add_row("", "")
        texts = {"source": sample.source, "reference": sample.reference, "output": sample.output}
        for label, text in texts.items():
            style = "bold" if label == "output" else ""
            table.add_row(label, shortened(text, max(1, width - LABEL_WIDTH), room, style))
        return table


def sparkline(values: list[float]) -> str:
    """Values as blocks of a height between the lowest and the highest of them."""
    finite = [value for value in values if abs(value) != float("inf") and value == value]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(BLOCKS) - 1) / (high - low or 1.0)
    return "".join(BLOCKS[round((value - low) * scale)] for value in finite)


def plain(text: str, style: str = "") -> Text:
    """A text as it is: no markup in it, and nothing that could steer the terminal."""
    return Text("".join(c if c.isprintable() else "\ufffd" for c in text), style, overflow="fold")


def shortened(text: str, width: int, lines: int, style: str = "") -> Text:
    """A text cut, with an ellipsis, to what so many lines of a width surely hold."""
    # Wrapping at words leaves room unused at the ends of lines, but never more than a word each.
    shown = plain(text, style)
    shown.truncate(width if lines == 1 else max(1, lines * (width - 8)), overflow="ellipsis")
    return shown


def _table(width: int) -> Table:
    table = Table.grid(padding=(0, 0))
    table.width = width
    table.add_column(width=LABEL_WIDTH, style="cyan", no_wrap=True)
    table.add_column(ratio=1)
    return table


# ---- training.display
# Who shows a run to people: a live screen on a terminal, plain lines elsewhere.

INTERVAL_S = 10.0


def displays(stream: TextIO | None) -> list[Observer]:
    """What shows a run to the person who began it: nothing where the stream is closed (None)."""
    return [] if stream is None else [choose_display(stream)]


def choose_display(stream: TextIO) -> Observer:
    """A live screen where the stream is a terminal that can show one, else plain lines."""
    if stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
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
