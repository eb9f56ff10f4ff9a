"""Export a translator to Hugging Face: as MarianMTModel, or as Pegasus if it is pre-norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.decoding.engine import longest_output
from clearhead.errors import ExportError
from clearhead.folder.exports import write_export
from clearhead.folder.files import write_json
from clearhead.folder.model_folder import ModelFolder
from clearhead.formats.huggingface.library import (
    ACTIVATION_NAMES,
    SENTENCES,
    TOLERANCE,
    quiet,
    require_transformers,
)
from clearhead.settings import ModelConfig, RunConfig, SearchConfig, Sinusoidal
from clearhead.tokenizer import BOS, EOS, SentencePieceTokenizer, Tokenizer, read_tokenizers
from clearhead.tokenizer.marian import MarianTokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from clearhead.formats.huggingface.marian import Numberings
    from clearhead.model.transformer import EncoderDecoder

NAME = "huggingface"

EPSILON = 1e-5
NORM = f"its layer norm divides by √(variance + {EPSILON:g})"

POSITIONS = 1024
"""The positions of an export; its sinusoids are a table."""

LONGEST = 512
"""Maximum number of tokens of a source and of an output, by default."""

TIE = 1e-3
"""Greedy search may choose either of two tokens whose logits differ by no more."""

LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
GREEDY = SearchConfig(beam_size=1, max_length=48)


@dataclass(frozen=True)
class Equality:
    """The result of a comparison.

    Attributes:
        texts: the number of texts with the same tokens.
        outputs: the number of greedy outputs that are the same.
        largest_difference: of two logits.
    """

    texts: int
    outputs: int
    largest_difference: float

    def __str__(self) -> str:
        return (
            f"the tokens of {self.texts} texts and greedy outputs of {self.outputs} random sources "
            f"are the same; logits differ by {self.largest_difference:.1e} at most"
        )


def export_translator(found: ModelFolder, output: Path) -> list[str]:
    """Write a translator as files of Hugging Face; returns a sentence about the comparison.

    `AutoModelForSeq2SeqLM` and `AutoTokenizer` load the export. This is done first, and compared:
    tokens and greedy outputs must be the same, and logits within 0.0001.

    Raises:
        ExportError: `transformers` has no such model or is not installed, the export differs from
            the model, or as in `write_export`.
        ModelFolderError: the model folder is damaged.
    """
    check_exportable(found.config)
    require_transformers(ExportError)
    description = write_export(found, NAME, output, partial(_build, found))
    return [str(Equality(**description["equality"]))]


def check_exportable(config: RunConfig) -> None:
    """Check that `transformers` computes the same as this translator.

    Raises:
        ExportError: it has no such model; the error names the setting.
    """
    for setting, why in _unsupported(config):
        raise ExportError(
            f"{setting} cannot be exported to Hugging Face",
            why=why,
            todo="use the model as it is, or train one with another setting",
        )


def _unsupported(config: RunConfig) -> Iterator[tuple[str, str]]:
    """The settings that `transformers` does not have, each with the reason."""
    tokens, model = config.tokenizer, config.model
    if tokens.new_words:
        yield "tokenizer.new_words", "the tokenizer of the export would divide the new words"
    theirs = "Marian" if model.norm == "post" else "Pegasus"
    if tokens.kind == "words":
        yield "tokenizer.kind = 'words'", "the export has pieces of SentencePiece"
    elif tokens.kind != "pretrained" and not tokens.joint:
        why = "its tokenizer of two vocabularies, MarianTokenizer, ends each source with </s>"
        yield "tokenizer.joint = false", why
    if not isinstance(model.positions, Sinusoidal):
        yield f"model.positions.kind = {model.positions.kind!r}", f"{theirs} has sinusoids"
    if model.norm_form != "standard":
        yield f"model.norm_form = {model.norm_form!r}", NORM
    if model.norm_epsilon != EPSILON:
        yield f"model.norm_epsilon = {model.norm_epsilon}", NORM
    if model.norm == "pre" and not model.final_norm:
        yield "model.final_norm = false", "Pegasus always has a final norm"
    if model.norm == "pre" and model.share_embeddings != "all":
        yield f"model.share_embeddings = {model.share_embeddings!r}", "Pegasus shares all"
    if model.embedding_norm:
        yield "model.embedding_norm = true", f"{theirs} has no such norm"
    if model.input_convolution:
        yield "model.input_convolution", f"{theirs} has no convolution"
    head = model.d_model // model.n_heads
    if (model.key_width, model.value_width) != (head, head):
        what = f"model.d_k = {model.key_width}, model.d_v = {model.value_width}"
        yield what, f"a head of {theirs} has the width d_model / n_heads = {head}"


def _build(found: ModelFolder, folder: Path) -> dict[str, Any]:
    """Write all files of the export, load it, and compare it with the model."""
    import torch
    import transformers

    from clearhead.decoding.torch_engine import trained_translator

    model = trained_translator(found, torch.device("cpu"))
    tokenizers = read_tokenizers(found)
    numberings = numberings_of(tokenizers)
    with quiet():
        _write_model(model, found.config, numberings, folder)
        _write_tokenizer(tokenizers, folder)
        loaded, facts = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32
        )
        if wrong := [name for kind in facts.values() for name in kind]:
            raise unequal(f"the tensor {wrong[0]} is missing or unknown")
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    sources = _random_sources(len(tokenizers[0]))
    texts = _compare_tokens(tokenizers, theirs, numberings, sources)
    largest = _compare_outputs(model, loaded.eval(), numberings, sources)
    return {"equality": asdict(Equality(texts, len(sources), largest))}


def numberings_of(tokenizers: Sequence[Tokenizer]) -> Numberings:
    """The numbers of the tokens in Hugging Face's model.

    Those of an imported model are its own. Otherwise all are one less than ours: there is no PAD.
    """
    from clearhead.formats.huggingface.marian import Numberings
    from clearhead.tokenizer.pretrained import Numbering

    def numbering(tokenizer: Tokenizer) -> Numbering:
        if isinstance(tokenizer, MarianTokenizer):
            return tokenizer.numbering
        return Numbering(len(tokenizer), len(tokenizer) - 1, BOS - 1, EOS - 1)

    return Numberings(*map(numbering, tokenizers))


def _write_model(
    model: EncoderDecoder, config: RunConfig, numberings: Numberings, folder: Path
) -> None:
    """Write `config.json`, `generation_config.json` and `model.safetensors`."""
    import transformers

    from clearhead.folder.tensors import parameters_of
    from clearhead.formats.huggingface.marian import LENGTH_PENALTY, from_clearhead

    settings = huggingface_config(config.model, numberings)
    kind = "MarianMTModel" if config.model.norm == "post" else "PegasusForConditionalGeneration"
    theirs = getattr(transformers, kind)(settings)
    theirs.load_state_dict(
        from_clearhead(parameters_of(model), config.model, numberings), strict=False
    )
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


def huggingface_config(settings: ModelConfig, numberings: Numberings) -> Any:
    """The `MarianConfig` or `PegasusConfig` of a model."""
    import transformers

    source, target = numberings
    common: dict[str, Any] = dict(
        vocab_size=source.size - 1,
        d_model=settings.d_model,
        encoder_layers=settings.encoder_layers,
        decoder_layers=settings.decoder_layers,
        encoder_attention_heads=settings.n_heads,
        decoder_attention_heads=settings.n_heads,
        encoder_ffn_dim=settings.d_ff,
        decoder_ffn_dim=settings.d_ff,
        activation_function=ACTIVATION_NAMES[settings.activation],
        scale_embedding=settings.scale_embeddings,
        max_position_embeddings=POSITIONS,
        dropout=settings.dropout.residual,
        attention_dropout=settings.dropout.attention,
        activation_dropout=settings.dropout.hidden,
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


def _write_tokenizer(tokenizers: Sequence[Tokenizer], folder: Path) -> None:
    source, target = tokenizers
    if isinstance(source, MarianTokenizer) and isinstance(target, MarianTokenizer):
        _write_marian_tokenizer(source, target, folder)
        return
    import transformers

    from clearhead.formats.huggingface.pieces import fast_tokenizer

    if not isinstance(source, SentencePieceTokenizer):
        raise ExportError("the tokenizer of this model cannot be exported to Hugging Face")
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


def _random_sources(vocabulary: int) -> list[list[int]]:
    """Random sources of several lengths, the same at every call."""
    draw = np.random.default_rng(1)
    return [draw.integers(EOS + 1, vocabulary, length).tolist() for length in LENGTHS]


def _compare_tokens(
    tokenizers: Sequence[Tokenizer],
    theirs: Any,
    numberings: Numberings,
    sources: Sequence[Sequence[int]],
) -> int:
    """Compare the tokens of texts, and the texts of tokens; returns the number of texts.

    Raises:
        ExportError: they differ.
    """
    ours, target = tokenizers
    texts = [*SENTENCES, *map(ours.decode, sources)]
    for text, found in zip(texts, ours.encode_batch(texts), strict=True):
        if [int(numberings.source.theirs[i]) for i in found] != theirs(text)["input_ids"]:
            raise unequal(f"the tokens of {text!r} differ")
        output = [i for i in target.encode(text) if i not in (EOS, target.unk_id)]
        numbers = [int(numberings.target.theirs[i]) for i in output]
        if target.decode(output) != theirs.decode(numbers, skip_special_tokens=True):
            raise unequal(f"the text of the tokens of {text!r} differs")
    return len(texts)


def _compare_outputs(
    model: EncoderDecoder, theirs: Any, numberings: Numberings, sources: Sequence[list[int]]
) -> float:
    """Compare greedy outputs, and the logits after each of their tokens.

    Returns:
        The largest difference of two logits.

    Raises:
        ExportError: outputs differ, other than after a tie, or logits by more than rounding.
    """
    from clearhead.decoding.torch_engine import TorchEngine

    outputs = [best for (best,) in TorchEngine(model).translate(sources, GREEDY)]
    numbers = [
        numberings.target.theirs[[BOS, *h.tokens, *[EOS] * h.finished]].tolist() for h in outputs
    ]
    generated = [_generated(theirs, numberings.source.theirs[source]) for source in sources]
    model, theirs = model.double(), theirs.double()
    largest = 0.0
    for source, expected, found in zip(sources, numbers, generated, strict=True):
        own, other = _logits(model, theirs, numberings, source, expected)
        difference = float((own - other).abs().max())
        # Written so that NaN is an error too.
        if not difference <= TOLERANCE:
            raise unequal(f"logits differ by {difference:.2g}")
        largest = max(largest, difference)
        if found != expected:
            at = next(i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b)
            if abs(float(own[at - 1, found[at]] - own[at - 1, expected[at]])) > TIE:
                raise unequal(f"greedy outputs differ at token {at}")
    return largest


def _generated(theirs: Any, source: np.ndarray) -> list[int]:
    """The greedy output of a source by `transformers`, from the start symbol on."""
    import torch

    longest = longest_output(len(source), GREEDY)
    options = {"do_sample": False, "num_beams": 1, "max_length": None, "max_new_tokens": longest}
    with torch.inference_mode():
        return theirs.generate(input_ids=torch.from_numpy(source)[None], **options)[0].tolist()


def _logits(
    model: EncoderDecoder,
    theirs: Any,
    numberings: Numberings,
    source: Sequence[int],
    output: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The logits (tokens, their vocabulary) after each of their numbers in an output, by both."""
    import torch

    inputs, begun = torch.tensor([source]), torch.tensor([output[:-1]])
    numbers = torch.from_numpy(numberings.source.theirs)[inputs]
    ours = torch.from_numpy(numberings.target.ours)
    with torch.inference_mode():
        other = theirs(input_ids=numbers, decoder_input_ids=begun).logits[0]
        own = model.output(model(inputs, ours[begun]))[0]
    # Theirs has no PAD.
    return own[:, ours[:-1]], other


def unequal(why: str) -> ExportError:
    """The error of an export that differs from the model."""
    return ExportError(
        "the exported model differs from the model, so it was discarded",
        why=why,
        todo="use the model as it is",
    )
