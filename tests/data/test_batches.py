"""Batches of sentence pairs: padding, resampled segmentations, and resuming at any batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batches import (
    Batch,
    SubwordSampling,
    collate,
    epoch_batches,
)
from clearhead.data.corpus import Corpus, build_corpus
from clearhead.data.order import batch_order, largest
from clearhead.data.reading.parts import DataPart
from clearhead.settings import DataConfig, TokenizerConfig
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer, WordTokenizer, learn_tokenizer
from small_data import batch_threads, typical_lengths

ids = st.lists(st.integers(3, 50), max_size=7)


# Padding


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=6))
def test_collating_pads_and_adds_bos_and_eos(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collate([source for source, _ in pairs], [target for _, target in pairs])
    for row, (source, target) in enumerate(pairs):
        assert [i for i in batch.source[row].tolist() if i != PAD] == source
        assert batch.source[row, : len(source)].tolist() == source
        assert batch.target_input[row, : len(target) + 1].tolist() == [BOS, *target]
        assert batch.target_output[row, : len(target) + 1].tolist() == [*target, EOS]
        for side, length in (
            (batch.source, len(source)),
            (batch.target_input, len(target) + 1),
            (batch.target_output, len(target) + 1),
        ):
            assert side.dtype == torch.int64
            assert (side[row, length:] == PAD).all()
    assert batch.source.shape == (len(pairs), max(len(source) for source, _ in pairs))
    assert batch.target_input.shape == batch.target_output.shape
    assert batch.source_tokens == sum(len(source) for source, _ in pairs)
    assert batch.target_tokens == sum(len(target) + 1 for _, target in pairs)


# An epoch


TEXTS = ["the cat is black", "the blackest cat", "a house", "mother and other mothers", "hello"]


def corpus_of(folder: Path, tokenizer: Tokenizer, rows: int = 60) -> Corpus:
    sources, targets = folder / "s", folder / "t"
    sources.write_text("".join(f"{TEXTS[n % 5]} {n}\n" for n in range(rows)))
    targets.write_text("".join(f"{n} {TEXTS[n % 4]}\n" for n in range(rows)))
    files = [str(sources), str(targets)]
    part = DataPart("train", tuple(files))
    return build_corpus(folder / "c", part, (tokenizer, tokenizer), DataConfig())


def tokenizer_of(
    kind: str = "bpe",
    sampling: float = 0.0,
    byte_fallback: bool = True,
    learned_from: Sequence[str] = TEXTS,
) -> Tokenizer:
    config = TokenizerConfig(
        kind="unigram" if kind == "unigram" else "bpe",
        max_vocabulary=300,
        sampling=sampling,
        byte_fallback=byte_fallback,
    )
    return learn_tokenizer([*learned_from, "0 1 2 3 4 5 6 7 8 9"], config)


def sampled_corpus(
    folder: Path, sampling: float, max_length: int = 256, **choices: Any
) -> tuple[Tokenizer, Corpus, SubwordSampling]:
    tokenizer = tokenizer_of(sampling=sampling, **choices)
    corpus = corpus_of(folder, tokenizer)
    return tokenizer, corpus, SubwordSampling(tokenizer, tokenizer, max_length)


def plain(batch: Batch) -> list[list[list[int]]]:
    return [t.tolist() for t in (batch.source, batch.target_input, batch.target_output)]


def texts(batch: Batch, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    return [
        (tokenizer.decode(source), tokenizer.decode(target))
        for source, target in zip(batch.source.tolist(), batch.target_output.tolist(), strict=True)
    ]


def test_an_epoch_gives_every_pair_in_the_order_of_the_batches(tmp_path: Path) -> None:
    tokenizer = tokenizer_of()
    corpus = corpus_of(tmp_path, tokenizer)
    order = batch_order(corpus.source_lengths, corpus.target_lengths, 200, seed=1, epoch=2)
    batches = list(epoch_batches(corpus, 200, seed=1, epoch=2))
    assert len(batches) == len(order) > 3
    for batch, rows in zip(batches, order, strict=True):
        assert batch.rows == tuple(rows)
        expected = collate(
            [corpus.source(row).tolist() for row in rows],
            [corpus.target(row).tolist() for row in rows],
        )
        assert plain(batch) == plain(expected)


@pytest.mark.parametrize("chunk_batches", [3, 100])
@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_an_epoch_can_be_resumed_at_any_batch(
    strength: float, chunk_batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.order.CHUNK_BATCHES", chunk_batches)
    _, corpus, sampling = sampled_corpus(tmp_path, strength)
    whole = [plain(batch) for batch in epoch_batches(corpus, 90, 1, 0, sampling=sampling)]
    assert len(whole) > 6
    for start in range(len(whole) + 1):
        rest = [plain(batch) for batch in epoch_batches(corpus, 90, 1, 0, start, sampling)]
        assert rest == whole[start:]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sampling_changes_the_pieces_from_epoch_to_epoch_and_never_the_text(
    kind: str, tmp_path: Path
) -> None:
    tokenizer, corpus, sampling = sampled_corpus(tmp_path, 0.3, kind=kind)
    expected = sorted(
        (tokenizer.decode(corpus.source(row)), tokenizer.decode(corpus.target(row)))
        for row in range(len(corpus))
    )
    drawn = []
    for epoch in (0, 1):
        batches = list(epoch_batches(corpus, 200, 1, epoch, sampling=sampling))
        assert sorted(pair for batch in batches for pair in texts(batch, tokenizer)) == expected
        for batch in batches:
            rows = [(corpus.source(row), corpus.target(row)) for row in batch.rows]
            of_rows = [(tokenizer.decode(s), tokenizer.decode(t)) for s, t in rows]
            assert texts(batch, tokenizer) == of_rows
        drawn.append(sorted(row for batch in batches for row in unpadded(batch)))
    usual = sorted(row for batch in epoch_batches(corpus, 200, 1, 0) for row in unpadded(batch))
    assert drawn[0] != drawn[1] != usual


def unpadded(batch: Batch) -> list[list[int]]:
    return [[i for i in row if i != PAD] for row in batch.source.tolist()]


def test_a_draw_longer_than_the_limit_is_not_used(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(sampling=0.9)
    corpus = corpus_of(tmp_path, tokenizer)
    limit = int(corpus.source_lengths.max())
    sampling = SubwordSampling(tokenizer, tokenizer, max_length=limit)
    drawn = list(epoch_batches(corpus, 200, 1, 0, sampling=sampling))
    assert max(len(row) for batch in drawn for row in unpadded(batch)) <= limit
    assert sum(batch.source_tokens for batch in drawn) > corpus.source_lengths.sum()


def test_what_cannot_be_written_out_exactly_is_not_sampled(tmp_path: Path) -> None:
    few: dict[str, Any] = {"byte_fallback": False, "learned_from": TEXTS[:2]}
    lacking, corpus, sampling = sampled_corpus(tmp_path, 0.9, **few)
    drawn, usual = (
        [row for batch in epoch_batches(corpus, 200, 1, 0, sampling=way) for row in unpadded(batch)]
        for way in (sampling, None)
    )
    unknown = sorted(row for row in usual if lacking.unk_id in row)
    assert unknown == sorted(row for row in drawn if lacking.unk_id in row)
    assert 0 < len(unknown) < len(usual)
    assert sorted(drawn) != sorted(usual)


def test_rows_longer_than_a_whole_chunk_may_be_drawn(tmp_path: Path) -> None:
    _, corpus, sampling = sampled_corpus(tmp_path, 0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.data.order.CHUNK_BATCHES", 2)
        drawn = list(epoch_batches(corpus, 1, 1, 0, sampling=sampling))
    assert [len(batch.source) for batch in drawn] == [1] * 60


def test_padding_stays_rare_where_segmentations_are_drawn(tmp_path: Path) -> None:
    words = " ".join(TEXTS).split()
    rng = np.random.default_rng(0)
    for lengths, name in zip(typical_lengths(3000), "st", strict=True):
        lines = [" ".join(rng.choice(words, length)) for length in lengths]
        (tmp_path / name).write_text("\n".join(lines))
    tokenizer = tokenizer_of(sampling=0.3)
    files = [str(tmp_path / name) for name in "st"]
    corpus = build_corpus(
        tmp_path / "c", DataPart("train", tuple(files)), (tokenizer, tokenizer), DataConfig()
    )
    sampling = SubwordSampling(tokenizer, tokenizer, max_length=256)
    drawn, usual = (
        list(epoch_batches(corpus, 1000, 1, 0, sampling=way)) for way in (sampling, None)
    )
    assert len(drawn) == len(usual)
    assert tokens_of(drawn) > 1.2 * tokens_of(usual)
    padding, usually = (1 - tokens_of(way) / places_of(way) for way in (drawn, usual))
    assert abs(padding - usually) < 0.01


def tokens_of(batches: Sequence[Batch]) -> int:
    return sum(batch.source_tokens + batch.target_tokens for batch in batches)


def places_of(batches: Sequence[Batch]) -> int:
    return sum(batch.source.numel() + batch.target_output.numel() for batch in batches)


def test_whole_words_are_never_sampled(tmp_path: Path) -> None:
    words = WordTokenizer.learn(TEXTS)
    corpus = corpus_of(tmp_path, words)
    drawn = epoch_batches(corpus, 100, 1, 0, sampling=SubwordSampling(words, words, max_length=256))
    usual = epoch_batches(corpus, 100, 1, 0)
    assert [plain(batch) for batch in drawn] == [plain(batch) for batch in usual]


def test_a_sampled_epoch_that_is_left_ends_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.order.CHUNK_BATCHES", 3)
    _, corpus, sampling = sampled_corpus(tmp_path, 0.3)
    # Iterators that the traceback of an expected error holds may have threads too.
    others = set(batch_threads())
    batches = epoch_batches(corpus, 90, 1, 0, sampling=sampling)
    next(batches)
    assert set(batch_threads()) - others
    batches.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not set(batch_threads()) - others


def test_the_largest_batch_is_that_with_the_most_places_on_both_sides() -> None:
    batches = [np.arange(10), np.array([10]), np.array([11, 12])]
    short_and_long = np.array([1] * 10 + [11, 2, 9])
    assert largest(batches, short_and_long) == 2
    assert largest(batches, short_and_long + 1) == 0
    assert largest(batches, short_and_long, short_and_long[::-1]) == 0
