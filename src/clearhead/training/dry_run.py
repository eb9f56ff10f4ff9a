"""The dry run: a few real steps on a model that is discarded, to measure time and memory."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn

from clearhead.settings import RunConfig, TrainingConfig
from clearhead.training.checkpoints import disk_needed
from clearhead.training.display import duration, megabytes
from clearhead.training.loop import SPLIT, Limits
from clearhead.training.progress import forget_peak, memory_mb
from clearhead.training.step import Updater
from clearhead.training.task import Task

STEPS = 5
"""Number of steps that are timed."""


@dataclass(frozen=True)
class DryRun:
    """What a run would need.

        clearhead.dry_run("my.toml").memory_mb

    Attributes:
        parameters: number of parameters of the model.
        memory_mb: peak memory of the steps in megabytes, of the GPU or of the whole process.
        memory_of: what `memory_mb` covers, in words.
        seconds_per_step: with the update, without validations and checkpoints.
        steps: length of the run by `max_steps` and `max_epochs`; None if neither is set.
        config: how the run would be trained.
        measure: name of the score that patience watches.
        data: lines of the data report.
        warning: about the settings of training; None if there is none.
        disk_mb: the largest size of the model folder during the run, in megabytes.
    """

    parameters: int
    memory_mb: float
    memory_of: str
    seconds_per_step: float
    steps: int | None
    config: TrainingConfig
    measure: str
    data: tuple[str, ...]
    warning: str | None = None
    disk_mb: float = 0.0

    def lines(self) -> list[str]:
        """The result for people. The last line is the length of the run."""
        return [
            *self.data,
            *filter(None, [self.warning]),
            f"parameters: {self.parameters:,}",
            f"memory: about {megabytes(self.memory_mb)} ({self.memory_of}); "
            "validation may need more",
            f"disk: at most {megabytes(self.disk_mb)} during the run",
            f"a step: about {self.seconds_per_step:.2g} s",
            self._length(),
        ]

    def _length(self) -> str:
        config = self.config
        patience = f"{config.patience} validations in a row without a better {self.measure}"
        limits = []
        if self.steps is not None:
            limits.append((self.steps * self.seconds_per_step, f"{self.steps:,} steps"))
        if config.max_minutes:
            limits.append((60 * config.max_minutes, f"{config.max_minutes:g} minutes"))
        if not limits:
            least = config.patience * config.validate_every
            return (
                f"the run: until {patience}: at least {least:,} steps, about "
                f"{duration(least * self.seconds_per_step)} plus validations"
            )
        seconds, limit = min(limits)
        if limit.endswith("minutes"):
            steps = int(seconds / self.seconds_per_step)
            about = f"about {steps:,} steps, fewer because of validations"
        else:
            about = f"about {duration(seconds)} plus validations"
        others = "".join(f", {other} at most" for _, other in sorted(limits)[1:])
        line = f"the run: at most {limit}, {about}{others}"
        return f"{line}; ends sooner after {patience}" if config.patience else line


def try_steps(
    task: Task,
    model: nn.Module,
    run: RunConfig,
    data: tuple[str, ...],
    prepared_bytes: int = 0,
) -> DryRun:
    """Make a few steps, and measure their time and memory."""
    # After the timed steps, one step with the largest batch shows the memory.
    config = run.training
    limits = Limits(config, task.batch_count(0), task.measure)
    updater = Updater(task, model, run, limits.total_steps)
    device = updater.device
    model.train()
    peak_was_reset = forget_peak(device)
    batches = task.batches(0, 0)
    seconds: list[float] = []
    while len(seconds) < STEPS and (group := list(islice(batches, config.accumulate))):
        started = time.monotonic()
        updater.step(len(seconds) + 1, group)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.monotonic() - started)
    updater.step(len(seconds) + 1, [task.largest_batch()])
    warnings = list(filter(None, [limits.warmup_warning()]))
    if updater.split_from:
        warnings.append(f"warning: {SPLIT.format(positions=updater.split_from)}")
    timed = seconds[1:] or seconds  # the first step also allocates the memory
    validations = config.average_last
    if limits.total_steps:
        validations = math.ceil(limits.total_steps / config.validate_every)
    disk = prepared_bytes + disk_needed(model, updater.optimizer, config, validations)
    return DryRun(
        parameters=sum(p.numel() for p in model.parameters()),
        memory_mb=memory_mb(device),
        memory_of=_memory_of(device, peak_was_reset),
        seconds_per_step=sum(timed) / len(timed),
        steps=limits.total_steps or None,
        config=config,
        measure=task.measure,
        data=data,
        warning="\n".join(warnings) or None,
        disk_mb=disk / 1e6,
    )


def _memory_of(device: torch.device, peak_was_reset: bool) -> str:
    if device.type == "cuda":
        return "peak of the GPU in a few steps, one of them with the largest batch"
    if peak_was_reset:
        return "peak of the whole process in a few steps, one of them with the largest batch"
    return "peak of the whole process, with all that it did before these steps"
