"""Which rows make a batch, and which batch comes when: a function of (seed, epoch).

Rows are shuffled and dealt into chunks; within a chunk they are sorted by length and cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

# Rows are sorted by length within chunks of about this many batches: enough that padding is
# rare, few enough that a batch's companions differ from epoch to epoch.
CHUNK_BATCHES = 100

BLOCK = 2**20
"""Rows whose lengths are added up at a time."""

SIZE_BITS = 4
"""A batch has a number of rows of which only so many leading bits are not zero."""


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


def _chunks(
    rng: np.random.Generator, sources: np.ndarray, targets: np.ndarray, batch_tokens: int
) -> list[list[np.ndarray]]:
    # The same order as permutation(len(sources)) gives, in half the memory below 2^31 rows.
    rows = np.arange(len(sources), dtype=np.int32 if len(sources) < 2**31 else np.int64)
    rng.shuffle(rows)
    places = _places(sources, targets)
    chunks = max(1, min(len(rows), round(places / (CHUNK_BATCHES * batch_tokens))))
    return [
        _cut(chunk, sources[chunk], targets[chunk], batch_tokens)
        for chunk in np.array_split(rows, chunks)
    ]


def _places(sources: np.ndarray, targets: np.ndarray) -> int:
    """The sum of the longer sides, EOS included; in blocks, since there may be many millions."""
    starts = range(0, len(sources), BLOCK)
    blocks = ((sources[i : i + BLOCK], targets[i : i + BLOCK]) for i in starts)
    return sum(int(np.maximum(source, target + 1).sum(dtype=np.int64)) for source, target in blocks)


def _cut(
    rows: np.ndarray, sources: np.ndarray, targets: np.ndarray, batch_tokens: int
) -> list[np.ndarray]:
    """Rows of these lengths in batches of like lengths, as many in each as the limit allows."""
    order, longest = _sorted(sources, targets)
    ranges = _ranges(longest, batch_tokens, SIZE_BITS)
    return [rows[order[start:end]] for start, end in ranges]


def largest(batches: Sequence[np.ndarray], *lengths: np.ndarray) -> int:
    """The index of the batch with the most places, padding included.

    Args:
        batches: the rows of each.
        lengths: of each row (N,), on each of the sides that are padded.
    """
    places = [len(rows) * sum(int(side[rows].max()) for side in lengths) for rows in batches]
    return int(np.argmax(places))


def divide(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batches: int
) -> list[np.ndarray]:
    """Rows of these lengths in so many batches of like lengths, the largest as small as can be.

    Args:
        source_lengths: tokens of each source (n,), without BOS and EOS.
        target_lengths: tokens of each target (n,), without BOS and EOS.
        batches: how many, from 1 to n.
    """
    order, longest = _sorted(source_lengths, target_lengths)
    limits = range(1, len(longest) * int(longest[-1]) + 1)
    enough = bisect_left(limits, True, key=lambda limit: len(_ranges(longest, limit)) <= batches)
    ranges = _ranges(longest, limits[enough])
    while len(ranges) < batches:  # a limit may save several batches at once
        start, end = ranges.pop(int(np.argmax([end - start for start, end in ranges])))
        middle = (start + end) // 2
        ranges += [(start, middle), (middle, end)]
    return [order[start:end] for start, end in ranges]


def _sorted(sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows by length, and the length of the longer side in that order."""
    targets = targets + 1  # EOS
    longest = np.maximum(sources, targets)
    # Among rows whose longer side is equal, the difference of the sides goes up and down
    # by turns: then neighbours are alike across that border too.
    turn = np.where(longest % 2, -1, 1)
    order = np.lexsort((turn * (sources - targets), longest))
    return order, longest[order]


def _ranges(
    lengths: np.ndarray, batch_tokens: int, bits: int | None = None
) -> list[tuple[int, int]]:
    """Consecutive rows, their lengths ascending, as many as stay within the limit.

    With `bits` they are so many that only that many leading bits of the number are not zero, but
    for the last: then there are few sizes, and so fewer shapes of products. In bf16 a CPU compiles
    each shape anew and keeps what it has compiled (docs/decisions/0011).
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    while start < len(lengths):
        # No batch has more rows than would fit at the length of its first.
        most = max(1, batch_tokens // int(lengths[start]))
        first = lengths[start : start + most]
        places = first * np.arange(1, len(first) + 1, dtype=np.int64)
        size = max(1, int(np.searchsorted(places, batch_tokens, side="right")))
        if bits is not None and start + size < len(lengths):
            low = max(0, size.bit_length() - bits)
            size = size >> low << low
        ranges.append((start, start + size))
        start += size
    return ranges
