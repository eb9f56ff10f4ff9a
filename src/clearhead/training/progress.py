"""Counts what passes through training between two reports."""

from __future__ import annotations

import ctypes
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from clearhead.training.events import Progress

PROCESS = Path("/proc/self")
"""What Linux tells of this process, and lets be set: see proc(5)."""


class Meter:
    """Sums of losses and counts since the last report; tensors are read only when reporting."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.steps_in_all = 0
        self.restart()

    def restart(self) -> None:
        """Forget the sums and begin a new interval."""
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()
        self.steps = 0
        self._plain: torch.Tensor | float = 0.0
        self._units = 0
        self._norm = 0.0
        self._rate = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the last report."""
        return time.monotonic() - self._began

    def count(self, counts: Mapping[str, int]) -> None:
        """Add a batch's counts."""
        self._counts.update(counts)

    def step(self, plain: torch.Tensor, units: int, norm: float, rate: float) -> None:
        """Add a step: its summed loss, its units, its gradient norm, its learning rate."""
        self.steps_in_all += 1
        self.steps += 1
        self._plain = self._plain + plain
        self._units += units
        self._norm, self._rate = norm, rate

    def report(
        self, step: int, epoch: int, elapsed_s: float, remaining_s: float | None
    ) -> Progress:
        """What happened since the last report; a new interval begins."""
        seconds = self.seconds
        places = self._counts.pop("places", 0)
        real = sum(self._counts.values())
        progress = Progress(
            step=step,
            epoch=epoch,
            loss=float(self._plain) / max(1, self._units),
            learning_rate=self._rate,
            gradient_norm=self._norm,
            rates={name: count / seconds for name, count in self._counts.items()},
            shares={"padding": 1 - real / places} if places else {},
            memory_mb=memory_mb(self.device),
            elapsed_s=elapsed_s,
            remaining_s=remaining_s,
        )
        self.restart()
        return progress


def memory_mb(device: torch.device) -> float:
    """The most memory used since `forget_peak`, in megabytes: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    # Not ru_maxrss, if it can be: on Linux that begins with the memory of the process that started
    # this one.
    if peak := _peak_of_process():
        return peak / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _peak_of_process() -> int | None:
    """In bytes, as Linux tells it; None: it does not."""
    try:
        status = PROCESS.joinpath("status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    kilobytes = status.partition("VmHWM:")[2].split()
    return 1024 * int(kilobytes[0]) if kilobytes else None


def forget_peak(device: torch.device) -> bool:
    """Let `memory_mb` begin anew; False where the system has no such thing for a process.

    What was freed and is kept for later, as it is while training, is given back before.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    if _peak_of_process() is None:
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
    try:
        PROCESS.joinpath("clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True
