"""Export a classifier of texts to Hugging Face: as BERT or DistilBERT for sequence classification.

The shape must be theirs: post-norm, a norm of the embeddings, the first vector, and a hidden layer
with tanh (BERT) or ReLU (DistilBERT). Logits are divided by the temperature, so that the export
gives the probabilities of `clearhead classify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.data.inputs import TextInputs, read_inputs
from clearhead.data.labels import Labels
from clearhead.errors import ExportError
from clearhead.folder.exports import write_export
from clearhead.folder.model_folder import ModelFolder, read_temperature
from clearhead.formats.huggingface.encoders import BERT, DISTILBERT, Family
from clearhead.formats.huggingface.export import NAME, unequal
from clearhead.formats.huggingface.library import (
    ACTIVATION_NAMES,
    SENTENCES,
    TOLERANCE,
    quiet,
    require_transformers,
)
from clearhead.settings import RunConfig, Sinusoidal
from clearhead.tokenizer import BOS, PAD, JsonTokenizer, SentencePieceTokenizer, Tokenizer
from clearhead.tokenizer.pretrained import Numbering

if TYPE_CHECKING:
    from torch import Tensor

    from clearhead.model.transformer import EncoderClassifier

FAMILIES = {"tanh": BERT, "relu": DISTILBERT}
"""The family of Hugging Face by the activation function of the hidden layer of the head."""

START = "<s>"
PADDING = "<padding>"


def export_classifier(found: ModelFolder, output: Path) -> list[str]:
    """Write a classifier as files of Hugging Face; returns a sentence about the comparison.

    `AutoModelForSequenceClassification` and `AutoTokenizer` load the export. This is done first,
    and compared: tokens must be the same, and logits within 0.0001.

    Raises:
        ExportError: `transformers` has no such model or is not installed, the export differs from
            the model, or as in `write_export`.
        ModelFolderError: the model folder is damaged.
    """
    inputs = read_inputs(found)
    labels = Labels.of(found)
    for setting, why in _unsupported(found.config, inputs):
        raise ExportError(
            f"{setting} cannot be exported to Hugging Face",
            why=why,
            todo="use the format onnx, or train a model of another shape",
        )
    require_transformers(ExportError)
    description = write_export(found, NAME, output, partial(_build, found, inputs, labels))
    equality = description["equality"]
    return [
        f"the tokens of {equality['texts']} texts are the same; logits differ by "
        f"{equality['largest_difference']:.1e} at most"
    ]


def _unsupported(config: RunConfig, inputs: Any) -> Iterator[tuple[str, str]]:
    """The settings that BERT and DistilBERT do not have, each with the reason."""
    model, head = config.model, config.classifier
    both = "BERT and DistilBERT"
    if config.input != "text":
        yield f"input = {config.input!r}", f"{both} read tokens"
    elif not isinstance(inputs.tokenizer, JsonTokenizer | SentencePieceTokenizer):
        yield "tokenizer.kind = 'words'", "the export has pieces of words"
    if head.pooling != ("first",):
        yield f"classifier.pooling = {list(head.pooling)}", f"{both} use the first vector"
    if head.hidden not in FAMILIES:
        yield f"classifier.hidden = {head.hidden!r}", "BERT has tanh there, DistilBERT ReLU"
    if model.norm != "post":
        yield f"model.norm = {model.norm!r}", f"{both} are post-norm"
    if not model.embedding_norm:
        yield "model.embedding_norm = false", f"{both} have this norm"
    if model.norm_form != "standard" or (head.hidden == "relu" and model.norm_epsilon != 1e-12):
        yield "the formula of the layer norm", f"that of {both} is another"
    if model.input_convolution:
        yield "model.input_convolution", f"{both} have no convolution"
    if not (model.attention_bias and model.feed_forward_bias):
        yield "model.attention_bias or feed_forward_bias = false", f"{both} have these biases"
    width = model.d_model // model.n_heads
    if (model.key_width, model.value_width) != (width, width):
        what = f"model.d_k = {model.key_width}, model.d_v = {model.value_width}"
        yield what, f"a head of theirs has the width d_model / n_heads = {width}"


def _build(found: ModelFolder, inputs: Any, labels: Labels, folder: Path) -> dict[str, Any]:
    """Write all files of the export, load it, and compare it with the model."""
    import torch
    import transformers

    from clearhead.decoding.torch_engine import with_weights
    from clearhead.model.build import build_classifier

    config = found.config
    shape = (config.model, config.classifier, inputs.width, len(labels))
    model = with_weights(partial(build_classifier, *shape), found, torch.device("cpu"))
    temperature = read_temperature(found)
    with torch.no_grad():
        for parameter in model.output.parameters():
            parameter.div_(temperature)
    numbering = _numbering(inputs.tokenizer)
    with quiet():
        _write_model(model, config, numbering, labels, folder)
        _write_tokenizer(inputs, config.data.max_length, folder)
        loaded, facts = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32
        )
        if wrong := [name for kind in facts.values() for name in kind]:
            raise unequal(f"the tensor {wrong[0]} is missing or unknown")
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        texts = [*SENTENCES, " ".join(SENTENCES) * 40]
        largest = _compare(model, inputs, loaded.eval(), theirs, numbering, texts)
    return {"equality": {"texts": len(texts), "largest_difference": largest}}


def _numbering(tokenizer: Tokenizer) -> Numbering:
    """The numbers of the tokens in Hugging Face's model; PAD is the last of our own pieces."""
    if isinstance(tokenizer, JsonTokenizer):
        return tokenizer.numbering
    size = len(tokenizer)
    return Numbering(size, size - 1, 0, 1)


def _write_model(
    model: EncoderClassifier, config: RunConfig, numbering: Numbering, labels: Labels, folder: Path
) -> None:
    import transformers

    family = FAMILIES[config.classifier.hidden]
    names = dict(enumerate(labels.names))
    settings, name = _settings(config, numbering, names)
    theirs = getattr(transformers, f"{name}ForSequenceClassification")(settings)
    tensors = _tensors(model, config, family, numbering)
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    if missing or unexpected:
        raise unequal(f"the tensor {[*missing, *unexpected][0]} is missing or unknown")
    theirs.save_pretrained(folder)


def _settings(config: RunConfig, numbering: Numbering, names: dict[int, str]) -> tuple[Any, str]:
    """The configuration of the model, and the name of its family in `transformers`."""
    import transformers

    model, several = config.model, config.classifier.multi_label
    common: dict[str, Any] = dict(
        vocab_size=numbering.size,
        pad_token_id=numbering.pad,
        max_position_embeddings=config.data.max_length + 1,
        id2label=names,
        label2id={name: number for number, name in names.items()},
        problem_type=f"{'multi' if several else 'single'}_label_classification",
    )
    activation, dropout = ACTIVATION_NAMES[model.activation], model.dropout
    if config.classifier.hidden == "relu":
        settings = transformers.DistilBertConfig(
            **common,
            dim=model.d_model,
            n_layers=model.encoder_layers,
            n_heads=model.n_heads,
            hidden_dim=model.d_ff,
            activation=activation,
            dropout=dropout.residual,
            attention_dropout=dropout.attention,
            seq_classif_dropout=config.classifier.dropout,
        )
        return settings, "DistilBert"
    settings = transformers.BertConfig(
        **common,
        hidden_size=model.d_model,
        num_hidden_layers=model.encoder_layers,
        num_attention_heads=model.n_heads,
        intermediate_size=model.d_ff,
        hidden_act=activation,
        hidden_dropout_prob=dropout.residual,
        attention_probs_dropout_prob=dropout.attention,
        classifier_dropout=config.classifier.dropout,
        layer_norm_eps=model.norm_epsilon,
        type_vocab_size=1,
    )
    return settings, "Bert"


def _tensors(
    model: EncoderClassifier, config: RunConfig, family: Family, numbering: Numbering
) -> dict[str, Tensor]:
    """The state of the model of Hugging Face."""
    import torch

    ours = dict(model.named_parameters())
    layers, prefix = config.model.encoder_layers, family.prefix
    found: dict[str, Tensor] = {}
    for name, theirs in family.names(layers, prefix).items():
        found |= dict(zip(theirs, ours[name].detach().chunk(len(theirs)), strict=True))
    for name, theirs in zip(("hidden.0", "output"), family.head, strict=True):
        found |= {f"{theirs}.{kind}": ours[f"{name}.{kind}"] for kind in ("weight", "bias")}
    embeddings = f"{prefix}embeddings."
    scale = config.model.d_model**0.5 if config.model.scale_embeddings else 1.0
    words = scale * ours["input.embedding.weight"].detach()
    found[f"{embeddings}word_embeddings.weight"] = words[torch.from_numpy(numbering.ours)]
    found[f"{embeddings}position_embeddings.weight"] = _positions(ours, config)
    if family is BERT:
        found[f"{embeddings}token_type_embeddings.weight"] = torch.zeros(1, words.size(1))
    return found


def _positions(parameters: dict[str, Any], config: RunConfig) -> Tensor:
    """A vector for each position that the model uses: trained ones, sinusoids, or zeros."""
    import torch

    from clearhead.model.positions import sinusoids

    length, width = config.data.max_length + 1, config.model.d_model
    if isinstance(config.model.positions, Sinusoidal):
        return sinusoids(length, width)
    table = parameters.get("input.positions.table", torch.zeros(length, width)).detach()[:length]
    # An imported encoder may have no position beyond its longest input.
    return torch.cat((table, table.new_zeros(length - len(table), width)))


def _write_tokenizer(inputs: TextInputs, longest: int, folder: Path) -> None:
    import transformers
    from tokenizers import Tokenizer as Library
    from tokenizers.processors import TemplateProcessing

    from clearhead.formats.huggingface.pieces import fast_tokenizer

    tokenizer = inputs.tokenizer
    if isinstance(tokenizer, JsonTokenizer):
        tokens = Library.from_str(tokenizer.description)
        special = tokenizer.numbering
        names = {"pad": special.pad, "cls": special.bos, "sep": special.eos}
        names["unk"] = int(special.theirs[tokenizer.unk_id])
    else:
        assert isinstance(tokenizer, SentencePieceTokenizer)
        tokens = fast_tokenizer(tokenizer, START)
        tokens.add_special_tokens([PADDING])
        names = {"pad": len(tokenizer) - 1, "cls": BOS - 1, "unk": tokenizer.unk_id - 1}
        first = TemplateProcessing(single=f"{START} $A", special_tokens=[(START, BOS - 1)])
        tokens.post_processor = first  # pyright: ignore[reportAttributeAccessIssue]
    known = {f"{name}_token": tokens.id_to_token(i) for name, i in names.items()}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        **known,
        # A start symbol that we add comes before the longest input.
        model_max_length=longest + inputs.prepended,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def _compare(
    model: EncoderClassifier,
    inputs: TextInputs,
    theirs: Any,
    tokens: Any,
    numbering: Numbering,
    texts: Sequence[str],
) -> float:
    """Compare the tokens of texts, and the logits of a padded batch of them.

    Returns:
        The largest difference of two logits.

    Raises:
        ExportError: they differ.
    """
    import torch

    rows = [np.array(ids, dtype=np.int64) for ids in inputs.tokenizer.encode_batch(texts)]
    ours = inputs.collate(rows)
    batch = tokens(list(texts), padding=True, truncation=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    found = torch.from_numpy(numbering.ours)[batch["input_ids"]].masked_fill(~mask, PAD)
    if not torch.equal(found, ours):
        raise unequal("the tokens of a text differ")
    with torch.inference_mode():
        own = model.double()(ours)
        other = theirs.double()(input_ids=batch["input_ids"], attention_mask=mask.long()).logits
    difference = float((own - other).abs().max())
    # Written so that NaN is an error too.
    if not difference <= TOLERANCE:
        raise unequal(f"logits differ by {difference:.2g}")
    return difference
