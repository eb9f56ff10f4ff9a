"""Cross-entropy with label smoothing, in chunks, together with the projection before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ELEMENTS = {"cpu": 2_000_000, "cuda": 2**26}
"""Logits held at a time: in float32 8 MB, which a processor's cache can hold; on a GPU 256 MB, for
there each chunk costs some thirty launches, however small it is."""


def projected_cross_entropy(
    hidden: Float[Tensor, "tokens d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    bias: Float[Tensor, " vocabulary"] | None,
    targets: Int[Tensor, " tokens"],
    smoothing: float = 0.0,
    divergence: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The summed loss of the targets under softmax(hidden · weightᵀ + bias).

    The target distribution keeps 1 − smoothing on the target and spreads `smoothing` evenly over
    the vocabulary (Szegedy et al. 2016, section 7). The logits are never held whole: each chunk
    of tokens makes its loss and its gradient at once, in the forward pass.

    With `divergence` > 0 the second half of the tokens is another pass over the first half, and
    divergence · (KL(p₁‖p₂) + KL(p₂‖p₁)) / 2 is added for each pair (Liang et al. 2021, R-Drop).

    Returns:
        The loss to differentiate, and the negative log-likelihood alone, without smoothing and
        divergence; both are sums over the tokens.

    Raises:
        ValueError: divergence > 0, but the tokens do not come in pairs.
    """
    if divergence > 0 and len(targets) % 2:
        raise ValueError(f"{len(targets)} tokens are no pairs of two passes")
    # Asked here, since within the function the gradient mode is always off.
    learns = torch.is_grad_enabled()
    return _ProjectedCrossEntropy.apply(
        hidden, weight, bias, targets, smoothing, divergence, learns
    )


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        divergence: float,
        learns: bool,
    ) -> tuple[Tensor, Tensor]:
        loss = torch.zeros((), dtype=torch.float64, device=hidden.device)
        likelihood = torch.zeros_like(loss)
        learns = learns and any(ctx.needs_input_grad)
        gradients = _Gradients(hidden, weight, bias) if learns else None
        dtype = _product_dtype(hidden)
        states, matrix = hidden.to(dtype), weight.to(dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in _chunks(hidden, len(weight), paired=divergence > 0):
                # The products are made in autocast's precision; the softmax never is.
                logits = (states[rows] @ matrix.T).to(weight.dtype)
                if bias is not None:
                    logits += bias
                target = targets[rows, None]
                mean, on_target = logits.mean(dim=-1), logits.gather(1, target)[:, 0]
                log_z, p = _softmax(logits, in_place=divergence == 0)
                log_likelihood = (on_target - log_z).sum(dtype=torch.float64)
                likelihood += log_likelihood
                loss -= (1 - smoothing) * log_likelihood
                gradient = p
                if divergence > 0:
                    parted, slope = _divergence(logits - log_z[:, None], p)
                    loss += divergence * parted
                    gradient += divergence * slope
                if smoothing > 0:
                    loss -= smoothing * (mean - log_z).sum(dtype=torch.float64)
                    gradient -= smoothing / len(weight)
                if gradients is not None:
                    kept = gradient.new_full((1, 1), smoothing - 1).expand_as(target)
                    gradient.scatter_add_(1, target, kept)
                    gradients.add(rows, gradient.to(dtype), states, matrix)
        if gradients is not None:
            ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        loss, negative = loss.to(weight.dtype), -likelihood.to(weight.dtype)
        ctx.mark_non_differentiable(negative)
        return loss, negative

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        scale = outputs[0]
        return (
            *(hidden * scale.to(hidden.dtype), weight * scale),
            *(None if bias is None else bias * scale, None, None, None, None),
        )


class _Gradients:
    """The gradients of the loss by its inputs, summed chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, rows: Any, by_logits: Tensor, states: Tensor, matrix: Tensor) -> None:
        self.hidden[rows] = (by_logits @ matrix).to(self.hidden.dtype)
        if self.weight.dtype == by_logits.dtype:
            self.weight.addmm_(by_logits.T, states[rows])
        else:
            self.weight += by_logits.T @ states[rows]
        if self.bias is not None:
            self.bias += by_logits.sum(dim=0)


def _softmax(logits: Tensor, in_place: bool) -> tuple[Tensor, Tensor]:
    """The logarithm of the sum of exponentials of each row, and the softmax.

    One exponential an element, where log_softmax followed by exp takes two.
    """
    highest = logits.amax(dim=-1, keepdim=True)
    p = logits.sub_(highest) if in_place else logits - highest
    sums = p.exp_().sum(dim=-1, keepdim=True)
    return (highest + sums.log())[:, 0], p.div_(sums)


def _divergence(log_p: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Half of KL(p₁‖p₂) + KL(p₂‖p₁), summed, and its gradient by the logits of both halves."""
    log_p1, log_p2 = log_p.chunk(2)
    p1, p2 = p.chunk(2)
    ratio = log_p1 - log_p2
    forward = (p1 * ratio).sum(dim=-1, keepdim=True)
    backward = -(p2 * ratio).sum(dim=-1, keepdim=True)
    slope1 = (p1 * (ratio - forward) + p1 - p2) / 2
    slope2 = (p2 * (-ratio - backward) + p2 - p1) / 2
    total = (forward.sum(dtype=torch.float64) + backward.sum(dtype=torch.float64)) / 2
    return total, torch.cat((slope1, slope2))


def _product_dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def _chunks(hidden: Tensor, vocabulary: int, paired: bool) -> Iterator[Any]:
    """Row indices of each chunk; a pair of passes stays together, its halves in order."""
    tokens = len(hidden)
    elements = CHUNK_ELEMENTS.get(hidden.device.type, CHUNK_ELEMENTS["cpu"])
    size = max(1, elements // vocabulary)
    if not paired:
        yield from (slice(start, start + size) for start in range(0, tokens, size))
        return
    half, size = tokens // 2, max(1, size // 2)
    for start in range(0, half, size):
        first = torch.arange(start, min(start + size, half), device=hidden.device)
        yield torch.cat((first, first + half))
