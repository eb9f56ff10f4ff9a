"""The live screen of a run on a terminal, drawn by Rich."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clearhead.tasks.task import Sample
from clearhead.training.display import forgiving
from clearhead.training.events import Event, Note, Progress, RunEnded, RunStarted, Validated
from clearhead.training.wording import (
    best,
    duration,
    ended_lines,
    megabytes,
    rate,
    scores,
    share,
    started_line,
    steps,
)

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
