"""Batches of sentence pairs as padded tensors, prepared ahead of time.

A batch is a function of (seed, epoch, its index): to resume is to start the same epoch at a
later batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from clearhead.data.batch_order import batch_order, chunk_order, divide, largest
from clearhead.data.corpus import Corpus
from clearhead.data.prefetching import PREPARED_BATCHES, prefetch
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

IdPair = tuple[list[int], list[int]]
"""The ids of a source and of a target, without BOS and EOS."""


@dataclass(frozen=True)
class Batch:
    """B sentence pairs, padded with PAD to S and T.

    `source` is (B, S); `target_input` (B, T) is BOS and the target, `target_output` (B, T) the
    target and EOS.
    """

    source: Tensor
    target_input: Tensor
    target_output: Tensor

    @cached_property
    def source_tokens(self) -> int:
        """Source tokens without padding."""
        return int((self.source != PAD).sum())

    @cached_property
    def target_tokens(self) -> int:
        """Target tokens without padding; EOS counts."""
        return int((self.target_output != PAD).sum())


@dataclass(frozen=True)
class Sampling:
    """Subword sampling in training: new segmentations for each chunk of each epoch.

    A side is sampled where its tokenizer has `sampling` > 0. A sentence that cannot be written
    out exactly (it holds an unknown symbol), or that would be longer than `max_length` tokens,
    keeps its usual segmentation.
    """

    source: Tokenizer
    target: Tokenizer
    max_length: int

    def draw(self, pairs: Sequence[IdPair], source_seed: int, target_seed: int) -> list[IdPair]:
        """The same pairs, segmented anew: a function of the arguments alone."""
        sources = self._side([source for source, _ in pairs], self.source, source_seed)
        targets = self._side([target for _, target in pairs], self.target, target_seed)
        return list(zip(sources, targets, strict=True))

    def _side(self, rows: list[list[int]], tokenizer: Tokenizer, seed: int) -> list[list[int]]:
        if tokenizer.sampling == 0.0:
            return rows
        drawn = tokenizer.sample_batch([tokenizer.decode(row) for row in rows], seed)
        return [
            row if tokenizer.unk_id in row or not 0 < len(other) <= self.max_length else other
            for row, other in zip(rows, drawn, strict=True)
        ]


def collate(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """The batch of B sources and B targets, given without BOS and EOS."""
    return Batch(
        source=_pad(sources),
        target_input=_pad([[BOS, *target] for target in targets]),
        target_output=_pad([[*target, EOS] for target in targets]),
    )


def _pad(rows: Sequence[Sequence[int]]) -> Tensor:
    padded = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def epoch_batches(
    corpus: Corpus,
    batch_tokens: int,
    seed: int,
    epoch: int,
    start: int = 0,
    sampling: Sampling | None = None,
) -> Iterator[Batch]:
    """The batches of an epoch from index `start` on, prepared by a thread of their own.

    With sampling there are as many batches, of rows that are alike in length as they were drawn;
    where draws are longer, the batches hold more than `batch_tokens`.

    Closing the iterator (or dropping it) ends the thread; an error in it is raised here.
    """
    order = corpus.source_lengths, corpus.target_lengths, batch_tokens, seed, epoch
    if sampling is None or sampling.source.sampling + sampling.target.sampling == 0.0:
        rows = batch_order(*order)[start:]
        yield from prefetch((_collated(_pairs(corpus, some)) for some in rows), PREPARED_BATCHES)
        return
    chunks = chunk_order(*order)
    for some in prefetch(_drawn(corpus, chunks, (seed, epoch), start, sampling), PREPARED_BATCHES):
        yield from some


def largest_batch(corpus: Corpus, batch_tokens: int, seed: int, sampling: Sampling) -> Batch:
    """The rows of the first epoch's batch with the most places, segmented anew with sampling."""
    lengths = corpus.source_lengths, corpus.target_lengths
    order = batch_order(*lengths, batch_tokens, seed, 0)
    rows = order[largest(order, lengths[0], lengths[1] + 1)]  # 1: EOS
    return _collated(sampling.draw(_pairs(corpus, rows), seed, seed + 1))


def _drawn(
    corpus: Corpus,
    chunks: Sequence[Sequence[np.ndarray]],
    seed: tuple[int, int],
    start: int,
    sampling: Sampling,
) -> Iterator[Sequence[Batch]]:
    """Chunk after chunk, segmented anew and divided into as many batches as it had, shuffled.

    A chunk is drawn slice by slice, a slice with each batch of the chunk before it. Where there
    is none before it a slice comes as no batch, so that closing need not wait for all of them.
    """
    ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.int64)
    first = int(np.searchsorted(ends, start, side="right"))
    passed_over = start - int(ends[first - 1]) if first else start

    def slices(index: int) -> Iterator[list[IdPair]]:
        for chunk in chunks[index : index + 1]:
            for number, rows in enumerate(np.array_split(np.concatenate(chunk), len(chunk)), 1):
                draw = np.random.SeedSequence((*seed, index + 1, number)).generate_state(2)
                yield sampling.draw(_pairs(corpus, rows), *draw.tolist())

    pairs, coming = list[IdPair](), slices(first)
    for index in range(first, len(chunks)):
        for some in coming:
            pairs += some
            yield ()
        # What a slice is drawn with has numbers from 1 in the place of this 0.
        batches = _divided(pairs, len(chunks[index]), (*seed, index + 1, 0))
        pairs, coming = [], slices(index + 1)
        for batch in batches[passed_over:]:
            yield (_collated(batch),)
            pairs += next(coming, ())
        passed_over = 0


def _divided(pairs: Sequence[IdPair], batches: int, seed: Sequence[int]) -> list[list[IdPair]]:
    lengths = np.array([(len(source), len(target)) for source, target in pairs])
    parts = divide(lengths[:, 0], lengths[:, 1], batches)
    order = np.random.default_rng(seed).permutation(batches)
    return [[pairs[row] for row in parts[i].tolist()] for i in order.tolist()]


def _pairs(corpus: Corpus, rows: np.ndarray) -> list[IdPair]:
    return [(corpus.source(row).tolist(), corpus.target(row).tolist()) for row in rows.tolist()]


def _collated(pairs: Sequence[IdPair]) -> Batch:
    return collate([source for source, _ in pairs], [target for _, target in pairs])
