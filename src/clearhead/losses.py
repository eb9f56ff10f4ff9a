"""Cross-entropy with label smoothing, in chunks, together with the projection before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ELEMENTS = {"cpu": 4_000_000, "cuda": 2**26}
"""Logits of a chunk: in float32 16 MB, which a processor's cache can hold; on a GPU 256 MB, for
there each chunk costs some thirty launches, however small it is. bf16 takes half as much besides, a
divergence several times as much."""


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
        learns = learns and any(ctx.needs_input_grad)
        products = _Products(hidden, weight, bias)
        gradients = _Gradients(hidden, weight, bias) if learns else None
        log_likelihood = torch.zeros((), dtype=torch.float64, device=hidden.device)
        log_normalisers, parted, uniform = log_likelihood.new_zeros(3).unbind()
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in _chunks(hidden, len(weight), paired=divergence > 0):
                logits, target = products.logits(rows), targets[rows, None]
                on_target = logits.gather(1, target)[:, 0]
                log_p = logits.clone() if divergence > 0 else None
                log_z, e, sums = _exponentials(logits)
                log_likelihood += (on_target - log_z).sum(dtype=torch.float64)
                log_normalisers += log_z.sum(dtype=torch.float64)
                # e becomes the gradient by the logits, but for what smoothing adds, each row times
                # its sum.
                if log_p is not None:
                    apart, slope = _divergence(log_p.sub_(log_z[:, None]), e / sums)
                    parted += apart
                    e.addcmul_(slope, sums, value=divergence)
                if gradients is not None:
                    e.scatter_add_(1, target, (smoothing - 1) * sums)
                    gradients.add(rows, products.rounded(e), sums, products.matrix)
            if smoothing > 0:
                # The mean logit of a row is its product with the mean weight.
                mean_weight, states = weight.mean(dim=0), hidden.sum(dim=0, dtype=weight.dtype)
                uniform = (states.double() * mean_weight.double()).sum() - log_normalisers
                if bias is not None:
                    uniform += len(hidden) * bias.double().mean()
                if gradients is not None:
                    gradients.add_uniform(smoothing, states, mean_weight)
        if gradients is not None:
            ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        loss = divergence * parted - (1 - smoothing) * log_likelihood - smoothing * uniform
        loss, negative = loss.to(weight.dtype), -log_likelihood.to(weight.dtype)
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


class _Products:
    """The logits of a chunk, made in autocast's precision; the softmax over them never is.

    All chunks share their memory, which is claimed once.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        dtype = _product_dtype(hidden)
        self.states, self.matrix, self.bias = hidden.to(dtype), weight.to(dtype), bias
        shape = min(len(hidden), _chunk_rows(hidden, len(weight))), len(weight)
        self.wide = hidden.new_empty(shape, dtype=weight.dtype)
        self.products = self.wide if dtype == weight.dtype else hidden.new_empty(shape, dtype=dtype)

    def logits(self, rows: Any) -> Tensor:
        """Of these rows, in the weight's precision; overwritten by the next call."""
        states = self.states[rows]
        products, logits = self.products[: len(states)], self.wide[: len(states)]
        torch.mm(states, self.matrix.T, out=products)
        if products.dtype != logits.dtype:
            logits.copy_(products)
        return logits if self.bias is None else logits.add_(self.bias)

    def rounded(self, by_logits: Tensor) -> Tensor:
        """In the precision of products, where the logits lay."""
        products = self.products[: len(by_logits)]
        return by_logits if products.dtype == by_logits.dtype else products.copy_(by_logits)


class _Gradients:
    """The gradients of the loss by its inputs, summed chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.states = hidden
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, rows: Any, by_logits: Tensor, sums: Tensor, matrix: Tensor) -> None:
        """`by_logits` has each row times its sum; dividing the narrow factors is cheaper."""
        self.hidden[rows] = ((by_logits @ matrix) / sums).to(self.hidden.dtype)
        states = (self.states[rows] / sums).to(by_logits.dtype)
        if self.weight.dtype == by_logits.dtype:
            self.weight.addmm_(by_logits.T, states)
        else:
            self.weight += by_logits.T @ states
        if self.bias is not None:
            self.bias += (1 / sums[:, 0]).to(by_logits.dtype) @ by_logits

    def add_uniform(self, smoothing: float, states: Tensor, mean_weight: Tensor) -> None:
        """What label smoothing adds: the same for each entry of the vocabulary.

        `states` is the sum of all rows, as `mean_weight` of size d_model.
        """
        self.hidden -= (smoothing * mean_weight).to(self.hidden.dtype)
        self.weight -= (smoothing / len(self.weight)) * states
        if self.bias is not None:
            self.bias -= smoothing * len(self.hidden) / len(self.weight)


def _exponentials(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a softmax of each row is made of, with one exponential an element and no division.

    Returns:
        The logarithm of the sum of exponentials, (rows); exp(logits - highest), in place of the
        logits; and the sums of that, (rows, 1).
    """
    highest = logits.amax(dim=-1, keepdim=True)
    e = logits.sub_(highest).exp_()
    sums = e.sum(dim=-1, keepdim=True)
    return (highest + sums.log())[:, 0], e, sums


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


def _chunk_rows(hidden: Tensor, vocabulary: int) -> int:
    """The most rows of a chunk; an even number, so that pairs fit."""
    elements = CHUNK_ELEMENTS.get(hidden.device.type, CHUNK_ELEMENTS["cpu"])
    return max(1, elements // vocabulary // 2) * 2


def _chunks(hidden: Tensor, vocabulary: int, paired: bool) -> Iterator[Any]:
    """Row indices of each chunk; a pair of passes stays together, its halves in order."""
    tokens, size = len(hidden), _chunk_rows(hidden, vocabulary)
    if not paired:
        yield from (slice(start, start + size) for start in range(0, tokens, size))
        return
    half, size = tokens // 2, size // 2
    for start in range(0, half, size):
        first = torch.arange(start, min(start + size, half), device=hidden.device)
        yield torch.cat((first, first + half))
