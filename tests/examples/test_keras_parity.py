"""Reference system B built from Keras layers computes the same numbers as clearhead.

Keras is not a dependency of clearhead: `make test-keras` installs it in a separate environment and
runs these tests there; elsewhere they are skipped.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.nn import TransformerClassifier
from clearhead.settings import ModelConfig
from reference_examples import lesson, model_of
from small_models import padded

os.environ.setdefault("KERAS_BACKEND", "torch")
keras: Any = pytest.importorskip(
    "keras", reason="Keras is not installed here: make test-keras runs this where it is"
)

# Keras makes arrays of tensors in a way that numpy does not like.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

VOCABULARY, LABELS, LONGEST = len(lesson("b").WORDS), len(lesson("b").LABELS), 1000
TOLERANCES = {"float64": 1e-10, "float32": 1e-5}


class AttentionOfDenseLayers(keras.layers.Layer):
    """Attention as the system has it: four dense layers, 1 = masked, −1e9 added to a score."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, d_model // heads
        self.parts = [keras.layers.Dense(d_model) for _ in range(3)]
        self.output_part = keras.layers.Dense(d_model)

    def call(self, x: Any, real: Any) -> Any:
        rows, length, d_model = x.shape
        queries, keys, values = (
            keras.ops.transpose(
                keras.ops.reshape(part(x), (rows, length, self.heads, self.width)), (0, 2, 1, 3)
            )
            for part in self.parts
        )
        masked = keras.ops.cast(keras.ops.logical_not(real), x.dtype)[:, None, None, :]
        scores = keras.ops.matmul(queries, keras.ops.transpose(keys, (0, 1, 3, 2)))
        weights = keras.ops.softmax(scores / math.sqrt(self.width) + masked * -1e9, axis=-1)
        context = keras.ops.transpose(keras.ops.matmul(weights, values), (0, 2, 1, 3))
        return self.output_part(keras.ops.reshape(context, (rows, length, d_model)))

    def take(self, packed: nn.Linear, output: nn.Linear) -> None:
        weights, biases = thirds(packed)
        for part, weight, bias in zip(self.parts, weights, biases, strict=True):
            part.set_weights([weight.T, bias])
        self.output_part.set_weights(dense_weights(output))


class AttentionOfKeras(keras.layers.Layer):
    """Keras' own multi-head attention."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(heads, key_dim=d_model // heads)

    def call(self, x: Any, real: Any) -> Any:
        return self.attention(x, x, attention_mask=real[:, None, :])

    def take(self, packed: nn.Linear, output: nn.Linear) -> None:
        given = []
        # Queries, keys, values, output: (d_model, heads, width), (heads, width), and back.
        shapes = [weight.shape for weight in self.attention.get_weights()]
        weights, biases = thirds(packed)
        for weight, bias in zip(weights, biases, strict=True):
            given += [weight.T, bias]
        given += dense_weights(output)
        self.attention.set_weights([x.reshape(s) for x, s in zip(given, shapes, strict=True)])


class Block(keras.layers.Layer):
    """Attention, dropout, residual, norm; feed-forward, dropout, residual, norm."""

    def __init__(self, config: ModelConfig, attention: type) -> None:
        super().__init__()
        self.attention = attention(config.d_model, config.n_heads)
        self.hidden = keras.layers.Dense(config.d_ff, activation="relu")
        self.back = keras.layers.Dense(config.d_model)
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.dropouts = [keras.layers.Dropout(0.1) for _ in range(2)]

    def call(self, x: Any, real: Any, training: bool) -> Any:
        attended = self.dropouts[0](self.attention(x, real), training=training)
        x = self.norms[0](x + attended)
        fed = self.dropouts[1](self.back(self.hidden(x)), training=training)
        return self.norms[1](x + fed)

    def take(self, layer: Any) -> None:
        self.attention.take(layer.self_attention.packed, layer.self_attention.output)
        self.hidden.set_weights(dense_weights(layer.feed_forward.hidden))
        self.back.set_weights(dense_weights(layer.feed_forward.output))
        for norm, residual in zip(self.norms, layer.residuals, strict=True):
            norm.set_weights([numbers(residual.norm.weight), numbers(residual.norm.bias)])


class SystemB(keras.Model):
    """Embedding × √d_model, + positions, dropout, the blocks; then the mean and the labels."""

    def __init__(self, config: ModelConfig, attention: type) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(VOCABULARY, config.d_model)
        self.scale = math.sqrt(config.d_model)
        self.dropout = keras.layers.Dropout(0.1)
        self.blocks = [Block(config, attention) for _ in range(config.encoder_layers)]
        self.pooling = keras.layers.GlobalAveragePooling1D()
        self.labels = keras.layers.Dense(LABELS)
        self.table = sinusoids(LONGEST, config.d_model).astype(keras.config.floatx())

    def call(self, ids: Any, training: bool = False) -> tuple[Any, Any]:
        real = keras.ops.not_equal(ids, 0)
        positions = keras.ops.convert_to_tensor(self.table[: ids.shape[1]])
        x = self.embedding(ids) * self.scale + positions
        x = self.dropout(x, training=training)
        for block in self.blocks:
            x = block(x, real, training=training)
        return x, self.labels(self.pooling(x, mask=real))

    def take(self, model: TransformerClassifier) -> None:
        self(np.ones((1, 2), dtype="int64"))  # makes the variables
        self.embedding.set_weights([numbers(model.input.embedding.weight)])  # pyright: ignore
        for block, layer in zip(self.blocks, model.encoder.layers, strict=True):
            block.take(layer)
        self.labels.set_weights(dense_weights(model.output))


def sinusoids(length: int, d_model: int) -> np.ndarray:
    """sin(pos/10000^(2i/d_model)) and its cosine, interleaved, as in the table of the system."""
    column = np.arange(d_model)[None, :]
    angles = np.arange(length)[:, None] / np.power(10000, 2 * (column // 2) / d_model)
    return np.where(column % 2 == 0, np.sin(angles), np.cos(angles))


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def thirds(packed: nn.Linear) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights and biases of queries, keys and values."""
    return np.split(numbers(packed.weight), 3), np.split(numbers(packed.bias), 3)


def dense_weights(linear: nn.Linear) -> list[np.ndarray]:
    """In the layout of Keras: (in, out), and the bias."""
    return [numbers(linear.weight).T, numbers(linear.bias)]


@dataclass
class Pair:
    """A model of clearhead and Keras' with the same weights."""

    ours: TransformerClassifier
    theirs: SystemB
    tolerance: float

    @torch.no_grad()
    def compare(self, ids: torch.Tensor) -> None:
        memory, _ = self.ours.encode(ids)
        found = self.theirs(ids.numpy(), training=False)
        for mine, their in zip((memory, self.ours(ids)), found, strict=True):
            their = keras.ops.convert_to_numpy(their)
            assert mine.numpy().dtype == their.dtype
            np.testing.assert_allclose(mine.numpy(), their, rtol=0, atol=self.tolerance)


@pytest.fixture(params=TOLERANCES)
def precision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # On all backends but TensorFlow's, Keras computes in float32 what comes in float64, as JAX
    # does, however it is configured; this table shows it.
    dtypes = importlib.import_module("keras.src.backend.common.dtypes")
    monkeypatch.setitem(dtypes.BIT64_TO_BIT32_DTYPE, "float64", "float64")
    before = keras.config.floatx()
    set_precision(request.param)
    yield request.param
    set_precision(before)


def set_precision(name: str) -> None:
    """Of both libraries; Keras has a separate policy for layers."""
    keras.config.set_floatx(name)
    keras.config.set_dtype_policy(name)
    torch.set_default_dtype(getattr(torch, name))


@pytest.fixture(params=[AttentionOfDenseLayers, AttentionOfKeras])
def pair(request: pytest.FixtureRequest, precision: str) -> Pair:
    """The model of the lesson with random weights, norms and biases included."""
    torch.manual_seed(1)
    ours: TransformerClassifier = model_of("b").eval()
    for parameter in ours.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.7, std=0.3)
    theirs = SystemB(ours.settings, request.param)
    theirs.take(ours)
    return Pair(ours, theirs, TOLERANCES[precision])


def drawn(lengths: list[int]) -> torch.Tensor:
    rng = np.random.default_rng(1)
    return padded([rng.integers(1, VOCABULARY, length).tolist() for length in lengths])


def test_padded_texts_have_the_encoding_and_the_logits_of_keras(pair: Pair) -> None:
    pair.compare(drawn([19, 1, 7, 12, 2, 19]))


def test_positions_reach_as_far_as_the_systems_do(pair: Pair) -> None:
    pair.compare(drawn([LONGEST, 3]))
