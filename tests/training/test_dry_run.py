"""The dry run: its steps, its memory, and the length of the run that it reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import api
from clearhead.data.preparation import LabelledData
from clearhead.errors import DataError
from clearhead.folder import files
from clearhead.settings import TrainingConfig
from clearhead.tasks.translation import TranslationTask
from clearhead.training import dry_run
from clearhead.training import progress as meter
from clearhead.training.checkpoints import State
from clearhead.training.dry_run import DryRun
from clearhead.training.step import Updater
from clearhead.training.task import Loss, Task
from small_runs import Watcher, feature_run, prepared, small_run, spelled_run, text_run

pytestmark = pytest.mark.slow


class Closed(Watcher):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        ({"max_steps": 900}, ("at most 900 steps", "about 30 min")),
        ({"max_minutes": 10}, ("at most 10 minutes", "about 300 steps")),
        # Of two limits the earlier counts.
        ({"max_steps": 900, "max_minutes": 10}, ("at most 10 minutes", "900 steps")),
        ({"max_steps": 900, "max_minutes": 60}, ("at most 900 steps", "60 minutes")),
        ({"max_steps": 900, "patience": 4}, ("at most 900", "sooner after 4 validations in a row")),
        ({"max_minutes": 10, "patience": 4}, ("at most 10", "without a better bleu")),
        ({"patience": 4}, ("until 4 validations in a row", "at least 2,000 steps", "1 h 6 min")),
    ],
)
def test_the_length_of_a_run_with_steps_of_two_seconds(
    limits: dict[str, Any], shown: tuple[str, ...]
) -> None:
    config = TrainingConfig(validate_every=500, **limits)
    found = DryRun(1000, 300.0, "it all", 2.0, limits.get("max_steps"), config, "bleu", ("data",))
    line = found.lines()[-1]
    assert all(part in line for part in shown)
    assert ("sooner" in line) == (len(limits) > 1 and "patience" in limits)


def test_a_dry_run_notes_its_progress_and_returns_its_findings(tmp_path: Path) -> None:
    watcher, data = Closed(), set[str]()
    data.update(api.dry_run(small_run(tmp_path), observers=[watcher]).data)
    notes = ["learning the vocabulary (bpe)", "encoded 120 pairs", "trying a few steps"]
    assert watcher.notes == notes
    assert data
    assert not data & set(notes)
    assert watcher.closed == 1


@pytest.mark.parametrize(
    ("kind", "export"), [(text_run, False), (small_run, False), (small_run, True)]
)
@pytest.mark.parametrize("max_steps", [6, 2])
def test_the_space_on_the_disk_is_that_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, export: bool, max_steps: int
) -> None:
    training = {"max_steps": max_steps, "validate_every": 2, "average_last": 2, "export": export}
    config = kind(tmp_path, training=training) if kind is text_run else kind(tmp_path, **training)
    larger = dataclasses.replace(config.model, d_model=128, d_ff=256)
    config = dataclasses.replace(config, model=larger)
    dry = api.dry_run(config)
    measured = [0]

    def used() -> int:
        """Bytes of the files in the folder; those with several names count once."""
        found = {s.st_ino: s.st_size for p in Path(config.folder).rglob("*") if (s := p.stat())}
        return sum(found.values())

    place = files.move_into_place

    def placed(unfinished: Path, path: Path) -> None:
        measured.append(used())
        place(unfinished, path)

    # The first validation is the best, and later its checkpoint is not among the recent ones.
    monkeypatch.setattr(State, "is_best", lambda state, *_: state.best_score is None)
    monkeypatch.setattr(files, "move_into_place", placed)
    api.train(config)
    assert used() < max(measured)
    assert max(measured) / 1e6 == pytest.approx(dry.disk_mb, rel=0.05)


@pytest.mark.parametrize("call", [api.dry_run, api.train])
def test_observers_are_closed_if_the_data_are_bad(
    tmp_path: Path, call: Callable[..., object]
) -> None:
    config = small_run(tmp_path)
    Path(config.data.train[0]).unlink()
    watcher = Closed()
    with pytest.raises(DataError, match="no such file"):
        call(config, observers=[watcher])
    assert watcher.closed == 1


@pytest.mark.parametrize("accumulate", [1, 3, 10**6])
def test_it_makes_whole_steps_with_updates_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    made, rates = list[int](), list[float]()

    class Watched(Updater):
        def update(self, number: int, units: float) -> tuple[float, float]:
            before = [parameter.detach().clone() for parameter in self.model.parameters()]
            norm, rate = super().update(number, units)
            after = list(self.model.parameters())
            changed = any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
            assert changed == (rate > 0)  # after the last step of a run the rate may be zero
            made.append(number)
            rates.append(rate)
            return norm, rate

    monkeypatch.setattr(dry_run, "Updater", Watched)
    config = small_run(tmp_path, accumulate=accumulate, max_epochs=1)
    files = set(tmp_path.rglob("*"))
    found = api.dry_run(config)
    assert set(tmp_path.rglob("*")) == files
    assert found.seconds_per_step > 0
    assert found.steps is not None
    assert (found.steps == 1) == (accumulate == 10**6)
    assert all(rate > 0 for rate in rates[:-2])
    # One more is made with the largest batch.
    assert made == list(range(1, min(dry_run.STEPS, found.steps) + 2))


CPU = torch.device("cpu")
MUCH = 400
"""Megabytes beside which the steps of a small run take nothing."""

resets = pytest.mark.skipif(
    not meter.forget_peak(CPU), reason="this system cannot reset the peak of a process"
)


def take(megabytes: int) -> None:
    """Allocate and free this much memory."""
    torch.ones(megabytes * 250_000)


def resident_mb() -> float:
    """The memory of the process now, in megabytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0]) / 1e6


def tried(folder: Path, loss: Callable[..., Loss] = TranslationTask.loss) -> DryRun:
    """The dry run of a small translator whose task has this loss."""

    class Watched(TranslationTask):
        def loss(self, model: torch.nn.Module, batch: Any) -> Loss:
            return loss(self, model, batch)

    config = small_run(folder, max_steps=100)
    task = prepared(config, folder / "corpus").task
    assert isinstance(task, TranslationTask)
    task = Watched(config, task.data)
    return dry_run.try_steps(task, task.build_model(), config, ())


@resets
def test_the_memory_is_that_of_the_steps_and_not_of_what_came_before(tmp_path: Path) -> None:
    before = resident_mb()
    take(MUCH)
    found = tried(tmp_path)
    assert 0.95 * resident_mb() < found.memory_mb < before + MUCH / 2
    assert "before" not in found.memory_of


@resets
def test_the_memory_is_the_most_that_the_largest_batch_takes(tmp_path: Path) -> None:
    held: list[float] = []

    def hungry_at_last(task: TranslationTask, model: torch.nn.Module, batch: Any) -> Loss:
        held.append(resident_mb())
        if len(held) > dry_run.STEPS:
            assert task.counts(batch) == task.counts(task.largest_batch())
            take(MUCH)
        return TranslationTask.loss(task, model, batch)

    found = tried(tmp_path, hungry_at_last)
    assert len(held) == dry_run.STEPS + 1
    assert held[-1] + 0.9 * MUCH < found.memory_mb < held[-1] + 1.5 * MUCH


@pytest.mark.parametrize("status", [None, "Name:\té\nVmRSS:\t7 kB\n", "VmHWM:\t300000 kB\n"])
def test_where_the_peak_cannot_be_reset_the_memory_is_that_of_the_whole_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    """The system reports no memory, or no peak, or does not reset the peak."""
    monkeypatch.setattr(meter, "PROCESS", tmp_path / "process")
    if status is not None:
        (tmp_path / "process" / "clear_refs").mkdir(parents=True)
        (tmp_path / "process" / "status").write_text(status, encoding="utf-8")
    found = tried(tmp_path)
    assert 50 < found.memory_mb < 1e6  # PyTorch alone takes more than the one, nobody the other
    if status is not None and "VmHWM" in status:
        assert found.memory_mb == pytest.approx(307.2)  # 300,000 kilobytes of 1024 bytes
    memory = next(line for line in found.lines() if line.startswith("memory"))
    assert "before these steps" in memory


@pytest.mark.parametrize(
    "run",
    [
        lambda folder: small_run(folder),
        lambda folder: text_run(folder, classifier={"pooling": ["first"]}),
        spelled_run,
        feature_run,
    ],
)
def test_the_largest_batch_has_the_most_places_of_all(tmp_path: Path, run: Any) -> None:
    config = run(tmp_path)
    still = dataclasses.replace(config.tokenizer, sampling=0.0)
    config = dataclasses.replace(config, tokenizer=still)
    task: Task = prepared(config, tmp_path / "corpus").task

    def positions(counts: Mapping[str, int]) -> int:
        return counts["positions"]

    every = [positions(task.counts(batch)) for batch in task.batches(0, 0)]
    assert min(every) < max(every)
    assert positions(task.counts(task.largest_batch())) == max(every)
    if not isinstance(task, TranslationTask):
        # In short rows a begin symbol is much of the places.
        data: LabelledData = task.data  # pyright: ignore[reportAttributeAccessIssue]
        assert data.inputs.collate(data.rows[:1]).shape[1] == data.inputs.prepended + len(
            data.rows[0]
        )


def test_the_largest_batch_is_drawn_where_words_are_segmented_again(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    drawn, still = (
        prepared(
            dataclasses.replace(
                config, tokenizer=dataclasses.replace(config.tokenizer, sampling=sampling)
            ),
            tmp_path / f"corpus-{sampling}",
        ).task
        for sampling in (0.5, 0.0)
    )
    more, usual = (task.counts(task.largest_batch()) for task in (drawn, still))
    assert more["positions"] > usual["positions"]
