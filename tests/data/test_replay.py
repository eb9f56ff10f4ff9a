"""Replay: every new pair once an epoch, and the right number of earlier ones."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.data.corpus import Epoch
from clearhead.settings import RunConfig, config_from
from small_runs import Watcher, assert_same, final_state, prepared, small_run


class FakeCorpus:
    """Rows whose ids are their own numbers, after a mark of the corpus."""

    def __init__(self, mark: int, size: int) -> None:
        self.mark, self.size = mark, size
        self.source_lengths = np.arange(size, dtype=np.int32) % 7 + mark
        self.target_lengths = np.arange(size, dtype=np.int32) % 5 + mark

    def __len__(self) -> int:
        return self.size

    def source(self, row: int) -> np.ndarray:
        assert 0 <= row < self.size
        return np.array([self.mark, row])

    def target(self, row: int) -> np.ndarray:
        return self.source(row) + 1

    def place(self, row: int) -> str:
        return f"{self.mark}:{row}"


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.floats(0.01, 0.95),
    st.integers(0, 9),
    st.integers(0, 3),
)
def test_an_epoch_has_all_new_pairs_and_a_share_of_earlier_ones(
    new: int, earlier: int, share: float, seed: int, epoch: int
) -> None:
    corpora: tuple[Any, Any] = FakeCorpus(1, new), FakeCorpus(2, earlier)
    mixed = Epoch(corpora[0], seed, epoch, replay=corpora[1], share=share)
    rows = [tuple(mixed.source(row).tolist()) for row in range(len(mixed))]
    assert rows[:new] == [(1, row) for row in range(new)]
    counts = Counter(row for mark, row in rows[new:] if mark == 2)
    assert sum(counts.values()) == len(rows) - new == round(new * share / (1 - share))
    # None occurs twice more often than another.
    every = [counts[row] for row in range(earlier)]
    assert max(every) - min(every) <= 1
    for row in range(len(mixed)):
        mark, place = rows[row]
        corpus = corpora[mark - 1]
        assert mixed.source_lengths[row] == corpus.source_lengths[place]
        assert mixed.target_lengths[row] == corpus.target_lengths[place]
        assert mixed.target(row).tolist() == [mark + 1, place + 1]
        assert mixed.place(row) == f"{mark}:{place}"


def test_each_epoch_has_another_sample_and_always_the_same() -> None:
    corpora: tuple[Any, Any] = FakeCorpus(1, 30), FakeCorpus(2, 300)

    def sample(seed: int, epoch: int) -> list[int]:
        mixed = Epoch(corpora[0], seed, epoch, replay=corpora[1], share=0.5)
        return [int(mixed.source(row)[1]) for row in range(30, 60)]

    assert sample(1, 0) == sample(1, 0)
    assert len({tuple(sample(*each)) for each in ((1, 0), (1, 1), (2, 0))}) == 3


@pytest.mark.parametrize("weights", [(1, 1), (2, 0.5), (0, 3.25)])
def test_weights_say_how_often_an_epoch_has_each_data_set(
    tmp_path: Path, weights: tuple[float, float]
) -> None:
    config = small_run(tmp_path)
    extra = tmp_path / "extra.tsv"
    extra.write_text("".join(f"{i} b a\ta b {i}\n" for i in range(300, 320)), encoding="utf-8")
    data = dataclasses.replace(config.data, train=(*config.data.train, str(extra)))
    task: Any = prepared(dataclasses.replace(config, data=data), tmp_path / "corpus").task
    corpus = task.data.corpus
    first, second = corpus.data_sets
    assert len(first) + len(second) == len(corpus)
    epoch = Epoch(corpus, 1, 0, weights)
    counts = Counter(epoch.place(row).partition(":")[0] for row in range(len(epoch)))
    assert counts["extra.tsv"] == round(weights[1] * len(second))
    assert counts.total() - counts["extra.tsv"] == round(weights[0] * len(first))


def begun(first: RunConfig, name: str, old: Path, **data: Any) -> RunConfig:
    tree: dict[str, Any] = dataclasses.asdict(first)
    tree |= {"start_from": first.folder, "folder": str(Path(first.folder).with_name(name))}
    tree["training"] |= {"max_steps": 4, "validate_every": 2}
    tree["data"] |= {"replay": [str(old)], **data}
    return config_from(tree)


@pytest.mark.slow
def test_a_run_with_replay_resumes_exactly_and_reports_the_earlier_pairs(tmp_path: Path) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first, observers=())
    old = tmp_path / "old.tsv"
    lines = [f"{i} a b c\tc b a {i}\n" for i in range(200, 240)]
    held_out = Path(first.data.validation[0]).read_text().splitlines(keepends=True)[0]
    old.write_text("".join((*lines, held_out)), encoding="utf-8")
    through, stopped = (
        begun(first, name, old, drop_held_out=True) for name in ("through", "stopped")
    )
    watcher = Watcher()
    api.train(through, observers=[watcher])
    notes = [getattr(event, "text", "") for event in watcher.events]
    assert any(note.startswith("replay: 41 pairs, 40 kept") for note in notes), notes
    assert not api.train(stopped, observers=[Watcher(interrupt_at=2)]).finished
    assert api.train(stopped, observers=()).finished
    assert_same(final_state(stopped), final_state(through))


def test_replay_of_the_training_pairs_is_reported_as_replay(tmp_path: Path) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first, observers=())
    data = api.dry_run(begun(first, "same", Path(first.data.train[0]))).data
    heads = [line.partition(",")[0] for line in data]
    assert heads[:2] == ["train: 120 pairs", "replay: 120 pairs"]
