"""Masks: boolean, and True means "may attend", everywhere.

Each has the shape (batch, heads, queries, keys), with 1 where it is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.model.dropout import Dropout


def padding_mask(ids: Int[Tensor, "batch length"], pad_id: int) -> Bool[Tensor, "batch 1 1 length"]:
    """Every query may attend to every key that is not padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device) -> Bool[Tensor, "1 1 length length"]:
    """Position i may attend to positions up to i (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


# ---- model.attention
# Attention (Vaswani et al. 2017, section 3.2): the formula, its fused twin, and the heads.

Mask = Bool[Tensor, "#batch #heads #queries #keys"]
Queries = Float[Tensor, "batch heads queries d_k"]
Keys = Float[Tensor, "batch heads keys d_k"]
Values = Float[Tensor, "batch heads keys d_v"]
Context = Float[Tensor, "batch heads queries d_v"]

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, Dropout], Tensor]
"""What all attention functions look like: (queries, keys, values, mask, dropout) -> context."""


class KeysValues(NamedTuple):
    """The keys (batch, heads, length, d_k) and values (batch, heads, length, d_v) of an input."""

    keys: Tensor
    values: Tensor


def attention_weights(
    queries: Queries, keys: Keys, mask: Mask | None
) -> Float[Tensor, "batch heads queries keys"]:
    """softmax(QKᵀ/√d_k), equation 1; a query with nothing to attend to has weights of zero."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
    if mask is None:
        return scores.softmax(dim=-1)
    # A finite number, since a row of -inf alone would give NaN here and in the gradient; of half
    # the lowest, so that the sum is one. A sum has no backward pass, as a filling would.
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
    """The same formula by PyTorch's fused kernels, which never hold the weights.

    A CPU has no kernel that drops weights: there PyTorch itself writes the formula out, and holds
    them.
    """
    rate = dropout.rate if dropout.drops else 0.0
    context = F.scaled_dot_product_attention(queries, keys, values, mask, dropout_p=rate)
    if mask is None:
        return context
    return context.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def attention(
    queries: Queries, keys: Keys, values: Values, mask: Mask | None, dropout: Dropout
) -> Context:
    """The one of the two that suits the device and the length (docs/decisions/0013).

    A GPU has a fused kernel for everything. A CPU has none that drops weights, and with the one it
    has, forward and backward pass together are mostly slower where inputs are short.
    """
    short = queries.size(-2) * keys.size(-2) <= SHORT
    if queries.is_cuda or not (short or dropout.drops):
        return fused_attention(queries, keys, values, mask, dropout)
    if queries.dtype != torch.bfloat16:
        return explicit_attention(queries, keys, values, mask, dropout)
    # In float32: small products gain nothing by bf16, in which a CPU compiles one for each shape
    # (docs/decisions/0011), and scores of many digits lose some.
    with torch.autocast(queries.device.type, enabled=False):
        wide = _widened(queries), _widened(keys), _widened(values)
        return explicit_attention(*wide, mask, dropout).to(queries.dtype)


def _widened(x: Tensor) -> Tensor:
    """In float32, head after head, as products would lay it out in one more pass."""
    return x.to(torch.float32, memory_format=torch.contiguous_format)


SHORT = 256 * 256
"""Up to so many weights a head a CPU has them written out even where none is dropped; beyond, the
fused kernel takes over, which holds none."""


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h)W^O, head_i = Attention(QW_i^Q, KW_i^K, VW_i^V) (section 3.2.2).

    W^Q, W^K and W^V of all heads lie packed in one matrix, in this order, so that what is
    projected from one input comes from one product.
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
        queries: Queries,
        keys_values: KeysValues,
        mask: Mask | None,
    ) -> Float[Tensor, "batch queries d_model"]:
        context = self.attend(queries, *keys_values, mask, self.dropout)
        return self.output(context.transpose(1, 2).flatten(2))

    def project(self, x: Float[Tensor, "batch length d_model"]) -> tuple[Tensor, KeysValues]:
        """The queries, keys and values of one input: self-attention."""
        queries, keys, values = self.packed(x).split(self.widths, dim=-1)
        return self._heads(queries), KeysValues(self._heads(keys), self._heads(values))

    def project_queries(self, x: Float[Tensor, "batch length d_model"]) -> Tensor:
        """The queries alone: cross-attention, from the decoder's side."""
        return self._heads(self._product(x, 0, self.widths[0]))

    def project_memory(self, memory: Float[Tensor, "batch length d_model"]) -> KeysValues:
        """The keys and values alone: cross-attention, from the encoder's side."""
        keys_values = self._product(memory, self.widths[0], sum(self.widths))
        keys, values = keys_values.split(self.widths[1:], dim=-1)
        return KeysValues(self._heads(keys), self._heads(values))

    def _product(self, x: Tensor, first: int, last: int) -> Tensor:
        bias = None if self.packed.bias is None else self.packed.bias[first:last]
        return F.linear(x, self.packed.weight[first:last], bias)

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, length, heads · width) -> (batch, heads, length, width)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
