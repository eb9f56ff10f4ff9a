"""Tests of the bridge to PyTorch's Transformer: equal outputs, both ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clearhead import nn
from clearhead.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(4)
KINDS = [
    {},
    {"norm_first": True},
    {"activation": "gelu", "batch_first": True},
    {"bias": False},
    {"layer_norm_eps": 1e-3},
]


def torch_transformer(**choices: Any) -> torch.nn.Transformer:
    torch.manual_seed(1)
    found = torch.nn.Transformer(16, 4, 2, 3, 24, **choices).double().eval()
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return found


@pytest.mark.parametrize("choices", KINDS)
def test_stacks_of_torch_compute_the_same(choices: dict[str, Any]) -> None:
    theirs = torch_transformer(**choices)
    encoder, decoder = nn.from_torch(theirs)
    x, y = torch.randn(3, 5, 16).double(), torch.randn(3, 4, 16).double()
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1, 3:] = False
    flip = (lambda t: t) if choices.get("batch_first") else (lambda t: t.transpose(0, 1))
    hidden = {"src_key_padding_mask": ~mask, "memory_key_padding_mask": ~mask}
    expected = flip(theirs(flip(x), flip(y), tgt_mask=CAUSAL, **hidden))
    found = decoder(y, encoder(x, mask), memory_mask=mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    again = nn.from_torch(nn.to_torch(encoder))
    for name, weight in encoder.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_torch_computes_what_a_transformer_does(norm: Any, activation: str) -> None:
    torch.manual_seed(2)
    shape: dict[str, Any] = dict(d_model=16, heads=4, layers=2, attention_bias=False)
    model = nn.Transformer(20, 20, norm=norm, activation=activation, **shape).double().eval()
    theirs = nn.to_torch(model)
    source, target = torch.randint(3, 20, (3, 5)), torch.randint(3, 20, (3, 4))
    expected = model(source, target, hidden=True)
    found = theirs(model.source_input(source), model.target_input(target), tgt_mask=CAUSAL)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_module_keeps_its_mode() -> None:
    model = nn.Transformer(9, 9, d_model=16, heads=4, layers=1)
    for training in (True, False):
        theirs = nn.to_torch(model.train(training))
        ours = nn.from_torch(theirs)
        assert {m.training for each in (theirs, *ours) for m in each.modules()} == {training}


def test_what_the_other_lacks_is_refused() -> None:
    lacking: list[dict[str, Any]] = [
        {"activation": "swish"},
        {"norm_form": "std_plus_epsilon"},
        {"d_k": 3},
    ]
    for choices in lacking:
        with pytest.raises(ConfigError):
            nn.to_torch(nn.Transformer(9, 9, d_model=16, heads=4, layers=1, **choices))
    for module in (torch.nn.Linear(2, 2), torch_transformer(activation=torch.tanh)):
        with pytest.raises(ConfigError):
            nn.from_torch(module)  # pyright: ignore[reportCallIssue,reportArgumentType]
