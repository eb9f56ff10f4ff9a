"""Steps without a finite loss or gradient: left out, named, and answered by going back."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clearhead import api
from clearhead.errors import TrainingError
from clearhead.folder.tensors import read_tensors
from clearhead.tasks.translation import TranslationTask
from clearhead.training.bad_steps import BLOCK_BATCHES, MOST_ATTEMPTS, MOST_IN_A_ROW, reordered
from clearhead.training.events import Progress, StepLeftOut, Validated, WentBack
from clearhead.training.step import Updater
from clearhead.training.task import Loss
from small_runs import (
    Killed,
    Watcher,
    assert_same,
    final_state,
    prepared,
    saved,
    small_run,
    text_run,
)

pytestmark = pytest.mark.slow


class Faults:
    """Makes the loss or the gradient of some steps NaN, and kills the run before others.

    Args:
        patch: restores everything.
        bad: whether a step of an attempt is bad.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        bad: Callable[[int, int], bool],
        only_gradient: bool = False,
    ) -> None:
        self.killed_at: list[int] = []
        self.calls, self._bad = 0, False
        step, compute = Updater.step, TranslationTask.loss

        def faulty_step(updater: Updater, number: int, *rest: Any) -> float:
            self.calls += 1
            if self.calls in self.killed_at:
                raise Killed
            self._bad = bad(number, rest[1])
            return step(updater, number, *rest)

        def faulty_loss(self_: Any, model: nn.Module, batch: Any) -> Loss:
            loss = compute(self_, model, batch)
            if not self._bad:
                return loss
            if only_gradient:  # the root of 0 is 0, and its derivative is infinite
                return loss._replace(total=loss.total + (0 * loss.total).sqrt())
            return loss._replace(total=loss.total * math.nan)

        patch.setattr(Updater, "step", faulty_step)
        patch.setattr(TranslationTask, "loss", faulty_loss)


@pytest.mark.parametrize("only_gradient", [False, True])
def test_a_bad_step_changes_nothing_and_its_examples_are_logged_by_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only_gradient: bool
) -> None:
    config = small_run(tmp_path, report_every=1)
    Faults(monkeypatch, lambda number, _: number in (2, 8, 9), only_gradient=only_gradient)
    weights: dict[int, list[torch.Tensor]] = {}
    step = Updater.step

    def noted(updater: Updater, number: int, *rest: Any) -> float:
        weights[number - 1] = [each.detach().clone() for each in updater.model.parameters()]
        return step(updater, number, *rest)

    monkeypatch.setattr(Updater, "step", noted)
    watcher = Watcher()
    assert api.train(config, observers=[watcher]).finished
    for number in range(1, 12):
        same = all(map(torch.equal, weights[number], weights[number - 1]))
        assert same == (number in (2, 8, 9)), number
    left_out = watcher.of(StepLeftOut)
    assert [(e.step, e.in_a_row, e.in_all) for e in left_out] == [(2, 1, 1), (8, 1, 2), (9, 2, 3)]
    assert saved(config).bad_steps == 3
    log = Path(config.folder) / "training" / "log.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    logged = [record for record in records if record["event"] == "StepLeftOut"]
    assert [tuple(record["examples"]) for record in logged] == [e.examples for e in left_out]
    lines = Path(config.data.train[0]).read_text().splitlines()
    for event in left_out:
        assert len(set(event.examples)) == len(event.examples) > 1
        for place in event.examples:
            name, _, line = place.partition(":")
            assert name == "train.tsv"
            assert lines[int(line) - 1]
    # Steps 8 and 9 are of the same epoch.
    assert not set(left_out[1].examples) & set(left_out[2].examples)
    notes = [note for note in watcher.notes if "not finite" in note]
    assert len(notes) == 3
    assert all(event.examples[0] in note for event, note in zip(left_out, notes, strict=True))
    # The loss of a report does not count them.
    losses = {event.step: event.loss for event in watcher.of(Progress)}
    assert math.isnan(losses[2])
    assert all(math.isfinite(losses[number]) for number in (1, 3, 7, 10))


def test_the_examples_of_a_classifier_have_places_too(tmp_path: Path) -> None:
    task = prepared(text_run(tmp_path), tmp_path / "corpus").task
    batch = next(task.batches(0, 0))
    lines = (tmp_path / "train.tsv").read_text().splitlines()
    places = task.places(batch, 0)
    assert len(places) == len(batch.rows)
    assert all(lines[int(place.split("train.tsv:")[1]) - 1] for place in places)


def between(first: int, last: int, attempts: int) -> Callable[[int, int], bool]:
    return lambda number, attempt: first <= number <= last and attempt < attempts


@pytest.mark.parametrize(("attempts", "accumulate"), [(1, 2), (MOST_ATTEMPTS, 1)])
def test_after_bad_steps_in_a_row_a_run_goes_back_and_its_kills_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int, accumulate: int
) -> None:
    faults = Faults(monkeypatch, between(10, 14, attempts))
    settings = {"max_steps": 17, "validate_every": 4, "accumulate": accumulate}
    through = small_run(tmp_path, "through", **settings)
    watcher = Watcher()
    assert api.train(through, observers=[watcher]).finished
    back = watcher.of(WentBack)
    assert [(e.step, e.from_step, e.attempt) for e in back] == [
        (8, 14, attempt + 1) for attempt in range(attempts)
    ]
    state = saved(through)
    assert (state.step, state.attempt, state.bad_in_a_row) == (17, attempts, 0)
    assert state.bad_steps == MOST_IN_A_ROW * attempts
    steps = [event.step for event in watcher.of(Validated) if event.weights == "current"]
    # A state is saved before its validation, so going back repeats this.
    assert steps == [4, 8, *[12, 8] * attempts, 12, 16, 17]

    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    # In the first steps, before and in the bad ones, and after the run has gone back.
    for call in (3, 8, 5, 4, 7, 3):
        faults.calls, faults.killed_at = 0, [call]
        with pytest.raises(Killed):
            api.train(pieces)
    faults.killed_at = []
    assert api.train(pieces).finished
    assert_same(final_state(through), final_state(pieces))
    fields = [dataclasses.replace(saved(run), elapsed_s=0.0) for run in (through, pieces)]
    assert fields[0] == fields[1]
    scores = [(Path(run.folder) / "scores.json").read_text() for run in (through, pieces)]
    assert scores[0] == scores[1]


def test_another_attempt_has_each_remaining_batch_once_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, list[list[int]]] = {}

    def noted(number: int, attempt: int) -> bool:
        seen.setdefault(attempt, [])
        return attempt == 0 and number > 4

    Faults(monkeypatch, noted)
    compute = TranslationTask.loss

    def loss(self: TranslationTask, model: nn.Module, batch: Any) -> Loss:
        if model.training:
            seen[max(seen)].append(sorted(batch.rows))
        return compute(self, model, batch)

    monkeypatch.setattr(TranslationTask, "loss", loss)
    api.train(small_run(tmp_path, batch_tokens=90, max_steps=0, max_epochs=1))
    first, second = seen[0], seen[1]
    assert sorted(row for batch in first[:4] + second for row in batch) == list(range(120))
    assert second[:5] != first[4:9]


def test_a_run_that_stays_bad_ends_with_a_diagnosis_and_keeps_its_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_run(tmp_path, max_steps=40)
    Faults(monkeypatch, lambda number, _: number > 6)
    watcher = Watcher()
    with pytest.raises(TrainingError, match="diverged") as caught:
        api.train(config, observers=[watcher])
    assert len(watcher.of(WentBack)) == MOST_ATTEMPTS
    assert caught.value.where == f"step {6 + MOST_IN_A_ROW}"
    assert caught.value.why is not None
    assert "learning rate" in caught.value.why
    assert "weights are finite" in caught.value.why
    # Some examples were in the bad steps of several attempts.
    bad = [set(event.examples) for event in watcher.of(StepLeftOut)]
    common = {place for i, places in enumerate(bad) for p in bad[:i] for place in places & p}
    assert any(place in caught.value.why for place in common)
    assert (saved(config).step, saved(config).attempt) == (4, MOST_ATTEMPTS)
    # Once more with the same end; a run that is not resumable does not go back.
    with pytest.raises(TrainingError, match="diverged"):
        api.train(config)
    watcher, other = Watcher(), dataclasses.replace(config, folder=str(tmp_path / "other"))
    with pytest.raises(TrainingError, match="diverged"):
        api.train(other, resumable=False, observers=[watcher])
    assert len(watcher.of(StepLeftOut)) == MOST_IN_A_ROW


def spoil(patch: pytest.MonkeyPatch, spoiled_step: int, attempts: int) -> None:
    """Make weights infinite after a step, in the first attempts."""
    step = Updater.step

    def spoiling(updater: Updater, number: int, *rest: Any) -> float:
        norm = step(updater, number, *rest)
        if number == spoiled_step and rest[1] < attempts:
            with torch.no_grad():
                next(updater.model.parameters()).fill_(math.inf)
        return norm

    patch.setattr(Updater, "step", spoiling)


# The first is followed by five bad steps, the others by a validation or by the end of the run.
@pytest.mark.parametrize(("spoiled", "left"), [(5, 10), (10, 11), (17, 17)])
def test_weights_that_are_not_finite_are_neither_saved_nor_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: int, left: int
) -> None:
    spoil(monkeypatch, spoiled, 1)
    watcher = Watcher()
    config = small_run(tmp_path, max_steps=17, validate_every=11, average_last=1)
    assert api.train(config, observers=[watcher]).finished
    (back,) = watcher.of(WentBack)
    assert (back.step, back.from_step) == (11 if spoiled > 11 else 0, left)
    assert [event.step for event in watcher.of(Validated)][-1] == 17
    assert all(tensor.isfinite().all() for tensor in final_state(config).values())


def test_a_run_that_diverges_in_its_last_step_ends_with_a_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, 12, MOST_ATTEMPTS + 1)
    config = small_run(tmp_path)
    for _ in range(2):
        with pytest.raises(TrainingError, match="diverged") as caught:
            api.train(config)
        assert "not finite" in caught.value.what
        assert f'start_from = "{config.folder}"' in str(caught.value.todo)
        assert saved(config).step == 8
        weights, _ = read_tensors(Path(config.folder, "weights.safetensors"))
        assert all(tensor.isfinite().all() for tensor in weights.values())


def test_attempts_that_helped_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {0: range(10, 15), 1: range(20, 25), 2: range(30, 35), 3: range(40, 99)}
    Faults(monkeypatch, lambda number, attempt: number in bad.get(min(attempt, 3), ()))
    config, watcher = small_run(tmp_path, max_steps=38), Watcher()
    assert api.train(config, observers=[watcher]).finished
    back = watcher.of(WentBack)
    assert [(e.step, e.from_step) for e in back] == [(8, 14), (16, 24), (28, 34)]
    assert [event.attempt for event in back] == [1, 2, 3]
    # A longer run has its own attempts.
    longer = dataclasses.replace(config.training, max_steps=50)
    with pytest.raises(TrainingError, match="diverged") as caught:
        api.train(dataclasses.replace(config, training=longer), observers=[watcher])
    assert f"{MOST_ATTEMPTS} other orders" in str(caught.value.why)
    assert len(watcher.of(WentBack)) == 3 + MOST_ATTEMPTS


def test_an_interruption_in_bad_steps_keeps_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting(Watcher):
        def observe(self, event: Any) -> None:
            if isinstance(event, StepLeftOut) and event.in_a_row == 2:
                signal.raise_signal(signal.SIGINT)

    Faults(monkeypatch, between(10, 14, 1))
    through = small_run(tmp_path, "through", max_steps=17)
    api.train(through)
    pieces = dataclasses.replace(through, folder=str(tmp_path / "pieces"))
    ended = api.train(pieces, observers=[Interrupting()])
    assert (ended.finished, ended.step, saved(pieces).step) == (False, 11, 8)
    assert "step 8 is saved" in ended.reason
    assert api.train(pieces).finished
    assert_same(final_state(through), final_state(pieces))


@given(
    batches=st.integers(0, 3 * BLOCK_BATCHES),
    starts=st.lists(st.integers(0, 2 * BLOCK_BATCHES), max_size=3).map(sorted),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_an_order_is_a_permutation_of_what_is_left_and_can_be_entered_anywhere(
    batches: int, starts: list[int], seed: int, data: st.DataObject
) -> None:
    def as_they_are(first: int) -> Iterator[int]:
        return iter(range(first, batches))

    order, last = as_they_are, 0
    for attempt, start in enumerate(starts):
        order, before, last = reordered(order, start, (seed, attempt)), order, start
        assert sorted(order(start)) == sorted(before(start))
    first = data.draw(st.integers(last, max(last, batches)))
    whole = list(order(last))
    assert list(order(first)) == whole[first - last :]
    if len(whole) > 9 and starts:
        assert whole != list(as_they_are(last))
