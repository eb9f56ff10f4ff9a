"""Random convolutions of feature sequences, from which a linear model learns.

ROCKET (Dempster, Petitjean and Webb 2020) draws the kernels, MiniRocket (Dempster, Schmidt and Webb
2021) chooses their thresholds by training sequences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from clearhead.model.layers import fixed
from clearhead.model.linear import Features

Sequences = Float[Tensor, "batch length width"]
"""All numbers of a padded frame are NaN, and no others."""

ABOVE = 1e-4
"""How far an output must be above the threshold to count, in units of the kernel's largest output:
more than the error of rounding."""


class RandomKernels(Features):
    """For each of many random kernels the share of frames where it answers.

    A kernel is a convolution of some of the features with random weights of mean zero (ROCKET,
    section 3.1). It answers where its output is above a threshold: a random quantile of its outputs
    for a random training sequence (MiniRocket, section 3.1). Few labelled sequences suffice to
    learn from the shares which shapes count, where an encoder would need many to learn the shapes.
    The shares have mean 0 and the same deviation in the training sequences.

    Args:
        width: the features of a frame.
        count: the number of kernels.
        frames: how many frames a kernel reads, one or more apart.
        reach: the frames from the first to the last that the longest kernel reads.
    """

    cost = 10.0

    def __init__(self, width: int, count: int, frames: int, reach: int) -> None:
        super().__init__()
        self.outputs = count
        self.dilations = dilations(count, (reach - 1) / (frames - 1))
        self.weight = fixed(_random_weights(width, count, frames))
        self.threshold = fixed(torch.zeros(count))
        self.mean = fixed(torch.zeros(count))
        self.scale = fixed(torch.ones(count))

    def forward(self, sequences: Sequences) -> Float[Tensor, "batch count"]:
        """The shares on a common scale."""
        return (self.shares(sequences) - self.mean) * self.scale

    def shares(self, sequences: Sequences) -> Float[Tensor, "batch count"]:
        """The share of frames where each kernel answers, from 0 to 1; 0 for an empty sequence."""
        real = ~sequences[..., 0].isnan()[:, None]
        channels = sequences.to(self.weight.dtype).transpose(1, 2).masked_fill(~real, 0.0)
        frames = real.sum(dim=-1).clamp(min=1)
        shares, first = [], 0
        for dilation, count in self.dilations.items():
            part = slice(first, first + count)
            answers = self._outputs(channels, part, dilation) > self.threshold[part, None]
            shares.append((answers & real).sum(dim=-1) / frames)
            first += count
        return torch.cat(shares, dim=1)

    def _outputs(
        self, channels: Float[Tensor, "batch width length"], part: slice | Tensor, dilation: int
    ) -> Float[Tensor, "batch part length"]:
        # Zeros at both ends give an output for every frame.
        return F.conv1d(channels, self.weight[part], padding="same", dilation=dilation)

    @torch.no_grad()
    def fit(self, batches: Sequence[Tensor]) -> None:
        """Choose the thresholds, and the scale: over these sequences, each share has mean 0.

        All shares that differ have the same deviation; the squares of a sequence's features have
        the sum 1 on average.
        """
        self._choose_thresholds(batches)
        shares = torch.cat([*map(self.shares, batches)]).double()
        deviation = math.sqrt(self.outputs) * shares.std(dim=0, correction=0)
        self.mean.copy_(shares.mean(dim=0))
        # Constant shares get scale 0.
        self.scale.copy_(torch.where(deviation > 1e-6, 1 / deviation, 0.0))

    def _choose_thresholds(self, batches: Sequence[Tensor]) -> None:
        padded = [sequence for batch in batches for sequence in batch]
        whole = (sequence[~sequence[:, 0].isnan()] for sequence in padded)
        sequences = [sequence for sequence in whole if len(sequence)]
        if not sequences:
            return
        # On the CPU, so that a device does not change the choice.
        chosen = torch.randint(len(sequences), (self.outputs,))
        level = torch.rand(self.outputs).to(self.threshold)
        first = 0
        for dilation, count in self.dilations.items():
            part = torch.arange(first, first + count)
            for number in chosen[part].unique().tolist():
                own = part[chosen[part] == number]
                channels = sequences[number].to(self.weight.dtype).T[None]
                outputs = self._outputs(channels, own, dilation)[0].sort(dim=1).values
                # The lower neighbour of the quantile.
                place = (level[own] * outputs.size(1)).long().clamp(max=outputs.size(1) - 1)
                above = ABOVE * outputs.abs().amax(dim=1)
                self.threshold[own] = outputs.gather(1, place[:, None])[:, 0] + above
            first += count


def dilations(count: int, largest: float) -> Counter[int]:
    """How many kernels have each dilation: spread evenly on a logarithmic scale."""
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
