"""The figures of a progress report: loss, speed, padding and memory."""

from __future__ import annotations

import ctypes
import math
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from clearhead.training.events import Progress

PROCESS = Path("/proc/self")
"""Linux's files on this process: see proc(5)."""


class Meter:
    """Sums losses and counts since the last report."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.steps_in_all = 0
        self.restart()

    def restart(self) -> None:
        """Clear the sums and start a new interval."""
        self._started = time.monotonic()
        self._counts: Counter[str] = Counter()
        self.steps = 0
        self._plain = 0.0
        self._units = 0
        self._norm = 0.0
        self._rate = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the last report."""
        return time.monotonic() - self._started

    def count(self, counts: Mapping[str, int]) -> None:
        """Add the counts of a batch."""
        self._counts.update(counts)

    def step(self, plain: float, units: int, norm: float, rate: float) -> None:
        """Add a step: its summed loss, its units, its gradient norm and its learning rate."""
        # The loss of a step without a finite norm, which was left out, does not count.
        self.steps_in_all += 1
        self.steps += 1
        if math.isfinite(norm):
            self._plain += plain
            self._units += units
        self._norm, self._rate = norm, rate

    def report(
        self, step: int, epoch: int, elapsed_s: float, remaining_s: float | None
    ) -> Progress:
        """Report the steps since the last report, and start a new interval."""
        seconds = self.seconds
        positions = self._counts.pop("positions", 0)
        tokens = sum(self._counts.values())
        progress = Progress(
            step=step,
            epoch=epoch,
            loss=self._plain / self._units if self._units else math.nan,
            learning_rate=self._rate,
            gradient_norm=self._norm,
            rates={name: count / seconds for name, count in self._counts.items()},
            shares={"padding": 1 - tokens / positions} if positions else {},
            memory_mb=memory_mb(self.device),
            elapsed_s=elapsed_s,
            remaining_s=remaining_s,
        )
        self.restart()
        return progress


def memory_mb(device: torch.device) -> float:
    """Peak memory since `forget_peak` in megabytes: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    # Preferred to ru_maxrss, which on Linux starts at the memory of the parent process.
    if peak := _peak_of_process():
        return peak / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _peak_of_process() -> int | None:
    """Bytes, or None if the system does not report it."""
    try:
        status = PROCESS.joinpath("status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    kilobytes = status.partition("VmHWM:")[2].split()
    return 1024 * int(kilobytes[0]) if kilobytes else None


def forget_peak(device: torch.device) -> bool:
    """Reset the peak that `memory_mb` reports; False if the system cannot do this for a process."""
    # Freed memory that the allocator still holds is returned to the system first.
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
    try:
        PROCESS.joinpath("clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True
