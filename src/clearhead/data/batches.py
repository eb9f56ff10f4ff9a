"""Batches of sentence pairs as padded tensors, prepared ahead of time by a thread.

Which rows make a batch, and the order of the batches, is a function of (seed, epoch): rows are
shuffled and divided into chunks; within a chunk they are sorted by length and cut. To resume is to
start the same epoch at a later batch.
"""

from __future__ import annotations

import queue
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clearhead.data.corpus import Corpus
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

PREPARED_BATCHES = 4
"""Batches that training keeps ready."""

# Rows are sorted by length within chunks of about this many batches: enough that padding is rare,
# few enough that a batch has other rows in each epoch.
CHUNK_BATCHES = 100

BLOCK = 2**20
"""Rows whose lengths are added up at a time."""

SIZE_BITS = 4
"""Only so many leading bits of a batch's number of rows may be set, see `_ranges`."""

IdPair = tuple[list[int], list[int]]
"""The ids of a source and of a target, without BOS and EOS."""

T = TypeVar("T")


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


@dataclass(frozen=True)
class Sampling:
    """Subword sampling in training: new segmentations for each chunk of each epoch.

    A side is sampled if its tokenizer has `sampling` > 0. A sentence with an unknown symbol, which
    cannot be written out exactly, keeps its usual segmentation, and so does one that would be
    longer than `max_length` tokens.
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


def epoch_batches(
    corpus: Corpus,
    batch_tokens: int,
    seed: int,
    epoch: int,
    start: int = 0,
    sampling: Sampling | None = None,
) -> Iterator[Batch]:
    """The batches of an epoch from index `start` on, prepared by a thread.

    With sampling the number of batches is the same; rows are grouped by their new lengths, and
    batches may hold more than `batch_tokens`.

    Closing the iterator (or dropping it) ends the thread; an error in the thread is raised here.
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
    """The first epoch's batch with the most positions; with sampling its rows are drawn anew."""
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
    """Chunk after chunk, segmented anew, divided into as many batches as it had, and shuffled.

    A chunk is drawn slice by slice, a slice with each batch of the chunk before it. The slices of
    the first chunk yield no batch each, so that closing the iterator need not wait for all.
    """
    ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.int64)
    first = int(np.searchsorted(ends, start, side="right"))
    skipped = start - int(ends[first - 1]) if first else start

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
        # The seeds of slices end in numbers from 1, this one in 0.
        batches = _divided(pairs, len(chunks[index]), (*seed, index + 1, 0))
        pairs, coming = [], slices(index + 1)
        for batch in batches[skipped:]:
            yield (_collated(batch),)
            pairs += next(coming, ())
        skipped = 0


def _divided(pairs: Sequence[IdPair], batches: int, seed: Sequence[int]) -> list[list[IdPair]]:
    lengths = np.array([(len(source), len(target)) for source, target in pairs])
    parts = divide(lengths[:, 0], lengths[:, 1], batches)
    order = np.random.default_rng(seed).permutation(batches)
    return [[pairs[row] for row in parts[i].tolist()] for i in order.tolist()]


def _pairs(corpus: Corpus, rows: np.ndarray) -> list[IdPair]:
    return [(corpus.source(row).tolist(), corpus.target(row).tolist()) for row in rows.tolist()]


def _collated(pairs: Sequence[IdPair]) -> Batch:
    return collate([source for source, _ in pairs], [target for _, target in pairs])


def batch_order(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """The rows of each batch of an epoch, every row once: a function of the arguments alone.

    Rows x longest is at most `batch_tokens` for the sources, and for the targets with EOS; a row
    that is longer by itself is a batch of one.

    Args:
        source_lengths: tokens of each source (N,), without BOS and EOS.
        target_lengths: tokens of each target (N,), without BOS and EOS.
        batch_tokens: the limit, padding included.
        seed: of the run.
        epoch: from 0.
    """
    rng = np.random.default_rng((seed, epoch))
    chunks = _chunks(rng, source_lengths, target_lengths, batch_tokens)
    batches = [batch for chunk in chunks for batch in chunk]
    return [batches[i] for i in rng.permutation(len(batches))]


def chunk_order(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int
) -> list[list[np.ndarray]]:
    """The batches of `batch_order`, chunk by chunk, in each chunk sorted by length."""
    rng = np.random.default_rng((seed, epoch))
    return _chunks(rng, source_lengths, target_lengths, batch_tokens)


def largest(batches: Sequence[np.ndarray], *lengths: np.ndarray) -> int:
    """The index of the batch with the most positions, padding included.

    Args:
        batches: the rows of each.
        lengths: of each row (N,), on each of the sides that are padded.
    """
    positions = [len(rows) * sum(int(side[rows].max()) for side in lengths) for rows in batches]
    return int(np.argmax(positions))


def _chunks(
    rng: np.random.Generator, sources: np.ndarray, targets: np.ndarray, batch_tokens: int
) -> list[list[np.ndarray]]:
    # The same order as permutation(len(sources)) gives, in half the memory below 2^31 rows.
    rows = np.arange(len(sources), dtype=np.int32 if len(sources) < 2**31 else np.int64)
    rng.shuffle(rows)
    tokens = _longer_tokens(sources, targets)
    chunks = max(1, min(len(rows), round(tokens / (CHUNK_BATCHES * batch_tokens))))
    return [
        _cut(chunk, sources[chunk], targets[chunk], batch_tokens)
        for chunk in np.array_split(rows, chunks)
    ]


def _longer_tokens(sources: np.ndarray, targets: np.ndarray) -> int:
    """The tokens of the longer sides, EOS included, added up in blocks to save memory."""
    starts = range(0, len(sources), BLOCK)
    blocks = ((sources[i : i + BLOCK], targets[i : i + BLOCK]) for i in starts)
    return sum(int(np.maximum(source, target + 1).sum(dtype=np.int64)) for source, target in blocks)


def _cut(
    rows: np.ndarray, sources: np.ndarray, targets: np.ndarray, batch_tokens: int
) -> list[np.ndarray]:
    """Batches of rows of like lengths, as many in each as the limit allows."""
    order, longest = _by_length(sources, targets)
    ranges = _ranges(longest, batch_tokens, SIZE_BITS)
    return [rows[order[start:end]] for start, end in ranges]


def divide(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batches: int
) -> list[np.ndarray]:
    """So many batches of rows of like lengths, the largest as small as possible.

    Args:
        source_lengths: tokens of each source (n,), without BOS and EOS.
        target_lengths: tokens of each target (n,), without BOS and EOS.
        batches: how many, from 1 to n.
    """
    order, longest = _by_length(source_lengths, target_lengths)
    limits = range(1, len(longest) * int(longest[-1]) + 1)
    enough = bisect_left(limits, True, key=lambda limit: len(_ranges(longest, limit)) <= batches)
    ranges = _ranges(longest, limits[enough])
    while len(ranges) < batches:  # the next smaller limit makes too many
        start, end = ranges.pop(int(np.argmax([end - start for start, end in ranges])))
        middle = (start + end) // 2
        ranges += [(start, middle), (middle, end)]
    return [order[start:end] for start, end in ranges]


def _by_length(sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows by length, and the length of the longer side in that order."""
    targets = targets + 1  # EOS
    longest = np.maximum(sources, targets)
    # Among rows with equal longer sides, the difference of the sides alternately rises and falls,
    # so that neighbours are alike across that border, too.
    turn = np.where(longest % 2, -1, 1)
    order = np.lexsort((turn * (sources - targets), longest))
    return order, longest[order]


def _ranges(
    lengths: np.ndarray, batch_tokens: int, bits: int | None = None
) -> list[tuple[int, int]]:
    """Consecutive rows, their lengths ascending, as many as stay within the limit.

    With `bits`, only so many leading bits of the number of rows are not zero, but for the last
    range. So there are few shapes of products, each of which a CPU compiles in bf16 and keeps in
    memory (docs/decisions/0011).
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    while start < len(lengths):
        # No batch has more rows than would fit at the length of its first.
        most = max(1, batch_tokens // int(lengths[start]))
        first = lengths[start : start + most]
        positions = first * np.arange(1, len(first) + 1, dtype=np.int64)
        size = max(1, int(np.searchsorted(positions, batch_tokens, side="right")))
        if bits is not None and start + size < len(lengths):
            low = max(0, size.bit_length() - bits)
            size = size >> low << low
        ranges.append((start, start + size))
        start += size
    return ranges


def prefetch(items: Iterator[T], ahead: int) -> Iterator[T]:
    """The same items, made by another thread up to `ahead` items before they are needed."""
    ready: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(ahead)
    stopped = threading.Event()

    def put(kind: str, item: T | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put((kind, item), timeout=0.1)
            except queue.Full:
                continue
            return

    def produce() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=produce, name="clearhead-batches", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise cast(BaseException, item)
            yield cast(T, item)
    finally:
        stopped.set()
        thread.join()
