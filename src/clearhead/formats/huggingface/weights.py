"""The map of weights: which tensors of `transformers` are which parameters of clearhead.

A parameter is a rearrangement of tensors: stacked, with rows and columns in another order. So one
list of `Part`s is read in both directions, and the way back gives the same bytes.

Marian and Pegasus begin a vector of positions with all sines, clearhead has sines and cosines in
turns. So the features of the residual stream are in another order. The tokens have other numbers,
and the map adds a row for clearhead's padding if the other model has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.formats.huggingface.library import Names
from clearhead.settings import ModelConfig
from clearhead.tokenizer.pretrained import Numbering

Tensors = Mapping[str, Tensor]

NEVER = -100.0
"""The output bias of a padding token that only clearhead has."""

FEATURES = "features"
"""The order of the features of the residual stream. An order without indices changes nothing."""

READING = ("packed", "hidden")
"""The modules of a layer that read the residual stream; the others write to it."""

Modules = Mapping[str, Sequence[str]]
"""The names of modules in `transformers` that make up each of ours, stacked."""

MARIAN_ENCODER_LAYER: Modules = {
    "self_attention.packed": [f"self_attn.{each}_proj" for each in "qkv"],
    "self_attention.output": ["self_attn.out_proj"],
    "residuals.0.norm": ["self_attn_layer_norm"],
    "feed_forward.hidden": ["fc1"],
    "feed_forward.output": ["fc2"],
    "residuals.1.norm": ["final_layer_norm"],
}
MARIAN_DECODER_LAYER: Modules = {
    **MARIAN_ENCODER_LAYER,
    "cross_attention.packed": [f"encoder_attn.{each}_proj" for each in "qkv"],
    "cross_attention.output": ["encoder_attn.out_proj"],
    "residuals.1.norm": ["encoder_attn_layer_norm"],
    "residuals.2.norm": ["final_layer_norm"],
}
BERT_LAYER: Modules = {
    "self_attention.packed": [f"attention.self.{each}" for each in ("query", "key", "value")],
    "self_attention.output": ["attention.output.dense"],
    "residuals.0.norm": ["attention.output.LayerNorm"],
    "feed_forward.hidden": ["intermediate.dense"],
    "feed_forward.output": ["output.dense"],
    "residuals.1.norm": ["output.LayerNorm"],
}
DISTILBERT_LAYER: Modules = {
    "self_attention.packed": [f"attention.{each}_lin" for each in "qkv"],
    "self_attention.output": ["attention.out_lin"],
    "residuals.0.norm": ["sa_layer_norm"],
    "feed_forward.hidden": ["ffn.lin1"],
    "feed_forward.output": ["ffn.lin2"],
    "residuals.1.norm": ["output_layer_norm"],
}

BERT_SETTINGS: Names = {
    "encoder_layers": ["num_hidden_layers"],
    "d_model": ["hidden_size"],
    "d_ff": ["intermediate_size"],
    "n_heads": ["num_attention_heads"],
    "norm_epsilon": ["layer_norm_eps"],
    "activation": ["hidden_act"],
}
BERT_DROPOUTS: Names = {
    "residual": ["hidden_dropout_prob"],
    "attention": ["attention_probs_dropout_prob"],
}


class Part(NamedTuple):
    """A parameter of clearhead, and the tensors that are stacked in it.

    Attributes:
        ours: the name of the parameter.
        theirs: the names of the tensors.
        rows, columns: the names of the orders of both dimensions; none is the same order.
        copies: more names of the first tensor.
        padding: what the row of a padding token has that only clearhead has.
    """

    ours: str
    theirs: Sequence[str]
    rows: str = ""
    columns: str = ""
    copies: Sequence[str] = ()
    padding: float = 0.0


class Order(NamedTuple):
    """The indices of a dimension: theirs of each of ours, and ours of each of theirs."""

    theirs: Tensor
    ours: Tensor


class Family(NamedTuple):
    """What an encoder of the BERT family calls its weights and settings.

    Attributes:
        prefix: of the encoder's weights in a model with a head.
        layer: of the weights of a layer, before its number.
        modules: of a layer.
        head: the names of the hidden and the output layer of the head.
        hidden: the activation function of that hidden layer.
        settings, dropouts: the names of settings.
        head_dropout: the name of the dropout of the head.
        skipped: the positions before the first one used. RoBERTa counts from the number of the
            padding token (as in fairseq).
    """

    prefix: str
    layer: str
    modules: Modules
    head: tuple[str, str]
    hidden: Literal["tanh", "relu"] = "tanh"
    settings: Names = BERT_SETTINGS
    dropouts: Names = BERT_DROPOUTS
    head_dropout: str = "classifier_dropout"
    skipped: Callable[[Any], int] = lambda config: 0


BERT = Family("bert.", "encoder.layer", BERT_LAYER, ("bert.pooler.dense", "classifier"))
DISTILBERT = Family(
    *("distilbert.", "transformer.layer", DISTILBERT_LAYER, ("pre_classifier", "classifier")),
    hidden="relu",
    settings={
        "encoder_layers": ["n_layers"],
        "d_model": ["dim"],
        "d_ff": ["hidden_dim"],
        "n_heads": ["n_heads"],
        "activation": ["activation"],
    },
    dropouts={"residual": ["dropout"], "attention": ["attention_dropout"]},
    head_dropout="seq_classif_dropout",
)
ROBERTA = Family(
    *("roberta.", "encoder.layer", BERT_LAYER, ("classifier.dense", "classifier.out_proj")),
    skipped=lambda config: config.pad_token_id + 1,
)

MARIAN = "marian"
"""The `model_type` of a translator's configuration."""

FAMILIES = {"bert": BERT, "distilbert": DISTILBERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA}
"""The families of encoders by the `model_type`."""


@dataclass(frozen=True)
class WeightMap:
    """All parts of a model, and the orders that they name."""

    parts: Sequence[Part]
    orders: Mapping[str, Order]

    def to_clearhead(self, tensors: Tensors) -> dict[str, Tensor]:
        """The parameters of clearhead's model."""
        return {part.ours: self._parameter(part, tensors) for part in self.parts}

    def _parameter(self, part: Part, tensors: Tensors) -> Tensor:
        tensor = torch.cat([tensors[name] for name in part.theirs])
        if columns := self.orders.get(part.columns):
            tensor = tensor[:, columns.theirs]
        if rows := self.orders.get(part.rows):
            if len(tensor) < len(rows.theirs):
                row = tensor.new_full((1, *tensor.shape[1:]), part.padding)
                tensor = torch.cat((tensor, row))
            tensor = tensor[rows.theirs]
        return tensor

    def to_huggingface(self, parameters: Tensors) -> dict[str, Tensor]:
        """The tensors of the other model, by all their names; biases that are missing are zero."""
        found: dict[str, Tensor] = {}
        for part in self.parts:
            rows, columns = (self.orders.get(name) for name in (part.rows, part.columns))
            if (tensor := parameters.get(part.ours)) is None:
                weight = f"{part.ours.removesuffix('bias')}weight"
                tensor = torch.zeros(len(rows.theirs if rows else parameters[weight]))
            if columns:
                tensor = tensor[:, columns.ours]
            if rows:
                tensor = tensor[rows.ours]
            found |= dict(zip(part.theirs, tensor.chunk(len(part.theirs)), strict=True))
            found |= dict.fromkeys(part.copies, tensor)
        return found


def translator_weights(settings: ModelConfig, numberings: Sequence[Numbering]) -> WeightMap:
    """The map of a Marian or Pegasus model, without its positions, which are sinusoids.

    The numberings are those of both sides; there clearhead's padding has the number after the last.
    """
    features = feature_order(settings.d_model)
    orders = {FEATURES: Order(features, features.argsort())}
    for side, numbering in zip(("source", "target"), numberings, strict=True):
        theirs, ours = map(torch.from_numpy, (numbering.theirs, numbering.ours))
        orders[side] = Order(theirs, ours[:-1])
    return WeightMap(list(_translator_parts(settings)), orders)


def feature_order(d_model: int) -> Int[Tensor, " d_model"]:
    """Marian's index of each of clearhead's features: sines and cosines in turns."""
    sines = (d_model + 1) // 2
    return torch.tensor([i // 2 + sines * (i % 2) for i in range(d_model)])


def _translator_parts(settings: ModelConfig) -> Iterator[Part]:
    source = [f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens")]
    target, output = "model.decoder.embed_tokens.weight", "lm_head.weight"
    shared, copies = source[:1], [source[1], target]
    match settings.share_embeddings:
        case "all":
            matrices = [("source_input.embedding", shared, "source", [*copies, output])]
        case "inputs":
            matrices = [
                ("source_input.embedding", shared, "source", copies),
                ("output", [output], "target", []),
            ]
        case sharing:
            matrices = [
                ("source_input.embedding", source[1:], "source", []),
                (
                    *("target_input.embedding", [target], "target"),
                    [output] if sharing == "target" else [],
                ),
            ]
            if sharing == "none":
                matrices.append(("output", [output], "target", []))
    for ours, theirs, side, more in matrices:
        yield Part(f"{ours}.weight", theirs, side, FEATURES, more)
    yield Part("output.bias", ["final_logits_bias"], "target", padding=NEVER)
    for stack, count, layer in (
        ("encoder", settings.encoder_layers, MARIAN_ENCODER_LAYER),
        ("decoder", settings.decoder_layers, MARIAN_DECODER_LAYER),
    ):
        for i in range(count):
            yield from _modules(f"{stack}.layers.{i}.", f"model.{stack}.layers.{i}.", layer)
        if settings.norm == "pre":
            yield from _modules(f"{stack}.", f"model.{stack}.", {"norm": ["layer_norm"]})


def encoder_weights(family: Family, layers: int, numbering: Numbering, has_head: bool) -> WeightMap:
    """The map of an encoder of the BERT family, and of its head if it has one."""
    prefix = family.prefix if has_head else ""
    embeddings = f"{prefix}embeddings."
    parts = [
        Part("input.embedding.weight", [f"{embeddings}word_embeddings.weight"], "tokens"),
        Part("input.positions.table", [f"{embeddings}position_embeddings.weight"]),
        *_modules("input.", embeddings, {"norm": ["LayerNorm"]}),
    ]
    for i in range(layers):
        parts += _modules(f"encoder.layers.{i}.", f"{prefix}{family.layer}.{i}.", family.modules)
    if has_head:
        hidden, output = family.head
        parts += _modules("", "", {"hidden.0": [hidden], "output": [output]})
    tokens = Order(*map(torch.from_numpy, (numbering.theirs, numbering.ours)))
    return WeightMap(parts, {"tokens": tokens})


def _modules(ours: str, theirs: str, modules: Modules) -> Iterator[Part]:
    """The weight and the bias of each module."""
    for module, names in modules.items():
        reads = module.endswith(READING)
        for kind in ("weight", "bias"):
            stacked = [f"{theirs}{name}.{kind}" for name in names]
            columns = FEATURES if reads and kind == "weight" else ""
            yield Part(f"{ours}{module}.{kind}", stacked, "" if reads else FEATURES, columns)
