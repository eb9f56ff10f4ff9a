"""Attention (Vaswani et al. 2017, section 3.2): masks, the formula, and the heads.

Masks are boolean, and True means "may attend". Their shape is (batch, heads, queries, keys), with 1
for a dimension along which they do not vary; `MultiHeadAttention` also takes (batch, keys) and
(batch, queries, keys).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.errors import ConfigError
from clearhead.model.dropout import Dropout

Mask = Bool[Tensor, "#batch #heads #queries #keys"]
Queries = Float[Tensor, "batch heads queries d_k"]
Keys = Float[Tensor, "batch heads keys d_k"]
Values = Float[Tensor, "batch heads keys d_v"]
Context = Float[Tensor, "batch heads queries d_v"]

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, Dropout], Tensor]
"""The signature of an attention function: (queries, keys, values, mask, dropout) -> context."""


class KeysValues(NamedTuple):
    """The keys (batch, heads, length, d_k) and values (batch, heads, length, d_v) of an input."""

    keys: Tensor
    values: Tensor


def padding_mask(ids: Int[Tensor, "batch length"], pad_id: int) -> Bool[Tensor, "batch 1 1 length"]:
    """(batch, 1, 1, length): every query may attend to every key that is not padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(
    length: int, device: torch.device | None = None
) -> Bool[Tensor, "1 1 length length"]:
    """(1, 1, length, length): position i may attend to positions up to i (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def target_mask(mask: Bool[Tensor, "..."] | None, x: Float[Tensor, "batch length width"]) -> Mask:
    """The mask of a decoder's self-attention over x: causal, unless another one replaces it.

    A mask of keys, (batch, keys), is of padding: it adds to the causal one.
    """
    if mask is not None and mask.dim() != 2:
        return full_mask(mask)
    causal = causal_mask(x.size(1), x.device)
    return causal if mask is None else full_mask(mask) & causal


def full_mask(mask: Bool[Tensor, "..."]) -> Mask:
    """A mask of shape (batch, keys), (batch, queries, keys) or the full one, in the full one.

    Raises:
        ConfigError: the mask is not boolean, or has another number of dimensions.
    """
    match mask.dtype, mask.dim():
        case torch.bool, 4:
            return mask
        case torch.bool, 3:
            return mask[:, None]
        case torch.bool, 2:
            return mask[:, None, None]
    raise ConfigError(
        f"a mask of {mask.dtype} with {mask.dim()} dimensions is none",
        why="masks are boolean, True where a query may attend to a key, and have the shape (batch, "
        "keys), (batch, queries, keys) or (batch, heads, queries, keys)",
    )


def _check_size(mask: Mask, shape: tuple[int, int, int, int]) -> None:
    sizes = zip(mask.shape, shape, (1, 1, 1, 0), strict=True)
    if not all(own in (size, alike) for own, size, alike in sizes):
        raise ConfigError(
            f"a mask of shape {tuple(mask.shape)} does not fit",
            why=f"the attention has (batch, heads, queries, keys) = {shape}",
            todo="give (batch, keys), or (batch, queries, keys), in which 1 stands for all",
        )


def attention_weights(
    queries: Queries, keys: Keys, mask: Mask | None
) -> Float[Tensor, "batch heads queries keys"]:
    """softmax(QKᵀ/√d_k), equation 1; a query with nothing to attend to has weights of zero."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
    if mask is None:
        return scores.softmax(dim=-1)
    # A finite number, because a row of only -inf gives NaN here and in the gradient. Half of the
    # lowest, so that the sum is finite. Adding has no backward pass, `masked_fill` has.
    hidden = (~mask).to(scores.dtype) * (torch.finfo(scores.dtype).min / 2)
    return (scores + hidden).softmax(dim=-1) * mask.any(dim=-1, keepdim=True)


def explicit_attention(
    queries: Queries, keys: Keys, values: Values, mask: Mask | None, dropout: Dropout
) -> Context:
    """softmax(QKᵀ/√d_k)V, equation 1, written out."""
    return dropout(attention_weights(queries, keys, mask)) @ values


def fused_attention(
    queries: Queries, keys: Keys, values: Values, mask: Mask | None, dropout: Dropout
) -> Context:
    """The same formula by PyTorch's fused kernels, which do not keep the weights in memory.

    PyTorch has no fused CPU kernel with dropout: there it computes the formula step by step and
    keeps the weights.
    """
    rate = dropout.rate if dropout.drops else 0.0
    context = F.scaled_dot_product_attention(queries, keys, values, mask, dropout_p=rate)
    if mask is None:
        return context
    return context.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def attention(
    queries: Queries, keys: Keys, values: Values, mask: Mask | None, dropout: Dropout
) -> Context:
    """Explicit or fused attention, whichever is faster on the device (docs/decisions/0013).

    On a GPU the fused kernel always is. On a CPU there is none with dropout, and without dropout
    the forward and backward pass together are slower for short inputs.
    """
    short = queries.size(-2) * keys.size(-2) <= SHORT
    if queries.is_cuda or not (short or dropout.drops):
        return fused_attention(queries, keys, values, mask, dropout)
    if queries.dtype != torch.bfloat16:
        return explicit_attention(queries, keys, values, mask, dropout)
    # In float32: small products are no faster in bf16, for which a CPU compiles a kernel per shape
    # (docs/decisions/0011), and large scores would lose digits.
    with torch.autocast(queries.device.type, enabled=False):
        wide = _widened(queries), _widened(keys), _widened(values)
        return explicit_attention(*wide, mask, dropout).to(queries.dtype)


def _widened(x: Tensor) -> Tensor:
    """In float32 and contiguous, in one pass: the product would make it contiguous in another."""
    return x.to(torch.float32, memory_format=torch.contiguous_format)


SHORT = 256 * 256
"""Weights per head up to which explicit attention without dropout is faster on a CPU."""


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h)W^O, head_i = Attention(QW_i^Q, KW_i^K, VW_i^V) (section 3.2.2).

    W^Q, W^K and W^V of all heads are packed in one matrix, in this order, so that one product
    makes all projections of an input.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_k: int,
        d_v: int,
        bias: bool,
        dropout: Dropout,
        attend: Attend = attention,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.widths = (n_heads * d_k, n_heads * d_k, n_heads * d_v)
        self.packed = nn.Linear(d_model, sum(self.widths), bias=bias)
        self.output = nn.Linear(n_heads * d_v, d_model, bias=bias)
        self.dropout = dropout
        self.attend = attend

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        memory: Float[Tensor, "batch keys d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch queries d_model"]:
        """Attention of each position of x to the memory, or else to x itself.

        Raises:
            ConfigError: the mask has no shape of a mask, see `full_mask`.
        """
        if mask is not None:
            mask = full_mask(mask)
            keys = (x if memory is None else memory).size(1)
            _check_size(mask, (x.size(0), self.n_heads, x.size(1), keys))
        if memory is None:
            queries, keys_values = self.project(x)
        else:
            queries, keys_values = self.project_queries(x), self.project_memory(memory)
        context = self.attend(queries, *keys_values, mask, self.dropout)
        return self.output(context.transpose(1, 2).flatten(2))

    def project(self, x: Float[Tensor, "batch length d_model"]) -> tuple[Tensor, KeysValues]:
        """The queries, keys and values of one input: self-attention."""
        queries, keys, values = self.packed(x).split(self.widths, dim=-1)
        return self._heads(queries), KeysValues(self._heads(keys), self._heads(values))

    def project_queries(self, x: Float[Tensor, "batch length d_model"]) -> Tensor:
        """The queries alone: the decoder's side of cross-attention."""
        return self._heads(self._product(x, 0, self.widths[0]))

    def project_memory(self, memory: Float[Tensor, "batch length d_model"]) -> KeysValues:
        """The keys and values alone: the encoder's side of cross-attention."""
        keys_values = self._product(memory, self.widths[0], sum(self.widths))
        keys, values = keys_values.split(self.widths[1:], dim=-1)
        return KeysValues(self._heads(keys), self._heads(values))

    def _product(self, x: Tensor, first: int, last: int) -> Tensor:
        bias = None if self.packed.bias is None else self.packed.bias[first:last]
        return F.linear(x, self.packed.weight[first:last], bias)

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, length, heads · width) -> (batch, heads, length, width)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
