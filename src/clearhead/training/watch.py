"""What a run notices by itself: a sudden rise of the loss, and steps that have become slow."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from clearhead.training.events import Progress

BEFORE, AFTER = 10, 3
"""Reports before and after a rise of the loss."""

LEAST_RISE = 0.1
"""Least rise of the loss, as a share of the median before."""

WINDOW_S = 10.0
"""Seconds of steps that are measured together."""

SLOW_WINDOWS = 3
"""Slow windows in a row before a warning."""

SLOWER = 3.0
"""Steps are slow if they take this many times as long as the fastest ones."""

WAITING = 0.4
"""Seconds that all threads together wait for a core, in each second, that slow training down."""

TASKS = Path("/proc/self/task")
"""Linux's files on the threads of this process: see proc(5)."""


class LossWatch:
    """Notices a sudden rise of the loss.

    The losses of the last `AFTER` reports have to be above those of the `BEFORE` reports before:
    each exceeds the highest of these by more than their range, and their median by `LEAST_RISE`.
    So the rule adapts to the noise of the run, and to the fall of the loss at its start.
    """

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=BEFORE + AFTER)

    def restart(self) -> None:
        """Forget the losses, because the run goes on from other weights."""
        self._losses.clear()

    def take(self, progress: Progress) -> str | None:
        """Add the loss of a report; returns a warning if the loss has risen suddenly."""
        if not math.isfinite(progress.loss):
            return None  # its steps are reported anyway
        self._losses.append(progress.loss)
        if len(self._losses) < BEFORE + AFTER:
            return None
        before, after = list(self._losses)[:BEFORE], list(self._losses)[BEFORE:]
        usual = statistics.median(before)
        limit = max(2 * max(before) - min(before), (1 + LEAST_RISE) * usual)
        if min(after) <= limit:
            return None
        self.restart()
        return (
            f"warning: the loss has risen suddenly, from about {usual:.3f} to {after[-1]:.3f} at "
            f"step {progress.step:,}; if it does not fall again, lower training.schedule.peak and "
            "start over: --restart"
        )


class Times(NamedTuple):
    """Seconds of CPU time, and of waiting for a core, both summed over all threads.

    `waited` is None if the system does not report it.
    """

    cpu: float
    waited: float | None


def times() -> Times:
    """The times of this process so far."""
    return Times(time.process_time(), _waited())


def _waited() -> float | None:
    """Seconds that the threads of this process were ready to run and had no core."""
    try:
        texts = [(task / "schedstat").read_text() for task in TASKS.iterdir()]
        return sum(int(text.split()[1]) for text in texts) / 1e9
    except (OSError, ValueError, IndexError):  # another system, or a thread that has just ended
        return None


class PaceWatch:
    """Notices steps that take several times as long as before, and threads that wait for a core.

    PyTorch's threads wait for each other many times in a step. If another program takes the core of
    one of them, all wait. The warning comes once.

    Args:
        clock: returns seconds and never goes back.
        measure: returns the times of this process.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, measure: Callable[[], Times] = times
    ) -> None:
        self._clock, self._measure = clock, measure
        self._fastest: list[float] = []
        self._slow = 0
        self._warned = False
        self.restart()

    def restart(self) -> None:
        """Begin to measure with the next step, because something else has taken time."""
        self._begin, self._began = self._measure(), self._clock()
        self._last = self._began
        self._tokens = 0.0

    def take(self, progress: Progress) -> str | None:
        """Add the steps since the last report; returns a warning if training has become slow."""
        if self._warned:
            return None
        now = self._clock()
        self._tokens += sum(progress.rates.values()) * (now - self._last)
        self._last = now
        seconds, begin, tokens = now - self._began, self._begin, self._tokens
        if seconds < WINDOW_S:
            return None
        self.restart()
        end = self._begin
        waiting = 0.0
        if end.waited is not None and begin.waited is not None:
            waiting = max(0.0, end.waited - begin.waited) / seconds
        pace = tokens / seconds
        # The second fastest window: one may be an exception.
        self._fastest = sorted([*self._fastest, pace])[-2:]
        slower = self._fastest[0] / pace if pace > 0 else 1.0
        is_slow = slower >= SLOWER or (waiting >= WAITING and torch.get_num_threads() > 1)
        self._slow = self._slow + 1 if is_slow else 0
        if self._slow < SLOW_WINDOWS:
            return None
        self._warned = True
        return _warning(slower, waiting, (end.cpu - begin.cpu) / seconds)


def _warning(slower: float, waiting: float, cores: float) -> str:
    """The warning for people."""
    parts = []
    if slower >= SLOWER:
        parts.append(f"steps take {slower:.0f} times as long as the fastest of this run")
    if waiting >= WAITING:
        load = os.getloadavg()[0]
        parts.append(
            f"in each second, the threads wait {waiting:.1f} s for a processor core, because other "
            f"programs use the cores (load average {load:.1f}); end these, or stop this run and "
            "resume it with --set training.threads=1"
        )
    else:
        parts.append(
            f"they use {cores:.1f} processor cores and hardly wait for one; the memory may be "
            "full, a disk slow, or the processor hot or shared with other virtual machines"
        )
    return f"warning: {'; '.join(parts)} (docs/how-to/speed.md)"
