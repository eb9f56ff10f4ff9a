"""The import of Marian translators, and the comparison of the import with the original."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.errors import ModelFolderError
from clearhead.folder.tensors import load_parameters
from clearhead.formats.huggingface.imported import Imported, compare
from clearhead.formats.huggingface.library import SENTENCES
from clearhead.formats.huggingface.marian import (
    LENGTH_PENALTY,
    model_settings,
    numberings_of,
    to_clearhead,
    tokenizers_of,
)
from clearhead.model.build import build_model
from clearhead.settings import RunConfig, SearchConfig, TokenizerConfig
from clearhead.tokenizer import BOS, EOS, PAD
from clearhead.tokenizer.marian import MarianTokenizer


def imported_translator(original: Any, tokenizer: Any, folder: Path) -> Imported:
    """The import of a Marian model, whose `tokenizer` is that of `transformers`.

    Raises:
        ModelFolderError: it has parts that clearhead lacks, or it is damaged.
    """
    if type(tokenizer).__name__ != "MarianTokenizer":
        what = f"its tokenizer is {type(tokenizer).__name__}, not MarianTokenizer"
        raise ModelFolderError(what)
    config, tensors = original.config.to_dict(), original.state_dict()
    settings, numberings = model_settings(config, tensors), numberings_of(config)
    source, target = tokenizers_of(tokenizer, config)
    run = RunConfig(
        task="translation",
        folder=str(folder),
        # Both sides may have the same vocabulary, but they have different pieces.
        tokenizer=TokenizerConfig(kind="pretrained", joint=False),
        model=settings,
        search=_search_of(original.generation_config),
    )
    parameters = to_clearhead(tensors, settings, numberings)
    return Imported(run, parameters, {"source": source, "target": target})


def _search_of(generation: Any) -> SearchConfig:
    """The settings of the search that is nearest to that of `transformers`."""
    if not (generation.num_beams or 0) > 1:
        return SearchConfig(beam_size=1)
    theirs = 1.0 if generation.length_penalty is None else max(0.0, generation.length_penalty)
    return SearchConfig(
        beam_size=generation.num_beams, length_penalty=round(theirs * LENGTH_PENALTY, 4)
    )


@torch.inference_mode()
def verify_translator(imported: Imported, original: Any, tokenizer: Any) -> None:
    """Compare ids and texts of both sides, and logits in float64, to which `original` is changed.

    In float32, rounding alone may exceed the tolerance in models with large numbers.

    Raises:
        ModelFolderError: they differ.
    """
    source, target = imported.files["source"], imported.files["target"]
    assert isinstance(source, MarianTokenizer)
    assert isinstance(target, MarianTokenizer)
    texts = list(SENTENCES)
    sources, targets = source.encode_batch(texts), target.encode_batch(texts)
    _verify_tokens(source, sources, tokenizer(texts)["input_ids"])
    labels = tokenizer(text_target=texts)["input_ids"]
    _verify_tokens(target, [[*ids, EOS] for ids in targets], labels)
    if list(map(target.decode, targets)) != tokenizer.batch_decode(
        labels, skip_special_tokens=True
    ):
        raise ModelFolderError("the imported tokenizer gives other texts")
    model = build_model(imported.config.model, len(source), len(target)).eval()
    load_parameters(model, imported.parameters, Path(imported.config.folder))
    model, original = model.double(), original.double()
    longest = original.config.max_position_embeddings
    inputs = _padded([ids[:longest] for ids in sources])
    outputs = _padded([[BOS, *ids][:longest] for ids in targets])
    theirs = original(
        input_ids=_numbers(inputs, source),
        attention_mask=(inputs != PAD).long(),
        decoder_input_ids=_numbers(outputs, target),
    )
    # Theirs has no padding token.
    ours = model.output(model(inputs, outputs))[..., torch.from_numpy(target.numbering.ours[:-1])]
    compare("logits", ours, theirs.logits, outputs != PAD)


def _verify_tokens(
    tokenizer: MarianTokenizer, ours: Sequence[list[int]], theirs: Sequence[list[int]]
) -> None:
    for text, ids, numbers in zip(SENTENCES, ours, theirs, strict=True):
        if tokenizer.numbering.theirs[ids].tolist() != numbers:
            raise ModelFolderError("the imported tokenizer gives other ids", why=f"for {text!r}")


def _padded(rows: Sequence[list[int]]) -> Tensor:
    return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=PAD)


def _numbers(ids: Tensor, tokenizer: MarianTokenizer) -> Tensor:
    """Their number of each token; that of BOS for padding, as they have it."""
    return torch.from_numpy(tokenizer.numbering.theirs)[ids.masked_fill(ids == PAD, BOS)]
