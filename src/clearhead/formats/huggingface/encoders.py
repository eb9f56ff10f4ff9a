"""Classifiers as encoders of the BERT family, in both directions.

BERT (Devlin et al. 2019), DistilBERT (Sanh et al. 2019), RoBERTa (Liu et al. 2019) and XLM-R
(Conneau et al. 2020) are post-norm encoders with learned positions and a norm of the embeddings.
Imported classifiers, and those that started from such an encoder, are exported as BERT or
DistilBERT: with the first vector, and a hidden layer with tanh (BERT) or ReLU (DistilBERT). Logits
of the export are divided by the temperature, so that it gives the probabilities of `classify`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer as LibraryTokenizer
from torch import Tensor

from clearhead.data.inputs import TextInputs, read_inputs
from clearhead.data.labels import LABELS, Labels
from clearhead.decoding.torch_engine import trained_classifier
from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import ModelFolder, read_temperature
from clearhead.folder.tensors import load_parameters, parameters_of
from clearhead.formats.equality import SENTENCES, Comparison
from clearhead.formats.huggingface.library import our_settings, their_settings
from clearhead.formats.huggingface.sources import has_head
from clearhead.formats.huggingface.weights import (
    BERT,
    DISTILBERT,
    FAMILIES,
    Family,
    encoder_weights,
)
from clearhead.model.build import build_classifier
from clearhead.model.transformer import EncoderClassifier
from clearhead.settings import (
    ClassifierConfig,
    DataConfig,
    DropoutConfig,
    Learned,
    ModelConfig,
    RunConfig,
    TokenizerConfig,
)
from clearhead.tokenizer import PAD, JsonTokenizer
from clearhead.tokenizer.pretrained import Numbering

AUTO = "AutoModelForSequenceClassification"

EXPORTED = {"tanh": BERT, "relu": DISTILBERT}
"""The families of exports by the activation function of the hidden layer of the head."""

EPSILON = 1e-12
"""The ε of the layer norm of DistilBERT."""

Parts = tuple[TextInputs, Labels]


def settings_it_has(config: RunConfig) -> dict[str, list[Any]]:
    """The settings that BERT has, or DistilBERT; see `check_settings`."""
    epsilon = {"model.norm_epsilon": [EPSILON]} if config.classifier.hidden == "relu" else {}
    return {
        "tokenizer.kind": ["pretrained"],
        "model.embedding_norm": [True],  # the encoder of a Marian translator has none
        "classifier.pooling": [("first",)],
        "classifier.hidden": [*EXPORTED],
        "classifier.ngrams": [0],
        **epsilon,
    }


def read(found: ModelFolder) -> tuple[EncoderClassifier, Parts]:
    """The model of a folder, calibrated, and its inputs and labels."""
    inputs, labels = read_inputs(found), Labels.of(found)
    assert isinstance(inputs, TextInputs)
    model = trained_classifier(found, torch.device("cpu"), inputs.width, len(labels))
    temperature = read_temperature(found)
    with torch.no_grad():
        for parameter in model.output.parameters():
            parameter.div_(temperature)
    return model, (inputs, labels)


# Settings


def settings_of(config: Any) -> tuple[RunConfig, Labels]:
    """The settings and labels of an encoder, by its `PretrainedConfig`.

    Raises:
        ModelFolderError: it has a part that clearhead lacks.
    """
    family = FAMILIES[config.model_type]
    model = model_settings(family, config)
    assert isinstance(model.positions, Learned)
    names = [str(config.id2label[i]) for i in range(config.num_labels)] if has_head(config) else []
    try:
        labels = Labels(tuple(names))
    except ValueError as error:
        raise ModelFolderError("its labels cannot be used", why=str(error)) from None
    run = RunConfig(
        task="classification",
        data=DataConfig(max_length=model.positions.max_length),
        tokenizer=TokenizerConfig(kind="pretrained"),
        model=model,
        classifier=_classifier_settings(family, config),
    )
    return run, labels


def model_settings(family: Family, config: Any) -> ModelConfig:
    """The settings of the encoder itself."""
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if positions != "absolute":
        raise ModelFolderError(f"the model has {positions} positions, which clearhead has not")
    tree = config.to_dict()
    dropouts = our_settings(family.dropouts, tree)
    return ModelConfig(
        **{"norm_epsilon": EPSILON, **our_settings(family.settings, tree)},
        norm="post",
        scale_embeddings=False,
        embedding_norm=True,
        dropout=DropoutConfig(embeddings=dropouts["residual"], **dropouts),
        positions=Learned(max_length=config.max_position_embeddings - family.skipped(config)),
    )


def _classifier_settings(family: Family, config: Any) -> ClassifierConfig:
    """The settings of the head, or our defaults for a model without one."""
    if not has_head(config):
        return ClassifierConfig()
    if config.num_labels < 2 or config.problem_type == "regression":
        raise ModelFolderError("the model predicts a number, and clearhead only labels")
    dropout = getattr(config, family.head_dropout)
    if dropout is None:
        dropout = getattr(config, "hidden_dropout_prob", None)
    return ClassifierConfig(
        pooling=("first",),
        hidden=family.hidden,
        dropout=dropout or 0.0,
        multi_label=config.problem_type == "multi_label_classification",
    )


def _huggingface_config(config: RunConfig, numbering: Numbering, labels: Labels) -> Any:
    """The `BertConfig` or `DistilBertConfig` of a model."""
    family, several = EXPORTED[config.classifier.hidden], config.classifier.multi_label
    names = dict(enumerate(labels.names))
    settings: dict[str, Any] = dict(
        **their_settings(family.settings, config.model),
        **their_settings(family.dropouts, config.model.dropout),
        **{family.head_dropout: config.classifier.dropout},
        vocab_size=numbering.size,
        pad_token_id=numbering.pad,
        max_position_embeddings=config.longest_example,
        id2label=names,
        label2id={name: number for number, name in names.items()},
        problem_type=f"{'multi' if several else 'single'}_label_classification",
    )
    if family is DISTILBERT:
        return transformers.DistilBertConfig(**settings)
    return transformers.BertConfig(**settings, type_vocab_size=1)


# Tokens


def _tokenizer_of(inputs: TextInputs) -> JsonTokenizer:
    assert isinstance(inputs.tokenizer, JsonTokenizer)
    return inputs.tokenizer


def _json_tokenizer(theirs: Any, embeddings: int) -> JsonTokenizer:
    """The tokenizer of an original, whose model has so many embeddings."""
    backend = getattr(theirs, "backend_tokenizer", None)
    if backend is None:
        raise ModelFolderError(f"its tokenizer, {type(theirs).__name__}, has no tokenizer.json")
    # The start and end of a text have different names in the tokenizers of the family.
    bos = theirs.cls_token_id if theirs.bos_token_id is None else theirs.bos_token_id
    eos = theirs.sep_token_id if theirs.eos_token_id is None else theirs.eos_token_id
    try:
        numbering = Numbering(embeddings, theirs.pad_token_id, bos, eos)
        unk_id = int(numbering.ours[theirs.unk_token_id])
        return JsonTokenizer(json.loads(backend.to_str()), numbering, unk_id)
    except (TypeError, ValueError) as error:  # for example, one of these tokens is missing
        raise ModelFolderError("its tokenizer cannot be used", why=str(error)) from None


def _write_tokenizer(tokenizer: JsonTokenizer, longest: int, folder: Path) -> None:
    tokens, special = LibraryTokenizer.from_str(tokenizer.description), tokenizer.numbering
    names = {"pad": special.pad, "cls": special.bos, "sep": special.eos}
    names["unk"] = int(special.theirs[tokenizer.unk_id])
    known = {f"{name}_token": tokens.id_to_token(i) for name, i in names.items()}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        **known,
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


# Models


def write(model: EncoderClassifier, config: RunConfig, parts: Parts, folder: Path) -> None:
    """Write the model and the tokenizer as files of Hugging Face."""
    inputs, labels = parts
    family, tokenizer = EXPORTED[config.classifier.hidden], _tokenizer_of(inputs)
    settings = _huggingface_config(config, tokenizer.numbering, labels)
    name = type(settings).__name__.replace("Config", "ForSequenceClassification")
    theirs = getattr(transformers, name)(settings)
    layers = config.model.encoder_layers
    weights = encoder_weights(family, layers, tokenizer.numbering, has_head=True)
    tensors = weights.to_huggingface(parameters_of(model))
    if family is BERT:
        types = torch.zeros(1, config.model.d_model)
        tensors["bert.embeddings.token_type_embeddings.weight"] = types
    theirs.load_state_dict(tensors)
    theirs.save_pretrained(folder)
    _write_tokenizer(tokenizer, config.data.max_length, folder)


def imported(original: Any, tokenizer: Any) -> tuple[RunConfig, EncoderClassifier, dict[str, Any]]:
    """The settings of an original, its model, and its tokenizer and labels.

    Raises:
        ModelFolderError: it has parts that clearhead lacks, or it is damaged.
    """
    config, family = original.config, FAMILIES[original.config.model_type]
    run, labels = settings_of(config)
    tokens = _json_tokenizer(tokenizer, config.vocab_size)
    with_head, tensors = has_head(config), original.state_dict()
    weights = encoder_weights(family, config.num_hidden_layers, tokens.numbering, with_head)
    embeddings = f"{family.prefix if with_head else ''}embeddings."
    name = f"{embeddings}position_embeddings.weight"
    tensors[name] = tensors[name][family.skipped(config) :]
    # The type of the only sentence is added to the positions.
    if (types := tensors.get(f"{embeddings}token_type_embeddings.weight")) is not None:
        tensors[name] = tensors[name] + types[0]
    parameters = weights.to_clearhead(tensors)
    if not with_head:
        empty = torch.zeros(0, run.model.d_model)
        parameters |= {"output.weight": empty, "output.bias": torch.zeros(0)}
    model = build_classifier(run, len(tokens), len(labels)).eval()
    load_parameters(model, parameters, Path(config.name_or_path))
    return run, model, {"tokenizer": tokens, LABELS: labels}


# Comparison


def compare_import(
    comparison: Comparison,
    model: EncoderClassifier,
    files: Mapping[str, Any],
    theirs: Any,
    tokens: Any,
) -> None:
    """Compare the tokens of texts, and the hidden states and logits of a batch of them."""
    tokenizer = files["tokenizer"]
    batch = tokens(list(SENTENCES), padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"].bool()
    ours = torch.from_numpy(tokenizer.numbering.ours)[ids]
    rows = [row[real].tolist() for row, real in zip(ours, mask, strict=True)]
    comparison.same("the tokens of a text", tokenizer.encode_batch(SENTENCES), rows)
    # A small model may have fewer positions than a text has tokens.
    skipped = FAMILIES[theirs.config.model_type].skipped(theirs.config)
    longest = theirs.config.max_position_embeddings - skipped
    _compare_vectors(comparison, model, theirs, *(x[:, :longest] for x in (ours, ids, mask)))


def compare_export(
    comparison: Comparison, model: EncoderClassifier, parts: Parts, theirs: Any, tokens: Any
) -> str:
    """Compare the tokens of texts, one of them cut, and the vectors of a batch of them."""
    inputs, _ = parts
    texts = [*SENTENCES, " ".join(SENTENCES) * 40]
    rows = [np.array(ids, dtype=np.int64) for ids in inputs.tokenizer.encode_batch(texts)]
    ours = inputs.collate(rows)
    batch = tokens(texts, padding=True, truncation=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"].bool()
    numbering = _tokenizer_of(inputs).numbering
    found = torch.from_numpy(numbering.ours)[ids].masked_fill(~mask, PAD)
    comparison.same("the tokens of a text", ours.tolist(), found.tolist())
    apart = _compare_vectors(comparison, model, theirs, ours, ids, mask)
    return f"the tokens of {len(texts)} texts are the same; logits differ by {apart:.1e} at most"


@torch.inference_mode()
def _compare_vectors(
    comparison: Comparison,
    model: EncoderClassifier,
    theirs: Any,
    ours: Tensor,
    ids: Tensor,
    mask: Tensor,
) -> float:
    """Compare hidden states and logits of a padded batch, in float64; how far logits are apart."""
    model, theirs = model.double(), theirs.double()
    inputs = {"input_ids": ids, "attention_mask": mask.long()}
    encoder = getattr(theirs, theirs.base_model_prefix, theirs)
    hidden, other = model.encode(ours)[0], encoder(**inputs)[0]
    comparison.near("hidden states", hidden[mask].numpy(), other[mask].numpy())
    if not has_head(theirs.config):
        return 0.0
    return comparison.near("logits", model(ours).numpy(), theirs(**inputs).logits.numpy())
