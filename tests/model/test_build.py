"""Tests that each setting of the model has its effect: sharing, biases, sizes, initial weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.errors import ConfigError
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.build import build_classifier, build_model
from clearhead.model.layers import FeedForward, StdPlusEpsilonNorm
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import ClassifierConfig, Learned, ModelConfig, Sinusoidal
from small_models import (
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    assert_normal,
    embedding_of,
    fills,
    labelled_run,
    small_config,
)


def meta_model(config: ModelConfig, source: int = 37_000, target: int = 37_000) -> EncoderDecoder:
    """A model on the meta device: weights have shapes but no memory."""
    with torch.device("meta"):
        return build_model(config, source, target)


def parameter_count(model: nn.Module) -> int:
    """Shared parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_by_formula(c: ModelConfig, source: int, target: int) -> int:
    """The number of parameters of Vaswani et al. 2017, figure 1, matrix by matrix."""
    inner = c.n_heads * (2 * c.key_width + c.value_width)
    attention = c.d_model * inner + c.n_heads * c.value_width * c.d_model
    attention += (inner + c.d_model) * c.attention_bias
    feed_forward = 2 * c.d_model * c.d_ff + (c.d_ff + c.d_model) * c.feed_forward_bias
    norm = 2 * c.d_model
    layers = c.encoder_layers * (attention + feed_forward + 2 * norm)
    layers += c.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    matrices = {
        "none": source + 2 * target,
        "inputs": 2 * target,
        "target": source + target,
        "all": target,
    }
    embeddings = c.d_model * matrices[c.share_embeddings] + target * c.output_bias
    if isinstance(c.positions, Learned):
        embeddings += 2 * c.positions.max_length * c.d_model
    return layers + embeddings + 2 * norm * ((c.norm == "pre") + c.embedding_norm)


def choices(min_width: int = 1) -> st.SearchStrategy[ModelConfig]:
    return st.builds(
        small_config,
        encoder_layers=st.integers(1, 3),
        decoder_layers=st.integers(1, 3),
        d_model=st.integers(min_width, 9),
        d_ff=st.integers(1, 9),
        n_heads=st.integers(1, 4),
        d_k=st.integers(1, 5),
        d_v=st.integers(1, 5),
        norm=st.sampled_from(["pre", "post"]),
        norm_form=st.sampled_from(["standard", "std_plus_epsilon"]),
        activation=st.sampled_from(["relu", "gelu", "gelu_tanh", "swish"]),
        embedding_norm=st.booleans(),
        attention_bias=st.booleans(),
        feed_forward_bias=st.booleans(),
        output_bias=st.booleans(),
        positions=st.sampled_from([Sinusoidal(), Learned(max_length=7)]),
        share_embeddings=st.sampled_from(["none", "inputs", "target", "all"]),
        initialisation=st.sampled_from(["pytorch", "xavier", "xavier_unit", "xavier_scaled"]),
    )


@pytest.mark.slow
@settings(max_examples=50)
@given(choices())
def test_a_model_has_the_parameters_of_the_formula(config: ModelConfig) -> None:
    target = 17 if config.shares_inputs else 13
    got = parameter_count(meta_model(config, 17, target))
    assert got == count_by_formula(config, 17, target)


@pytest.mark.parametrize(("size", "published"), [("base", 65e6), ("big", 213e6)])
def test_base_and_big_have_the_parameters_of_the_paper(size: str, published: float) -> None:
    # Table 3, with the joint vocabulary of 37,000 of section 5.1.
    config = ModelConfig.of_size(size, norm="post", share_embeddings="all")
    assert parameter_count(meta_model(config)) == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize("size", ["tiny", "small", "base", "big"])
def test_ready_made_sizes_have_as_many_parameters_as_torch_gives_them(size: str) -> None:
    config = ModelConfig.of_size(size, norm="pre")
    theirs = nn.Transformer(
        config.d_model,
        config.n_heads,
        config.encoder_layers,
        config.decoder_layers,
        config.d_ff,
        batch_first=True,
        device="meta",
    )  # which has a last norm in both stacks, pre-norm or not
    embeddings = 37_000 * config.d_model
    assert parameter_count(meta_model(config)) == parameter_count(theirs) + embeddings


@pytest.mark.parametrize("sharing", ["none", "inputs", "target", "all"])
def test_shared_embeddings_are_one_parameter_and_stay_so(
    sharing: Literal["none", "inputs", "target", "all"],
) -> None:
    target = SOURCE_VOCABULARY if sharing in ("all", "inputs") else TARGET_VOCABULARY
    model = build_model(small_config(share_embeddings=sharing), SOURCE_VOCABULARY, target)
    source_matrix = embedding_of(model.source_input).weight
    target_matrix = embedding_of(model.target_input).weight
    assert (model.output.weight is target_matrix) == (sharing in ("all", "target"))
    assert (source_matrix is target_matrix) == (sharing in ("all", "inputs"))
    model.double()
    assert (model.output.weight is embedding_of(model.target_input).weight) == (
        sharing in ("all", "target")
    )
    assert source_matrix.shape == (SOURCE_VOCABULARY, 8)
    assert model.output.weight.shape == (target, 8)


def test_one_matrix_for_two_vocabularies_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="joint vocabulary") as caught:
        build_model(small_config(share_embeddings="all"), 13, 11)
    assert "13" in str(caught.value)
    assert "11" in str(caught.value)


@pytest.mark.parametrize("form", ["standard", "std_plus_epsilon"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_norms_have_the_form_and_the_epsilon_and_pre_norm_ends_with_one_more(
    form: str, norm: str
) -> None:
    config = small_config(norm=norm, norm_form=form, norm_epsilon=1e-3)
    model = build_model(config, SOURCE_VOCABULARY, TARGET_VOCABULARY)
    kind = StdPlusEpsilonNorm if form == "std_plus_epsilon" else nn.LayerNorm
    norms = [m for m in model.modules() if isinstance(m, StdPlusEpsilonNorm | nn.LayerNorm)]
    assert all(isinstance(m, kind) for m in norms)
    epsilons = {m.epsilon if isinstance(m, StdPlusEpsilonNorm) else m.eps for m in norms}
    assert epsilons == {1e-3}
    assert len(norms) == 2 * 2 + 2 * 3 + (2 if norm == "pre" else 0)


@pytest.mark.parametrize("sharing", ["none", "inputs", "target", "all"])
def test_embeddings_of_unit_length_are_shared_with_the_projection_where_configured(
    sharing: Literal["none", "inputs", "target", "all"],
) -> None:
    torch.manual_seed(1)
    config = small_config(d_model=64, share_embeddings=sharing, initialisation="xavier_unit")
    model = build_model(config, 90, 90)
    table = embedding_of(model.target_input).weight
    assert_normal(table, 1 / math.sqrt(64))
    assert (model.output.weight is table) == (sharing in ("all", "target"))


WIDE = small_config(d_model=64, n_heads=4, d_k=8, d_v=40, d_ff=96, output_bias=True)


Initialisation = Literal["pytorch", "xavier", "xavier_unit", "xavier_scaled"]


def wide_model(initialisation: Initialisation) -> EncoderDecoder:
    torch.manual_seed(1)
    return build_model(dataclasses.replace(WIDE, initialisation=initialisation), 70, 50)


def parts(module: MultiHeadAttention) -> list[Tensor]:
    """W^Q, W^K and W^V, cut out of the packed matrix."""
    weight = module.packed.weight
    return [weight[:32], weight[32:64], weight[64:]]


@pytest.mark.parametrize("initialisation", ["xavier", "xavier_unit"])
def test_xavier_fills_its_bound_for_each_of_q_k_and_v_though_they_are_packed(
    initialisation: Initialisation,
) -> None:
    def bound(fan_in: int, fan_out: int) -> float:
        return math.sqrt(6 / (fan_in + fan_out))

    assert bound(64, 32) > 1.1 * bound(64, 160)  # the parts differ from the whole
    model = wide_model(initialisation)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for part, width in zip(parts(module), (32, 32, 160), strict=True):
                assert fills(part, bound(64, width))
            assert fills(module.output.weight, bound(160, 64))
        elif isinstance(module, FeedForward):
            assert fills(module.hidden.weight, bound(64, 96))
            assert fills(module.output.weight, bound(96, 64))
    assert fills(model.output.weight, bound(64, 50))
    for table in (embedding_of(model.source_input).weight, embedding_of(model.target_input).weight):
        if initialisation == "xavier":
            assert fills(table, bound(64, len(table)))
        else:
            assert_normal(table, 1 / math.sqrt(64))


def test_scaled_is_unit_with_each_sub_layers_output_divided_by_the_root_of_their_number() -> None:
    unit, scaled = wide_model("xavier_unit"), wide_model("xavier_scaled")
    sublayers = {"encoder": 2 * WIDE.encoder_layers, "decoder": 3 * WIDE.decoder_layers}
    divided = dict.fromkeys(sublayers, 0)
    for (name, before), (_, after) in zip(
        unit.named_parameters(), scaled.named_parameters(), strict=True
    ):
        stack = name.split(".")[0]
        if stack in sublayers and name.endswith(".output.weight"):
            divided[stack] += 1
            torch.testing.assert_close(after * math.sqrt(sublayers[stack]), before)
        else:
            assert after.equal(before), name
    assert divided == sublayers


def test_the_initialisation_of_torch_is_that_of_separate_linear_layers() -> None:
    model = wide_model("pytorch")
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for part in parts(module):
                assert fills(part, 1 / math.sqrt(64))
            assert fills(module.output.weight, 1 / math.sqrt(160))
            assert module.packed.bias.abs().max().item() <= 1 / math.sqrt(64)
    for linear, fan_in in (
        (nn.Linear(64, 32), 64),
        (nn.Linear(64, 160), 64),
        (nn.Linear(160, 64), 160),
    ):
        assert fills(linear.weight, 1 / math.sqrt(fan_in))
    assert_normal(embedding_of(model.source_input).weight, 1.0)
    assert_normal(embedding_of(model.target_input).weight, 1.0)
    assert fills(model.output.weight, 1 / math.sqrt(64))


def test_each_layer_has_weights_of_its_own() -> None:
    model = wide_model("xavier")
    matrices = [p for p in model.parameters() if p.dim() > 1]
    assert len({float(p.detach()[0, 0]) for p in matrices}) == len(matrices)


@pytest.mark.parametrize(("name", "activation"), [("tanh", torch.tanh), ("relu", torch.relu)])
def test_the_hidden_layer_of_a_head_is_between_pooling_and_output(
    name: Literal["tanh", "relu"], activation: Callable[[Tensor], Tensor]
) -> None:
    head = ClassifierConfig(pooling=("first", "mean"), hidden=name)
    model = build_classifier(labelled_run(small_config(), head), inputs=9, labels=3).eval()
    layer = cast(nn.Linear, cast(nn.Sequential, model.hidden)[0])
    assert layer.weight.shape == (16, 16)
    ids = torch.tensor([[1, 5, 6], [1, 7, 0]])
    pooled = model.pooling(*model.encode(ids))
    expected = activation(pooled @ layer.weight.T + layer.bias) @ model.output.weight.T
    torch.testing.assert_close(model(ids), expected + model.output.bias)


def test_xavier_fills_its_bound_in_the_hidden_layer_of_a_head() -> None:
    head = ClassifierConfig(hidden="tanh")
    config = small_config(d_model=64, initialisation="xavier")
    layer = build_classifier(labelled_run(config, head), inputs=9, labels=3).hidden
    assert fills(cast(nn.Linear, cast(nn.Sequential, layer)[0]).weight, math.sqrt(6 / (64 + 64)))


@pytest.mark.parametrize("features", [False, True])
def test_the_norm_of_embeddings_normalises_the_vectors_that_the_first_layer_reads(
    features: bool,
) -> None:
    config = small_config(embedding_norm=True)
    model = build_classifier(labelled_run(config, features=features), inputs=9, labels=3)
    x = torch.randn(2, 5, 9) if features else torch.randint(1, 9, (2, 5))
    vectors = model.eval().input(x)
    torch.testing.assert_close(vectors.mean(dim=-1), torch.zeros(2, 5), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        vectors.std(dim=-1, correction=0), torch.ones(2, 5), atol=1e-3, rtol=0
    )
