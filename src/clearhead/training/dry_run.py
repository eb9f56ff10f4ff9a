"""What a run would need, found out by a few steps that are thrown away."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn

from clearhead.settings import TrainingConfig
from clearhead.training.display import duration, megabytes
from clearhead.training.loop import Limits
from clearhead.training.progress import Meter, forget_peak, memory_mb
from clearhead.training.step import Stepper, Updater, choose_precision
from clearhead.training.task import Task

STEPS = 5


@dataclass(frozen=True)
class DryRun:
    """What a run would need, found out without training.

    Attributes:
        parameters: of the model.
        memory_mb: the most memory in use while the steps were made, in megabytes: of the GPU, or
            of the whole process.
        memory_of: what that is, in words.
        seconds_per_step: updates included, validations and checkpoints not.
        steps: after which the run ends by `max_steps` or `max_epochs`; None: neither is set.
        config: how the run would be trained.
        measure: the name of the score that patience waits for.
        data: lines of the data report.
    """

    parameters: int
    memory_mb: float
    memory_of: str
    seconds_per_step: float
    steps: int | None
    config: TrainingConfig
    measure: str
    data: tuple[str, ...]

    def lines(self) -> list[str]:
        """For people to read; the last line says how long the run is."""
        return [
            *self.data,
            f"parameters: {self.parameters:,}",
            f"memory: about {megabytes(self.memory_mb)}, the most of {self.memory_of}; "
            "validating may take more",
            f"a step: about {self.seconds_per_step:.2g} s",
            self._length(),
        ]

    def _length(self) -> str:
        """How long the run is, by the limit that comes first, and what may end it sooner."""
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
                f"{duration(least * self.seconds_per_step)} and the time of validating"
            )
        seconds, limit = min(limits)
        if seconds == 60 * config.max_minutes:
            steps = int(seconds / self.seconds_per_step)
            of = f" of {self.steps:,}" if self.steps is not None else ""
            line = f"the run: at most {limit}, time for about {steps:,}{of} steps"
            line += ", fewer by the time of validating"
        else:
            line = f"the run: at most {limit}, about {duration(seconds)} and the time of validating"
            line += f", {config.max_minutes:g} minutes at most" if config.max_minutes else ""
        return f"{line}; sooner after {patience}" if config.patience else line


def try_steps(
    task: Task, model: nn.Module, config: TrainingConfig, width: int, data: tuple[str, ...]
) -> DryRun:
    """Make a few steps, updates of the weights included, and see what time and memory they take.

    After those of which the time is taken comes one with the largest batch, for the memory.

    Args:
        task: gives the batches and their loss.
        model: on the device it would be trained on; to be thrown away, since its weights change.
        config: how it would be trained.
        width: of the model, for the paper's schedule.
        data: lines of the data report.
    """
    device = next(model.parameters()).device
    limits = Limits(config, -(-task.batch_count(0) // config.accumulate), task.measure)
    updater = Updater(model, config, width, limits.total_steps)
    precision = choose_precision(config.precision, device)
    # Any seed will do: what is drawn is thrown away.
    stepper = Stepper(task, updater, Meter(device), precision, seed=1)
    model.train()
    fresh = forget_peak(device)
    batches = task.batches(0, 0)
    seconds = []
    for step in range(1, STEPS + 1):
        began = time.monotonic()
        group = list(islice(batches, config.accumulate))
        if not group:
            break
        stepper.step(step, group)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.monotonic() - began)
    stepper.step(len(seconds) + 1, [task.largest_batch()])
    later = seconds[1:] or seconds  # the first step allocates what the others find
    return DryRun(
        parameters=sum(p.numel() for p in model.parameters()),
        memory_mb=memory_mb(device),
        memory_of=memory_of(device, fresh),
        seconds_per_step=sum(later) / len(later),
        steps=limits.total_steps or None,
        config=config,
        measure=task.measure,
        data=data,
    )


def memory_of(device: torch.device, fresh: bool) -> str:
    """Of what the memory is the most; `fresh`: what came before the steps is not in it."""
    if device.type == "cuda":
        return "the GPU in a few steps, one with the largest batch"
    if fresh:
        return "the whole process in a few steps, one with the largest batch"
    return "the whole process, a few steps and all that came before them"
