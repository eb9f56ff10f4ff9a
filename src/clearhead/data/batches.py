"""Batches by tokens: which rows belong together, as padded tensors, prepared ahead of time.

The order is a function of (seed, epoch), and a batch one of (seed, epoch, its index): to resume
is to start the same epoch at a later batch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clearhead.data.corpus import Corpus
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

# Rows are sorted by length within chunks of about this many batches: enough that padding is
# rare, few enough that a batch's companions differ from epoch to epoch.
CHUNK_BATCHES = 100
PREPARED_BATCHES = 4

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


@dataclass(frozen=True)
class Sampling:
    """Subword sampling in training: new segmentations for each batch of each epoch.

    A side is sampled where its tokenizer has `sampling` > 0. A sentence that cannot be written
    out exactly (it holds an unknown symbol), or that would be longer than `max_length` tokens,
    keeps its usual segmentation.
    """

    source: Tokenizer
    target: Tokenizer
    max_length: int


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
    rows = rng.permutation(len(source_lengths))
    targets = target_lengths + 1  # EOS
    longest = np.maximum(source_lengths, targets)
    batches: list[np.ndarray] = []
    chunks = max(1, round(int(longest.sum(dtype=np.int64)) / (CHUNK_BATCHES * batch_tokens)))
    for chunk in np.array_split(rows, chunks):
        # Among rows whose longer side is equal, the difference of the sides goes up and down
        # by turns: then neighbours are alike across that border too.
        turn = np.where(longest[chunk] % 2, -1, 1)
        difference = turn * (source_lengths[chunk] - targets[chunk])
        chunk = chunk[np.lexsort((difference, longest[chunk]))]
        batches += _cut(chunk, longest[chunk], batch_tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(rows: np.ndarray, longest: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    """Consecutive rows, their lengths ascending, as many as stay within the limit."""
    start = 0
    while start < len(rows):
        # No batch has more rows than would fit at the length of its first.
        most = max(1, batch_tokens // int(longest[start]))
        lengths = longest[start : start + most]
        places = lengths * np.arange(1, len(lengths) + 1, dtype=np.int64)
        size = max(1, int(np.searchsorted(places, batch_tokens, side="right")))
        yield rows[start : start + size]
        start += size


def epoch_batches(
    corpus: Corpus,
    batch_tokens: int,
    seed: int,
    epoch: int,
    start: int = 0,
    sampling: Sampling | None = None,
) -> Iterator[Batch]:
    """The batches of an epoch from index `start` on, prepared by a thread of their own.

    Closing the iterator (or dropping it) ends the thread; an error in it is raised here.
    """
    order = batch_order(corpus.source_lengths, corpus.target_lengths, batch_tokens, seed, epoch)

    def prepare() -> Iterator[Batch]:
        for index in range(start, len(order)):
            rows = order[index].tolist()
            sources = [corpus.source(row).tolist() for row in rows]
            targets = [corpus.target(row).tolist() for row in rows]
            if sampling is not None:
                draw = np.random.SeedSequence((seed, epoch, index)).generate_state(2)
                sources = _sampled(sources, sampling.source, int(draw[0]), sampling.max_length)
                targets = _sampled(targets, sampling.target, int(draw[1]), sampling.max_length)
            yield collate(sources, targets)

    return prefetch(prepare(), PREPARED_BATCHES)


def _sampled(
    rows: list[list[int]], tokenizer: Tokenizer, seed: int, max_length: int
) -> list[list[int]]:
    if tokenizer.sampling == 0.0:
        return rows
    drawn = tokenizer.sample_batch([tokenizer.decode(row) for row in rows], seed)
    return [
        row if tokenizer.unk_id in row or not 0 < len(other) <= max_length else other
        for row, other in zip(rows, drawn, strict=True)
    ]


def prefetch(items: Iterator[T], ahead: int) -> Iterator[T]:
    """The same items, made by another thread up to `ahead` items before they are asked for."""
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
