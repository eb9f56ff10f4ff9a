"""The dry run: the steps it makes are real ones, and its last line says how long the run is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import api
from clearhead.config import TrainingConfig
from clearhead.errors import DataError
from clearhead.training import dry_run
from clearhead.training.dry_run import DryRun
from clearhead.training.events import Note
from clearhead.training.updater import Updater
from test_training import Watcher, small_run


class Closed(Watcher):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def last_line(steps: int | None, **limits: Any) -> str:
    """Of a run with steps of two seconds."""
    config = TrainingConfig(validate_every=500, **limits)
    return DryRun(1000, 300.0, 2.0, steps, config, "bleu", ("the data",)).lines()[-1]


def test_a_run_limited_by_steps_is_as_long_as_they_are() -> None:
    line = last_line(900, max_steps=900)
    assert "at most 900 steps" in line
    assert "about 30 min" in line
    assert "sooner" not in line


def test_a_run_limited_by_minutes_says_how_many_steps_that_is() -> None:
    line = last_line(None, max_minutes=10)
    assert "at most 10 minutes" in line
    assert "about 300 steps" in line


@pytest.mark.parametrize(("minutes", "first"), [(10, "10 minutes"), (60, "900 steps")])
def test_of_two_limits_the_earlier_counts_and_both_are_named(minutes: int, first: str) -> None:
    line = last_line(900, max_steps=900, max_minutes=minutes)
    assert f"the run: at most {first}" in line
    assert f"{minutes} minutes" in line
    assert "900" in line


def test_patience_may_end_a_run_sooner() -> None:
    for limits in ({"max_minutes": 10}, {"max_steps": 900}):
        line = last_line(limits.get("max_steps"), patience=4, **limits)
        assert "at most" in line
        assert "sooner after 4 validations in a row without a better bleu" in line


def test_patience_alone_gives_the_least_that_a_run_takes() -> None:
    line = last_line(None, patience=4)
    assert "until 4 validations in a row without a better bleu" in line
    assert "at least 2,000 steps" in line
    assert "1 h 6 min" in line


def test_it_tells_what_it_does_and_leaves_what_it_found_to_its_lines(tmp_path: Path) -> None:
    watcher, data = Closed(), set[str]()
    data.update(api.dry_run(small_run(tmp_path), observers=[watcher]).data)
    told = [event.text for event in watcher.events if isinstance(event, Note)]
    assert told == ["learning the vocabulary (bpe)", "encoded 120 pairs", "trying a few steps"]
    assert data
    assert not data & set(told)
    assert watcher.closed == 1


def test_who_watches_is_let_go_though_the_data_are_bad(tmp_path: Path) -> None:
    config = small_run(tmp_path)
    Path(config.data.train[0]).unlink()
    watcher = Closed()
    with pytest.raises(DataError, match="no such file"):
        api.dry_run(config, observers=[watcher])
    assert watcher.closed == 1


@pytest.mark.parametrize("accumulate", [1, 3, 10**6])
def test_it_makes_whole_steps_with_updates_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    made: list[int] = []

    class Watched(Updater):
        def update(self, step: int, units: int) -> tuple[float, float]:
            before = [parameter.detach().clone() for parameter in self.model.parameters()]
            told = super().update(step, units)
            after = list(self.model.parameters())
            assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
            made.append(step)
            return told

    monkeypatch.setattr(dry_run, "Updater", Watched)
    config = small_run(tmp_path, accumulate=accumulate, max_epochs=1)
    files = set(tmp_path.rglob("*"))
    found = api.dry_run(config)
    assert set(tmp_path.rglob("*")) == files
    assert found.seconds_per_step > 0
    assert found.steps is not None
    assert (found.steps == 1) == (accumulate == 10**6)
    assert made == list(range(1, min(dry_run.STEPS, found.steps) + 1))
