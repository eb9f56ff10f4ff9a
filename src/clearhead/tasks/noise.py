"""Noise on inputs while training."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.tokenizer import BOS, PAD


def hide_words(ids: Tensor, unk_id: int, rate: float) -> Tensor:
    """A share of the tokens replaced by the unknown one (word dropout, Sennrich et al. 2016)."""
    return ids.masked_fill(drawn_words(ids, rate), unk_id)


def drawn_words(ids: Tensor, rate: float) -> Tensor:
    """True at a share of the tokens, never at BOS and padding."""
    drawn = torch.rand(ids.shape, device=ids.device) < rate
    return drawn & (ids != PAD) & (ids != BOS)


def hide_frames(features: Tensor, rate: float) -> Tensor:
    """A share of the frames (batch, length, width) set to zero: the mean, where it is taken off.

    Padding stays NaN.
    """
    hidden = torch.rand(features.shape[:2], device=features.device) < rate
    return features.masked_fill(hidden[..., None] & ~features.isnan(), 0.0)
