"""Everything random is a function of (seed, epoch, step), so that resuming is arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from clearhead.errors import TrainingError
from clearhead.settings import OptimizerConfig, ScheduleConfig, TrainingConfig
from clearhead.training.progress import Meter
from clearhead.training.task import Task


def step_seed(seed: int, step: int) -> int:
    """A seed of its own for each step; neighbouring steps share no part of their streams."""
    return (seed * 1_000_003 + step) * 0x9E3779B97F4A7C15 % 2**63


# ---- training.precision
# In which precision the products of a step are made; weights and sums stay float32.

CPU_BF16 = ("avx512_bf16", "amx_bf16")
"""Instructions without which a CPU makes bf16 products some twenty times slower than float32."""


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bf16 numbers."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in CPU_BF16)


def choose_precision(wanted: str, device: torch.device) -> str:
    """`float32` or `bf16`: what `auto` means on the device, or what is wanted."""
    if wanted != "auto":
        return wanted
    return "bf16" if multiplies_bf16(device) else "float32"


def slow_precision(wanted: str, device: torch.device) -> str | None:
    """What is to be said of a precision in which the device would crawl; None: nothing."""
    if wanted != "bf16" or multiplies_bf16(device):
        return None
    return (
        "warning: this device has no instructions for bf16 that are known, and without them it is "
        "many times slower in it than in float32; set training.precision to auto or float32"
    )


def in_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass in `float32` or `bf16`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


# ---- training.schedule
# The learning rate of each step.

SLOWER = (
    "lower training.schedule.peak (with kind = 'paper' raise training.schedule.warmup instead), "
    "and begin anew: --restart"
)
"""What to do where the rate was too high."""


def learning_rate(step: int, schedule: ScheduleConfig, d_model: int, total_steps: int) -> float:
    """The rate of step 1, 2, …: a linear rise to the peak over the warm-up, then the schedule.

    Args:
        step: counted from 1.
        schedule: its kind, peak and warm-up.
        d_model: the width of the model, for the paper's schedule.
        total_steps: where `cosine` and `linear` reach zero.
    """
    warmup = max(1, schedule.warmup)
    if schedule.kind == "paper":
        # Vaswani et al. 2017, equation 3.
        return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    if step < warmup:
        return schedule.peak * step / warmup
    remaining = max(0.0, (total_steps - step) / max(1, total_steps - warmup))
    match schedule.kind:
        case "inverse_sqrt":
            return schedule.peak * math.sqrt(warmup / step)
        case "cosine":
            return schedule.peak * (1 - math.cos(math.pi * remaining)) / 2
        case "linear":
            return schedule.peak * remaining
        case "constant":
            return schedule.peak


# ---- training.optimizer
# OptimizerConfig -> optimizer.


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer of a model's parameters; the learning rate is set at each step."""
    parameters = list(model.parameters())
    if config.kind == "sgd":
        return torch.optim.SGD(
            parameters, lr=0.0, momentum=config.momentum, weight_decay=config.weight_decay
        )
    # AdamW is Adam where there is no decay, and decays as one expects where there is.
    return torch.optim.AdamW(
        parameters,
        lr=0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


# ---- training.updater
# One update of the weights from summed gradients.

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


# ---- training.stepper
# A training step: loss, gradients, one update.


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
