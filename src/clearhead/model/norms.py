"""Layer normalisation (Ba et al. 2016) in the form that divides by (std + ε)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class StdLayerNorm(nn.Module):
    """gain · (x − mean) / (std + ε) + bias, with the unbiased standard deviation.

    PyTorch's `LayerNorm` divides by √(variance + ε), with the biased variance.
    """

    def __init__(self, d_model: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.epsilon = epsilon

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        centred = x - x.mean(dim=-1, keepdim=True)
        return self.weight * centred / (x.std(dim=-1, keepdim=True) + self.epsilon) + self.bias
