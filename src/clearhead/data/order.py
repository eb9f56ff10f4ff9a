"""How rows are divided into batches and ordered, from their lengths alone; without torch.

The rows of each batch and the order of the batches are a function of (seed, epoch): rows are
shuffled and divided into chunks; each chunk is sorted by length and divided into batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

SIZE_BITS = 4  # significant bits that the number of rows of a batch has, see `batch_ranges`
MOST_ROWS = 200_000  # rows that `expected_batches` divides, at most
BLOCK = 2**20  # rows whose lengths are summed at a time

CHUNK_BATCHES = 100
"""Rows are sorted by length within chunks of about this many batches: enough that padding is rare,
and few enough that each epoch has different batches."""


def batch_order(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """The rows of each batch of an epoch, every row once: a function of the arguments alone.

    The number of rows × the longest is at most `batch_tokens` for the sources, and for the targets
    with EOS; a row that is longer by itself is a batch of one.

    The lengths, (N,), are tokens without BOS and EOS.
    """
    rng = np.random.default_rng((seed, epoch))
    chunks = chunk_order(source_lengths, target_lengths, batch_tokens, rng)
    batches = [batch for chunk in chunks for batch in chunk]
    return [batches[i] for i in rng.permutation(len(batches))]


def chunk_order(
    sources: np.ndarray, targets: np.ndarray, batch_tokens: int, rng: np.random.Generator
) -> list[list[np.ndarray]]:
    """The batches of each chunk, sorted by length: as many rows each as the limit allows."""
    # The same order as permutation(len(sources)) gives, in half the memory below 2^31 rows.
    rows = np.arange(len(sources), dtype=np.int32 if len(sources) < 2**31 else np.int64)
    rng.shuffle(rows)
    # The tokens of the longer sides, EOS included, are summed in blocks to save memory.
    blocks = (slice(start, start + BLOCK) for start in range(0, len(sources), BLOCK))
    longer = (np.maximum(sources[block], targets[block] + 1) for block in blocks)
    tokens = sum(int(block.sum(dtype=np.int64)) for block in longer)
    count = max(1, min(len(rows), round(tokens / (CHUNK_BATCHES * batch_tokens))))
    chunks: list[list[np.ndarray]] = []
    for chunk in np.array_split(rows, count):
        order, longest = _by_length(sources[chunk], targets[chunk])
        ranges = batch_ranges(longest, batch_tokens, SIZE_BITS)
        chunks.append([chunk[order[start:end]] for start, end in ranges])
    return chunks


def largest(batches: Sequence[np.ndarray], *lengths: np.ndarray) -> int:
    """The index of the batch with the most positions, padding included, on sides of lengths."""
    positions = [len(rows) * sum(int(side[rows].max()) for side in lengths) for rows in batches]
    return int(np.argmax(positions))


def divide(
    source_lengths: np.ndarray, target_lengths: np.ndarray, batches: int
) -> list[np.ndarray]:
    """Divide n rows into 1 to n batches of similar lengths, the largest as small as possible."""
    order, longest = _by_length(source_lengths, target_lengths)
    limits = range(1, len(longest) * int(longest[-1]) + 1)

    def is_enough(limit: int) -> bool:
        return len(batch_ranges(longest, limit)) <= batches

    enough = bisect_left(limits, True, key=is_enough)
    ranges = batch_ranges(longest, limits[enough])
    while len(ranges) < batches:  # the next smaller limit gives too many
        start, end = ranges.pop(int(np.argmax([end - start for start, end in ranges])))
        middle = (start + end) // 2
        ranges += [(start, middle), (middle, end)]
    return [order[start:end] for start, end in ranges]


def _by_length(sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows by length, and the length of the longer side in that order."""
    targets = targets + 1  # EOS
    longest = np.maximum(sources, targets)
    # Among rows with equal longer sides, the difference of the sides alternately rises and falls,
    # so that neighbouring rows are similar even where the longer side changes.
    turn = np.where(longest % 2, -1, 1)
    order = np.lexsort((turn * (sources - targets), longest))
    return order, longest[order]


def batch_ranges(
    lengths: np.ndarray, batch_tokens: int, bits: int | None = None
) -> list[tuple[int, int]]:
    """Ranges of consecutive rows with ascending lengths, as many rows each as the limit allows.

    With `bits`, the number of rows of each range but the last has only this many significant bits.
    So there are few shapes of products: for each, a CPU compiles a bf16 kernel and keeps it in
    memory (docs/decisions/0011).
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    while start < len(lengths):
        # No batch has more rows than fit if all are as short as its first.
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


def expected_batches(lengths: np.ndarray, examples: float, batch_tokens: int) -> int:
    """About how many batches an epoch of so many examples has.

    `lengths` are those of the longer sides of a sample, as they count in a batch.
    """
    rows = max(1, min(round(examples), MOST_ROWS))
    places = np.linspace(0, len(lengths) - 1, rows).round().astype(np.int64)
    ranges = batch_ranges(np.maximum(1, np.sort(lengths)[places]), batch_tokens, SIZE_BITS)
    return max(1, round(len(ranges) * examples / rows))
