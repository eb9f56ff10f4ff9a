"""Marian models and clearhead's are the same function, and the way back gives the same bytes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.decoding.engine import longest_output, numbered
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ModelFolderError
from clearhead.folder.tensors import load_parameters
from clearhead.formats.huggingface.translators import (
    BIAS,
    model_settings,
    numberings_in,
    vocabulary_sizes,
)
from clearhead.formats.huggingface.weights import WeightMap, translator_weights
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, PAD
from marian_models import random_marian

transformers = pytest.importorskip("transformers")


SHARED = "model.shared.weight"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def read(theirs: Any) -> tuple[WeightMap, dict[str, Tensor]]:
    """The map of a model, and our parameters."""
    config, tensors = theirs.config.to_dict(), theirs.state_dict()
    weights = translator_weights(model_settings(config, tensors), numberings_in(config))
    return weights, weights.to_clearhead(tensors | {BIAS: tensors[BIAS][0]})


def imported(theirs: Any) -> EncoderDecoder:
    config = theirs.config.to_dict()
    source, target = numberings_in(config)
    ours = build_model(model_settings(config, theirs.state_dict()), source.size, target.size)
    load_parameters(ours, read(theirs)[1], Path("marian"))
    return ours.eval()


def back_and_forth(theirs: Any) -> dict[str, Tensor]:
    weights, parameters = read(theirs)
    found = weights.to_huggingface(parameters)
    return found | {BIAS: found[BIAS][None]}


def ids(count: int, length: int, size: int, config: Any) -> Tensor:
    """Random ids of Marian's, none of them padding."""
    drawn = torch.randint(size - 1, (count, length))
    return drawn + (drawn >= config.pad_token_id)


TYINGS = [
    dict(share_encoder_decoder_embeddings=share, tie_word_embeddings=tie)
    for share, tie in itertools.product([True, False], repeat=2)
]
CHOICES = [
    *TYINGS,
    *(dict(each, decoder_vocab_size=26) for each in TYINGS[2:]),
    *(dict(activation_function=f) for f in ("relu", "gelu", "gelu_new", "swish", "silu")),
    dict(scale_embedding=True),
    dict(encoder_layers=3, decoder_layers=1),
    dict(pad_token_id=28, decoder_start_token_id=28, eos_token_id=0),
    dict(pad_token_id=0, decoder_start_token_id=0, eos_token_id=2),
    dict(d_model=6, encoder_attention_heads=3, decoder_attention_heads=3),
    dict(d_model=9, encoder_attention_heads=3, decoder_attention_heads=3),
]


@pytest.mark.slow
@pytest.mark.parametrize("choices", CHOICES, ids=str)
@torch.no_grad()
def test_logits_and_greedy_outputs_are_those_of_transformers(choices: dict[str, Any]) -> None:
    theirs = random_marian(**choices)
    ours, config = imported(theirs), theirs.config
    source_size, target_size = vocabulary_sizes(config.to_dict())
    numberings = numberings_in(config.to_dict())
    as_source, as_target = (torch.from_numpy(each.ours) for each in numberings)
    sources = ids(6, 9, source_size, config)
    lengths = torch.tensor([9, 1, 4, 9, 7, 2])
    mask = torch.arange(9) < lengths[:, None]
    starts = torch.full((6, 1), config.decoder_start_token_id)
    targets = torch.cat([starts, ids(6, 11, target_size, config)], dim=1)
    expected = theirs(
        input_ids=sources.masked_fill(~mask, config.pad_token_id),
        attention_mask=mask.long(),
        decoder_input_ids=targets,
    ).logits

    padded = as_source[sources].masked_fill(~mask, PAD)
    found = ours(padded, as_target[targets])
    torch.testing.assert_close(found[:, :, as_target[:-1]], expected, atol=1e-5, rtol=1e-5)
    assert (found[:, :, PAD] == -100).all()

    search = SearchConfig(beam_size=1, max_length=20)
    rows = [row[:n].tolist() for row, n in zip(padded, lengths.tolist(), strict=True)]
    outputs = TorchEngine(ours).translate(numbered(rows), search)
    generated = theirs.generate(
        input_ids=sources.masked_fill(~mask, config.pad_token_id),
        attention_mask=mask.long(),
        num_beams=1,
        do_sample=False,
        bad_words_ids=[[config.pad_token_id]],
        max_new_tokens=20,
    )
    for row, (output,), source in zip(generated[:, 1:], outputs, rows, strict=True):
        longest = longest_output(len(source), search, 0, None)
        wanted = [i for i in row.tolist() if i not in (config.pad_token_id, config.eos_token_id)]
        assert numberings[1].theirs[list(output.tokens)].tolist() == wanted[:longest]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_the_way_back_gives_the_same_bytes(choices: dict[str, Any]) -> None:
    theirs = random_marian(**choices)
    tensors, back = theirs.state_dict(), back_and_forth(theirs)
    assert back.keys() == tensors.keys() - set(POSITIONS)
    for name, tensor in back.items():
        assert tensor.dtype == tensors[name].dtype
        assert torch.equal(tensor.view(torch.int32), tensors[name].view(torch.int32)), name


def test_embeddings_that_transformers_does_not_tie_stay_apart() -> None:
    choices = dict(share_encoder_decoder_embeddings=True, tie_word_embeddings=False)
    theirs = random_marian(tied=False, **choices)
    tensors, back = theirs.state_dict(), back_and_forth(theirs)
    settings = model_settings(theirs.config.to_dict(), tensors)
    assert settings.share_embeddings == "none"
    # The shared matrix is in the file, and nothing uses it.
    assert back.keys() == tensors.keys() - {SHARED, *POSITIONS}
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in back.items())


def test_the_start_symbol_is_the_padding_token() -> None:
    theirs = random_marian()
    weight = imported(theirs).source_input.embedding.weight  # pyright: ignore
    sines_first = weight[:, [0, 2, 4, 6, 1, 3, 5, 7]]  # pyright: ignore
    assert torch.equal(sines_first[BOS], theirs.model.shared.weight[21])
    assert not sines_first[PAD].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choices", "named"),
    [
        (dict(activation_function="tanh"), "activation_function"),
        (dict(decoder_ffn_dim=16), "decoder_ffn_dim"),
        (dict(decoder_attention_heads=4), "decoder_attention_heads"),
        (dict(decoder_start_token_id=5), "decoder_start_token_id"),
        (dict(eos_token_id=21), "eos_token_id"),
        (dict(eos_token_id=40), "eos_token_id"),
        (dict(eos_token_id=[3, 4]), "eos_token_id"),
        (dict(decoder_vocab_size=26, tie_word_embeddings=False), "decoder_vocab_size"),
        (dict(normalize_before=True), "normalize_before"),
    ],
)
def test_what_clearhead_cannot_compute_is_refused_by_name(
    choices: dict[str, Any], named: str
) -> None:
    config = random_marian().config.to_dict() | choices
    with pytest.raises(ModelFolderError) as caught:
        model_settings(config, random_marian().state_dict())
    assert named in caught.value.what
