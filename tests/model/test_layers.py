"""Tests of the stacks against PyTorch's TransformerEncoder and TransformerDecoder, in float64."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.model.attention import Attend, attention, explicit_attention, fused_attention
from clearhead.model.layers import StdPlusEpsilonNorm
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import ModelConfig
from small_models import padded, random_ids, random_model, small_config

SOURCE = [[3, 4, 5, 6, 7], [8, 9], [10, 11, 12]]
TARGET = [[1, 3, 4], [1, 5, 6, 7], [1]]


TORCH_NAMES = (
    (r"self_attention\.packed\.", "self_attn.in_proj_"),
    (r"cross_attention\.packed\.", "multihead_attn.in_proj_"),
    (r"self_attention\.output", "self_attn.out_proj"),
    (r"cross_attention\.output", "multihead_attn.out_proj"),
    (r"feed_forward\.hidden", "linear1"),
    (r"feed_forward\.output", "linear2"),
    (r"residuals\.0\.norm", "norm1"),
    (r"residuals\.1\.norm", "norm2"),
    (r"residuals\.2\.norm", "norm3"),
)


def copy_weights(theirs: nn.Module, ours: nn.Module) -> None:
    """Our weights by PyTorch's names; biases that we do not have are zero."""
    state = {name: torch.zeros_like(weight) for name, weight in theirs.state_dict().items()}
    for name, weight in ours.state_dict().items():
        for pattern, replacement in TORCH_NAMES:
            name = re.sub(pattern, replacement, name)
        assert name in state
        state[name] = weight
    theirs.load_state_dict(state)


def torch_stacks(
    model: EncoderDecoder, config: ModelConfig
) -> tuple[nn.TransformerEncoder, nn.TransformerDecoder]:
    """PyTorch's stacks with the weights of ours."""
    choices: dict[str, Any] = {
        "d_model": config.d_model,
        "nhead": config.n_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "activation": config.activation,
        "layer_norm_eps": config.norm_epsilon,
        "batch_first": True,
        "norm_first": config.norm == "pre",
        "dtype": torch.float64,
    }

    def last_norm() -> nn.LayerNorm | None:
        norm = nn.LayerNorm(config.d_model, config.norm_epsilon, dtype=torch.float64)
        return norm if config.norm == "pre" and config.final_norm else None

    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**choices),
        config.encoder_layers,
        last_norm(),
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**choices), config.decoder_layers, last_norm()
    )
    copy_weights(encoder, model.encoder)
    copy_weights(decoder, model.decoder)
    return encoder, decoder


def assert_equal_to_torch(model: EncoderDecoder, config: ModelConfig, source: Tensor) -> None:
    """Outputs of both stacks and gradients of their inputs, with padding and causal masks."""
    target = padded(TARGET)
    encoder, decoder = torch_stacks(model, config)
    x = model.source_input(source).detach().requires_grad_()
    y = model.target_input(target).detach().requires_grad_()
    causal = nn.Transformer.generate_square_subsequent_mask(y.size(1), dtype=torch.float64).isinf()

    memory = encoder(x, src_key_padding_mask=source == 0)
    expected = decoder(y, memory, tgt_mask=causal, memory_key_padding_mask=source == 0)

    source_mask = model.source_input.mask(source)
    torch.testing.assert_close(model.encoder(x, source_mask), memory, rtol=0, atol=1e-11)
    torch.testing.assert_close(model(source, target, hidden=True), expected, rtol=0, atol=1e-11)

    ours = model.decoder(y, model.encoder(x, source_mask), ~causal[None, None], source_mask)
    slope = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad((ours * slope).sum(), (x, y)),
        torch.autograd.grad((expected * slope).sum(), (x, y)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(("attention_bias", "feed_forward_bias"), [(1, 1), (0, 1), (0, 0)])
@pytest.mark.parametrize("attend", [explicit_attention, fused_attention, attention])
def test_stacks_equal_those_of_torch(
    norm: Literal["pre", "post"],
    activation: Literal["relu", "gelu"],
    attention_bias: int,
    feed_forward_bias: int,
    attend: Attend,
) -> None:
    config = small_config(
        norm=norm,
        activation=activation,
        attention_bias=bool(attention_bias),
        feed_forward_bias=bool(feed_forward_bias),
    )
    assert_equal_to_torch(random_model(config, attend=attend), config, padded(SOURCE))


def test_pre_norm_stacks_without_a_final_norm_equal_those_of_torch() -> None:
    config = small_config(norm="pre", final_norm=False)
    assert_equal_to_torch(random_model(config), config, padded(SOURCE))


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.lists(st.integers(1, 6), min_size=3, max_size=3),
    st.sampled_from(["pre", "post"]),
    st.sampled_from([1e-6, 1e-5, 1e-3]),
)
def test_stacks_of_any_shape_equal_those_of_torch(
    encoder_layers: int,
    decoder_layers: int,
    n_heads: int,
    width: int,
    lengths: list[int],
    norm: Literal["pre", "post"],
    epsilon: float,
) -> None:
    config = small_config(
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        d_model=n_heads * width,
        d_k=width,
        d_v=width,
        n_heads=n_heads,
        d_ff=5,
        norm=norm,
        norm_epsilon=epsilon,
    )
    # Weights that keep the gradients of a norm over one or two numbers tame.
    model = random_model(config, scale=0.3)
    ids = [random_ids(1, length)[0].tolist() for length in lengths]
    assert_equal_to_torch(model, config, padded(ids))


@pytest.mark.slow
@given(st.integers(2, 6), st.integers(1, 4), st.sampled_from([1e-6, 1e-2, 1.0]))
def test_the_std_norm_divides_by_the_unbiased_deviation_plus_epsilon(
    d_model: int, rows: int, epsilon: float
) -> None:
    norm = StdPlusEpsilonNorm(d_model, epsilon).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = torch.randn(rows, 3, d_model, dtype=torch.float64) * 3 + 1
    got = norm(x)
    for row in range(rows):
        for position in range(3):
            numbers = x[row, position]
            mean = sum(numbers) / d_model
            deviation = (sum((number - mean) ** 2 for number in numbers) / (d_model - 1)) ** 0.5
            expected = norm.weight * (numbers - mean) / (deviation + epsilon) + norm.bias
            torch.testing.assert_close(got[row, position], expected)
            torch.testing.assert_close(deviation, torch.std(numbers))


def test_the_std_norm_of_equal_numbers_has_finite_gradients() -> None:
    norm = StdPlusEpsilonNorm(4, 1e-6)
    x = torch.full((1, 4), 3.0, requires_grad=True)
    norm(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
