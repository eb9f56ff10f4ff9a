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

from clearhead.errors import ExportError
from clearhead.formats.ctranslate2.folder import TABLE_POSITIONS
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.transformer import Decoder, Encoder, EncoderDecoder
from clearhead.settings import ModelConfig


def check_exportable(config: ModelConfig) -> None:
    """Check that CTranslate2 can run a model exactly as PyTorch does.

    Raises:
        ExportError: it cannot; the error names the setting.
    """
    if config.norm_form != "standard":
        setting, instead = f"norm_form = {config.norm_form!r}", "norm_form = 'standard'"
        why = "its layer norm divides by √(variance + ε), this model's by (std + ε)"
    elif config.norm == "pre" and not config.final_norm:
        setting, instead = "final_norm = false", "final_norm = true"
        why = "its pre-norm encoder and decoder always end with a norm"
    elif config.input_convolution:
        setting = f"input_convolution = {list(config.input_convolution)}"
        instead = "input_convolution = 0"
        why = "its encoder has no convolution over the input"
    else:
        return
    raise ExportError(
        f"model.{setting} cannot be exported to CTranslate2",
        why=why,
        todo=f"use the model as it is, or train one with {instead}",
    )


def transformer_spec(model: EncoderDecoder, config: ModelConfig) -> Any:
    """The model as a `ctranslate2.specs.TransformerSpec`, in float32, without vocabularies.

    `check_exportable` must accept its settings.
    """
    from ctranslate2 import specs

    head = max(config.key_width, config.value_width)
    activations = {
        "relu": specs.Activation.RELU,
        "gelu": specs.Activation.GELU,
        "gelu_tanh": specs.Activation.GELUTanh,
        "swish": specs.Activation.SWISH,
    }
    shape: dict[str, Any] = dict(
        pre_norm=config.norm == "pre",
        activation=activations[config.activation],
        layernorm_embedding=config.embedding_norm,
        # The default width is not given.
        head_dim=None if head * config.n_heads == config.d_model else head,
    )
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, config.n_heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, config.n_heads, **shape)
    _set_input(encoder, encoder.embeddings[0], cast(TokenEmbedding, model.source_input), config)
    _set_input(decoder, decoder.embeddings, model.target_input, config)
    _set_layers(encoder, model.encoder, config, head)
    _set_layers(decoder, model.decoder, config, head)
    _set_linear(decoder.projection, model.output.weight, model.output.bias)
    whole: Any = specs.TransformerSpec(encoder, decoder)
    whole.config.layer_norm_epsilon = config.norm_epsilon
    return whole


def _set_layers(spec: Any, stack: Encoder | Decoder, config: ModelConfig, head: int) -> None:
    layers = cast("Iterable[EncoderLayer | DecoderLayer]", stack.layers)
    for layer_spec, layer in zip(spec.layer, layers, strict=True):
        norms = [cast(nn.Module, residual.norm) for residual in layer.residuals]
        _set_attention(layer_spec.self_attention, layer.self_attention, norms[0], head)
        if isinstance(layer, DecoderLayer):
            _set_attention(layer_spec.attention, layer.cross_attention, norms[1], head)
        _set_norm(layer_spec.ffn.layer_norm, norms[-1])
        hidden, output = layer.feed_forward.hidden, layer.feed_forward.output
        _set_linear(layer_spec.ffn.linear_0, hidden.weight, hidden.bias)
        _set_linear(layer_spec.ffn.linear_1, output.weight, output.bias)
    if config.norm == "pre":
        _set_norm(spec.layer_norm, stack.norm)


def _set_input(spec: Any, embeddings: Any, part: TokenEmbedding, config: ModelConfig) -> None:
    embeddings.weight = _float32(part.embedding.weight)
    spec.scale_embeddings = config.scale_embeddings
    # (positions, d_model): the vectors that are added to embeddings.
    zeros = part.embedding.weight.new_zeros(1, part.max_length or TABLE_POSITIONS, config.d_model)
    # One row more than an output can use: scoring an unfinished hypothesis reads one position
    # beyond it, and ignores the result.
    table = F.pad(part.positions(zeros)[0], (0, 0, 0, 1))
    spec.position_encodings.encodings = _float32(table)
    if config.embedding_norm:
        _set_norm(spec.layernorm_embedding, part.norm)


def _set_attention(spec: Any, part: MultiHeadAttention, norm: nn.Module, head: int) -> None:
    """Set one attention: in self-attention W^Q, W^K and W^V are stacked, else W^K and W^V."""
    *projections, output = spec.linear
    stacks = [(0, 1, 2)] if len(projections) == 1 else [(0,), (1, 2)]
    for projection, stack in zip(projections, stacks, strict=True):
        weight, bias = (
            None if packed is None else _stacked(packed, part, stack, head)
            for packed in (part.packed.weight, part.packed.bias)
        )
        _set_linear(projection, cast(Tensor, weight), bias)
    columns = _padded_heads(part.output.weight.T, part.n_heads, head).T
    _set_linear(output, columns, part.output.bias)
    _set_norm(spec.layer_norm, norm)
    d_k = part.widths[0] // part.n_heads
    spec.queries_scale = d_k**-0.5


def _stacked(packed: Tensor, part: MultiHeadAttention, which: Iterable[int], head: int) -> Tensor:
    """Some of the packed W^Q, W^K and W^V (0, 1 and 2), stacked."""
    parts = packed.split(part.widths)
    return torch.cat([_padded_heads(parts[i], part.n_heads, head) for i in which])


def _padded_heads(rows: Tensor, n_heads: int, head: int) -> Tensor:
    """(heads · width, …) -> (heads · head, …), each head padded with rows of zeros."""
    heads = rows.unflatten(0, (n_heads, -1))
    missing = head - heads.size(1)
    zeros = heads.new_zeros(n_heads, missing, *heads.shape[2:])
    return torch.cat((heads, zeros), dim=1).flatten(0, 1)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = _float32(cast(Tensor, norm.weight))
    spec.beta = _float32(cast(Tensor, norm.bias))


def _set_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _float32(weight)
    if bias is not None:
        spec.bias = _float32(bias)


def _float32(x: Tensor) -> Any:
    return x.detach().float().cpu().contiguous().numpy()
