"""Counts what passes through training between two reports."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Mapping

import torch

from clearhead.training.events import Progress


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
    """The most memory used so far, in megabytes: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
