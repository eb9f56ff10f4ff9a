"""Models small enough for exact tests: a few numbers wide, in float64, all weights random."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.model.attention import Attend, attention
from clearhead.model.build import build_model
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.transformer import EncoderDecoder
from clearhead.settings import (
    ClassifierConfig,
    DataConfig,
    DropoutConfig,
    Learned,
    ModelConfig,
    NoPositions,
    RunConfig,
    Sinusoidal,
    TokenizerConfig,
)

SOURCE_VOCABULARY = 13
TARGET_VOCABULARY = 11

SMALL = ModelConfig(
    encoder_layers=2,
    decoder_layers=2,
    d_model=8,
    d_ff=12,
    n_heads=2,
    share_embeddings="none",
    dropout=DropoutConfig(),
)


def small_config(**choices: Any) -> ModelConfig:
    return dataclasses.replace(SMALL, **choices)


def labelled_run(
    model: ModelConfig, head: ClassifierConfig | None = None, features: bool = False
) -> RunConfig:
    """The run of a classifier of words or features."""
    return RunConfig(
        task="classification",
        input="features" if features else "text",
        data=DataConfig(max_length=8),
        tokenizer=TokenizerConfig(kind="words"),
        model=model,
        classifier=head or ClassifierConfig(),
    )


def random_model(
    config: ModelConfig, seed: int = 1, attend: Attend = attention, scale: float = 0.4
) -> EncoderDecoder:
    """A model in float64 with every parameter drawn, norms and biases too."""
    torch.manual_seed(seed)
    target = SOURCE_VOCABULARY if config.shares_inputs else TARGET_VOCABULARY
    model = build_model(config, SOURCE_VOCABULARY, target, attend).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


POSITIONS = [Sinusoidal(), Learned(max_length=80), NoPositions()]

configs = st.builds(
    small_config,
    norm=st.sampled_from(["pre", "post"]),
    final_norm=st.booleans(),
    norm_form=st.sampled_from(["standard", "std_plus_epsilon"]),
    activation=st.sampled_from(["relu", "gelu", "gelu_tanh", "swish"]),
    embedding_norm=st.booleans(),
    positions=st.sampled_from(POSITIONS),
    d_k=st.sampled_from([3, 4]),
    d_v=st.sampled_from([2, 4]),
    attention_bias=st.booleans(),
    feed_forward_bias=st.booleans(),
    output_bias=st.booleans(),
    scale_embeddings=st.booleans(),
    share_embeddings=st.sampled_from(["none", "inputs", "target", "all"]),
    input_convolution=st.sampled_from([(), (3,), (2, 3)]),
)
"""Every choice that a translator's model has, but for its size and its dropout."""


def embedding_of(part: nn.Module) -> nn.Embedding:
    """The embedding of an input of tokens."""
    assert isinstance(part, TokenEmbedding)
    return part.embedding


def random_ids(rows: int, length: int, vocabulary: int = TARGET_VOCABULARY) -> Tensor:
    """Ids without padding, from torch's generator."""
    return torch.randint(1, vocabulary, (rows, length))


def padded(sequences: list[list[int]], length: int = 0) -> Tensor:
    """Ragged sequences as one tensor, padding at the end."""
    length = max(length, *(len(sequence) for sequence in sequences))
    return torch.tensor([sequence + [0] * (length - len(sequence)) for sequence in sequences])


def fills(weight: Tensor, bound: float) -> bool:
    """Whether numbers look uniform over [−bound, bound]: extremes, mean and deviation."""
    count = weight.numel()
    deviation = bound / math.sqrt(3)
    return (
        weight.abs().max().item() <= bound * (1 + 1e-6)  # the bound is rounded to float32
        and weight.max().item() > 0.98 * bound
        and weight.min().item() < -0.98 * bound
        and abs(weight.mean().item()) < 5 * deviation / math.sqrt(count)
        and weight.std().item() == pytest.approx(deviation, rel=5 / math.sqrt(count))
    )


def assert_normal(weight: Tensor, deviation: float) -> None:
    """Mean, deviation and the share within one deviation are those of N(0, deviation²)."""
    count = weight.numel()
    assert abs(weight.mean().item()) < 5 * deviation / math.sqrt(count)
    assert weight.std().item() == pytest.approx(deviation, rel=5 / math.sqrt(2 * count))
    within = (weight.abs() < deviation).double().mean().item()
    assert abs(within - math.erf(math.sqrt(0.5))) < 5 * 0.5 / math.sqrt(count)
