"""When a run ends: its limits, time over several sessions, and what an end in between saves."""

from __future__ import annotations

import dataclasses
import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clearhead import api
from clearhead.errors import ModelFolderError
from clearhead.settings import RunConfig, ScheduleConfig, TrainingConfig
from clearhead.tasks.translation import TranslationTask
from clearhead.training import loop
from clearhead.training.checkpoints import Keeper, State
from clearhead.training.events import Event, Progress
from clearhead.training.loop import Limits
from clearhead.training.step import Updater
from clearhead.training.task import Evaluation, Loss
from small_runs import Killed, Watcher, assert_same, final_state, prepared, saved, small_run

CONSTANT = ScheduleConfig(kind="constant", peak=1e-3, warmup=1)
LINEAR = ScheduleConfig(kind="linear", peak=1e-3, warmup=1)


def limits(steps_per_epoch: int = 10, **settings: Any) -> Limits:
    return Limits(TrainingConfig(**settings), steps_per_epoch, "chrf")


@pytest.mark.parametrize(
    ("settings", "before", "then", "fragment"),
    [
        ({"max_steps": 5}, State(step=4), State(step=5), "5 steps"),
        ({"max_epochs": 2}, State(epoch=1), State(epoch=2), "2 epochs are"),
        ({"max_epochs": 1}, State(epoch=0), State(epoch=1), "1 epoch is"),
        ({"max_minutes": 1.5}, State(elapsed_s=89.9), State(elapsed_s=90), "1.5 minutes"),
        (
            {"patience": 3},
            State(validations_since_best=2),
            State(validations_since_best=3),
            "chrf in 3 validations",
        ),
    ],
)
def test_a_limit_ends_a_run_when_it_is_reached_and_not_before(
    settings: dict[str, Any], before: State, then: State, fragment: str
) -> None:
    limit = limits(**settings)
    assert limit.reached(before, before.elapsed_s) is None
    assert fragment in str(limit.reached(then, then.elapsed_s))
    # Again with all other values as far as possible: what is not set is no limit.
    for state, expected in ((before, "None"), (then, fragment)):
        untouched = {
            field.name: 10**9
            for field in dataclasses.fields(State)
            if field.name in ("step", "epoch", "validations_since_best", "elapsed_s")
            and getattr(then, field.name) == field.default
        }
        far = dataclasses.replace(state, **untouched)
        assert expected in str(limit.reached(far, far.elapsed_s))


@pytest.mark.parametrize(
    ("settings", "total", "remaining"),
    [
        ({"max_steps": 25}, 25, 40.0),
        ({"max_epochs": 2}, 20, 30.0),
        ({"max_steps": 15, "max_epochs": 2}, 15, 20.0),
        ({"max_steps": 25, "max_minutes": 1}, 25, 40.0),
        ({"max_steps": 100, "max_minutes": 1}, 100, 45.0),
        ({"max_minutes": 1}, 0, 45.0),
        ({"max_steps": 3}, 3, 0.0),
        ({"patience": 2}, 0, None),
    ],
)
def test_the_first_limit_that_is_known_gives_the_steps_of_a_run_and_the_time_that_remains(
    settings: dict[str, Any], total: int, remaining: float | None
) -> None:
    limit = limits(steps_per_epoch=10, **settings)
    assert limit.total_steps == total
    assert limit.remaining_s(5, 15.0, seconds_per_step=2.0) == remaining


@pytest.mark.parametrize("kind", ["linear", "cosine", "inverse_sqrt", "constant", "paper"])
@pytest.mark.parametrize(("warmup", "warned"), [(0, False), (10, False), (11, True), (2_000, True)])
def test_a_warmup_of_more_than_half_of_the_run_gets_a_warning(
    kind: Any, warmup: int, warned: bool
) -> None:
    schedule = ScheduleConfig(kind=kind, warmup=warmup)
    for limit in ({"max_epochs": 2}, {"max_epochs": 9, "max_steps": 20}):
        warning = limits(10, schedule=schedule, **limit).warmup_warning()
        assert (warning is not None) == warned
        if warning is not None:
            assert "training.schedule.warmup = 6," in warning
            assert f"{warmup:,} steps, the run 20" in warning
            assert f"training.{min(limit, key=len)} = {limit[min(limit, key=len)]}" in warning
    # Without a known number of steps there is none.
    assert limits(max_minutes=3, schedule=schedule).warmup_warning() is None


@pytest.mark.slow
def test_training_and_the_dry_run_warn_once_of_a_long_warmup(tmp_path: Path) -> None:
    watcher = Watcher()
    config = small_run(
        tmp_path, max_steps=2, schedule=ScheduleConfig(kind="linear", peak=5e-3, warmup=5)
    )
    (line,) = (line for line in api.dry_run(config).lines() if "training.schedule.warmup" in line)
    api.train(config, observers=[watcher])
    assert watcher.notes.count(line) == 1
    # Nothing is trained any more.
    again = Watcher()
    api.train(config, observers=[again])
    assert not any("schedule.warmup" in note for note in again.notes)


class Clock:
    """A clock that advances by a minute at each update only."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        update = Updater.update

        def slow_update(updater: Updater, step: int, units: int) -> tuple[float, float]:
            self.now += 60
            return update(updater, step, units)

        patch.setattr(Updater, "update", slow_update)
        patch.setattr(loop, "time", self)

    def monotonic(self) -> float:
        return self.now


def test_minutes_end_a_run_and_those_of_earlier_sessions_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    only_time: dict[str, Any] = {"max_steps": 0, "validate_every": 100, "schedule": CONSTANT}
    first = api.train(small_run(tmp_path, max_minutes=3, **only_time))
    assert (first.step, first.elapsed_s, first.finished) == (3, 180, True)
    assert "3 minutes" in first.reason
    clock.now += 10_000  # between the sessions
    second = api.train(small_run(tmp_path, max_minutes=5, **only_time))
    assert (second.step, second.elapsed_s) == (5, 300)
    assert "5 minutes" in second.reason


@pytest.mark.parametrize(
    ("step", "minutes", "planned"),
    [(10, 0.9, 0), (10, 1, 97), (10, 2, 48), (10, 9.9, 10), (0, 2, 0)],
)
def test_the_steps_that_fit_into_the_minutes_are_planned_once(
    step: int, minutes: float, planned: int
) -> None:
    limit, state = limits(max_minutes=10, schedule=LINEAR), State(step=step)
    assert limit.plan(state, 60 * minutes) == (planned > 0)
    assert limit.total_steps == state.planned_steps == planned
    if planned:
        assert not limit.plan(state, 600)
        assert limits(max_minutes=10, schedule=LINEAR).plan(state, 0) is False
        assert limit.reached(dataclasses.replace(state, step=planned), 60 * minutes)
        assert limit.plan(dataclasses.replace(state, planned_minutes=5), 60 * minutes)
    # A schedule without an end needs no plan, and fewer steps come first.
    assert not limits(max_minutes=10, schedule=CONSTANT).plan(state, 60 * minutes)
    limit = limits(max_minutes=10, max_steps=9, schedule=LINEAR)
    limit.plan(state, 60 * minutes)
    assert limit.total_steps == 9


def test_the_rate_falls_to_zero_where_the_minutes_end_also_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    settings: dict[str, Any] = {"max_steps": 0, "max_minutes": 20, "schedule": LINEAR}
    through, pieces = uninterrupted(tmp_path, validate_every=8, report_every=1, **settings)
    assert saved(through).planned_steps == 19
    # The speed of a resumed run changes nothing.
    first, second = Watcher(interrupt_at=8), Watcher()
    assert not api.train(pieces, observers=[first]).finished
    clock.now += 10_000
    ended = api.train(pieces, observers=[second])
    assert (ended.step, ended.finished) == (19, True)
    assert_same_end(through, pieces)
    progress = [e for e in (*first.events, *second.events) if isinstance(e, Progress)]
    rates = [event.learning_rate for event in progress]
    assert rates[-1] == 0
    assert rates[-1] < rates[-2] < rates[-3] < max(rates) == LINEAR.peak


def test_a_warmup_that_is_longer_than_the_minutes_becomes_a_third_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch)
    long = ScheduleConfig(kind="linear", peak=1e-3, warmup=400)
    settings: dict[str, Any] = {"max_steps": 0, "max_minutes": 20, "schedule": long}
    watcher = Watcher()
    run = small_run(tmp_path, validate_every=100, report_every=1, **settings)
    api.train(run, observers=[watcher])
    rates = [event.learning_rate for event in watcher.events if isinstance(event, Progress)]
    assert rates.index(max(rates)) == 19 // 3 - 1
    assert (max(rates), rates[-1]) == (pytest.approx(1e-3), 0)


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 3])
def test_epochs_end_a_run_when_all_their_batches_are_seen(tmp_path: Path, accumulate: int) -> None:
    config = small_run(
        tmp_path, max_steps=1000, max_epochs=2, accumulate=accumulate, validate_every=1000
    )
    task = prepared(config, tmp_path / "corpus").task
    ended = api.train(config)
    assert "2 epochs" in ended.reason
    assert ended.step == sum(-(-task.batch_count(epoch) // accumulate) for epoch in range(2))


def uninterrupted(folder: Path, **training: Any) -> tuple[RunConfig, RunConfig]:
    """A run that has ended, and the same in another folder that has not begun."""
    through = small_run(folder, "through", **training)
    api.train(through)
    return through, dataclasses.replace(through, folder=str(folder / "pieces"))


def assert_same_end(left: RunConfig, right: RunConfig) -> None:
    """Weights, optimizer, scores and counters are the same; times differ."""
    assert_same(final_state(left), final_state(right))
    fields = [dataclasses.replace(saved(config), elapsed_s=0.0) for config in (left, right)]
    assert fields[0] == fields[1]
    scores = [(Path(config.folder) / "scores.json").read_text() for config in (left, right)]
    assert scores[0] == scores[1]


@pytest.mark.slow
@pytest.mark.parametrize("stopping", [Killed, ValueError])
def test_a_run_that_ends_in_a_validation_loses_no_step_and_no_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopping: type[BaseException]
) -> None:
    # With patience, a validation that counted twice or never would change the end.
    through, pieces = uninterrupted(tmp_path, patience=3, max_steps=20)
    evaluate = TranslationTask.evaluate
    calls: list[int] = []

    def failing(self: TranslationTask, model: nn.Module) -> Evaluation:
        calls.append(1)
        if len(calls) in (1, 3, 5):  # the first validation, the second and the third
            raise stopping("in a validation")
        return evaluate(self, model)

    monkeypatch.setattr(TranslationTask, "evaluate", failing)
    for step in (4, 8, 12):
        with pytest.raises(stopping):
            api.train(pieces)
        assert saved(pieces).step == step
    assert api.train(pieces).finished
    assert_same_end(through, pieces)


def test_the_state_is_written_once_for_each_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    write = Keeper.write_state

    def counted(self: Keeper, model: nn.Module, optimizer: Any, state: State) -> None:
        steps.append(state.step)
        write(self, model, optimizer, state)

    monkeypatch.setattr(Keeper, "write_state", counted)
    api.train(small_run(tmp_path))
    assert steps == [0, 4, 8, 12, 12]  # first and last: the beginning and the end of the run


class Failing(Watcher):
    """An observer with a bug."""

    def observe(self, event: Event) -> None:
        if isinstance(event, Progress) and event.step == 6:
            raise ZeroDivisionError("in an observer")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["observer", "loss", "update"])
def test_an_error_ends_a_run_after_its_complete_steps_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    through, pieces = uninterrupted(tmp_path, report_every=1, accumulate=2)

    def loss(self: TranslationTask, *rest: Any) -> Loss:
        calls.append(1)
        if len(calls) == 2 * 6 + 2:
            raise ZeroDivisionError("in the second batch of step 7")
        return compute(self, *rest)

    def optimize(self: torch.optim.AdamW, *rest: Any) -> Any:
        calls.append(1)
        if len(calls) == 7:
            raise ZeroDivisionError("in the update of step 7")
        return step(self, *rest)

    calls: list[int] = []
    compute, step = TranslationTask.loss, torch.optim.AdamW.step
    with monkeypatch.context() as patch:
        if where == "loss":
            patch.setattr(TranslationTask, "_validation_loss", lambda *_: math.nan)
            patch.setattr(TranslationTask, "loss", loss)
        elif where == "update":
            patch.setattr(torch.optim.AdamW, "step", optimize)
        with pytest.raises(ZeroDivisionError):
            api.train(pieces, observers=[Failing()] if where == "observer" else ())
    # In the middle of an update the weights of some parameters are new and of others old.
    assert saved(pieces).step == (4 if where == "update" else 6)
    if where == "loss":
        return  # its validation was not a real one
    assert api.train(pieces).finished
    assert_same_end(through, pieces)


def test_an_error_is_raised_as_it_is_if_the_state_cannot_be_saved_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Keeper, model: nn.Module, optimizer: Any, state: State) -> None:
        if state.step > 4:
            raise ModelFolderError("it cannot be written", where="somewhere")

    monkeypatch.setattr(Keeper, "write_state", full)
    with pytest.raises(ZeroDivisionError):
        api.train(small_run(tmp_path, report_every=1), observers=[Failing()])
    with pytest.raises(ModelFolderError):
        api.train(small_run(tmp_path, "other"))


@pytest.mark.slow
def test_a_terminal_that_closes_interrupts_the_run_once_however_many_signals_it_sends(
    tmp_path: Path,
) -> None:
    class Closing(Watcher):
        def observe(self, event: Event) -> None:
            if isinstance(event, Progress) and event.step == 6:
                for _ in range(3):
                    signal.raise_signal(signal.SIGHUP)

    through, pieces = uninterrupted(tmp_path, report_every=1)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    try:
        ended = api.train(pieces, observers=[Closing()])
        assert (ended.finished, saved(pieces).step) == (False, 6)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert api.train(pieces, observers=[Closing()]).finished
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_same_end(through, pieces)
