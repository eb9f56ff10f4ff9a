"""The encoders of the BERT family as classifiers: their settings, names and parameters.

BERT (Devlin et al. 2019), DistilBERT (Sanh et al. 2019), RoBERTa (Liu et al. 2019) and XLM-R
(Conneau et al. 2020) are post-norm encoders with learned positions and a norm of the embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.formats.huggingface.library import ACTIVATIONS
from clearhead.settings import ClassifierConfig, DropoutConfig, Learned, ModelConfig
from clearhead.tokenizer.pretrained import Numbering


@dataclass(frozen=True)
class Family:
    """What a family calls its parameters and settings, and what distinguishes it.

    Attributes:
        prefix: of the encoder's parameters in a model with a head.
        layer: of the parameters of layer i.
        parts: the names in a layer of our modules' parameters; several are concatenated.
        head: the names of the hidden and the output layer of the head.
        hidden: the activation function of that hidden layer.
        d_ff, activation: the names of these settings.
        first_position: the row of the table of positions that the first token uses.
    """

    prefix: str
    layer: str
    parts: Mapping[str, tuple[str, ...]]
    head: tuple[str, str]
    hidden: str
    d_ff: str = "intermediate_size"
    activation: str = "hidden_act"
    first_position: Callable[[Any], int] = lambda config: 0

    def names(self, layers: int, prefix: str = "") -> dict[str, tuple[str, ...]]:
        """The names of the parameters that make up each of ours, but embeddings and head."""
        modules: dict[str, tuple[str, ...]] = {"input.norm": (f"{prefix}embeddings.LayerNorm",)}
        for i in range(layers):
            for ours, theirs in self.parts.items():
                names = tuple(f"{prefix}{self.layer.format(i)}.{name}" for name in theirs)
                modules[f"encoder.layers.{i}.{ours}"] = names
        return {
            f"{ours}.{kind}": tuple(f"{name}.{kind}" for name in theirs)
            for ours, theirs in modules.items()
            for kind in ("weight", "bias")
        }


BERT_LAYER = {
    "self_attention.packed": tuple(f"attention.self.{each}" for each in ("query", "key", "value")),
    "self_attention.output": ("attention.output.dense",),
    "residuals.0.norm": ("attention.output.LayerNorm",),
    "feed_forward.hidden": ("intermediate.dense",),
    "feed_forward.output": ("output.dense",),
    "residuals.1.norm": ("output.LayerNorm",),
}

DISTILBERT_LAYER = {
    "self_attention.packed": tuple(f"attention.{each}_lin" for each in "qkv"),
    "self_attention.output": ("attention.out_lin",),
    "residuals.0.norm": ("sa_layer_norm",),
    "feed_forward.hidden": ("ffn.lin1",),
    "feed_forward.output": ("ffn.lin2",),
    "residuals.1.norm": ("output_layer_norm",),
}

BERT = Family("bert.", "encoder.layer.{}", BERT_LAYER, ("bert.pooler.dense", "classifier"), "tanh")
DISTILBERT = Family(
    *("distilbert.", "transformer.layer.{}", DISTILBERT_LAYER, ("pre_classifier", "classifier")),
    hidden="relu",
    d_ff="hidden_dim",
    activation="activation",
)
ROBERTA = Family(
    *("roberta.", "encoder.layer.{}", BERT_LAYER, ("classifier.dense", "classifier.out_proj")),
    hidden="tanh",
    # Positions count from the number of the padding token (as in fairseq).
    first_position=lambda config: config.pad_token_id + 1,
)

FAMILIES = {"bert": BERT, "distilbert": DISTILBERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA}
"""The families by the `model_type` of a configuration."""


def model_settings(family: Family, config: Any) -> ModelConfig:
    """The settings of a Hugging Face encoder.

    Args:
        family: of the model.
        config: the `PretrainedConfig` of the model.

    Raises:
        ModelFolderError: it has a part that clearhead lacks.
    """
    name = getattr(config, family.activation)
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if name not in ACTIVATIONS or positions != "absolute":
        what = f"activation {name!r}" if name not in ACTIVATIONS else f"{positions} positions"
        raise ModelFolderError(f"the model has {what}, which clearhead has not")
    dropped = getattr(config, "hidden_dropout_prob", getattr(config, "dropout", 0.1))
    in_attention = ("attention_probs_dropout_prob", "attention_dropout")
    rates = [getattr(config, each) for each in in_attention if hasattr(config, each)]
    return ModelConfig(
        encoder_layers=config.num_hidden_layers,
        d_model=config.hidden_size,
        d_ff=getattr(config, family.d_ff),
        n_heads=config.num_attention_heads,
        norm="post",
        norm_epsilon=getattr(config, "layer_norm_eps", 1e-12),
        activation=ACTIVATIONS[name],  # pyright: ignore[reportArgumentType]
        scale_embeddings=False,
        embedding_norm=True,
        dropout=DropoutConfig(embeddings=dropped, attention=rates[0], residual=dropped),
        positions=Learned(
            max_length=config.max_position_embeddings - family.first_position(config)
        ),
    )


def classifier_settings(family: Family, config: Any, has_head: bool) -> ClassifierConfig:
    """The settings of the head, or our defaults for a model without one.

    Raises:
        ModelFolderError: the head predicts a number instead of labels.
    """
    if not has_head:
        return ClassifierConfig()
    if config.num_labels < 2 or config.problem_type == "regression":
        raise ModelFolderError("the model predicts a number, and clearhead only labels")
    for name in ("classifier_dropout", "seq_classif_dropout", "hidden_dropout_prob"):
        if (dropout := getattr(config, name, None)) is not None:
            break
    return ClassifierConfig(
        pooling=("first",),
        hidden=family.hidden,  # pyright: ignore[reportArgumentType]
        dropout=dropout or 0.0,
        multi_label=config.problem_type == "multi_label_classification",
    )


def parameters_from(
    family: Family, config: Any, tensors: Mapping[str, Tensor], numbering: Numbering, has_head: bool
) -> dict[str, Tensor]:
    """Our parameters from those of a Hugging Face encoder.

    The type of the only sentence is added to the positions.

    Args:
        family: of the model.
        config: its `PretrainedConfig`.
        tensors: its state.
        numbering: of the tokens.
        has_head: whether it is a classifier, whose encoder has the family's prefix.
    """
    prefix = family.prefix if has_head else ""
    embeddings = f"{prefix}embeddings."
    positions = tensors[f"{embeddings}position_embeddings.weight"][family.first_position(config) :]
    types = tensors.get(f"{embeddings}token_type_embeddings.weight")
    words = tensors[f"{embeddings}word_embeddings.weight"]
    found = {
        "input.embedding.weight": words[torch.from_numpy(numbering.theirs)],
        "input.positions.table": positions if types is None else positions + types[0],
    }
    for ours, theirs in family.names(config.num_hidden_layers, prefix).items():
        found[ours] = torch.cat([tensors[name] for name in theirs])
    if not has_head:
        empty = torch.zeros(0, words.size(1))
        return found | {"output.weight": empty, "output.bias": torch.zeros(0)}
    for ours, theirs in zip(("hidden.0", "output"), family.head, strict=True):
        found |= {f"{ours}.{kind}": tensors[f"{theirs}.{kind}"] for kind in ("weight", "bias")}
    return found
