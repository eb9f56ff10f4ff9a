"""The layers of both stacks (section 3.1): sub-layers, their norms and their residuals."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.model.attention import MultiHeadAttention, target_mask
from clearhead.model.dropout import Dropout

Vectors = Float[Tensor, "batch length d_model"]
Memory = Float[Tensor, "batch source d_model"]
SourceMask = Bool[Tensor, "batch 1 1 source"]
AnyMask = Bool[Tensor, "..."]
"""True means "may attend"; (batch, keys), (batch, queries, keys), (batch, heads, queries, keys)."""


class StdPlusEpsilonNorm(nn.Module):
    """gain · (x − mean) / (std + ε) + bias, with the unbiased standard deviation.

    A variant of layer normalisation (Ba et al. 2016). PyTorch's `LayerNorm` divides by
    √(variance + ε), with the biased variance.
    """

    def __init__(self, d_model: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.epsilon = epsilon

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        centred = x - x.mean(dim=-1, keepdim=True)
        return self.weight * centred / (x.std(dim=-1, keepdim=True) + self.epsilon) + self.bias


class Residual(nn.Module):
    """A sub-layer's input and output, added and normalised."""

    def __init__(self, norm: nn.Module, dropout: Dropout) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = dropout


class PostNorm(Residual):
    """LayerNorm(x + Sublayer(x)), as in the paper (section 3.1)."""

    def forward(self, x: Vectors, sublayer: Callable[[Tensor], Tensor]) -> Vectors:
        return self.norm(x + self.dropout(sublayer(x)))


class PreNorm(Residual):
    """x + Sublayer(LayerNorm(x)) (Xiong et al. 2020); the stack ends with one more norm."""

    def forward(self, x: Vectors, sublayer: Callable[[Tensor], Tensor]) -> Vectors:
        return x + self.dropout(sublayer(self.norm(x)))


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂, equation 2.

    `activation` includes the dropout of the hidden units.
    """

    def __init__(self, d_model: int, d_ff: int, bias: bool, activation: nn.Module) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = activation
        self.output = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Vectors) -> Vectors:
        return self.output(self.activation(self.hidden(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        residuals: tuple[Residual, Residual],
        output_dropout: Dropout,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.residuals = nn.ModuleList(residuals)
        self.output_dropout = output_dropout

    def forward(self, x: Vectors, mask: AnyMask | None = None) -> Vectors:
        attend_residual, feed_residual = self.residuals
        x = attend_residual(x, lambda y: self.self_attention(y, mask=mask))
        x = feed_residual(x, self.feed_forward)
        return self.output_dropout(x)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, the feed-forward network.

    Without a mask, or with one of padding, a position attends to itself and to those before it.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        residuals: tuple[Residual, Residual, Residual],
        output_dropout: Dropout,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.residuals = nn.ModuleList(residuals)
        self.output_dropout = output_dropout

    def forward(
        self,
        x: Vectors,
        memory: Memory,
        mask: AnyMask | None = None,
        memory_mask: AnyMask | None = None,
    ) -> Vectors:
        mask = target_mask(mask, x)
        target_residual, source_residual, feed_residual = self.residuals
        x = target_residual(x, lambda y: self.self_attention(y, mask=mask))
        x = source_residual(x, lambda y: self.cross_attention(y, memory, memory_mask))
        x = feed_residual(x, self.feed_forward)
        return self.output_dropout(x)


def fixed(values: Tensor) -> nn.Parameter:
    """A parameter that is saved with the others, and not trained by steps."""
    return nn.Parameter(values, requires_grad=False)
