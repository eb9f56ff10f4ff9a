"""How many rows are in each batch, from their lengths alone; also for `init`, without torch."""

from __future__ import annotations

import numpy as np

SIZE_BITS = 4
"""The number of rows of a batch has only this many significant bits, see `batch_ranges`."""

MOST_ROWS = 200_000
"""Rows that `expected_batches` divides, at most."""


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
    """About how many batches an epoch has.

    Args:
        lengths: of the longer sides of a sample of the examples, as they count in a batch.
        examples: their number in an epoch.
        batch_tokens: the limit of a batch, padding included.
    """
    rows = max(1, min(round(examples), MOST_ROWS))
    places = np.linspace(0, len(lengths) - 1, rows).round().astype(np.int64)
    ranges = batch_ranges(np.maximum(1, np.sort(lengths)[places]), batch_tokens, SIZE_BITS)
    return max(1, round(len(ranges) * examples / rows))
