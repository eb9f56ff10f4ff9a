"""The observers that write files: the JSON log and TensorBoard."""

from __future__ import annotations

import errno
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import TrainingError
from clearhead.training.events import (
    JsonLog,
    Note,
    TensorBoardLog,
    notify,
    require_tensorboard,
)
from run_events import EVENTS, PROGRESS, SAMPLES, STARTED, VALIDATED, Clock
from small_runs import Watcher


def read_log(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_log_holds_every_event_with_its_time_as_soon_as_it_happened(tmp_path: Path) -> None:
    path = tmp_path / "training" / "log.jsonl"
    clock = Clock()
    log = JsonLog(path, clock)
    for number, event in enumerate(EVENTS, start=1):
        clock.now = float(number)
        log.observe(event)
        assert len(read_log(path)) == number  # before it is closed
    log.close()
    records = read_log(path)
    assert [record["event"] for record in records] == [type(event).__name__ for event in EVENTS]
    assert [record["time"] for record in records] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert records[2]["rates"] == dict(PROGRESS.rates)
    assert records[3]["samples"][0]["output"] == SAMPLES[0].output  # pyright: ignore


def test_a_number_that_json_lacks_is_null_in_the_log(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log.observe(replace(PROGRESS, loss=math.nan, rates={"tokens": math.inf}))
    log.close()
    [record] = read_log(tmp_path / "log.jsonl")
    assert record["loss"] is None
    assert record["rates"] == {"tokens": None}
    assert record["step"] == PROGRESS.step


@pytest.fixture(scope="module")
def whole_log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    log = JsonLog(path, Clock())
    for event in (*EVENTS, Note("é" * 70_000), Note("last, with 東京")):
        log.observe(event)
    log.close()
    return path.read_bytes()


@given(data=st.data())
def test_a_log_cut_anywhere_continues_with_all_its_whole_lines(
    whole_log: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(whole_log)))
    path = tmp_path_factory.mktemp("cut") / "log.jsonl"
    path.write_bytes(whole_log[:cut])
    log = JsonLog(path, Clock())
    log.observe(Note("went on"))
    log.close()
    records = read_log(path)
    assert records[-1]["text"] == "went on"
    lines = [json.loads(line) for line in whole_log.decode().splitlines()]
    kept = len(records) - 1
    assert records[:-1] == lines[:kept]
    # A line that lacks its break only is whole.
    assert kept == whole_log[: cut + 1].count(b"\n")


def test_a_log_that_cannot_be_opened_is_one_warning_and_has_all_lines_later(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "training"
    folder.write_text("")
    log, watcher = JsonLog(folder / "log.jsonl", Clock()), Watcher()
    for number in range(2):
        notify([log, watcher], Note(f"note {number}"))
    JsonLog(folder / "log.jsonl").close()  # it was never open
    notes = watcher.notes
    assert sum(str(folder / "log.jsonl") in text for text in notes) == len(notes) - 2 == 1
    folder.unlink()
    folder.mkdir()
    (folder / "log.jsonl").symlink_to(tmp_path / "outside")  # which is not followed either
    notify([log, watcher], Note("note 2"))
    assert not (tmp_path / "outside").exists()
    (folder / "log.jsonl").unlink()
    log.close()
    records = read_log(folder / "log.jsonl")
    assert [record["text"] for record in records] == [f"note {number}" for number in range(3)]


class FullDisk:
    """Stands for the file of a log: the disk has space for so many bytes."""

    def __init__(self, log: JsonLog, space: int) -> None:
        self.file: Any = log._file
        self.space = space
        vars(log)["_file"] = self

    def write(self, content: bytes) -> int:
        if self.space == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.file.write(content[: self.space])
        self.space -= written
        return written

    def close(self) -> None:
        self.file.close()


@pytest.mark.parametrize("space", [0, 1, 60, 100, 10**6])
def test_a_log_on_a_full_disk_is_one_warning_and_continues_with_whole_lines(
    tmp_path: Path, space: int
) -> None:
    log, watcher = JsonLog(tmp_path / "log.jsonl", Clock()), Watcher()
    disk = FullDisk(log, space)
    for number in range(4):
        notify([log, watcher], Note(f"note {number}"))
    notes = watcher.notes
    warnings = [text for text in notes if text.startswith("warning")]
    assert len(warnings) == (space < 4 * 60)
    assert all("log.jsonl" in text for text in warnings)
    assert len(notes) == 4 + len(warnings)
    disk.space = 10**6
    notify([log, watcher], Note("note 4"))
    log.close()
    records = read_log(tmp_path / "log.jsonl")
    assert [record["text"] for record in records] == [f"note {number}" for number in range(5)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_that_cannot_write_is_one_warning_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = require_tensorboard()
    add_scalar = writer.add_scalar

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_text("")
    log, watcher = TensorBoardLog(tmp_path / "file"), Watcher()
    for _ in range(2):
        notify([log, watcher], PROGRESS)
    log.close()
    assert len(watcher.notes) == 1
    log, watcher = TensorBoardLog(tmp_path / "board"), Watcher()
    for step in (1, 2, 3, 4):
        monkeypatch.setattr(writer, "add_scalar", full if step in (2, 3) else add_scalar)
        notify([log, watcher], replace(PROGRESS, step=step))
    log.close()
    assert len(watcher.notes) == 1
    events = accumulators.EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    assert [event.step for event in events.Scalars("training/loss")] == [1, 4]


def test_tensorboard_that_is_not_installed_is_a_training_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(TrainingError, match="not installed"):
        TensorBoardLog(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_shows_each_step_once_though_a_run_went_back(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for first, steps in ((0, (100, 200, 300)), (200, (300, 400))):
        log = TensorBoardLog(tmp_path)
        log.observe(replace(STARTED, step=first))
        for step in steps:
            log.observe(replace(PROGRESS, step=step, loss=1000.0 / step))
            log.observe(replace(VALIDATED, step=step))
        log.close()
    events = accumulators.EventAccumulator(str(tmp_path))
    events.Reload()
    losses = {event.step: event.value for event in events.Scalars("training/loss")}
    assert losses == pytest.approx({step: 1000.0 / step for step in (100, 200, 300, 400)})
    assert len(events.Scalars("training/loss")) == 4
    assert events.Scalars("validation/bleu")[0].value == pytest.approx(38.21)
