"""The reference systems have the initial weights of their descriptions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from clearhead.model.layers import StdPlusEpsilonNorm
from clearhead.model.transformer import EncoderDecoder
from reference_examples import model_of
from small_models import assert_normal, embedding_of, fills


def translator_of(letter: str) -> EncoderDecoder:
    """The untrained model of a lesson, in its full size."""
    torch.manual_seed(1)
    return model_of(letter)


def assert_norms_change_nothing(model: nn.Module) -> None:
    """The gains of all norms are one, their biases zero."""
    norms = [
        module
        for module in model.modules()
        if isinstance(module, StdPlusEpsilonNorm | nn.LayerNorm)
    ]
    assert norms
    assert all(bool((norm.weight == 1).all() and (norm.bias == 0).all()) for norm in norms)


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["a", "c"])
def test_systems_a_and_c_begin_as_pytorch_does(letter: str) -> None:
    model = translator_of(letter)
    source, target = (
        embedding_of(model.source_input).weight,
        embedding_of(model.target_input).weight,
    )
    # A has one matrix for both embeddings and the output, an embedding's.
    one = letter == "a"
    assert (source is target) == (target is model.output.weight) == one
    assert_normal(source.detach(), 1)
    assert_normal(target.detach(), 1)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not (one and name == "output"):
            bound = module.in_features**-0.5
            assert fills(module.weight.detach(), bound), name
            assert module.bias is None or module.bias.detach().abs().max() <= bound, name
    assert_norms_change_nothing(model)


def test_system_d_begins_as_pytorch_does() -> None:
    torch.manual_seed(1)
    model = model_of("d")
    for module in model.modules():
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            assert 0.9 * bound < float(module.weight.detach().abs().max()) <= bound
    assert_norms_change_nothing(model)


def test_every_matrix_of_system_e_is_drawn_by_xavier() -> None:
    model = translator_of("e")
    matrices = {name: p.detach() for name, p in model.named_parameters() if p.dim() > 1}
    packed = 0
    for name, matrix in matrices.items():
        # The system's attentions have four layers each: here Q, K and V lie in one matrix.
        parts = matrix.chunk(3) if "packed" in name else [matrix]
        packed += len(parts) == 3
        for part in parts:
            assert fills(part, math.sqrt(6 / sum(part.shape))), name
    assert packed == 2 + 2 * 2  # an attention a layer of the encoder, two of the decoder
    assert_norms_change_nothing(model)
