"""CTranslate2: a translator becomes its specification of a Transformer.

CTranslate2 has one width for the queries, keys and values of a head. Narrower ones are padded with
zeros, which change no product, and queries keep their scale 1/√d_k. Its own sinusoids begin at
position 1, so positions of every kind are exported as a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.decoding.ctranslate2_engine import CTranslate2Engine
from clearhead.decoding.ctranslate2_library import (
    SPECIALS,
    TABLE_POSITIONS,
    TOKENS,
    UNKNOWN,
    ExportedModel,
)
from clearhead.decoding.engine import Hypothesis, numbered
from clearhead.decoding.torch_engine import TorchEngine, trained_translator
from clearhead.folder.model_folder import ModelFolder
from clearhead.formats.equality import GREEDY, UNEQUAL_EXPORT, Comparison, random_sources
from clearhead.formats.registry import check_settings
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.transformer import Decoder, Encoder, EncoderDecoder
from clearhead.settings import ModelConfig
from clearhead.tokenizer import EOS, Tokenizer, read_tokenizers

TOLERANCE = 1e-3
"""The largest difference between log-probabilities of a token that is rounding, in float32."""


def check(found: ModelFolder) -> None:
    """Check that CTranslate2 can run a model exactly as PyTorch does; see `Exporter`."""
    # Its pre-norm encoder and decoder always end with a norm.
    norm = {"model.final_norm": [True]} if found.config.model.norm == "pre" else {}
    has = {"model.norm_form": ["standard"], "model.input_convolution": [()], **norm}
    check_settings(found.config, "CTranslate2", has)


def build(found: ModelFolder, folder: Path) -> list[str]:
    """Write the files of the export, and compare it with the model; see `Exporter`."""
    model = trained_translator(found, torch.device("cpu"))
    tokenizers = read_tokenizers(found)
    spec = transformer_spec(model, found.config.model)
    source_names, target_names = map(token_names, tokenizers)
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    for name, value in TOKENS.items():
        setattr(spec.config, name, value)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    exported = CTranslate2Engine(ExportedModel.of(folder, found.config.model))
    return [compare(TorchEngine(model), exported, len(tokenizers[0]))]


def compare(model: TorchEngine, exported: CTranslate2Engine, source_vocabulary: int) -> str:
    """Compare greedy outputs, and the log-probabilities of the model's; returns a sentence."""
    comparison = Comparison(UNEQUAL_EXPORT, TOLERANCE)
    sources = random_sources(source_vocabulary, model.longest_source)
    ours = [best for (best,) in model.translate(numbered(sources), GREEDY)]
    theirs = [best for (best,) in exported.translate(numbered(sources), GREEDY)]
    scores = exported.score(sources, [output.tokens for output in ours])
    for own, other, found in zip(ours, theirs, scores, strict=True):
        expected = own.token_scores
        comparison.near("log-probabilities of a token", expected, found[: len(expected)])
        apart = [a - b for a, b in zip(expected, other.token_scores, strict=False)]
        comparison.outputs(_steps(own), _steps(other), apart)
    tokens = sum(len(output.token_scores) for output in ours)
    return (
        f"greedy outputs of {len(sources)} random sources {comparison.same_outputs}; the "
        f"log-probabilities of their {tokens} tokens differ by {comparison.largest:.1e} at most"
    )


def _steps(output: Hypothesis) -> tuple[int, ...]:
    return (*output.tokens, EOS) if output.finished else output.tokens


def token_names(tokenizer: Tokenizer) -> list[str]:
    """A unique name for each id: its piece, with # appended while that name is taken."""
    special = {**SPECIALS, tokenizer.unk_id: UNKNOWN}
    taken = set(special.values())
    names = []
    for i, name in enumerate(tokenizer.pieces(range(len(tokenizer)))):
        if i in special:
            names.append(special[i])
            continue
        while name in taken:
            name += "#"
        taken.add(name)
        names.append(name)
    return names


def transformer_spec(model: EncoderDecoder, config: ModelConfig) -> Any:
    """The model as a `ctranslate2.specs.TransformerSpec`, in float32, without vocabularies."""
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
