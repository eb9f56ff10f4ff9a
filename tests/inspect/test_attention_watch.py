"""The observer that keeps records writes, removes and reports as it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import DataError
from clearhead.inspect.attention_watch import AttentionWatch, small, watched
from clearhead.inspect.record import Record
from clearhead.training.events import (
    RunStarted,
    UnwritableLogError,
    Validated,
    WentBack,
    notify,
)
from made_records import made_record
from small_runs import Watcher


def validated(step: int, weights: str = "current") -> Validated:
    return Validated(step, 0, {"loss": 1.0}, {}, "loss", True, 1.0, step, weights=weights)


def started(step: int) -> RunStarted:
    return RunStarted("x", "cpu", "float32", 1, step, None, 1, "loss")


def test_records_of_steps_that_are_made_again_are_removed(tmp_path: Path) -> None:
    watch = AttentionWatch(tmp_path, lambda: [made_record()])
    (tmp_path / "training" / "attention").mkdir(parents=True)
    own = tmp_path / "training" / "attention" / "mine.npz"
    own.write_bytes(b"x")
    for step in (5, 10, 15):
        watch.observe(validated(step))
    watch.observe(validated(15, "average"))
    watch.observe(WentBack(10, 17, 1))
    assert [step for step, _ in watched(tmp_path)[1]] == [5, 10]
    watch.observe(started(5))
    assert [step for step, _ in watched(tmp_path)[1]] == [5]
    assert own.exists()


def test_the_first_record_is_made_before_the_first_step(tmp_path: Path) -> None:
    watch = AttentionWatch(tmp_path, lambda: [made_record()])
    watch.observe(started(0))
    watch.observe(validated(5))
    assert [step for step, _ in watched(tmp_path)[1]] == [0, 5]
    watch.observe(started(5))  # resumed
    assert [step for step, _ in watched(tmp_path)[1]] == [0, 5]


def test_a_record_that_cannot_be_written_gives_one_warning(tmp_path: Path) -> None:
    (tmp_path / "training").write_text("in the way")

    watch, other = AttentionWatch(tmp_path, lambda: [made_record()]), Watcher()
    notify([watch, other], started(0))
    notify([watch, other], validated(1))
    notify([watch, other], validated(2))
    notes = [event for event in other.events if type(event).__name__ == "Note"]
    assert len(notes) == 1

    def fail() -> list[Record]:
        raise DataError("x", why="the reason")

    with pytest.raises(UnwritableLogError) as caught:
        AttentionWatch(tmp_path, fail).observe(validated(1))
    assert caught.value.why == "the reason"


def test_a_small_record_has_the_attention_alone() -> None:
    given = made_record()
    kept = small(given)
    assert (kept.source, kept.target) == (given.source, given.target)
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        np.testing.assert_allclose(getattr(kept, name), getattr(given, name), atol=1e-3)
        assert getattr(kept, name).dtype == np.float16
    assert kept.encoder[0].after_attention.size == kept.decoder[0].self_attention_output.size == 0
