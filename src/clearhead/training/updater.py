"""One update of the weights from summed gradients."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.config import TrainingConfig
from clearhead.errors import TrainingError
from clearhead.training.optimizer import make_optimizer
from clearhead.training.schedule import SLOWER, learning_rate

MOST_BAD_STEPS = 20
"""Steps in a row without a finite gradient before a run is given up."""


class Updater:
    """Makes mean gradients of sums, clips them, sets the learning rate, and steps.

    Args:
        model: whose parameters are updated.
        config: optimizer, schedule and clipping.
        d_model: the width of the model, for the paper's schedule.
        total_steps: of the run, for schedules that fall to zero at its end.
    """

    def __init__(
        self, model: nn.Module, config: TrainingConfig, d_model: int, total_steps: int
    ) -> None:
        self.model = model
        self.config = config
        self.d_model = d_model
        self.total_steps = total_steps
        self.optimizer = make_optimizer(model, config.optimizer)
        self._bad_steps = 0

    def update(self, step: int, units: int) -> tuple[float, float]:
        """Update from gradients that are sums over `units`; none is left afterwards.

        A step whose gradient is not finite changes nothing.

        Returns:
            The norm of the mean gradient before clipping, and the learning rate.

        Raises:
            TrainingError: there was no finite gradient for `MOST_BAD_STEPS` steps in a row.
        """
        norm = self._clip(units)
        rate = learning_rate(step, self.config.schedule, self.d_model, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._bad_steps = 0 if math.isfinite(norm) else self._bad_steps + 1
        if self._bad_steps == 0:
            self.optimizer.step()
        elif self._bad_steps >= MOST_BAD_STEPS:
            raise TrainingError(
                f"training diverged: no finite gradient in {MOST_BAD_STEPS} steps",
                where=f"step {step}",
                todo=SLOWER,
            )
        self.optimizer.zero_grad(set_to_none=True)
        return norm, rate

    def _clip(self, units: int) -> float:
        """Turn summed gradients into mean ones, no longer than `clip_norm`; their norm before."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        # The one wait for the device in an update: how to scale and whether to step depend on it.
        norm = float(torch.nn.utils.get_total_norm(gradients)) / units
        scale = 1 / units
        if self.config.clip_norm > 0 and norm > self.config.clip_norm:
            scale *= self.config.clip_norm / norm
        # On a GPU all in one kernel. Of public functions only those that clip can do that.
        torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]
        return norm
