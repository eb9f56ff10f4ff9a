"""One step against PyTorch's own: mean gradients, clipping, weight decay, learning rates."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from clearhead.settings import OptimizerConfig, RunConfig, ScheduleConfig, TrainingConfig
from clearhead.training.step import Updater
from clearhead.training.task import Task

RATE, NORM = 0.1, 2.0
SGD = OptimizerConfig(kind="sgd", momentum=0.0)
ADAM = OptimizerConfig(beta1=0.8, beta2=0.95, epsilon=1e-3)


def some_model() -> nn.Sequential:
    """Two layers in float64 with fixed weights; the second never has a gradient."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)).double()


def give_gradients(model: nn.Sequential, seed: int, scale: float = 1.0) -> None:
    """Random gradients whose norm is `scale` times NORM."""
    generator = torch.Generator().manual_seed(seed)
    parameters = list(model[0].parameters())
    drawn = [torch.randn(p.shape, dtype=p.dtype, generator=generator) for p in parameters]
    length = torch.cat([each.flatten() for each in drawn]).norm()
    for parameter, gradient in zip(parameters, drawn, strict=True):
        parameter.grad = gradient * (scale * NORM / length)


def updater(model: nn.Module, optimizer: OptimizerConfig, clip_norm: float = 0.0) -> Updater:
    constant = ScheduleConfig(kind="constant", peak=RATE, warmup=0)
    config = TrainingConfig(
        max_steps=1, clip_norm=clip_norm, optimizer=optimizer, schedule=constant
    )
    no_task = cast(Task, None)  # the gradients are given
    return Updater(no_task, model, RunConfig(training=config), total_steps=1)


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_alike(ours: nn.Module, theirs: nn.Module, **tolerances: Any) -> None:
    for left, right in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(left, right, **tolerances)


@pytest.mark.parametrize("units", [1, 37])
@pytest.mark.parametrize(
    ("clip_norm", "clips"), [(0.0, False), (0.01, True), (1.9, True), (2.1, False), (1e9, False)]
)
def test_sums_become_mean_gradients_and_those_are_clipped_as_pytorch_clips_them(
    units: int, clip_norm: float, clips: bool
) -> None:
    ours, theirs = some_model(), some_model()
    give_gradients(ours, seed=2, scale=units)
    give_gradients(theirs, seed=2)
    norm, rate = updater(ours, SGD, clip_norm).update(1, units)
    assert (norm, rate) == (pytest.approx(NORM), RATE)
    if clips:
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), clip_norm)
        assert norm == pytest.approx(float(expected))
    torch.optim.SGD(theirs.parameters(), lr=RATE).step()
    # PyTorch adds 1e-6 to the norm that it divides by.
    assert_alike(ours, theirs, rtol=0, atol=1e-6 * RATE * NORM)
    assert all(parameter.grad is None for parameter in ours.parameters())


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_the_optimizer_and_its_weight_decay_are_pytorchs_own(kind: str, decay: float) -> None:
    ours, theirs = some_model(), some_model()
    if kind == "adam":
        config = OptimizerConfig(beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=decay)
        their_kind = torch.optim.AdamW if decay else torch.optim.Adam
        reference: torch.optim.Optimizer = their_kind(
            theirs.parameters(), lr=RATE, betas=(0.8, 0.95), eps=1e-3, weight_decay=decay
        )
    else:
        config = OptimizerConfig(kind="sgd", momentum=0.6, weight_decay=decay)
        reference = torch.optim.SGD(theirs.parameters(), lr=RATE, momentum=0.6, weight_decay=decay)
    own = updater(ours, config)
    for step in (1, 2, 3):
        give_gradients(ours, seed=step, scale=5)
        give_gradients(theirs, seed=step)
        own.update(step, units=5)
        reference.step()
    assert_alike(ours, theirs)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_where_nothing_is_to_be_learned_weights_decay_by_the_rate(kind: str) -> None:
    model = some_model()
    before = weights(model[0])
    give_gradients(model, seed=1, scale=0.0)
    config = OptimizerConfig(kind=kind, weight_decay=0.3)  # pyright: ignore[reportArgumentType]
    updater(model, config).update(1, units=5)
    for left, right in zip(weights(model[0]), before, strict=True):
        torch.testing.assert_close(left, right * (1 - RATE * 0.3))


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_changes_nothing_and_the_next_one_counts(
    bad: float, clip_norm: float
) -> None:
    ours, theirs = some_model(), some_model()
    own = updater(ours, ADAM, clip_norm)
    give_gradients(ours, seed=1)
    gradient = next(ours.parameters()).grad
    assert gradient is not None
    gradient[0] = bad
    own.update(1, units=1)
    assert_alike(ours, theirs, rtol=0, atol=0)
    for model, each in ((ours, own), (theirs, updater(theirs, ADAM, clip_norm))):
        give_gradients(model, seed=2)
        each.update(2, units=1)
    assert_alike(ours, theirs, rtol=0, atol=0)


def test_a_schedule_rises_over_the_warm_up_and_then_keeps_its_law() -> None:
    peak, warmup, total = 2e-3, 10, 100
    for kind in ("inverse_sqrt", "cosine", "linear", "constant"):
        schedule = ScheduleConfig(kind=kind, peak=peak, warmup=warmup)
        rates = [schedule.learning_rate(step, 512, total) for step in range(1, total + 1)]
        assert rates[: warmup - 1] == pytest.approx([peak * n / warmup for n in range(1, warmup)])
        assert rates[warmup - 1] == pytest.approx(peak)
        falls = all(a >= b for a, b in zip(rates[warmup:], rates[warmup + 1 :], strict=False))
        assert falls
        if kind in ("cosine", "linear"):
            assert rates[-1] == pytest.approx(0.0, abs=1e-12)
        if kind == "inverse_sqrt":
            assert rates[39] == pytest.approx(peak / 2)


def test_the_papers_schedule_peaks_where_the_paper_says() -> None:
    schedule = ScheduleConfig(kind="paper", warmup=4000)
    rates = {step: schedule.learning_rate(step, 512, 0) for step in (1, 2000, 4000, 16000)}
    assert rates[4000] == pytest.approx((512 * 4000) ** -0.5)
    assert rates[2000] == pytest.approx(rates[4000] / 2)
    assert rates[16000] == pytest.approx(rates[4000] / 2)
