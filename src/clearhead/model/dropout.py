"""Dropout (Srivastava et al. 2014); on a CPU one random byte decides for each number."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Sets a share `rate` of the numbers to zero while training and scales up the others.

    On a CPU, drawing a random float for each number takes a sixth of a training step. A random
    byte is enough, so `rate` is rounded there to a multiple of 1/256.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def drops(self) -> bool:
        """Whether anything is set to zero: while training, and at a rate above 0."""
        return self.training and self.rate > 0.0

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.drops:
            return x
        # A compiler generates code for PyTorch's own dropout, not for random bytes of numpy.
        if x.is_cuda or torch.compiler.is_compiling():
            return F.dropout(x, self.rate)
        return _ScaledMask.apply(x, *_kept(x.shape, self.rate))

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class DroppedReLU(Dropout):
    """Dropout of max(0, x), with less memory than the two modules in sequence.

    The gradient passes where the result is not 0, so the backward pass needs the result alone,
    which the next product keeps anyway.
    """

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.drops:
            return F.relu(x)
        if torch.compiler.is_compiling() and not x.is_cuda:
            return F.dropout(F.relu(x), self.rate)
        return _DroppedReLU.apply(x, self.rate)


def _kept(shape: torch.Size, rate: float) -> tuple[UInt8[Tensor, "..."], float]:
    """On a CPU: 1 for a number that is kept and 0 for others, and the scale of those kept."""
    dropped = min(max(1, round(rate * 256)), 255)
    # In place, so that the result is bytes: PyTorch's loops over booleans are not vectorised.
    return random_bytes(shape).ge_(dropped), 256 / (256 - dropped)


def random_bytes(shape: torch.Size) -> Tensor:
    """Independent uniform bytes (uint8) of this shape on the CPU.

    PyTorch's generator draws the seed. NumPy's SFC64 takes a third of PyTorch's time.
    """
    count = shape.numel()
    seed = int(torch.empty((), dtype=torch.int64).random_(0, None))
    words = np.random.SFC64(seed).random_raw((count + 7) // 8)
    return torch.from_numpy(words.view(np.uint8))[:count].view(shape)


class _ScaledMask(torch.autograd.Function):
    """x · kept · scale; the gradient passes the same mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: UInt8[Tensor, "..."], scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return (kept * x).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (kept,), (gradient,) = ctx.saved_tensors, gradients
        return (kept * gradient).mul_(ctx.scale), None, None


class _DroppedReLU(torch.autograd.Function):
    """max(0, x) · kept · scale; the gradient passes where that is not 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        if x.is_cuda:
            y, ctx.scale = F.dropout(F.relu(x), rate), 1 / (1 - rate)
        else:
            kept, ctx.scale = _kept(x.shape, rate)
            # Not in place: x is a view of a product, and overwriting a view makes autograd copy.
            y = F.relu(x).mul_(kept).mul_(ctx.scale)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (y,), (gradient,) = ctx.saved_tensors, gradients
        return torch.ops.aten.threshold_backward(gradient, y, 0).mul_(ctx.scale), None
