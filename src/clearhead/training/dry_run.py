"""What a run would need, found out by a few steps that are thrown away."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import nn

from clearhead.config import TrainingConfig
from clearhead.tasks.task import Task
from clearhead.training.meter import memory_mb

STEPS = 5


@dataclass(frozen=True)
class DryRun:
    """What a run would need, found out without training."""

    parameters: int
    memory_mb: float
    seconds_per_step: float
    steps: int | None
    data: tuple[str, ...]

    def lines(self) -> list[str]:
        """For people to read."""
        lines = [
            *self.data,
            f"parameters: {self.parameters:,}",
            f"memory: about {self.memory_mb:,.0f} MB",
            f"a step: about {self.seconds_per_step:.2f} s",
        ]
        if self.steps:
            hours = self.steps * self.seconds_per_step / 3600
            lines.append(f"the run: {self.steps:,} steps, about {hours:.1f} hours at most")
        return lines


def try_steps(
    task: Task, model: nn.Module, config: TrainingConfig, data: tuple[str, ...]
) -> DryRun:
    """Time a few forward and backward passes and see what memory they take.

    Args:
        task: gives the batches and their loss.
        model: on the device it would be trained on; its weights stay as they are.
        config: how it would be trained.
        data: lines of the data report.
    """
    device = next(model.parameters()).device
    model.train()
    seconds = []
    for _, batch in zip(range(STEPS * config.accumulate), task.batches(0, 0), strict=False):
        began = time.monotonic()
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            loss = task.loss(model, batch)
        loss.total.backward()
        loss.total.item()  # waits for a GPU
        seconds.append(time.monotonic() - began)
    later = seconds[1:] or seconds  # the first pass allocates what the others find
    parameters = sum(p.numel() for p in model.parameters())
    # Adam keeps two more numbers for each parameter, which these steps did not yet hold.
    memory = memory_mb(device) + 2 * 4 * parameters / 1e6
    by_epochs = config.max_epochs * -(-task.batch_count(0) // config.accumulate)
    return DryRun(
        parameters=parameters,
        memory_mb=memory,
        seconds_per_step=config.accumulate * sum(later) / len(later),
        steps=min((n for n in (config.max_steps, by_epochs) if n > 0), default=None),
        data=data,
    )
