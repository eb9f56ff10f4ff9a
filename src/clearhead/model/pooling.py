"""From the vectors of a sequence to one vector; padding is ignored."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Vectors = Float[Tensor, "batch length d_model"]
Mask = Bool[Tensor, "batch 1 1 length"]
Pooled = Float[Tensor, "batch d_model"]


class MeanPooling(nn.Module):
    """The mean over all positions that are not padding; zero if there is none."""

    def forward(self, x: Vectors, mask: Mask) -> Pooled:
        real = _real(mask)
        # Not a product with the mask: padding may hold any value, and 0 · inf is NaN.
        total = x.masked_fill(~real, 0.0).sum(dim=1)
        return total / real.sum(dim=1).clamp(min=1)


class FirstPooling(nn.Module):
    """The vector of the first position, as in BERT (Devlin et al. 2019, section 3)."""

    def forward(self, x: Vectors, mask: Mask) -> Pooled:
        return x[:, 0].masked_fill(~_real(mask)[:, 0], 0.0)


class MaximumPooling(nn.Module):
    """The maximum of each dimension over all positions that are not padding; else zero."""

    def forward(self, x: Vectors, mask: Mask) -> Pooled:
        real = _real(mask)
        lowest = torch.finfo(x.dtype).min
        return x.masked_fill(~real, lowest).amax(dim=1).masked_fill(~real.any(dim=1), 0.0)


class AttentionPooling(nn.Module):
    """The mean with the learned weights softmax(w · x)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, 1, bias=False)

    def forward(self, x: Vectors, mask: Mask) -> Pooled:
        return (self.weights(x, mask) * x.masked_fill(~_real(mask), 0.0)).sum(dim=1)

    def weights(self, x: Vectors, mask: Mask) -> Float[Tensor, "batch length 1"]:
        """The weight of each position; 0 for padding."""
        real = _real(mask)
        scores = self.query(x)
        # Under autocast the type of the scores may differ from that of x.
        scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=1) * real


class Pooling(nn.Module):
    """Several poolings side by side."""

    def __init__(self, poolings: Sequence[nn.Module]) -> None:
        super().__init__()
        self.poolings = nn.ModuleList(poolings)

    def forward(self, x: Vectors, mask: Mask) -> Float[Tensor, "batch pooled"]:
        return torch.cat([pooling(x, mask) for pooling in self.poolings], dim=-1)


def _real(mask: Mask) -> Bool[Tensor, "batch length 1"]:
    return mask[:, 0, 0, :, None]
