"""The preparation of a run: data are read and the vocabulary is learned, in this order."""

from __future__ import annotations

import dataclasses
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.api.preparation import EncodingProgress
from clearhead.data import corpus as writer
from clearhead.data.preparation import learn_tokenizers
from clearhead.data.reading import parts as parts_module
from clearhead.data.reading.pairs import read_pairs
from clearhead.data.reading.parts import DataPart, Parts, parts_of
from clearhead.errors import ConfigError, DataError
from clearhead.settings import DataConfig, ModelConfig, RunConfig, TokenizerConfig
from clearhead.tokenizer import WordTokenizer
from clearhead.training.display import INTERVAL_S
from clearhead.training.events import Note, RunStarted, notify
from run_events import Clock
from small_runs import Watcher, prepared, small_run, write_tsv


@given(st.lists(st.floats(0, 3 * INTERVAL_S), max_size=50))
def test_the_progress_of_encoding_is_noted_once_an_interval_and_at_its_end(
    waits: list[float],
) -> None:
    clock, watcher = Clock(), Watcher()
    encoding = EncodingProgress(lambda line: notify([watcher], Note(line)), clock)
    noted_at = 0.0
    for pairs, wait in enumerate(waits, start=1):
        clock.now += wait
        encoding.update(10_000 * pairs)
        due = clock.now - noted_at >= INTERVAL_S
        assert (watcher.events[-1:] == [Note(f"encoded {10_000 * pairs:,} pairs")]) == due
        noted_at = clock.now if due else noted_at
    encoding.end()
    lines = [note.text for note in watcher.events if isinstance(note, Note)]
    assert len(lines) == len(set(lines)) <= 1 + sum(waits) / INTERVAL_S
    assert lines[-1:] == ([f"encoded {10_000 * len(waits):,} pairs"] if waits else [])


def test_encoding_quickly_gives_one_note_and_reusing_a_corpus_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BLOCK_PAIRS", 10)
    config = small_run(tmp_path)
    for expected in (["encoded 120 pairs"], []):
        watcher = Watcher()
        prepared(config, tmp_path / "corpus", observers=[watcher])
        notes = [event.text for event in watcher.events if isinstance(event, Note)]
        assert [text for text in notes if text.startswith("encoded")] == expected


def test_the_data_report_is_noted_once_before_training_begins(tmp_path: Path) -> None:
    watcher = Watcher()
    api.train(small_run(tmp_path, max_steps=1), observers=[watcher])
    (begun,) = (n for n, event in enumerate(watcher.events) if isinstance(event, RunStarted))
    for part in ("train: 120 pairs", "validation: 12 pairs"):
        (noted,) = (
            n
            for n, event in enumerate(watcher.events)
            if isinstance(event, Note) and event.text.startswith(part)
        )
        assert noted < begun


def shifted_run(folder: Path, mismatch: Literal["refuse", "warn"]) -> RunConfig:
    """A run on pairs of the phrasebook, whose targets are shifted by a line."""
    pairs = list(islice(read_pairs(("phrasebook:en-es",)), 600))
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    rows = zip(sources, targets[1:] + targets[:1], strict=True)
    data = DataConfig(
        train=write_tsv(folder / "shifted.tsv", rows),
        validation=("phrasebook:en-es",),
        mismatch=mismatch,
    )
    return dataclasses.replace(small_run(folder, max_steps=1), data=data)


def notes(watcher: Watcher) -> list[str]:
    return [event.text for event in watcher.events if isinstance(event, Note)]


@pytest.mark.slow
def test_shifted_training_pairs_are_refused_before_a_vocabulary_is_learned(tmp_path: Path) -> None:
    watcher, config = Watcher(), shifted_run(tmp_path, "refuse")
    with pytest.raises(DataError) as caught:
        prepared(config, tmp_path / "corpus", observers=[watcher])
    assert caught.value.where == str(tmp_path / "shifted.tsv")
    assert "shifted by 1 line" in caught.value.what
    assert watcher.events == []


@pytest.mark.slow
def test_with_the_setting_shifted_pairs_are_a_warning_of_the_new_run_alone(tmp_path: Path) -> None:
    config = shifted_run(tmp_path, "warn")
    for steps, expected in ((1, 1), (2, 0)):
        watcher = Watcher()
        longer = dataclasses.replace(config.training, max_steps=steps)
        ended = api.train(dataclasses.replace(config, training=longer), observers=[watcher])
        assert ended.step == steps
        assert sum("shifted by 1 line" in text for text in notes(watcher)) == expected


WORDS = TokenizerConfig(kind="words", max_vocabulary=0, joint=False)


def lines(path: Path, count: int) -> str:
    path.write_text("".join(f"line {n}\n" for n in range(count)))
    return str(path)


@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize("bad", ["unequal", "encoding", "missing"])
def test_bad_held_out_files_are_rejected_before_the_training_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, bad: str
) -> None:
    read: list[object] = []

    def noted(files: tuple[str, ...], name: str = "train", *languages: object) -> object:
        read.append(files)
        return read_pairs(files, name, *languages)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(parts_module, "read_pairs", noted)
    files = lines(tmp_path / "a.en", 3), lines(tmp_path / "a.de", 4 if bad == "unequal" else 3)
    if bad == "encoding":
        Path(files[1]).write_bytes(b"a\nb\n\xff\n")
    if bad == "missing":
        Path(files[1]).unlink()
    config = small_run(tmp_path)
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, **{part: files}))
    watcher = Watcher()
    with pytest.raises(DataError, match=r"a\.de"):
        prepared(config, tmp_path / "corpus", observers=[watcher])
    assert read[-1] == files
    assert config.data.train not in read
    assert watcher.events == []


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_part_that_names_no_files_is_rejected_before_any_is_read(
    tmp_path: Path, part: str
) -> None:
    data = {"train": ("no.tsv",), "validation": ("no.tsv",), part: ()}
    with pytest.raises(ConfigError, match=f"data.{part} names no files"):
        parts_of(RunConfig(data=DataConfig(**data)))


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("drop", [True, False])
def test_words_of_held_out_training_pairs_alone_are_in_no_vocabulary(
    tmp_path: Path, joint: bool, drop: bool
) -> None:
    pairs = [("a b", "A B"), ("valid", "VALID"), ("tested ", " TESTED"), ("c valid", "C")]
    config = RunConfig(
        data=DataConfig(
            train=write_tsv(tmp_path / "train.tsv", pairs),
            validation=write_tsv(tmp_path / "val.tsv", [("valid", "VALID")]),
            test=write_tsv(tmp_path / "test.tsv", [("tested", "TESTED"), ("unread", "a b")]),
            drop_held_out=drop,
        ),
        tokenizer=dataclasses.replace(WORDS, joint=joint),
        model=ModelConfig(share_embeddings="target"),
    )
    learned = learn_tokenizers(config, Parts(*(part.read(config) for part in parts_of(config))))
    # "valid" is in a pair of its own that is trained on.
    sides = {"a", "b", "c", "valid"}, {"A", "B", "C"}
    only_held_out = {"tested"}, {"VALID", "TESTED"}
    for side, tokenizer in enumerate(learned):
        assert isinstance(tokenizer, WordTokenizer)
        expected = set.union(*sides) if joint else sides[side]
        if not drop:
            expected |= set.union(*only_held_out) if joint else only_held_out[side]
        assert set(tokenizer.words) == expected


def test_one_matrix_for_two_vocabularies_is_rejected(tmp_path: Path) -> None:
    """If both had the same size, word i of each side would silently share one vector."""
    config = dataclasses.replace(small_run(tmp_path), tokenizer=WORDS)
    assert config.model.share_embeddings == "all"
    with pytest.raises(ConfigError, match=r"(?s)one joint vocabulary.*share_embeddings = 'target'"):
        learn_tokenizers(config, parts_of(config))


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_training_pairs_that_are_all_held_out_are_an_error_that_reports_it(
    tmp_path: Path, kind: str
) -> None:
    config = small_run(tmp_path)
    tokenizer = TokenizerConfig(kind=kind, max_vocabulary=300)  # pyright: ignore[reportArgumentType]
    config = dataclasses.replace(config, tokenizer=tokenizer)
    (held,) = config.data.train
    pairs = tuple(read_pairs((held,)))
    parts = parts_of(config)._replace(
        validation=DataPart("validation", examples=pairs[:70]),
        test=DataPart("test", examples=pairs[70:]),
    )
    with pytest.raises(DataError, match="no pair is left to train on") as caught:
        learn_tokenizers(config, parts)
    assert held in str(caught.value)
    assert "drop_held_out" in str(caught.value)
