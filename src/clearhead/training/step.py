"""One training step: loss, gradients, clipping, learning rate, and the update of the weights.

All random numbers of a step depend only on the seed of the run and the number of the step. A
resumed run therefore draws the same numbers as an uninterrupted one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, nan, sqrt
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from clearhead.device import multiplies_bf16
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import RunConfig, TrainingConfig
from clearhead.settings.training import warmup_of
from clearhead.sharding import own_part
from clearhead.training.fine_tuning import freeze, parameter_groups
from clearhead.training.progress import Meter
from clearhead.training.task import Loss, Task


class LossOfModel(nn.Module):
    """The loss of a batch as the output of a module.

    The loss reads the weights of the output layer, which would otherwise be outside of `forward`,
    where PyTorch's engines for several processes do not see them.
    """

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, batch: Any) -> Loss:
        """The summed loss of a batch."""
        return self.task.loss(self.model, batch)


class Updater:
    """Makes training steps.

    With several processes each computes the gradients of its own batches. PyTorch's DDP averages
    the gradients over the processes while the last batch of a step is still going back.

    Args:
        task: computes the loss of a batch.
        model: is updated; on the device that it is trained on.
        config: of the run; its precision is not `auto`.
        total_steps: length of the run, for schedules that fall to zero at its end.
        ranks: the processes that make the steps together.

    Attributes:
        updating: whether the weights are being updated. After an error, it shows that some may
            have changed and others not.
        is_sharded: whether each process has only a part of the weights and the moments.
        bad_batches: the batches of the last step whose loss was not finite.
        split_from: batches with at least so many positions are split, because the memory was too
            small for one; 0 if it never was.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        config: RunConfig,
        total_steps: int,
        ranks: Ranks = ALONE,
    ) -> None:
        self.task = task
        self.model = model
        self.ranks = ranks
        self._loss: nn.Module = LossOfModel(task, model)
        self._connected = self._loss
        self.config = training = config.training
        self.seed = config.seed
        self.d_model = config.model.d_model  # for the schedule of the paper
        self.total_steps = total_steps
        self.device = next(model.parameters()).device
        if training.compile and self.device.type == "cuda" and training.parallel == "ddp":
            for layer in layers_of(model):
                layer.compile(dynamic=True)
        freeze(model, training.fine_tuning.frozen_layers)
        self.optimizer = make_optimizer(model, training)
        self.meter = Meter(self.device)
        self.updating = False
        self.is_sharded = False
        self.bad_batches: list[Any] = []
        self.split_from = 0

    def connect(self) -> None:
        """Join the models of all processes, before the state of the run is read."""
        # With DDP they get the weights of rank 0. With FSDP all must have the same weights already,
        # and each keeps a part of them.
        if self.ranks == ALONE:
            return
        if self.config.parallel == "ddp":
            self._connected = nn.parallel.DistributedDataParallel(
                self._loss, gradient_as_bucket_view=True
            )
            return
        shard(self._loss, self.device.type, self.ranks.count)
        self.is_sharded = True
        self.optimizer = make_optimizer(self.model, self.config)

    def step(
        self, number: int, batches: Sequence[Any], attempt: int = 0, spares: Sequence[Any] = ()
    ) -> float:
        """Make one update from the gradients of all batches, averaged over their units.

        Args:
            number: of the step, counted from 1.
            batches: those of this process, as the task makes them.
            attempt: another one gives other random numbers.
            spares: as many other batches as this process has fewer than another one, because all
                must make the same passes. They have no weight.

        Returns:
            The norm of the mean gradient before clipping; NaN if the loss is not finite. If the
            norm is not finite, the weights have not changed.

        Raises:
            torch.OutOfMemoryError: the memory of the GPU is too small for one example.
        """
        # Neighbouring steps, seeds and ranks get streams that have nothing in common.
        source = (self.seed * 1_000_003 + number) + attempt * 2**40 + self.ranks.number * 2**50
        seed = source * 0x9E3779B97F4A7C15 % 2**63
        parts, losses = self._gradients(batches, seed, spares)
        totals, plain = _read(losses)
        self.bad_batches = [part for part, x in zip(parts, totals, strict=True) if not isfinite(x)]
        counts = Counter(dict.fromkeys(self.task.counts([*batches, *spares][0]), 0))
        for batch in batches:
            counts.update(self.task.counts(batch))
        own = [len(self.bad_batches), sum(loss.units for loss in losses), sum(plain)]
        bad, units, all_plain, *counted = self.ranks.total([*own, *counts.values()])
        self.meter.count({name: int(n) for name, n in zip(counts, counted, strict=True)})
        if bad:
            self.optimizer.zero_grad(set_to_none=True)
            norm, rate = nan, self.set_rate(number)
        else:
            norm, rate = self.update(number, units / self.ranks.count)
        self.meter.step(all_plain, int(units), norm, rate)
        return norm

    def try_batch(self, batch: Any) -> None:
        """Compute the gradient of a batch and forget it, to see whether it fits into memory."""
        # Neither the weights nor the state of the random numbers change. A batch that does not fit
        # is split, as in a step. Several processes then split all batches that are larger than the
        # parts that fit, because the last part of a step cannot be made again.
        held: list[torch.Tensor] = []
        if not self.optimizer.state:  # which its first update allocates
            copies = 2 if self.config.optimizer.kind == "adam" else 1
            trained = [p for group in self.optimizer.param_groups for p in group["params"]]
            held = [torch.empty_like(p) for p in trained for _ in range(copies)]
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            parts, _ = self._gradients([batch], self.seed, connected=False)
        if len(parts) > 1 and self.ranks.count > 1:
            self.split_from = 1 + max(self.task.counts(part)["positions"] for part in parts)
        self.optimizer.zero_grad(set_to_none=True)
        del held

    def _gradients(
        self,
        batches: Sequence[Any],
        seed: int,
        spares: Sequence[Any] = (),
        connected: bool = True,
    ) -> tuple[list[Any], list[Loss]]:
        """Add up the gradients of the batches, split where the memory is too small.

        If it is too small for a part, all is done again with smaller parts: the failed one may
        have left a part of its gradient. Sums over units add up to the same gradient. With DDP the
        last part exchanges the gradients, with FSDP each part, which cannot be done again.

        Returns:
            The batches or their parts, and the loss of each without its graph.
        """
        while True:
            torch.manual_seed(seed)
            parts = [part for batch in batches for part in self._parts(batch)]
            losses: list[Loss] = []
            for part in parts:
                exchanges = connected and not spares and part is parts[-1]
                try:
                    module = self._connected if exchanges else self._loss
                    losses.append(self._add_gradient(part, module))
                except torch.OutOfMemoryError:
                    shared = self.is_sharded or (exchanges and self.ranks.count > 1)
                    if shared or len(self.task.split(part)) == 1:
                        raise
                    break
            else:
                for number, spare in enumerate(spares, 1):
                    module = self._connected if number == len(spares) else self._loss
                    self._add_gradient(spare, module, weight=0)
                return parts, losses
            # Not in the handler, where the exception still holds the tensors of the batch.
            self.split_from = self.task.counts(parts[len(losses)])["positions"]
            self.optimizer.zero_grad(set_to_none=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _add_gradient(self, batch: Any, module: nn.Module, weight: int = 1) -> Loss:
        # In bf16 only the products of the forward pass are rounded: weights stay float32.
        bf16 = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            loss = module(batch)
        (loss.total * weight if weight != 1 else loss.total).backward()
        return loss._replace(total=loss.total.detach(), plain=loss.plain.detach())

    def _parts(self, batch: Any) -> list[Any]:
        """The batch, or parts of it with less than `split_from` positions or of one example."""
        # With FSDP all processes have to make the same passes.
        if self.is_sharded or not 0 < self.split_from <= self.task.counts(batch)["positions"]:
            return [batch]
        halves = self.task.split(batch)
        return [batch] if len(halves) == 1 else [p for half in halves for p in self._parts(half)]

    def update(self, number: int, units: float) -> tuple[float, float]:
        """Update the weights from gradients that are sums over `units`, and clear the gradients."""
        # A gradient that is not finite changes nothing.
        gradients = [own_part(p.grad) for p in self.model.parameters() if p.grad is not None]
        # This waits for the device: the norm decides the scale and whether to update.
        norm = self._norm(gradients) / units
        scale = 1 / units
        if 0 < self.config.clip_norm < norm:
            scale *= self.config.clip_norm / norm
        # One kernel on a GPU. PyTorch's only public functions for this are those that clip.
        torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]

        rate = self.set_rate(number)
        if isfinite(norm):
            self.updating = True
            self.optimizer.step()
            self.updating = False
        self.optimizer.zero_grad(set_to_none=True)
        return norm, rate

    def weights_are_finite(self) -> bool:
        """Whether the norm of the weights is finite. Weights above about 1e19 are not."""
        weights = [own_part(parameter.detach()) for parameter in self.model.parameters()]
        return isfinite(self._norm(weights))

    def _norm(self, parts: Sequence[torch.Tensor]) -> float:
        """The norm of tensors of which FSDP leaves each process a part."""
        norm = float(torch.nn.utils.get_total_norm(parts))
        return sqrt(self.ranks.total([norm**2])[0]) if self.is_sharded else norm

    def set_rate(self, number: int) -> float:
        """Set the learning rate of a step, and return it."""
        schedule = self.config.schedule
        if schedule.falls_to_zero and self.config.max_minutes and self.total_steps:
            # The warm-up was chosen for a run without a limit of time.
            schedule = replace(schedule, warmup=min(schedule.warmup, warmup_of(self.total_steps)))
        rate = schedule.learning_rate(number, self.d_model, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        return rate


def shard(model: nn.Module, device_type: str, processes: int) -> None:
    """Leave each process a part of every parameter (PyTorch's FSDP2)."""
    # A layer is gathered when it is computed, so only one or two are complete at a time, besides
    # the embeddings and the output layer.
    mesh = init_device_mesh(device_type, (processes,))
    for layer in layers_of(model):
        fully_shard(layer, mesh=mesh)
    # All that are shared out have one type. The numbers of n-grams have another, and are few.
    others = {each for each in model.parameters() if each.dtype != torch.float32}
    fully_shard(model, mesh=mesh, ignored_params=others)


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The layers of all stacks."""
    stacks = [part for name, part in model.named_modules() if name.endswith(".layers")]
    return [layer for stack in stacks for layer in stack.children()]


def _read(losses: Sequence[Loss]) -> tuple[list[float], list[float]]:
    """What is minimised and the plain loss of each batch."""
    # This waits for the device, which the update would do otherwise.
    if not losses:
        return [], []
    both = torch.stack([each for loss in losses for each in (loss.total, loss.plain)]).tolist()
    return both[::2], both[1::2]


def make_optimizer(model: nn.Module, training: TrainingConfig) -> torch.optim.Optimizer:
    """The optimizer of the parameters that are trained."""
    # Each step sets the learning rate of a group: that of the schedule, times the group's `factor`.
    config, groups = training.optimizer, parameter_groups(model, training.fine_tuning)
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
