"""Translators as Marian models (OPUS-MT), and as Pegasus if they are pre-norm: both directions.

Pegasus is Marian with pre-norm layers. Both compute the same function as clearhead's
encoder-decoder (see `weights`), but begin an output with their padding token, and hide padding of a
source by a mask alone. In clearhead this token is the begin of sentence, and padding is one more
token, which is never chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.decoding.engine import longest_output, numbered
from clearhead.decoding.torch_engine import TorchEngine, trained_translator
from clearhead.errors import ModelFolderError
from clearhead.folder.files import write_json
from clearhead.folder.model_folder import ModelFolder
from clearhead.folder.tensors import load_parameters, parameters_of
from clearhead.formats.equality import GREEDY, SENTENCES, Comparison, random_sources
from clearhead.formats.huggingface.library import Names, our_settings, their_settings
from clearhead.formats.huggingface.pieces import fast_tokenizer
from clearhead.formats.huggingface.weights import Tensors, translator_weights
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import (
    DropoutConfig,
    ModelConfig,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
)
from clearhead.tokenizer import BOS, EOS, PAD, SentencePieceTokenizer, Tokenizer, read_tokenizers
from clearhead.tokenizer.marian import MarianTokenizer
from clearhead.tokenizer.pretrained import Numbering

AUTO = "AutoModelForSeq2SeqLM"

EPSILON = 1e-5

POSITIONS = 1024
"""The positions of an export; its sinusoids are a table."""

LONGEST = 512
"""Maximum number of tokens of a source and of an output, by default."""

LENGTH_PENALTY = 4 / 3
"""clearhead's length penalty for one of `transformers`.

The search of `transformers` divides by |Y| ** λ, clearhead's by ((5 + |Y|) / 6) ** α. With
α = 4/3 λ both prefer the same outputs if these have about 15 tokens.
"""

SETTINGS: Names = {
    **{name: [name] for name in ("encoder_layers", "decoder_layers", "d_model")},
    "d_ff": ["encoder_ffn_dim", "decoder_ffn_dim"],
    "n_heads": ["encoder_attention_heads", "decoder_attention_heads"],
    "activation": ["activation_function"],
    "scale_embeddings": ["scale_embedding"],
}
DROPOUTS: Names = {
    "residual": ["dropout"],
    "attention": ["attention_dropout"],
    "hidden": ["activation_dropout"],
}

BIAS = "final_logits_bias"
"""The output bias of Marian, (1, tokens)."""

Both = tuple[Any, Any]
"""Of the source and of the target."""


def settings_it_has(config: RunConfig) -> dict[str, list[Any]]:
    """The settings that Marian has, or Pegasus; see `check_settings`."""
    of_pegasus = {"model.final_norm": [True], "model.share_embeddings": ["all"]}
    # The tokenizer of two vocabularies, MarianTokenizer, ends each source with </s>.
    joint = {"tokenizer.joint": [True]} if config.tokenizer.kind != "pretrained" else {}
    return {
        "tokenizer.new_words": [()],
        "model.positions.kind": ["sinusoidal"],
        "model.norm_epsilon": [EPSILON],
        "model.embedding_norm": [False],
        **joint,
        **(of_pegasus if config.model.norm == "pre" else {}),
    }


def read(found: ModelFolder) -> tuple[EncoderDecoder, Both]:
    """The model of a folder, and its tokenizers."""
    tokenizers = read_tokenizers(found)
    return trained_translator(found, torch.device("cpu"), tokenizers), tokenizers


# Settings


def model_settings(config: Mapping[str, Any], tensors: Tensors) -> ModelConfig:
    """The settings of a Marian model, by `MarianConfig.to_dict()`.

    With `share_encoder_decoder_embeddings` but without `tie_word_embeddings`, current versions of
    `transformers` do not share the embeddings, earlier ones did: the tensors decide.

    Raises:
        ModelFolderError: clearhead has no such model.
    """
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        # Old files have these keys, and `transformers` ignores them.
        if config.get(name):
            raise _refused(f"{name} = true", "transformers computes it as if it were false")
    _check_tokens(config)
    return ModelConfig(
        **our_settings(SETTINGS, config),
        norm="post",
        output_bias=True,
        share_embeddings=_sharing(config, tensors),  # pyright: ignore[reportArgumentType]
        dropout=DropoutConfig(embeddings=config["dropout"], **our_settings(DROPOUTS, config)),
    )


def huggingface_config(settings: ModelConfig, numberings: Sequence[Numbering]) -> Any:
    """The `MarianConfig` or `PegasusConfig` of a model."""
    source, target = numberings
    common: dict[str, Any] = dict(
        vocab_size=source.size - 1,
        **their_settings(SETTINGS, settings),
        **their_settings(DROPOUTS, settings.dropout),
        max_position_embeddings=POSITIONS,
        pad_token_id=source.bos,
        decoder_start_token_id=target.bos,
        eos_token_id=target.eos,
        forced_eos_token_id=None,
        bos_token_id=None,
        tie_word_embeddings=settings.share_embeddings in ("all", "target"),
    )
    if settings.norm == "pre":
        return transformers.PegasusConfig(**common)
    return transformers.MarianConfig(
        **common,
        decoder_vocab_size=target.size - 1,
        share_encoder_decoder_embeddings=settings.shares_inputs,
    )


def _check_tokens(config: Mapping[str, Any]) -> None:
    """Check the ids of the special tokens."""
    names = ("decoder_start_token_id", "pad_token_id", "eos_token_id")
    start, pad, end = (config[name] for name in names)
    tokens = range(min(vocabulary_sizes(config)))
    if start != pad or pad == end or pad not in tokens or end not in tokens:
        raise _refused(
            ", ".join(f"{name} = {config[name]}" for name in names),
            f"padding begins its outputs, and another of the {len(tokens)} tokens ends them",
        )


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
    sides = (tensors[f"model.{side}.embed_tokens.weight"] for side in ("encoder", "decoder"))
    return "inputs" if torch.equal(*sides) else "none"


# Tokens


def vocabulary_sizes(config: Mapping[str, Any]) -> tuple[int, int]:
    """The number of tokens of Marian's source and target; clearhead has one more of each."""
    return config["vocab_size"], config["decoder_vocab_size"] or config["vocab_size"]


def numberings_in(config: Mapping[str, Any]) -> tuple[Numbering, Numbering]:
    """The numbers of a Marian model's tokens; clearhead's padding has the number after the last."""
    start, end = config["pad_token_id"], config["eos_token_id"]
    source, target = (Numbering(size + 1, size, start, end) for size in vocabulary_sizes(config))
    return source, target


def numberings_of(tokenizers: Sequence[Tokenizer]) -> tuple[Numbering, Numbering]:
    """The numbers of the tokens in Hugging Face's model.

    Those of an imported model are its own. Otherwise all are one less than ours: there is no PAD.
    """

    def numbering(tokenizer: Tokenizer) -> Numbering:
        if isinstance(tokenizer, MarianTokenizer):
            return tokenizer.numbering
        return Numbering(len(tokenizer), len(tokenizer) - 1, BOS - 1, EOS - 1)

    source, target = map(numbering, tokenizers)
    return source, target


def tokenizers_of(
    theirs: Any, config: Mapping[str, Any]
) -> tuple[MarianTokenizer, MarianTokenizer]:
    """The tokenizers of source and target, by a `MarianTokenizer` of `transformers`.

    Raises:
        ModelFolderError: a vocabulary does not fit the model.
    """
    vocabularies = theirs.encoder, getattr(theirs, "target_encoder", theirs.encoder)
    source, target = (
        _named(theirs, *each) for each in zip(vocabularies, numberings_in(config), strict=True)
    )
    models = theirs.spm_source.serialized_model_proto(), theirs.spm_target.serialized_model_proto()
    return MarianTokenizer(models[0], *source, "end"), MarianTokenizer(models[1], *target, "none")


def _named(
    theirs: Any, vocabulary: Mapping[str, int], numbering: Numbering
) -> tuple[list[str | None], Numbering, int]:
    """The name of each token, the numbering, and our id of the unknown token, checked."""
    names = {i: name for name, i in vocabulary.items()}
    size = numbering.size - 1
    if len(names) < len(vocabulary) or not 0 <= min(names) <= max(names) < size:
        why = f"it numbers {len(vocabulary)} tokens up to {max(names)}, and the model has {size}"
        raise _refused("a vocabulary that does not fit", why)
    special = {theirs.pad_token: numbering.bos, theirs.eos_token: numbering.eos}
    special[theirs.unk_token] = vocabulary.get(theirs.unk_token, -1)
    for name, number in special.items():
        if names.get(number) != name:
            why = f"in the vocabulary, {number} is {names.get(number)!r}"
            raise _refused(f"another number for its token {name!r}, {number}", why)
    unk_id = int(numbering.ours[vocabulary[theirs.unk_token]])
    return [names.get(i) for i in range(size)], numbering, unk_id


def _write_tokenizer(tokenizers: Sequence[Tokenizer], folder: Path) -> None:
    source, target = tokenizers
    if isinstance(source, MarianTokenizer) and isinstance(target, MarianTokenizer):
        _write_marian_tokenizer(source, target, folder)
        return
    assert isinstance(source, SentencePieceTokenizer)
    tokens = fast_tokenizer(source)
    names = {
        f"{kind}_token": tokens.id_to_token(i - 1)
        for kind, i in (("pad", BOS), ("eos", EOS), ("unk", source.unk_id))
    }
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        **names,
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def _write_marian_tokenizer(source: MarianTokenizer, target: MarianTokenizer, folder: Path) -> None:
    """Write the files of a `MarianTokenizer` of `transformers`."""
    separate = (source.vocabulary, source.numbering) != (target.vocabulary, target.numbering)
    (folder / "source.spm").write_bytes(source.model)
    (folder / "target.spm").write_bytes(target.model)
    write_json(folder / "vocab.json", source.numbers)
    if separate:
        write_json(folder / "target_vocab.json", target.numbers)
    names = source.vocabulary
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "pad_token": names[source.numbering.bos],
        "eos_token": names[source.numbering.eos],
        "unk_token": names[source.numbering.theirs[source.unk_id]],
        "model_max_length": LONGEST,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", settings)


# Models


def write(model: EncoderDecoder, config: RunConfig, tokenizers: Both, folder: Path) -> None:
    """Write the model and the tokenizer as files of Hugging Face."""
    numberings = numberings_of(tokenizers)
    settings = huggingface_config(config.model, numberings)
    kind = "MarianMTModel" if config.model.norm == "post" else "PegasusForConditionalGeneration"
    theirs = getattr(transformers, kind)(settings)
    weights = translator_weights(config.model, numberings)
    tensors = weights.to_huggingface(parameters_of(model))
    theirs.load_state_dict(tensors | {BIAS: tensors[BIAS][None]}, strict=False)
    theirs.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=settings.pad_token_id,
        pad_token_id=settings.pad_token_id,
        eos_token_id=settings.eos_token_id,
        bad_words_ids=[[settings.pad_token_id]],
        num_beams=config.search.beam_size,
        length_penalty=round(config.search.length_penalty / LENGTH_PENALTY, 4),
        max_length=LONGEST,
    )
    theirs.save_pretrained(folder)
    _write_tokenizer(tokenizers, folder)


def imported(original: Any, tokenizer: Any) -> tuple[RunConfig, EncoderDecoder, dict[str, Any]]:
    """The settings, the model and the tokenizers of a Marian model.

    Raises:
        ModelFolderError: it has parts that clearhead lacks, or it is damaged.
    """
    if type(tokenizer).__name__ != "MarianTokenizer":
        what = f"its tokenizer is {type(tokenizer).__name__}, not MarianTokenizer"
        raise ModelFolderError(what)
    config, tensors = original.config.to_dict(), original.state_dict()
    settings = model_settings(config, tensors)
    source, target = tokenizers_of(tokenizer, config)
    run = RunConfig(
        task="translation",
        # Both sides may have the same vocabulary, but they have different pieces.
        tokenizer=TokenizerConfig(kind="pretrained", joint=False),
        model=settings,
        search=_search_of(original.generation_config),
    )
    weights = translator_weights(settings, numberings_of((source, target)))
    parameters = weights.to_clearhead(tensors | {BIAS: tensors[BIAS][0]})
    model = build_model(settings, len(source), len(target)).eval()
    load_parameters(model, parameters, Path(original.name_or_path))
    return run, model, {"source": source, "target": target}


def _search_of(generation: Any) -> SearchConfig:
    """The settings of the search that is nearest to that of `transformers`."""
    if not (generation.num_beams or 0) > 1:
        return SearchConfig(beam_size=1)
    theirs = 1.0 if generation.length_penalty is None else max(0.0, generation.length_penalty)
    return SearchConfig(
        beam_size=generation.num_beams, length_penalty=round(theirs * LENGTH_PENALTY, 4)
    )


def _refused(what: str, why: str) -> ModelFolderError:
    return ModelFolderError(f"this Marian model has {what}", why=why)


# Comparison


@torch.inference_mode()
def compare_import(
    comparison: Comparison,
    model: EncoderDecoder,
    files: Mapping[str, Any],
    theirs: Any,
    tokens: Any,
) -> None:
    """Compare the tokens of texts on both sides, and the logits of the translations of all."""
    tokenizers = files["source"], files["target"]
    _compare_tokens(comparison, tokenizers, tokens, SENTENCES)
    longest = theirs.config.max_position_embeddings
    inputs, outputs = (tokenizer.encode_batch(SENTENCES) for tokenizer in tokenizers)
    _compare_logits(
        comparison,
        model.double(),
        theirs.double(),
        tokenizers,
        [ids[:longest] for ids in inputs],
        [[BOS, *ids][:longest] for ids in outputs],
    )


def compare_export(
    comparison: Comparison, model: EncoderDecoder, tokenizers: Both, theirs: Any, tokens: Any
) -> str:
    """Compare the tokens of texts, greedy outputs, and the logits after each of their tokens."""
    sources = random_sources(len(tokenizers[0]))
    texts = [*SENTENCES, *map(tokenizers[0].decode, sources)]
    _compare_tokens(comparison, tokenizers, tokens, texts)
    numberings = numberings_of(tokenizers)
    best = [best for (best,) in TorchEngine(model).translate(numbered(sources), GREEDY)]
    outputs = [[BOS, *each.tokens, *[EOS] * each.finished] for each in best]
    generated = [_generated(theirs, numberings[0].theirs[source]) for source in sources]
    model, theirs = model.double(), theirs.double()
    for source, output, found in zip(sources, outputs, generated, strict=True):
        logits = _compare_logits(comparison, model, theirs, tokenizers, [source], [output[:-1]])[0]
        expected, found = numberings[1].theirs[output].tolist()[1:], found[1:]
        steps = zip(logits, expected, found, strict=False)
        comparison.outputs(expected, found, [float(step[a] - step[b]) for step, a, b in steps])
    return (
        f"the tokens of {len(texts)} texts and greedy outputs of {len(sources)} random sources "
        f"{comparison.same_outputs}; logits differ by {comparison.largest:.1e} at most"
    )


def _compare_tokens(
    comparison: Comparison, tokenizers: Both, theirs: Any, texts: Sequence[str]
) -> None:
    """Compare the tokens of texts, and the texts of tokens."""
    source, target = tokenizers
    numberings = numberings_of(tokenizers)
    for text in texts:
        numbers, output = numberings[0].theirs[source.encode(text)], target.encode(text)
        comparison.same(f"the tokens of {text!r}", numbers.tolist(), theirs(text)["input_ids"])
        if isinstance(target, MarianTokenizer):
            numbers, found = numberings[1].theirs[[*output, EOS]], theirs(text_target=text)
            what = f"the tokens of the output {text!r}"
            comparison.same(what, numbers.tolist(), found["input_ids"])
        output = [i for i in output if i not in (EOS, target.unk_id)]
        decoded = theirs.decode(numberings[1].theirs[output].tolist(), skip_special_tokens=True)
        comparison.same(f"the text of the tokens of {text!r}", target.decode(output), decoded)


@torch.inference_mode()
def _compare_logits(
    comparison: Comparison,
    model: EncoderDecoder,
    theirs: Any,
    tokenizers: Both,
    inputs: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
) -> Tensor:
    """Compare the logits after each token of outputs; returns them, of their tokens."""
    source, target = (_padded(rows) for rows in (inputs, outputs))
    numberings = numberings_of(tokenizers)
    other = theirs(
        input_ids=_numbers(source, numberings[0]),
        attention_mask=(source != PAD).long(),
        decoder_input_ids=_numbers(target, numberings[1]),
    ).logits
    # Theirs has no PAD.
    own = model(source, target)[..., torch.from_numpy(numberings[1].ours[:-1])]
    comparison.near("logits", own[target != PAD].numpy(), other[target != PAD].numpy())
    return own


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=PAD)


def _numbers(ids: Tensor, numbering: Numbering) -> Tensor:
    """Their number of each token; that of BOS for padding, as they have it."""
    return torch.from_numpy(numbering.theirs)[ids.masked_fill(ids == PAD, BOS)]


def _generated(theirs: Any, source: np.ndarray) -> list[int]:
    """The greedy output of a source by `transformers`, from the start symbol on."""
    longest = longest_output(len(source), GREEDY)
    options = {"do_sample": False, "num_beams": 1, "max_length": None, "max_new_tokens": longest}
    with torch.inference_mode():
        return theirs.generate(input_ids=torch.from_numpy(source)[None], **options)[0].tolist()
