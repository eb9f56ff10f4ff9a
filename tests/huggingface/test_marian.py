"""Marian models and clearhead's are the same function, and the way back gives the same bytes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.checkpoint.tensors import load_parameters
from clearhead.decoding.engine import longest_output
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ClearheadError
from clearhead.huggingface.marian import (
    POSITIONS,
    SHARED,
    from_clearhead,
    model_settings,
    to_clearhead,
    token_order,
    vocabulary_sizes,
)
from clearhead.model.build import build_model
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, PAD

transformers = pytest.importorskip("transformers")

SMALL = dict(
    vocab_size=29,
    d_model=8,
    encoder_layers=1,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=12,
    decoder_ffn_dim=12,
    max_position_embeddings=64,
    pad_token_id=21,
    decoder_start_token_id=21,
    eos_token_id=3,
    forced_eos_token_id=None,
    bos_token_id=None,
)


def marian(seed: int = 1, tied: bool = True, **choices: Any) -> Any:
    """A random Marian model, every tensor drawn; `tied`: shared embeddings are equal."""
    torch.manual_seed(seed)
    config = transformers.MarianConfig(**(SMALL | choices))
    model = transformers.MarianMTModel(config).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:  # not the table of positions
            nn.init.normal_(parameter, std=0.4)
    nn.init.normal_(model.final_logits_bias)
    if config.share_encoder_decoder_embeddings and tied:
        with torch.no_grad():
            for part in (model.model.encoder, model.model.decoder):
                part.embed_tokens.weight.copy_(model.model.shared.weight)
    return model


def imported(theirs: Any) -> EncoderDecoder:
    config, tensors = theirs.config.to_dict(), theirs.state_dict()
    settings = model_settings(config, tensors)
    source, target = (size + 1 for size in vocabulary_sizes(config))
    ours = build_model(settings, source, target)
    load_parameters(ours, to_clearhead(tensors, config), where=None)  # pyright: ignore
    return ours.eval()


def ids(count: int, length: int, size: int, config: Any) -> Tensor:
    """Random ids of Marian's, none of them padding."""
    drawn = torch.randint(size - 1, (count, length))
    return drawn + (drawn >= config.pad_token_id)


def as_ours(theirs: Tensor, size: int, config: Any) -> Tensor:
    order = token_order(size, config.pad_token_id, config.eos_token_id)
    return 1 + torch.argsort(torch.tensor(order))[theirs]


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


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@torch.no_grad()
def test_logits_and_greedy_outputs_are_those_of_transformers(choices: dict[str, Any]) -> None:
    theirs = marian(**choices)
    ours, config = imported(theirs), theirs.config
    source_size, target_size = vocabulary_sizes(config.to_dict())
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

    padded = as_ours(sources, source_size, config).masked_fill(~mask, PAD)
    found = ours.output(ours(padded, as_ours(targets, target_size, config)))
    order = token_order(target_size, config.pad_token_id, config.eos_token_id)
    torch.testing.assert_close(found[:, :, 1:], expected[:, :, order], atol=1e-5, rtol=1e-5)
    assert (found[:, :, PAD] == -100).all()

    search = SearchConfig(beam_size=1, max_length=20)
    rows = [row[:n].tolist() for row, n in zip(padded, lengths.tolist(), strict=True)]
    outputs = TorchEngine(ours).translate(rows, search)
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
        assert [order[i - 1] for i in output.tokens] == wanted[:longest]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_the_way_back_gives_the_same_bytes(choices: dict[str, Any]) -> None:
    theirs = marian(**choices)
    config, tensors = theirs.config.to_dict(), theirs.state_dict()
    settings = model_settings(config, tensors)
    back = from_clearhead(to_clearhead(tensors, config), settings, config)
    assert back.keys() == tensors.keys() - set(POSITIONS)
    for name, tensor in back.items():
        assert tensor.dtype == tensors[name].dtype
        assert torch.equal(tensor.view(torch.int32), tensors[name].view(torch.int32)), name


def test_embeddings_that_transformers_does_not_tie_stay_apart() -> None:
    choices = dict(share_encoder_decoder_embeddings=True, tie_word_embeddings=False)
    theirs = marian(tied=False, **choices)
    config, tensors = theirs.config.to_dict(), theirs.state_dict()
    settings = model_settings(config, tensors)
    assert settings.share_embeddings == "none"
    back = from_clearhead(to_clearhead(tensors, config), settings, config)
    # The shared matrix is in the file, and nothing uses it.
    assert back.keys() == tensors.keys() - {SHARED, *POSITIONS}
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in back.items())


def test_the_start_symbol_is_the_padding_token() -> None:
    theirs = marian()
    weight = imported(theirs).source_input.embedding.weight  # pyright: ignore
    sines_first = weight[:, [0, 2, 4, 6, 1, 3, 5, 7]]  # pyright: ignore
    assert torch.equal(sines_first[BOS], theirs.model.shared.weight[21])
    assert not sines_first[PAD].any()


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
    config = marian().config.to_dict() | choices
    with pytest.raises(ClearheadError) as caught:
        model_settings(config, marian().state_dict())
    assert named in caught.value.what


def test_tensors_that_do_not_belong_to_the_model_are_refused() -> None:
    theirs = marian()
    config, tensors = theirs.config.to_dict(), theirs.state_dict()
    lacking = {name: each for name, each in tensors.items() if name != "final_logits_bias"}
    learned = tensors | {POSITIONS[0]: torch.ones(64, 8)}
    untied = tensors | {"lm_head.weight": torch.ones(29, 8)}
    more = tensors | {"model.encoder.layer_norm.weight": torch.ones(8)}
    for wrong in (lacking, learned, untied, more):
        with pytest.raises(ClearheadError):
            to_clearhead(wrong, config)
