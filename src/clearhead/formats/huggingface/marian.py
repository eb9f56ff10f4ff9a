"""Marian translators (OPUS-MT): their settings and tensors as those of clearhead, and back.

Pegasus is the same model with pre-norm layers. Both compute the same function as clearhead's
encoder-decoder. Three things differ:

- Their vectors have the sines of a position in the first half and the cosines in the second;
  clearhead's have them in turns. The features of the residual stream are permuted.
- They begin an output with their padding token, and hide padding of a source by a mask alone. In
  clearhead this token is the begin of sentence. Padding is one more token, which is never chosen.
- The numbers of the tokens, see `Numbering`.

Each parameter is a rearrangement of their tensors, so the way back gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.formats.huggingface.library import ACTIVATIONS
from clearhead.model.positions import sinusoids
from clearhead.settings import DropoutConfig, ModelConfig
from clearhead.tokenizer.marian import MarianTokenizer
from clearhead.tokenizer.pretrained import Numbering
from clearhead.tokenizer.protocol import Boundaries

NEVER = -100.0
"""The output bias of clearhead's padding token."""

LENGTH_PENALTY = 4 / 3
"""clearhead's length penalty for one of `transformers`.

The search of `transformers` divides by |Y| ** λ, clearhead's by ((5 + |Y|) / 6) ** α. With
α = 4/3 λ both prefer the same outputs if these have about 15 tokens.
"""

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Part:
    """A parameter of clearhead and the tensors of Marian that are stacked in it.

    Attributes:
        name: of the parameter.
        stacked: names of the tensors; they are stacked along their first dimension.
        rows: what the first dimension is: features of the residual stream, tokens of one side, or
            neither.
        columns: whether the second dimension is features of the residual stream.
        equal: names of tensors that are equal to the first of `stacked`.
    """

    name: str
    stacked: tuple[str, ...]
    rows: str = ""
    columns: bool = False
    equal: tuple[str, ...] = ()


def model_settings(config: Mapping[str, Any], tensors: Tensors) -> ModelConfig:
    """The settings of a Marian model.

    Args:
        config: `MarianConfig.to_dict()`.
        tensors: of the model, by name. With `share_encoder_decoder_embeddings` but without
            `tie_word_embeddings`, current versions of `transformers` do not share the embeddings,
            earlier ones did: the tensors decide.

    Raises:
        ModelFolderError: clearhead has no such model.
    """
    c = config
    for name in ("ffn_dim", "attention_heads"):
        sides = c[f"encoder_{name}"], c[f"decoder_{name}"]
        if sides[0] != sides[1]:
            why = "in clearhead, both have the same number"
            raise _refused(f"encoder_{name} = {sides[0]}, decoder_{name} = {sides[1]}", why)
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        # Old files have these keys, and `transformers` ignores them.
        if c.get(name):
            raise _refused(f"{name} = true", "transformers computes it as if it were false")
    if c["activation_function"] not in ACTIVATIONS:
        raise _refused(
            f"activation_function = {c['activation_function']!r}",
            f"clearhead has {', '.join(ACTIVATIONS)}",
        )
    _check_tokens(c)
    return ModelConfig(
        encoder_layers=c["encoder_layers"],
        decoder_layers=c["decoder_layers"],
        d_model=c["d_model"],
        d_ff=c["encoder_ffn_dim"],
        n_heads=c["encoder_attention_heads"],
        norm="post",
        activation=ACTIVATIONS[c["activation_function"]],  # pyright: ignore[reportArgumentType]
        output_bias=True,
        share_embeddings=_sharing(c, tensors),  # pyright: ignore[reportArgumentType]
        scale_embeddings=bool(c["scale_embedding"]),
        dropout=DropoutConfig(
            embeddings=c["dropout"],
            attention=c["attention_dropout"],
            hidden=c["activation_dropout"],
            residual=c["dropout"],
        ),
    )


def _check_tokens(config: Mapping[str, Any]) -> None:
    """Check the ids of the special tokens."""
    start, pad, end = (config[f"{name}_token_id"] for name in ("decoder_start", "pad", "eos"))
    if start != pad:
        why = "a Marian model begins its outputs with the padding token"
        raise _refused(f"decoder_start_token_id = {start}, pad_token_id = {pad}", why)
    smallest = min(vocabulary_sizes(config))
    for name, token in (("pad", pad), ("eos", end)):
        if not isinstance(token, int) or not 0 <= token < smallest:
            why = f"it is not one of the {smallest} tokens of a vocabulary"
            raise _refused(f"{name}_token_id = {token}", why)
    if pad == end:
        why = "begin and end of an output are different tokens in clearhead"
        raise _refused(f"pad_token_id = eos_token_id = {end}", why)


def _sharing(config: Mapping[str, Any], tensors: Tensors) -> str:
    """The value of `model.share_embeddings`."""
    shares, ties = config["share_encoder_decoder_embeddings"], config["tie_word_embeddings"]
    if not shares:
        return "target" if ties else "none"
    source, target = vocabulary_sizes(config)
    if source != target:
        why = "source and target share their embeddings"
        raise _refused(f"vocab_size = {source}, decoder_vocab_size = {target}", why)
    if ties:
        return "all"
    same = SOURCE in tensors and TARGET in tensors and torch.equal(tensors[SOURCE], tensors[TARGET])
    return "inputs" if same else "none"


def vocabulary_sizes(config: Mapping[str, Any]) -> tuple[int, int]:
    """The number of tokens of Marian's source and target; clearhead has one more of each."""
    return config["vocab_size"], config["decoder_vocab_size"] or config["vocab_size"]


class Numberings(NamedTuple):
    """The numbers of the tokens of both sides, equal if the vocabulary is joint."""

    source: Numbering
    target: Numbering


def numberings_of(config: Mapping[str, Any]) -> Numberings:
    """The numbers of a Marian model's tokens; clearhead's padding has the number after the last."""
    start, end = config["pad_token_id"], config["eos_token_id"]
    source, target = (Numbering(size + 1, size, start, end) for size in vocabulary_sizes(config))
    return Numberings(source, target)


def tokenizers_of(
    theirs: Any, config: Mapping[str, Any]
) -> tuple[MarianTokenizer, MarianTokenizer]:
    """The tokenizers of source and target.

    Args:
        theirs: the `MarianTokenizer` of `transformers`.
        config: `MarianConfig.to_dict()`.

    Raises:
        ModelFolderError: a vocabulary does not fit the model.
    """
    special = theirs.pad_token, theirs.eos_token, theirs.unk_token
    vocabularies = theirs.encoder, getattr(theirs, "target_encoder", theirs.encoder)
    numberings = numberings_of(config)
    source = _tokenizer(theirs.spm_source, vocabularies[0], special, numberings.source, "end")
    target = _tokenizer(theirs.spm_target, vocabularies[1], special, numberings.target, "none")
    return source, target


def _tokenizer(
    model: Any,
    vocabulary: Mapping[str, int],
    special: tuple[str, str, str],
    numbering: Numbering,
    boundaries: Boundaries,
) -> MarianTokenizer:
    """The tokenizer of one side.

    Args:
        model: the `SentencePieceProcessor`.
        vocabulary: the number of each name.
        special: the names of padding, end and unknown.
        numbering: of the tokens.
        boundaries: of the texts of this side.
    """
    names = {i: name for name, i in vocabulary.items()}
    size = numbering.size - 1
    if len(names) < len(vocabulary) or not 0 <= min(names) <= max(names) < size:
        why = f"it numbers {len(vocabulary)} tokens up to {max(names)}, and the model has {size}"
        raise _refused("a vocabulary that does not fit", why)
    pad, end, unknown = special
    for name, number in ((pad, numbering.bos), (end, numbering.eos)):
        if names.get(number) != name:
            why = f"in the vocabulary, {number} is {names.get(number)!r}"
            raise _refused(f"another number for its token {name!r}, {number}", why)
    if unknown not in vocabulary:
        raise _refused("no unknown token", f"{unknown!r} is not in its vocabulary")
    unk_id = int(numbering.ours[vocabulary[unknown]])
    tokens = [names.get(i) for i in range(size)]
    return MarianTokenizer(model.serialized_model_proto(), tokens, numbering, unk_id, boundaries)


def to_clearhead(
    tensors: Tensors, settings: ModelConfig, numberings: Numberings
) -> dict[str, Tensor]:
    """The parameters of clearhead's model.

    Args:
        tensors: of the Marian model, by name; those that are shared by each of their names.
        settings: its `model_settings`.
        numberings: of its tokens.

    Raises:
        ModelFolderError: tensors are missing or unexpected, or shared ones differ.
    """
    parts = list(parts_of(settings))
    _check_names(tensors, parts)
    _check_positions(tensors)
    features = feature_order(settings.d_model)

    def rearranged(part: Part) -> Tensor:
        tensor = torch.cat([tensors[name] for name in part.stacked])
        if part.columns:
            tensor = tensor[:, features]
        if part.rows == "features":
            return tensor[features]
        if part.rows:
            return _with_padding(tensor, getattr(numberings, part.rows), 0.0)
        return tensor.clone()

    bias = _with_padding(tensors[OUTPUT_BIAS][0], numberings.target, NEVER)
    return {part.name: rearranged(part) for part in parts} | {"output.bias": bias}


def _with_padding(theirs: Tensor, numbering: Numbering, padding: float) -> Tensor:
    """Rows for our tokens: theirs, and one of a single number for the padding."""
    row = theirs.new_full((1, *theirs.shape[1:]), padding)
    return torch.cat([theirs, row])[torch.from_numpy(numbering.theirs)]


def from_clearhead(
    parameters: Tensors, settings: ModelConfig, numberings: Numberings
) -> dict[str, Tensor]:
    """The tensors of the Marian model, by all their names, without those of the positions.

    Args:
        parameters: of clearhead's model, a shared one by the first of its names. Missing biases
            are zero.
        settings: of clearhead's model.
        numberings: of the tokens.
    """
    features = torch.argsort(feature_order(settings.d_model))
    found: dict[str, Tensor] = {}
    for part in parts_of(settings):
        tensor = _parameter(parameters, part.name)
        if part.columns:
            tensor = tensor[:, features]
        if part.rows == "features":
            tensor = tensor[features]
        elif part.rows:
            tensor = tensor[torch.from_numpy(getattr(numberings, part.rows).ours[:-1])]
        found |= dict(zip(part.stacked, tensor.chunk(len(part.stacked)), strict=True))
        found |= dict.fromkeys(part.equal, tensor)
    bias = parameters.get("output.bias", torch.zeros(numberings.target.size))
    return found | {OUTPUT_BIAS: bias[torch.from_numpy(numberings.target.ours[:-1])][None]}


def _parameter(parameters: Tensors, name: str) -> Tensor:
    """A parameter; zeros for a bias that the model does not have."""
    if name in parameters:
        return parameters[name]
    weight = parameters[f"{name.removesuffix('bias')}weight"]
    return weight.new_zeros(len(weight))


def feature_order(d_model: int) -> Int[Tensor, " d_model"]:
    """Marian's index of each of clearhead's features: sines and cosines in turns."""
    sines = (d_model + 1) // 2
    return torch.tensor([i // 2 + sines * (i % 2) for i in range(d_model)])


def parts_of(settings: ModelConfig) -> Iterator[Part]:
    """Every parameter but the output bias."""
    source, target = "source_input.embedding.weight", "target_input.embedding.weight"
    match settings.share_embeddings:
        case "all":
            yield Part(source, (SHARED,), "source", True, (SOURCE, TARGET, OUTPUT))
        case "inputs":
            yield Part(source, (SHARED,), "source", True, (SOURCE, TARGET))
            yield Part("output.weight", (OUTPUT,), "target", True)
        case "target":
            yield Part(source, (SOURCE,), "source", True)
            yield Part(target, (TARGET,), "target", True, (OUTPUT,))
        case "none":
            yield Part(source, (SOURCE,), "source", True)
            yield Part(target, (TARGET,), "target", True)
            yield Part("output.weight", (OUTPUT,), "target", True)
    for i in range(settings.encoder_layers):
        ours, theirs = f"encoder.layers.{i}.", f"model.encoder.layers.{i}."
        yield from _attention(f"{ours}self_attention", f"{theirs}self_attn")
        yield from _norm(f"{ours}residuals.0", f"{theirs}self_attn_layer_norm")
        yield from _feed_forward(ours, theirs)
        yield from _norm(f"{ours}residuals.1", f"{theirs}final_layer_norm")
    for i in range(settings.decoder_layers):
        ours, theirs = f"decoder.layers.{i}.", f"model.decoder.layers.{i}."
        yield from _attention(f"{ours}self_attention", f"{theirs}self_attn")
        yield from _norm(f"{ours}residuals.0", f"{theirs}self_attn_layer_norm")
        yield from _attention(f"{ours}cross_attention", f"{theirs}encoder_attn")
        yield from _norm(f"{ours}residuals.1", f"{theirs}encoder_attn_layer_norm")
        yield from _feed_forward(ours, theirs)
        yield from _norm(f"{ours}residuals.2", f"{theirs}final_layer_norm")
    if settings.norm == "pre":
        yield from _norm("encoder", "model.encoder.layer_norm")
        yield from _norm("decoder", "model.decoder.layer_norm")


def _attention(ours: str, theirs: str) -> Iterator[Part]:
    for kind in ("weight", "bias"):
        packed = tuple(f"{theirs}.{each}_proj.{kind}" for each in "qkv")
        yield Part(f"{ours}.packed.{kind}", packed, columns=kind == "weight")
        yield Part(f"{ours}.output.{kind}", (f"{theirs}.out_proj.{kind}",), "features")


def _feed_forward(ours: str, theirs: str) -> Iterator[Part]:
    for kind in ("weight", "bias"):
        hidden = f"{ours}feed_forward.hidden.{kind}"
        yield Part(hidden, (f"{theirs}fc1.{kind}",), columns=kind == "weight")
        yield Part(f"{ours}feed_forward.output.{kind}", (f"{theirs}fc2.{kind}",), "features")


def _norm(ours: str, theirs: str) -> Iterator[Part]:
    for kind in ("weight", "bias"):
        yield Part(f"{ours}.norm.{kind}", (f"{theirs}.{kind}",), "features")


def _check_names(tensors: Tensors, parts: Sequence[Part]) -> None:
    """Check that all tensors are there and no others, and that shared ones are equal."""
    needed = {OUTPUT_BIAS, *(name for part in parts for name in part.stacked)}
    if missing := sorted(needed - tensors.keys()):
        raise _refused(f"not all tensors: {len(missing)} are missing", f"the first is {missing[0]}")
    equal = {name for part in parts for name in part.equal}
    # Without `tie_word_embeddings`, `transformers` may have a shared matrix that it does not use.
    if more := sorted(tensors.keys() - needed - equal - {SHARED, *POSITIONS}):
        raise _refused(f"{len(more)} unknown tensors", f"the first is {more[0]}")
    for part in parts:
        for name in part.equal:
            if name in tensors and not torch.equal(tensors[name], tensors[part.stacked[0]]):
                why = "by its configuration they are one"
                raise _refused(f"different tensors {name} and {part.stacked[0]}", why)


def _check_positions(tensors: Tensors) -> None:
    """Check that the positions, if they are given, are sinusoids."""
    for name in POSITIONS:
        if name in tensors and not torch.allclose(tensors[name], _halves(tensors[name]), atol=1e-5):
            raise _refused("positions that are not sinusoids", f"the tensor is {name}")


def _halves(
    like: Float[Tensor, "positions d_model"],
) -> Float[Tensor, "positions d_model"]:
    """Sinusoids as Marian has them: the sines, then the cosines."""
    length, d_model = like.shape
    return sinusoids(length, d_model)[:, torch.argsort(feature_order(d_model))].to(like)


def _refused(what: str, why: str) -> ModelFolderError:
    return ModelFolderError(f"this Marian model has {what}", why=why)
