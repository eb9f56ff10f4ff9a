"""Which inputs are computed together: those of like length, the longest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PADDED_TOKENS = 16_384
"""Source tokens of a batch, padding included, at most: what bounds memory for long inputs."""


def batches_by_length(
    lengths: Sequence[int], batch_size: int, padded_places: int
) -> Iterator[list[int]]:
    """Indices, longest first: what would not fit in memory fails at once, and time left is fair.

    Args:
        lengths: of the inputs.
        batch_size: inputs of a batch, at most.
        padded_places: places of a batch, padding included, at most; a longer input is alone.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if batch and (len(batch) == batch_size or (len(batch) + 1) * longest > padded_places):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
