"""Masks: boolean, and True means "may attend", everywhere.

Each has the shape (batch, heads, queries, keys), with 1 where it is the same for all.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(ids: Int[Tensor, "batch length"], pad_id: int) -> Bool[Tensor, "batch 1 1 length"]:
    """Every query may attend to every key that is not padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device) -> Bool[Tensor, "1 1 length length"]:
    """Position i may attend to positions up to i (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
