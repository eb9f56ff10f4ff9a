"""Batches of sentence pairs as padded tensors, prepared ahead of time by a thread.

The batches of an epoch are those of `order`. To resume, an epoch starts at a later batch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clearhead.data.corpus import Corpus, Epoch
from clearhead.data.order import batch_order, chunk_order, divide, largest
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

PREPARED_BATCHES = 4  # ahead of training

IdPair = tuple[list[int], list[int]]
"""The ids of a source and of a target, without BOS and EOS."""

Pairs = Corpus | Epoch
"""Encoded pairs, which are read by row."""

T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """B sentence pairs, padded with PAD to S and T.

    `source` is (B, S); `target_input` (B, T) is BOS and the target, `target_output` (B, T) the
    target and EOS. `rows` are those of the corpus, if the pairs come from one.
    """

    source: Tensor
    target_input: Tensor
    target_output: Tensor
    rows: tuple[int, ...] = ()

    @cached_property
    def source_tokens(self) -> int:
        """Source tokens without padding."""
        return int((self.source != PAD).sum())

    @cached_property
    def target_tokens(self) -> int:
        """Target tokens without padding; EOS counts."""
        return int((self.target_output != PAD).sum())

    def halves(self) -> list[Batch]:
        """The first and the second half of the pairs, or the batch alone if it has one pair."""
        middle = len(self.source) // 2
        parts = [slice(middle), slice(middle, None)] if middle else [slice(None)]
        return [
            Batch(
                self.source[part],
                self.target_input[part],
                self.target_output[part],
                self.rows[part],
            )
            for part in parts
        ]


def collate(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], rows: tuple[int, ...] = ()
) -> Batch:
    """The batch of B sources and B targets, given without BOS and EOS, of B rows of a corpus."""
    return Batch(
        source=_pad(sources),
        target_input=_pad([[BOS, *target] for target in targets]),
        target_output=_pad([[*target, EOS] for target in targets]),
        rows=rows,
    )


def _pad(rows: Sequence[Sequence[int]]) -> Tensor:
    padded = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


@dataclass(frozen=True)
class SubwordSampling:
    """Subword sampling in training: a new segmentation of every sentence in each epoch.

    A side is sampled if its tokenizer has `sampling` > 0. A sentence keeps its usual segmentation
    if it has an unknown symbol, because its text cannot be restored from ids, or if the new one is
    longer than `max_length` tokens.
    """

    source: Tokenizer
    target: Tokenizer
    max_length: int

    def resample(self, pairs: Sequence[IdPair], source_seed: int, target_seed: int) -> list[IdPair]:
        """New segmentations of the pairs: a function of the arguments alone."""
        sources = self._side([source for source, _ in pairs], self.source, source_seed)
        targets = self._side([target for _, target in pairs], self.target, target_seed)
        return list(zip(sources, targets, strict=True))

    def _side(self, rows: list[list[int]], tokenizer: Tokenizer, seed: int) -> list[list[int]]:
        if tokenizer.sampling == 0.0:
            return rows
        sampled = tokenizer.sample_batch([tokenizer.decode(row) for row in rows], seed)
        return [
            row if tokenizer.unk_id in row or not 0 < len(new) <= self.max_length else new
            for row, new in zip(rows, sampled, strict=True)
        ]


def epoch_batches(
    corpus: Pairs,
    batch_tokens: int,
    seed: int,
    epoch: int,
    start: int = 0,
    sampling: SubwordSampling | None = None,
    every: int = 1,
) -> Iterator[Batch]:
    """The batches of an epoch from index `start` on, or every n-th, prepared by a thread.

    With sampling the number of batches is the same; rows are grouped by their new lengths, and
    batches may have more than `batch_tokens`.

    Closing the iterator (or dropping it) ends the thread; an error in the thread is raised here.
    """
    lengths = corpus.source_lengths, corpus.target_lengths
    if sampling is None or sampling.source.sampling + sampling.target.sampling == 0.0:
        order = batch_order(*lengths, batch_tokens, seed, epoch)[start::every]
        yield from prefetch(
            (_collated(_pairs(corpus, rows), rows) for rows in order), PREPARED_BATCHES
        )
        return
    chunks = chunk_order(*lengths, batch_tokens, np.random.default_rng((seed, epoch)))
    resampled = _resampled(corpus, chunks, (seed, epoch), start, sampling)
    found = chain.from_iterable(prefetch(resampled, PREPARED_BATCHES))
    yield from islice(found, 0, None, every)


def largest_batch(
    corpus: Pairs, batch_tokens: int, seed: int, epoch: int, sampling: SubwordSampling
) -> Batch:
    """The epoch's batch with the most positions; with sampling its rows are resampled."""
    lengths = corpus.source_lengths, corpus.target_lengths
    order = batch_order(*lengths, batch_tokens, seed, epoch)
    rows = order[largest(order, lengths[0], lengths[1] + 1)]  # 1: EOS
    return _collated(sampling.resample(_pairs(corpus, rows), seed, seed + 1), rows)


def _resampled(
    corpus: Pairs,
    chunks: Sequence[Sequence[np.ndarray]],
    seed: tuple[int, int],
    start: int,
    sampling: SubwordSampling,
) -> Iterator[Sequence[Batch]]:
    """Resample each chunk, divide it into as many batches as it had, and shuffle these.

    A chunk is resampled in slices, one slice for each batch of the chunk before it. The slices of
    the first chunk yield no batch each, so that closing the iterator does not wait for all of them.
    """
    ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.int64)
    first = int(np.searchsorted(ends, start, side="right"))
    skipped = start - int(ends[first - 1]) if first else start

    def slices(index: int) -> Iterator[list[IdPair]]:
        for chunk in chunks[index : index + 1]:
            for number, rows in enumerate(np.array_split(np.concatenate(chunk), len(chunk)), 1):
                seeds = np.random.SeedSequence((*seed, index + 1, number)).generate_state(2)
                yield sampling.resample(_pairs(corpus, rows), *seeds.tolist())

    pairs, upcoming = list[IdPair](), slices(first)
    for index in range(first, len(chunks)):
        for resampled in upcoming:
            pairs += resampled
            yield ()
        # The last number of a slice's seed starts at 1, so 0 is free.
        batches = _divided(pairs, len(chunks[index]), (*seed, index + 1, 0))
        chunk, rows = pairs, np.concatenate(chunks[index])
        pairs, upcoming = [], slices(index + 1)
        for batch in batches[skipped:]:
            yield (_collated([chunk[i] for i in batch.tolist()], rows[batch]),)
            pairs += next(upcoming, ())
        skipped = 0


def _divided(pairs: Sequence[IdPair], batches: int, seed: Sequence[int]) -> list[np.ndarray]:
    """The indices of the pairs of each batch."""
    lengths = np.array([(len(source), len(target)) for source, target in pairs])
    parts = divide(lengths[:, 0], lengths[:, 1], batches)
    order = np.random.default_rng(seed).permutation(batches)
    return [parts[i] for i in order.tolist()]


def _pairs(corpus: Pairs, rows: np.ndarray) -> list[IdPair]:
    return [(corpus.source(row).tolist(), corpus.target(row).tolist()) for row in rows.tolist()]


def _collated(pairs: Sequence[IdPair], rows: np.ndarray) -> Batch:
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    return collate(*sides, tuple(rows.tolist()))


def prefetch(items: Iterator[T], ahead: int) -> Iterator[T]:
    """The same items, computed by another thread up to `ahead` items in advance."""
    # An item, or the exception that ends the items.
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(ahead)
    stopped = threading.Event()

    def put(item: T | None, end: BaseException | None = None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                ready.put((item, end), timeout=0.1)
                return

    def produce() -> None:
        try:
            for item in items:
                put(item)
                if stopped.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = threading.Thread(target=produce, name="clearhead-batches", daemon=True)
    thread.start()
    try:
        while True:
            item, end = ready.get()
            if isinstance(end, StopIteration):
                return
            if end is not None:
                raise end
            yield cast(T, item)
    finally:
        stopped.set()
        thread.join()
