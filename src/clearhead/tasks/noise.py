"""Noise on inputs while training."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.tokenizer import BOS, PAD


def hide_words(ids: Tensor, unk_id: int, rate: float) -> Tensor:
    """A share of the tokens replaced by the unknown one (word dropout, Sennrich et al. 2016)."""
    hidden = torch.rand(ids.shape, device=ids.device) < rate
    return ids.masked_fill(hidden & (ids != PAD) & (ids != BOS), unk_id)


def hide_frames(features: Tensor, rate: float) -> Tensor:
    """A share of the frames (batch, length, width) set to zero: the mean, where it is taken off.

    Padding stays NaN.
    """
    hidden = torch.rand(features.shape[:2], device=features.device) < rate
    return features.masked_fill(hidden[..., None] & ~features.isnan(), 0.0)
