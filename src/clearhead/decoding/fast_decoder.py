"""The fast decoder: the formulas of `model` for one new position, in as few operations as possible.

With a small model most of the time of a step goes into calling operations, not into arithmetic. So
there is no dropout, the scale 1/√d_k is part of the weights of the queries, and weights are
converted for their products once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.decoding.cache import DecodingState
from clearhead.decoding.products import MakeProduct, Product, plain_product
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.dropout import DroppedReLU
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.layers import DecoderLayer, FeedForward, PostNorm, Residual
from clearhead.model.transformer import Encoder, EncoderDecoder

Vectors = Float[Tensor, "rows d_model"]
Step = Callable[[Tensor, DecodingState], Tensor]
"""One sub-layer for the newest position of each row."""


class FastDecoder:
    """The fast decoder of a model in evaluation mode; new weights need a new one."""

    def __init__(self, model: EncoderDecoder, make_product: MakeProduct = plain_product) -> None:
        self.model = model
        self._embed = _embedding(model.target_input)
        self._sublayers: list[Step] = []
        for number, layer in enumerate(cast("Iterable[DecoderLayer]", model.decoder.layers)):
            steps = (
                _self_attention(layer.self_attention, number, make_product),
                _cross_attention(layer.cross_attention, number, make_product),
                _feed_forward(layer.feed_forward, make_product),
            )
            residuals = cast("Iterable[Residual]", layer.residuals)
            self._sublayers += map(_within, residuals, steps)
        self._norm = _norm(model.decoder.norm)
        self._output = make_product(model.output.weight, model.output.bias)
        self._encoder = _with_products(model.encoder, make_product)

    @torch.inference_mode()
    def start(self, source: Int[Tensor, "sentences source"]) -> DecodingState:
        """Encode the sources and begin one row for each."""
        mask = self.model.source_input.mask(source)
        memory = self._encoder(self.model.source_input(source), mask)
        return DecodingState(self.model.decoder.project_memory(memory), mask)

    @torch.inference_mode()
    def step(
        self, tokens: Int[Tensor, " rows"], state: DecodingState
    ) -> Float[Tensor, "rows vocabulary"]:
        """Append one token to each row and return the logits of the next tokens."""
        tokens = state.into_slots(tokens)
        x = self._embed(tokens, state.length)
        state.advance()
        for sublayer in self._sublayers:
            x = sublayer(x, state)
        return self._output(self._norm(state.out_of_slots(x)))


def _embedding(target_input: TokenEmbedding) -> Callable[[Tensor, int], Vectors]:
    """Scaled embeddings of the newest tokens plus PE(position) (sections 3.4 and 3.5)."""
    weight, positions = target_input.embedding.weight.detach(), target_input.positions
    norm = _norm(target_input.norm)
    # A tensor, because PyTorch would convert a number at each step.
    scale = weight.new_tensor(target_input.scale)

    def embed(tokens: Tensor, position: int) -> Vectors:
        rows = weight.index_select(0, tokens).mul_(scale)
        vectors = positions.vectors(position, position + 1)
        return norm(rows if vectors is None else rows.add_(vectors))

    return embed


def _self_attention(attention: MultiHeadAttention, layer: int, make_product: MakeProduct) -> Step:
    """softmax(QKᵀ/√d_k)V over the target of the row (section 3.2)."""
    weight, bias = _scaled_projection(attention)
    # The cache stores each head's value after its key, so a step writes them as one block.
    queries, *others = torch.arange(len(weight), device=weight.device).split(attention.widths)
    head_by_head = torch.cat([part.view(attention.n_heads, -1) for part in others], dim=1)
    order = torch.cat((queries, head_by_head.flatten()))
    project = make_product(weight[order], None if bias is None else bias[order])
    output = make_product(attention.output.weight, attention.output.bias)
    heads, widths = attention.n_heads, (len(queries), head_by_head.numel())

    def step(x: Vectors, state: DecodingState) -> Vectors:
        queries, keys_values = project(x).split_with_sizes(widths, -1)
        past = state.extend(layer, keys_values)
        queries = queries.reshape(len(x) * heads, 1, -1)
        weights = torch.bmm(queries, past.keys).softmax(dim=-1)
        return output(torch.bmm(weights, past.values).view(len(x), -1))

    return step


def _cross_attention(attention: MultiHeadAttention, layer: int, make_product: MakeProduct) -> Step:
    """softmax(QKᵀ/√d_k)V over the source of the row's sentence."""
    weight, bias = _scaled_projection(attention)
    first = attention.widths[0]
    project = make_product(weight[:first], None if bias is None else bias[:first])
    output = make_product(attention.output.weight, attention.output.bias)

    def step(x: Vectors, state: DecodingState) -> Vectors:
        queries, memory = state.by_sentence(project(x)), state.memory(layer)
        scores = torch.baddbmm(state.hidden, queries, memory.keys)
        return output(state.by_row(torch.bmm(scores.softmax(dim=-1), memory.values)))

    return step


def _feed_forward(feed_forward: FeedForward, make_product: MakeProduct) -> Step:
    """max(0, xW₁ + b₁)W₂ + b₂, equation 2."""
    hidden = make_product(feed_forward.hidden.weight, feed_forward.hidden.bias)
    output = make_product(feed_forward.output.weight, feed_forward.output.bias)
    relu = isinstance(feed_forward.activation, DroppedReLU)
    activation = torch.relu_ if relu else feed_forward.activation

    def step(x: Vectors, _: DecodingState) -> Vectors:
        return output(activation(hidden(x)))

    return step


def _within(residual: Residual, sublayer: Step) -> Step:
    """x + Sublayer(LayerNorm(x)), or LayerNorm(x + Sublayer(x))."""
    norm = _norm(residual.norm)
    # The output of a sub-layer is a new tensor, so x may be added in place.
    if isinstance(residual, PostNorm):
        return lambda x, state: norm(sublayer(x, state).add_(x))
    return lambda x, state: sublayer(norm(x), state).add_(x)


def _with_products(encoder: Encoder, make_product: MakeProduct) -> Encoder:
    """The encoder with other products in its linear layers; it shares all other parameters."""
    if make_product is plain_product:
        return encoder
    shared = {id(parameter): parameter for parameter in encoder.parameters()}
    encoder = copy.deepcopy(encoder, shared).eval()
    for module in list(encoder.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, _Product(make_product(child.weight, child.bias)))
    return encoder


class _Product(nn.Module):
    def __init__(self, product: Product) -> None:
        super().__init__()
        self.product = product

    def forward(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        return self.product(x.flatten(0, -2)).unflatten(0, x.shape[:-1])


def _norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    if not isinstance(norm, nn.LayerNorm):
        return norm
    # Read once: reading an attribute of a module takes as long as a small operation.
    shape, weight, bias, epsilon = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def _scaled_projection(attention: MultiHeadAttention) -> tuple[Tensor, Tensor | None]:
    """The packed weights and biases, with those of the queries divided by √d_k."""
    width = attention.widths[0]
    scale = 1 / math.sqrt(width // attention.n_heads)
    weight, bias = attention.packed.weight.detach().clone(), attention.packed.bias
    weight[:width] *= scale
    if bias is not None:
        bias = bias.detach().clone()
        bias[:width] *= scale
    return weight, bias
