"""Batches for which the memory is too small: split, with the same gradient; tried before a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clearhead import api
from clearhead.errors import TrainingError
from clearhead.folder.tensors import read_tensors
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import DropoutConfig, OptimizerConfig, RunConfig, ScheduleConfig
from clearhead.tasks.classification import ClassificationTask
from clearhead.tasks.translation import TranslationTask
from clearhead.training import loop
from clearhead.training.checkpoints import Keeper
from clearhead.training.step import Updater
from clearhead.training.task import Loss
from several_processes import Exchanging, group_of_one
from small_runs import Watcher, assert_same, feature_run, final_state, prepared, small_run, text_run

pytestmark = pytest.mark.slow


class SmallMemory:
    """A memory with space for so many positions of a batch in training.

    Args:
        patch: restores the loss of the task.
        task: whose batches are computed.
        positions: of the largest batch that fits.
        in_backward: whether the memory becomes full when some gradients are already there.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        task: Any,
        positions: int,
        in_backward: bool = False,
    ) -> None:
        self.failed = self.computed = 0
        compute = task.loss

        def full(*_: Any) -> None:
            self.failed += 1
            raise torch.OutOfMemoryError("too much")

        def loss(self_: Any, model: nn.Module, batch: Any) -> Loss:
            fits = not model.training or self_.counts(batch)["positions"] <= positions
            if not fits and not in_backward:
                full()
            found = compute(self_, model, batch)
            self.computed += model.training
            if not fits:
                # The gradient of the output comes first, and that of the first layers last.
                first = next(p for p in model.parameters() if p.requires_grad)
                found = found._replace(total=found.total + 0 * Full.apply(first, full).sum())
            return found

        patch.setattr(task, "loss", loss)


class Full(torch.autograd.Function):
    """The identity, in whose backward pass the memory becomes full."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, full: Any) -> torch.Tensor:  # pyright: ignore
        context.full = full
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:  # pyright: ignore
        context.full()


def still(config: RunConfig) -> RunConfig:
    """The same run without dropout, whose random numbers depend on the shape of a batch.

    Adam would make large steps of rounding errors, where the gradient is 0 otherwise.
    """
    model = dataclasses.replace(config.model, dropout=DropoutConfig.everywhere(0.0))
    sgd = OptimizerConfig(kind="sgd", momentum=0.9)
    constant = ScheduleConfig(kind="constant", peak=0.5, warmup=0)
    training = dataclasses.replace(config.training, optimizer=sgd, schedule=constant)
    classifier = dataclasses.replace(config.classifier, dropout=0.0)
    return dataclasses.replace(config, model=model, classifier=classifier, training=training)


def translation(folder: Path, name: str) -> RunConfig:
    return still(small_run(folder, name, max_steps=8, accumulate=2, average_last=1))


def of_texts(folder: Path, name: str) -> RunConfig:
    training = {"max_steps": 8, "validate_every": 4, "average_last": 1}
    return still(text_run(folder, name, training=training))


def of_features(folder: Path, name: str) -> RunConfig:
    return still(feature_run(folder, name, training={"max_steps": 8, "validate_every": 4}))


@pytest.mark.parametrize(
    ("run", "task", "positions"),
    [
        (translation, TranslationTask, 150),
        (of_texts, ClassificationTask, 60),
        (of_features, ClassificationTask, 20),
    ],
)
@pytest.mark.parametrize("in_backward", [False, True])
def test_a_split_batch_has_the_gradient_of_the_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Any,
    task: Any,
    positions: int,
    in_backward: bool,
) -> None:
    whole, split = run(tmp_path, "whole"), run(tmp_path, "split")
    api.train(whole)
    watcher = Watcher()
    memory = SmallMemory(monkeypatch, task, positions, in_backward)
    assert api.train(split, observers=[watcher]).finished
    assert memory.failed > 0
    ours, theirs = final_state(split), final_state(whole)
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-3, atol=1e-4)
    assert sum("split" in note for note in watcher.notes) == 1


def test_batches_as_large_are_split_at_once_also_after_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = SmallMemory(monkeypatch, TranslationTask, 150)
    through = small_run(tmp_path, "through")
    api.train(through)
    failed = memory.failed
    assert 0 < failed < 12
    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    memory.failed = 0
    for step in (4, 8):
        assert not api.train(pieces, observers=[Watcher(interrupt_at=step)]).finished
    assert api.train(pieces).finished
    # No more than without the interruptions: the size is part of the state.
    assert memory.failed == failed
    assert_same(final_state(through), final_state(pieces))


@pytest.mark.parametrize("steps", [0, 6])
def test_an_example_that_does_not_fit_ends_the_run_with_advice_and_saves_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Also before the first step, in which the largest batch is tried."""
    config, memory = small_run(tmp_path), None
    step = Updater.step

    def smaller(updater: Updater, number: int, *rest: Any) -> float:
        if number == 7:
            SmallMemory(monkeypatch, TranslationTask, 3)
        return step(updater, number, *rest)

    if steps:
        monkeypatch.setattr(Updater, "step", smaller)
    else:
        monkeypatch.setattr(loop, "TRIED_ON", ("cpu",))
        memory = SmallMemory(monkeypatch, TranslationTask, 3)
    with pytest.raises(TrainingError, match="memory of the GPU is full") as caught:
        api.train(config)
    assert caught.value.where == f"after step {steps}"
    assert "data.max_length" in str(caught.value.todo)
    assert memory is None or memory.computed == 0
    _, fields = read_tensors(Path(config.folder) / "training" / "state.safetensors")
    assert fields["step"] == steps


@pytest.mark.parametrize("run", [small_run, text_run, feature_run])
def test_the_halves_of_a_batch_have_its_examples(tmp_path: Path, run: Any) -> None:
    task: Any = prepared(run(tmp_path), tmp_path / "corpus").task
    for batch in task.batches(0, 0):
        parts = [batch]
        while any(len(part.rows) > 1 for part in parts):
            parts = [half for part in parts for half in task.split(part)]
        assert [part.rows for part in parts] == [(row,) for row in batch.rows]
        assert [len(task.split(part)) for part in parts] == [1] * len(parts)
        counts = [task.counts(part) for part in parts]
        assert {k: sum(count[k] for count in counts) for k in counts[0]} == task.counts(batch)


def test_the_largest_batch_is_tried_before_the_first_step_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = small_run(tmp_path, "plain")
    api.train(plain)
    memory = SmallMemory(monkeypatch, TranslationTask, 10**6)
    monkeypatch.setattr(loop, "TRIED_ON", ("cpu",))
    tried = small_run(tmp_path, "tried")
    api.train(tried)
    assert memory.computed == 12 + 2  # of two epochs
    assert_same(final_state(plain), final_state(tried))


def updater_of(config: RunConfig, folder: Path, parallel: str, ranks: Ranks) -> tuple[Updater, Any]:
    """An updater of one of several processes, and its first batch."""
    ready = prepared(config, folder)
    training = dataclasses.replace(config.training, parallel=parallel)  # pyright: ignore
    model = ready.build_model().train()
    run = dataclasses.replace(config, training=training)
    updater = Updater(ready.task, model, run, 8, ranks)
    updater.connect()
    return updater, next(ready.task.batches(0, 0))


def test_fsdp_splits_no_batch_so_that_all_processes_make_the_same_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with group_of_one("gloo"):
        config = translation(tmp_path, "run")
        updater, batch = updater_of(config, tmp_path, "fsdp", Exchanging())
        memory = SmallMemory(monkeypatch, TranslationTask, 10_000)
        updater.split_from = 20
        updater.step(1, [batch])
        assert memory.computed == 1


def test_after_the_trial_several_processes_split_what_is_larger_than_the_parts_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = translation(tmp_path, "run")
    updater, batch = updater_of(config, tmp_path, "ddp", ALONE)
    positions = updater.task.counts(batch)["positions"]
    SmallMemory(monkeypatch, TranslationTask, positions - 1)
    updater.try_batch(batch)
    assert updater.split_from == positions
    updater.split_from, updater.ranks = 0, Ranks(0, 2)
    updater.try_batch(batch)
    halves = [updater.task.counts(half)["positions"] for half in updater.task.split(batch)]
    assert updater.split_from == max(halves) + 1 < positions


@pytest.mark.parametrize("run", [translation, of_texts])
def test_a_spare_batch_has_one_example(tmp_path: Path, run: Any) -> None:
    """So that it fits wherever a part of a batch does."""
    config = run(tmp_path, "run")
    task = prepared(config, tmp_path).task
    ranks, steps = Ranks(1, 2), list[Any]()
    keeper = Keeper(tmp_path, 1, {}, ranks=ranks)
    model = task.build_model()
    trainer = loop.Trainer(task, model, config, keeper, (), ranks)
    trainer.updater.step = lambda *given: steps.append(given) or 1.0  # pyright: ignore
    trainer.step([], 1)
    ((_, batches, _, spares),) = steps
    assert (batches, [len(task.split(spare)) for spare in spares]) == ([], [1])
