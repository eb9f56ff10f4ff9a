"""Random convolutions of feature sequences (ROCKET, Dempster, Petitjean and Webb 2020)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.model.layers import fixed

Features = Float[Tensor, "batch length width"]
Mask = Bool[Tensor, "batch 1 1 length"]
Outputs = Float[Tensor, "batch count length"]
Real = Bool[Tensor, "batch 1 length"]


class RandomKernels(nn.Module):
    """What many random kernels find in a sequence: two numbers each, which no training changes.

    A kernel is a convolution of some of the features with random weights, of mean zero, and a
    random bias. Its two numbers are the share of frames where its output is positive, and its
    maximum (section 3.2). Few labelled sequences suffice to learn from them which shapes count,
    where an encoder would need many to learn the shapes. `fit` puts the numbers on a common scale.

    Args:
        width: the features of a frame.
        count: the number of kernels.
        frames: how many frames a kernel reads, one or more apart.
        reach: the frames from the first to the last that the longest kernel reads.
    """

    def __init__(self, width: int, count: int, frames: int, reach: int) -> None:
        super().__init__()
        self.dilations = dilations(count, (reach - 1) / (frames - 1))
        self.outputs = 2 * count
        self.weight = fixed(_random_weights(width, count, frames))
        self.bias = fixed(2 * torch.rand(count) - 1)
        self.mean = fixed(torch.zeros(self.outputs))
        self.scale = fixed(torch.ones(self.outputs))

    def forward(self, features: Features, mask: Mask) -> Float[Tensor, "batch numbers"]:
        """The numbers of each sequence on a common scale; the mask is False at padding."""
        return (self.numbers(features, mask) - self.mean) * self.scale

    def numbers(self, features: Features, mask: Mask) -> Float[Tensor, "batch numbers"]:
        """The shares of all kernels, then their maxima; 0 for an empty sequence."""
        real = mask[:, 0]
        channels = features.to(self.weight.dtype).transpose(1, 2).masked_fill(~real, 0.0)
        shares, maxima, first = [], [], 0
        for dilation, count in self.dilations.items():
            part = slice(first, first + count)
            weight, bias = self.weight[part], self.bias[part]
            # Zeros at both ends give an output for every frame.
            found = F.conv1d(channels, weight, bias, padding="same", dilation=dilation)
            shares.append(_share(found, real))
            maxima.append(_maximum(found, real))
            first += count
        return torch.cat((*shares, *maxima), dim=1)

    @torch.no_grad()
    def fit(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Choose the scale: over these batches with masks, each number has mean 0, deviation 1."""
        numbers = torch.cat([self.numbers(*batch) for batch in batches]).double()
        deviation = numbers.std(dim=0, correction=0)
        self.mean.copy_(numbers.mean(dim=0))
        # Constant numbers get scale 0.
        self.scale.copy_(torch.where(deviation > 1e-6, 1 / deviation, 0.0))


def dilations(count: int, largest: float) -> Counter[int]:
    """How many kernels have each dilation: spread evenly on a logarithmic scale (section 3.1)."""
    most = math.log2(max(1.0, largest))
    return Counter(math.floor(2 ** (most * i / count)) for i in range(count))


def _random_weights(width: int, count: int, frames: int) -> Float[Tensor, "count width frames"]:
    """Normal weights of mean zero for a random choice of the features of each kernel, else zero."""
    weight = torch.randn(count, width, frames)
    weight -= weight.mean(dim=-1, keepdim=True)
    # As many features as frames at most, few of them more often than many.
    chosen = 2 ** (torch.rand(count) * math.log2(min(width, frames) + 1))
    order = torch.rand(count, width).argsort(dim=1).argsort(dim=1)
    return weight * (order < chosen.floor()[:, None])[..., None]


def _share(found: Outputs, real: Real) -> Float[Tensor, "batch count"]:
    return ((found > 0) & real).sum(dim=-1) / real.sum(dim=-1).clamp(min=1)


def _maximum(found: Outputs, real: Real) -> Float[Tensor, "batch count"]:
    lowest = torch.finfo(found.dtype).min
    return found.masked_fill(~real, lowest).amax(dim=-1).masked_fill(~real.any(dim=-1), 0.0)
