"""A training step: loss, gradients, one update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from clearhead.tasks.task import Task
from clearhead.training.meter import Meter
from clearhead.training.precision import in_precision
from clearhead.training.seeds import step_seed
from clearhead.training.updater import Updater


@dataclass(frozen=True)
class Stepper:
    """Makes single steps.

    Attributes:
        task: gives the loss of a batch.
        updater: of the model that is trained.
        meter: counts what passes through.
        precision: of the forward pass, `float32` or `bf16`.
        seed: all that is random in a step follows from it and the step's number.
    """

    task: Task
    updater: Updater
    meter: Meter
    precision: str
    seed: int

    def step(self, number: int, batches: Sequence[Any]) -> float:
        """One update from the summed gradients of the batches, divided by their units.

        Returns:
            The norm of the gradient before clipping; where it is not finite, nothing was updated.

        Raises:
            TrainingError: training diverged.
        """
        device = self.meter.device
        torch.manual_seed(step_seed(self.seed, number))
        units = 0
        plain = torch.zeros((), device=device)
        for batch in batches:
            with in_precision(self.precision, device):
                loss = self.task.loss(self.updater.model, batch)
            loss.total.backward()
            units += loss.units
            plain += loss.plain.detach()
            self.meter.count(self.task.counts(batch))
        norm, rate = self.updater.update(number, units)
        self.meter.step(plain, units, norm, rate)
        return norm
