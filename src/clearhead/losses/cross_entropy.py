"""Cross-entropy with label smoothing, and the divergence of two passes (R-Drop).

`label_loss` is that of a classifier. `projected_cross_entropy` is that of a translator, together
with the projection to the vocabulary before it. It never has the logits of all tokens in memory:
`Sizes` gives the rows of one product (a chunk) and of one softmax (a block).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


def label_loss(
    logits: Float[Tensor, "batch labels"],
    truth: Float[Tensor, "batch labels"],
    weights: Float[Tensor, " labels"],
    smoothing: float,
    multi_label: bool,
) -> Float[Tensor, " batch"]:
    """The loss of each example.

    With one label per example: cross-entropy, `smoothing` of the truth spread evenly over the
    labels (Szegedy et al. 2016, section 7), each example weighted by its class. With `multi_label`:
    the binary cross-entropy of each label, weighted if the example has it; `smoothing` moves the
    truth towards one half.
    """
    if multi_label:
        soft = truth * (1 - smoothing) + smoothing / 2
        each = F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
        return (each * torch.where(truth > 0, weights, 1.0)).sum(dim=-1)
    soft = truth * (1 - smoothing) + smoothing / truth.size(1)
    each = -(soft * logits.log_softmax(dim=-1)).sum(dim=-1)
    return each * (truth @ weights)


def label_divergence(
    logits: Float[Tensor, "two_batches labels"], multi_label: bool
) -> Float[Tensor, " batch"]:
    """Half of KL(p₁‖p₂) + KL(p₂‖p₁) of each example; both halves of `logits` are the same examples.

    Liang et al. 2021, R-Drop, equation 3. With one label per example p is the softmax; with
    `multi_label`, each label has its own Bernoulli distribution.
    """
    if multi_label:
        first, second = logits.chunk(2)
        # Summed over both outcomes, ln(p / q) leaves the difference of the logits.
        difference = first.sigmoid() - second.sigmoid()
    else:
        first, second = logits.log_softmax(dim=-1).chunk(2)
        difference = first.exp() - second.exp()
    return (difference * (first - second)).sum(dim=-1) / 2


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
    the vocabulary (Szegedy et al. 2016, section 7). The loss and the gradient of a chunk of tokens
    are both computed in the forward pass, so that the logits are never in memory at once.

    With `divergence` > 0 the second half of the tokens is another pass over the first half, and
    divergence · (KL(p₁‖p₂) + KL(p₂‖p₁)) / 2 is added for each pair (Liang et al. 2021, R-Drop).

    Returns:
        The loss to differentiate, and the negative log-likelihood alone, without smoothing and
        divergence; both are sums over the tokens.

    Raises:
        ValueError: divergence > 0, and the number of tokens is odd.
    """
    if divergence > 0 and len(targets) % 2:
        raise ValueError(f"{len(targets)} tokens are not two passes over the same tokens")
    # Read here, because inside the function the gradient mode is always off.
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
        sizes = Sizes.of(hidden, len(weight), _product_dtype(hidden))
        products = _Products(hidden, weight, bias, sizes)
        gradients = _Gradients(hidden, weight, bias, sizes) if learns else None
        log_likelihood = torch.zeros((), dtype=torch.float64, device=hidden.device)
        log_normalisers, divergences, uniform = log_likelihood.new_zeros(3).unbind()
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in chunks(hidden, sizes, paired=divergence > 0):
                target = targets[rows, None]
                padded = products.logits(rows)
                logits = padded[: len(target)]
                on_target = products.at(logits, target)
                log_z, sums, chunk_divergence = products.softmax(
                    logits, target, smoothing, divergence, gradients is not None
                )
                log_likelihood += (on_target - log_z).sum(dtype=torch.float64)
                log_normalisers += log_z.sum(dtype=torch.float64)
                divergences += chunk_divergence
                if gradients is not None:
                    gradients.add(rows, padded, sums, products.matrix)
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
        loss = divergence * divergences - (1 - smoothing) * log_likelihood - smoothing * uniform
        loss, negative = loss.to(weight.dtype), -log_likelihood.to(weight.dtype)
        ctx.mark_non_differentiable(negative)
        return loss, negative

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        scale = outputs[0]
        by_bias = None if bias is None else bias * scale
        return hidden * scale.to(hidden.dtype), weight * scale, by_bias, None, None, None, None


class _Products:
    """The logits of a chunk, in autocast's precision, and their softmax, in the weights' precision.

    All chunks use the same memory.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sizes) -> None:
        dtype = _product_dtype(hidden)
        self.states, self.matrix, self.bias = hidden.to(dtype), weight.to(dtype), bias
        self.sizes = sizes
        rows, vocabulary = len(hidden), len(weight)
        height = min(rows + -rows % sizes.multiple, sizes.chunk)
        self.buffer = hidden.new_empty(height, vocabulary, dtype=dtype)
        # If the products have the precision of the softmax, it is computed in place.
        differs = dtype != weight.dtype
        self.wide = weight.new_empty(min(rows, sizes.block), vocabulary) if differs else None

    def logits(self, rows: Any) -> Tensor:
        """The padded logits of these rows, without the bias; the next call overwrites them."""
        states = pad_rows(self.states[rows], self.sizes.multiple)
        return torch.mm(states, self.matrix.T, out=self.buffer[: len(states)])

    def at(self, logits: Tensor, target: Tensor) -> Tensor:
        """The logits (rows,) of the targets (rows, 1)."""
        found = logits.gather(1, target)[:, 0]
        return found if self.bias is None else found + self.bias[target[:, 0]]

    def softmax(
        self, logits: Tensor, target: Tensor, smoothing: float, divergence: float, learns: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The logarithms of the normalisers, the sums of exponentials, and the divergence.

        This takes one exponential per element and no division. If the model `learns`, the logits
        are overwritten with their gradient, without the part of smoothing, each row times its sum.
        """
        if logits.is_cuda and divergence == 0:
            return self._softmax_of_gpu(logits, target, smoothing, learns)
        dtype = logits.dtype if self.wide is None else self.wide.dtype
        highest, sums = logits.new_empty(2, len(logits), 1, dtype=dtype).unbind()
        divergences = torch.zeros((), dtype=torch.float64, device=logits.device)
        for start in range(0, len(logits), self.sizes.block):
            block = slice(start, start + self.sizes.block)
            e = self._widened(logits[block])
            log_p = e.clone() if divergence > 0 else None
            torch.amax(e, dim=-1, keepdim=True, out=highest[block])
            e.sub_(highest[block]).exp_()
            torch.sum(e, dim=-1, keepdim=True, out=sums[block])
            if log_p is not None:
                log_p -= highest[block] + sums[block].log()
                block_divergence, gradient = _divergence(log_p, e / sums[block])
                divergences += block_divergence
                e.addcmul_(gradient, sums[block], value=divergence)
            if learns:
                e.scatter_add_(1, target[block], (smoothing - 1) * sums[block])
                if self.wide is not None:
                    logits[block] = e
        return (highest + sums.log())[:, 0], sums, divergences

    def _softmax_of_gpu(
        self, logits: Tensor, target: Tensor, smoothing: float, learns: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same by one kernel, whose sums are 1: a GPU waits for memory, not for arithmetic."""
        dtype = logits.dtype if self.wide is None else self.wide.dtype
        biased = logits if self.bias is None else logits + self.bias
        log_p = biased.log_softmax(dim=-1, dtype=dtype)
        log_z = self.at(logits, target) - log_p.gather(1, target)[:, 0]
        if learns:
            torch.exp(log_p, out=logits)
            logits.scatter_add_(1, target, logits.new_full(target.shape, smoothing - 1))
        return log_z, torch.ones_like(log_p[:, :1]), log_z.new_zeros((), dtype=torch.float64)

    def _widened(self, logits: Tensor) -> Tensor:
        """The logits in the weights' precision, with the bias; in place if possible."""
        wide = logits if self.wide is None else self.wide[: len(logits)].copy_(logits)
        return wide if self.bias is None else wide.add_(self.bias)


class _Gradients:
    """The gradients by hidden states, weight and bias, summed chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sizes) -> None:
        self.states, self.sizes = hidden, sizes
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, rows: Any, by_logits: Tensor, sums: Tensor, matrix: Tensor) -> None:
        """Add a chunk. Each row of `by_logits` (padded) is the gradient times the row's sum."""
        # Dividing the narrow factors of the products is cheaper than dividing the gradient.
        by_states = (by_logits @ matrix)[: len(sums)]
        self.hidden[rows] = (by_states / sums).to(self.hidden.dtype)
        states = pad_rows((self.states[rows] / sums).to(by_logits.dtype), self.sizes.multiple)
        if self.weight.dtype == by_logits.dtype:
            self.weight.addmm_(by_logits.T, states)
        else:
            self.weight += by_logits.T @ states
        if self.bias is not None:
            inverse = pad_rows((1 / sums).to(by_logits.dtype), self.sizes.multiple)
            self.bias += (inverse.T @ by_logits)[0]

    def add_uniform(self, smoothing: float, states: Tensor, mean_weight: Tensor) -> None:
        """Add the part of label smoothing, which is the same for each entry of the vocabulary.

        `states` is the sum of all hidden states, `mean_weight` the mean row of the weight, both
        (d_model,).
        """
        self.hidden -= (smoothing * mean_weight).to(self.hidden.dtype)
        self.weight -= (smoothing / len(self.weight)) * states
        if self.bias is not None:
            self.bias -= smoothing * len(self.hidden) / len(self.weight)


def _divergence(log_p: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Half of KL(p₁‖p₂) + KL(p₂‖p₁), summed, and its gradient by the logits of both halves."""
    log_p1, log_p2 = log_p.chunk(2)
    p1, p2 = p.chunk(2)
    ratio = log_p1 - log_p2
    forward = (p1 * ratio).sum(dim=-1, keepdim=True)
    backward = -(p2 * ratio).sum(dim=-1, keepdim=True)
    gradient1 = (p1 * (ratio - forward) + p1 - p2) / 2
    gradient2 = (p2 * (-ratio - backward) + p2 - p1) / 2
    total = (forward.sum(dtype=torch.float64) + backward.sum(dtype=torch.float64)) / 2
    return total, torch.cat((gradient1, gradient2))


def _product_dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return hidden.dtype


CHUNK_ELEMENTS = {"cpu": 8_000_000, "cuda": 2**26}
"""Logits of a chunk: 16 MB in bf16, 32 MB in float32; on a GPU 128 MB or 256 MB, since each chunk
takes about thirty kernel launches, whatever its size."""

BLOCK_ELEMENTS = {"cpu": 320_000, "cuda": 2**26}
"""Logits of a block: 1.3 MB in float32, which stay in a processor's L2 cache while they are read
and written about six times."""

PADDED_ROWS = 160
"""The rows of a bf16 product on a CPU are padded with zeros to a multiple of about this number.
oneDNN compiles and keeps a kernel for each number of rows (4 MB for 10,000 logits per row), and the
last chunk of each batch would have its own number of rows (docs/decisions/0011)."""

PADDED_PARTS = 5
"""If a chunk has few rows, the multiple is at most a fifth of it, so that padding stays small."""


class Sizes(NamedTuple):
    """Rows of a chunk and of a block, both even; a chunk is several blocks.

    The rows of a product are padded to a multiple of `multiple`.
    """

    chunk: int
    block: int
    multiple: int

    @classmethod
    def of(cls, hidden: Tensor, vocabulary: int, dtype: torch.dtype) -> Sizes:
        """The sizes for the device of the hidden states and for products of this type."""
        device = hidden.device.type
        chunk, block = (
            max(1, elements.get(device, elements["cpu"]) // vocabulary // 2) * 2
            for elements in (CHUNK_ELEMENTS, BLOCK_ELEMENTS)
        )
        block = min(block, chunk)
        if device != "cpu" or dtype != torch.bfloat16:
            return cls(chunk - chunk % block, block, 1)
        if block > PADDED_ROWS:
            block -= block % PADDED_ROWS
            return cls(chunk - chunk % block, block, PADDED_ROWS)
        multiple = block * max(1, min(PADDED_ROWS // block, chunk // block // PADDED_PARTS))
        return cls(chunk - chunk % multiple, block, multiple)


def chunks(hidden: Tensor, sizes: Sizes, paired: bool) -> Iterator[Any]:
    """Row indices of each chunk; with pairs of passes a block holds both halves of its pairs."""
    tokens = len(hidden)
    if not paired:
        yield from (slice(at, at + sizes.chunk) for at in range(0, tokens, sizes.chunk))
        return
    first = torch.arange(tokens // 2, device=hidden.device)
    order = [rows for part in first.split(sizes.block // 2) for rows in (part, part + len(first))]
    yield from torch.cat(order).split(sizes.chunk)


def pad_rows(rows: Float[Tensor, "rows width"], multiple: int) -> Float[Tensor, "padded width"]:
    """Pad with rows of zeros to a multiple of rows."""
    missing = -len(rows) % multiple
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows
