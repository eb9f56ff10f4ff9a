"""One training step: loss, gradients, clipping, learning rate, and the update of the weights.

All random numbers of a step depend only on the seed of the run and the number of the step. A
resumed run therefore draws the same numbers as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from clearhead.device import multiplies_bf16
from clearhead.settings.training import FineTuningConfig, OptimizerConfig, TrainingConfig
from clearhead.training.fine_tuning import freeze, parameter_groups
from clearhead.training.progress import Meter
from clearhead.training.task import Loss, Task


class Updater:
    """Makes training steps.

    Args:
        task: computes the loss of a batch.
        model: is updated; on the device that it is trained on.
        config: optimizer, schedule, clipping and precision, which is not `auto`.
        seed: of the run.
        d_model: width of the model, for the schedule of the paper.
        total_steps: length of the run, for schedules that fall to zero at its end.

    Attributes:
        updating: whether the weights are being updated. After an error, it shows that some may
            have changed and others not.
        bad_batches: the batches of the last step whose loss was not finite.
        split_from: batches with at least so many positions are split, because the memory was too
            small for one; 0 if it never was.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        config: TrainingConfig,
        seed: int,
        d_model: int,
        total_steps: int,
    ) -> None:
        self.task = task
        self.model = model
        self.config = config
        self.seed = seed
        self.d_model = d_model
        self.total_steps = total_steps
        self.device = next(model.parameters()).device
        freeze(model, config.fine_tuning.frozen_layers)
        self.optimizer = make_optimizer(model, config.optimizer, config.fine_tuning)
        self.meter = Meter(self.device)
        self.updating = False
        self.bad_batches: list[Any] = []
        self.split_from = 0

    def step(self, number: int, batches: Sequence[Any], attempt: int = 0) -> float:
        """Make one update from the gradients of all batches, averaged over their units.

        Args:
            number: of the step, counted from 1.
            batches: as the task makes them.
            attempt: another one gives other random numbers.

        Returns:
            The norm of the mean gradient before clipping; NaN if the loss is not finite. If the
            norm is not finite, the weights have not changed.

        Raises:
            torch.OutOfMemoryError: the memory of the GPU is too small for one example.
        """
        # Neighbouring steps and seeds get streams that have nothing in common.
        source = (self.seed * 1_000_003 + number) + attempt * 2**40
        parts, losses = self._gradients(batches, source * 0x9E3779B97F4A7C15 % 2**63)
        for batch in batches:
            self.meter.count(self.task.counts(batch))
        units = sum(loss.units for loss in losses)
        plain = torch.stack([loss.plain for loss in losses]).sum()
        # Reading the losses waits for the device, which `update` would do otherwise.
        finite = torch.stack([loss.total for loss in losses]).isfinite().tolist()
        self.bad_batches = [part for part, good in zip(parts, finite, strict=True) if not good]
        if self.bad_batches:
            self.optimizer.zero_grad(set_to_none=True)
            norm, rate = math.nan, self.set_rate(number)
        else:
            norm, rate = self.update(number, units)
        self.meter.step(plain, units, norm, rate)
        return norm

    def try_batch(self, batch: Any) -> None:
        """Compute the gradient of a batch and forget it, to find out whether it fits into memory.

        Neither the weights nor the state of the random numbers change. A batch that does not fit
        is split, as in a step.

        Raises:
            torch.OutOfMemoryError: the memory of the GPU is too small for one example.
        """
        held: list[torch.Tensor] = []
        if not self.optimizer.state:  # which its first update allocates
            copies = 2 if self.config.optimizer.kind == "adam" else 1
            trained = [p for group in self.optimizer.param_groups for p in group["params"]]
            held = [torch.empty_like(p) for p in trained for _ in range(copies)]
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            self._gradients([batch], self.seed)
        self.optimizer.zero_grad(set_to_none=True)
        del held

    def _gradients(self, batches: Sequence[Any], seed: int) -> tuple[list[Any], list[Loss]]:
        """Add up the gradients of the batches, split where the memory is too small.

        If it is too small for a part, all is done again with smaller parts: the failed one may
        have left a part of its gradient. Sums over units add up to the same gradient.

        Returns:
            The batches or their parts, and the loss of each without its graph.
        """
        while True:
            torch.manual_seed(seed)
            parts = [part for batch in batches for part in self._parts(batch)]
            losses: list[Loss] = []
            for part in parts:
                try:
                    losses.append(self._add_gradient(part))
                except torch.OutOfMemoryError:
                    if len(self.task.split(part)) == 1:
                        raise
                    break
            else:
                return parts, losses
            # Not in the handler, where the exception still holds the tensors of the batch.
            self.split_from = self.task.counts(parts[len(losses)])["positions"]
            self.optimizer.zero_grad(set_to_none=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _add_gradient(self, batch: Any) -> Loss:
        # In bf16 only the products of the forward pass are rounded: weights stay float32.
        bf16 = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            loss = self.task.loss(self.model, batch)
        loss.total.backward()
        return loss._replace(total=loss.total.detach(), plain=loss.plain.detach())

    def _parts(self, batch: Any) -> list[Any]:
        """The batch, or parts of it with less than `split_from` positions or of one example."""
        if not 0 < self.split_from <= self.task.counts(batch)["positions"]:
            return [batch]
        halves = self.task.split(batch)
        return [batch] if len(halves) == 1 else [p for half in halves for p in self._parts(half)]

    def update(self, number: int, units: int) -> tuple[float, float]:
        """Update the weights from gradients that are sums over `units`, and clear the gradients.

        A gradient that is not finite changes nothing.

        Returns:
            The norm of the mean gradient before clipping, and the learning rate.
        """
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        # This waits for the device: the norm decides the scale and whether to update.
        norm = float(torch.nn.utils.get_total_norm(gradients)) / units
        scale = 1 / units
        if 0 < self.config.clip_norm < norm:
            scale *= self.config.clip_norm / norm
        # One kernel on a GPU. PyTorch's only public functions for this are those that clip.
        torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]

        rate = self.set_rate(number)
        if math.isfinite(norm):
            self.updating = True
            self.optimizer.step()
            self.updating = False
        self.optimizer.zero_grad(set_to_none=True)
        return norm, rate

    def set_rate(self, number: int) -> float:
        """Set the learning rate of a step, and return it."""
        rate = self.config.schedule.learning_rate(number, self.d_model, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        return rate


def make_optimizer(
    model: nn.Module, config: OptimizerConfig, fine_tuning: FineTuningConfig
) -> torch.optim.Optimizer:
    """The optimizer of the parameters that are trained.

    Each step sets the learning rate of a group: that of the schedule, times the group's `factor`.
    """
    groups = parameter_groups(model, fine_tuning)
    if config.kind == "sgd":
        return torch.optim.SGD(
            groups, lr=0.0, momentum=config.momentum, weight_decay=config.weight_decay
        )
    # Without weight decay, AdamW is Adam.
    return torch.optim.AdamW(
        groups,
        lr=0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


def choose_precision(wanted: str, device: torch.device) -> str:
    """`float32` or `bf16`; `auto` is bf16 if the device multiplies it."""
    if wanted != "auto":
        return wanted
    return "bf16" if multiplies_bf16(device) else "float32"
