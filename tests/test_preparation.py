"""What is told while a run is prepared: how far the encoding is, now and then."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.api.preparation import Encoding, prepare
from clearhead.data import corpus as writer
from clearhead.training.display import INTERVAL_S
from clearhead.training.events import Note, RunStarted
from test_display import Clock
from test_training import Watcher, small_run


@given(st.lists(st.floats(0, 3 * INTERVAL_S), max_size=50))
def test_encoding_is_told_once_an_interval_and_at_its_end(waits: list[float]) -> None:
    clock, told = Clock(), list[tuple[float, str]]()
    encoding = Encoding(lambda line: told.append((clock.now, line)), clock)
    for pairs, wait in enumerate(waits, start=1):
        before = told[-1][0] if told else 0.0
        clock.now += wait
        encoding.tell(10_000 * pairs)
        due = clock.now - before >= INTERVAL_S
        assert (told[-1:] == [(clock.now, f"encoded {10_000 * pairs:,} pairs")]) == due
    encoding.end()
    lines = [line for _, line in told]
    assert len(lines) == len(set(lines)) <= 1 + sum(waits) / INTERVAL_S
    assert lines[-1:] == ([f"encoded {10_000 * len(waits):,} pairs"] if waits else [])


def test_a_corpus_that_is_encoded_quickly_is_told_in_one_line_and_one_that_is_found_in_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BLOCK_PAIRS", 10)
    config = small_run(tmp_path)
    for expected in (["encoded 120 pairs"], []):
        watcher = Watcher()
        prepare(config, None, tmp_path / "corpus", (watcher,))
        notes = [event.text for event in watcher.events if isinstance(event, Note)]
        assert [text for text in notes if text.startswith("encoded")] == expected


def test_what_is_found_in_the_data_is_told_once_and_before_training_begins(tmp_path: Path) -> None:
    watcher = Watcher()
    api.train(small_run(tmp_path, max_steps=1), observers=[watcher])
    (begun,) = (n for n, event in enumerate(watcher.events) if isinstance(event, RunStarted))
    for part in ("train: 120 pairs", "validation: 12 pairs"):
        (told,) = (
            n
            for n, event in enumerate(watcher.events)
            if isinstance(event, Note) and event.text.startswith(part)
        )
        assert told < begun
