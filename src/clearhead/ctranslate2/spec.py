"""Converts a model's parameters to CTranslate2's specification of a Transformer.

CTranslate2 has one width for the queries, keys and values of a head. Narrower ones are padded with
zeros, which change no product, and queries keep their scale 1/√d_k. Its own sinusoids begin at
position 1, so positions of every kind are exported as a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.ctranslate2.folder import TABLE_POSITIONS
from clearhead.errors import ExportError
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.layers import DecoderLayer, EncoderLayer, FeedForward
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import Learned, ModelConfig


def check_exportable(config: ModelConfig) -> None:
    """Check that CTranslate2 can run a model exactly as PyTorch does.

    Raises:
        ExportError: it cannot; the error names the setting.
    """
    if config.norm_form != "standard":
        raise ExportError(
            f"model.norm_form = {config.norm_form!r} cannot be exported to CTranslate2",
            why="its layer norm divides by √(variance + ε), this model's by (std + ε)",
            todo="use the model as it is, or train one with norm_form = 'standard'",
        )
    if config.norm == "pre" and not config.final_norm:
        raise ExportError(
            "model.final_norm = false cannot be exported to CTranslate2",
            why="its pre-norm encoder and decoder always end with a norm",
            todo="use the model as it is, or train one with final_norm = true",
        )
    if config.input_convolution:
        raise ExportError(
            f"model.input_convolution = {list(config.input_convolution)} cannot be exported to "
            "CTranslate2",
            why="its encoder has no convolution over the input",
            todo="use the model as it is, or train one with input_convolution = 0",
        )


def transformer_spec(model: EncoderDecoder, config: ModelConfig) -> Any:
    """The model as a `ctranslate2.specs.TransformerSpec`, in float32, without vocabularies.

    Raises:
        ExportError: CTranslate2 does not support a setting of the model.
    """
    from ctranslate2 import specs

    check_exportable(config)
    head = max(config.key_width, config.value_width)
    activations = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}
    shape: dict[str, Any] = dict(
        pre_norm=config.norm == "pre",
        activation=activations[config.activation],
        # The default width is not given.
        head_dim=None if head * config.n_heads == config.d_model else head,
    )
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, config.n_heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, config.n_heads, **shape)
    _set_encoder(encoder, model, config, head)
    _set_decoder(decoder, model, config, head)
    whole: Any = specs.TransformerSpec(encoder, decoder)
    whole.config.layer_norm_epsilon = config.norm_epsilon
    return whole


def _set_encoder(spec: Any, model: EncoderDecoder, config: ModelConfig, head: int) -> None:
    source_input = cast(TokenEmbedding, model.source_input)
    _set_input(spec, spec.embeddings[0], source_input, config)
    layers = cast("Iterable[EncoderLayer]", model.encoder.layers)
    for layer_spec, layer in zip(spec.layer, layers, strict=True):
        attention_norm, feed_norm = _norms(layer)
        _set_self_attention(layer_spec.self_attention, layer.self_attention, attention_norm, head)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, feed_norm)
    if config.norm == "pre":
        _set_norm(spec.layer_norm, model.encoder.norm)


def _set_decoder(spec: Any, model: EncoderDecoder, config: ModelConfig, head: int) -> None:
    _set_input(spec, spec.embeddings, model.target_input, config)
    layers = cast("Iterable[DecoderLayer]", model.decoder.layers)
    for layer_spec, layer in zip(spec.layer, layers, strict=True):
        target_norm, source_norm, feed_norm = _norms(layer)
        _set_self_attention(layer_spec.self_attention, layer.self_attention, target_norm, head)
        _set_cross_attention(layer_spec.attention, layer.cross_attention, source_norm, head)
        _set_feed_forward(layer_spec.ffn, layer.feed_forward, feed_norm)
    if config.norm == "pre":
        _set_norm(spec.layer_norm, model.decoder.norm)
    _set_linear(spec.projection, model.output.weight, model.output.bias)


def _set_input(spec: Any, embeddings: Any, part: TokenEmbedding, config: ModelConfig) -> None:
    embeddings.weight = _float32(part.embedding.weight)
    spec.scale_embeddings = config.scale_embeddings
    spec.position_encodings.encodings = _position_table(part, config)


def _position_table(part: TokenEmbedding, config: ModelConfig) -> Any:
    """(positions, d_model) the vectors that are added to embeddings; zeros without positions.

    The table has one row more than an output can use: scoring an unfinished hypothesis reads one
    position beyond it, and ignores the result.
    """
    positions = TABLE_POSITIONS
    if isinstance(config.positions, Learned):
        positions = config.positions.max_length
    nothing = part.embedding.weight.new_zeros(1, positions, config.d_model)
    return _float32(F.pad(part.positions(nothing)[0], (0, 0, 0, 1)))


def _norms(layer: EncoderLayer | DecoderLayer) -> list[nn.Module]:
    """The norm of each residual of a layer, in order."""
    return [cast(nn.Module, residual.norm) for residual in layer.residuals]


def _set_self_attention(spec: Any, part: MultiHeadAttention, norm: nn.Module, head: int) -> None:
    packed, output = spec.linear
    _set_packed(packed, part, (0, 1, 2), head)
    _set_attention(spec, output, part, norm, head)


def _set_cross_attention(spec: Any, part: MultiHeadAttention, norm: nn.Module, head: int) -> None:
    queries, keys_values, output = spec.linear
    _set_packed(queries, part, (0,), head)
    _set_packed(keys_values, part, (1, 2), head)
    _set_attention(spec, output, part, norm, head)


def _set_attention(
    spec: Any, output: Any, part: MultiHeadAttention, norm: nn.Module, head: int
) -> None:
    """The parts of both kinds of attention: output projection, scale and norm."""
    _set_norm(spec.layer_norm, norm)
    columns = _padded_heads(part.output.weight.T, part.n_heads, head).T
    _set_linear(output, columns, part.output.bias)
    d_k = part.widths[0] // part.n_heads
    spec.queries_scale = d_k**-0.5


def _set_packed(spec: Any, part: MultiHeadAttention, which: tuple[int, ...], head: int) -> None:
    """Some of W^Q, W^K and W^V (0, 1 and 2), stacked."""

    def rows(packed: Tensor) -> Tensor:
        parts = packed.split(part.widths)
        return torch.cat([_padded_heads(parts[i], part.n_heads, head) for i in which])

    bias = part.packed.bias
    _set_linear(spec, rows(part.packed.weight), None if bias is None else rows(bias))


def _padded_heads(rows: Tensor, n_heads: int, head: int) -> Tensor:
    """(heads · width, …) -> (heads · head, …), each head padded with rows of zeros."""
    heads = rows.unflatten(0, (n_heads, -1))
    missing = head - heads.size(1)
    zeros = heads.new_zeros(n_heads, missing, *heads.shape[2:])
    return torch.cat((heads, zeros), dim=1).flatten(0, 1)


def _set_feed_forward(spec: Any, part: FeedForward, norm: nn.Module) -> None:
    _set_norm(spec.layer_norm, norm)
    _set_linear(spec.linear_0, part.hidden.weight, part.hidden.bias)
    _set_linear(spec.linear_1, part.output.weight, part.output.bias)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _float32(cast(Tensor, norm.weight))
    spec.beta = _float32(cast(Tensor, norm.bias))


def _set_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _float32(weight)
    if bias is not None:
        spec.bias = _float32(bias)


def _float32(x: Tensor) -> Any:
    return x.detach().float().cpu().contiguous().numpy()
