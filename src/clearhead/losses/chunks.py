"""How many rows of logits are made at a time, by one product and by one softmax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

CHUNK_ELEMENTS = {"cpu": 8_000_000, "cuda": 2**26}
"""Logits that a product makes at a time: in bf16 16 MB, on a GPU 128 MB, for there each chunk costs
some thirty launches, however small it is; in float32 twice that."""

BLOCK_ELEMENTS = {"cpu": 320_000, "cuda": 2**26}
"""Logits of a chunk whose softmax is made at a time: in float32 1.3 MB, which the second cache of a
processor holds while they are read and written some six times over. Beside them bf16 takes as much
again, a divergence several times as much."""

WHOLE_ROWS = 160
"""A product in bf16 on a CPU has a multiple of about so many rows, the last ones zeros. Such a
processor compiles each number of rows anew and keeps what it compiled, some 4 MB for 10,000 logits
a row, and the last chunk of each batch would have a number of its own (docs/decisions/0011)."""

WHOLE_PARTS = 5
"""Or, where a chunk has few rows, of at most this share of it, that little is added."""


class Sizes(NamedTuple):
    """Rows of a chunk, and of a block, which a chunk holds some of; even, so that pairs fit.

    The rows of a product are a multiple of `whole`.
    """

    chunk: int
    block: int
    whole: int

    @classmethod
    def of(cls, hidden: Tensor, vocabulary: int, dtype: torch.dtype) -> Sizes:
        """As the device of the states, and products in this type, should have them."""
        device = hidden.device.type
        chunk, block = (
            max(1, elements.get(device, elements["cpu"]) // vocabulary // 2) * 2
            for elements in (CHUNK_ELEMENTS, BLOCK_ELEMENTS)
        )
        block = min(block, chunk)
        if device != "cpu" or dtype != torch.bfloat16:
            return cls(chunk - chunk % block, block, 1)
        if block > WHOLE_ROWS:
            block -= block % WHOLE_ROWS
            return cls(chunk - chunk % block, block, WHOLE_ROWS)
        whole = block * max(1, min(WHOLE_ROWS // block, chunk // block // WHOLE_PARTS))
        return cls(chunk - chunk % whole, block, whole)


def chunks(hidden: Tensor, sizes: Sizes, paired: bool) -> Iterator[Any]:
    """Row indices of each chunk; of pairs of passes each block has the one half, then the other."""
    tokens = len(hidden)
    if not paired:
        yield from (slice(at, at + sizes.chunk) for at in range(0, tokens, sizes.chunk))
        return
    first = torch.arange(tokens // 2, device=hidden.device)
    order = [rows for part in first.split(sizes.block // 2) for rows in (part, part + len(first))]
    yield from torch.cat(order).split(sizes.chunk)


def whole(rows: Float[Tensor, "rows width"], multiple: int) -> Float[Tensor, "whole_rows width"]:
    """Rows of zeros added at the end, until their number is a multiple."""
    missing = -len(rows) % multiple
    return nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows
