"""Measures of how much each source position counts for each output.

A measure is an array (places, source positions) in which larger means more important. For a
translator a place is an output token, for a classifier each label that is explained. For labels
measures of attention have equal rows, since all are read from one pooled vector.
`faithfulness` decides by deletion which measure may be believed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from clearhead.inspect.record import Array, DecoderLayerRecord
from clearhead.inspect.recording import output_by_head
from clearhead.inspect.replay import TOKENS, effects
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import attentions_of, intercept, layers_of, second_view
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder

STEPS = 32
"""Steps of integrated gradients."""


def last_layer(subject: Subject) -> Array:
    """Attention weights of the last layer, mean over its heads."""
    return _weights(subject, [-1])


def all_layers(subject: Subject) -> Array:
    """Attention weights, mean over the heads of all layers."""
    return _weights(subject, slice(None))


def norms(subject: Subject) -> Array:
    """‖Σ_heads α · f(x)‖, mean over all layers (Kobayashi et al. 2020, section 3).

    f(x) is the value of a position times the rows of W^O of the head.
    """
    attentions, record = attentions_of(subject.model), subject.record
    found = []
    for number, layer in enumerate(record.decoder or record.encoder, start=1):
        if isinstance(layer, DecoderLayerRecord):
            name, weights = f"decoder.{number}.cross", layer.cross_attention
        else:
            name, weights = f"encoder.{number}.self", layer.attention
        outputs = output_by_head(attentions[name]).detach().cpu().numpy()
        transformed = np.einsum("hkv,hvd->hkd", record.details[f"{name}.values"], outputs)
        found.append([_lengths(rows, transformed) for rows in weights.swapaxes(0, 1)])
    return _places(subject, np.mean(found, axis=0))


def _lengths(weights: Array, transformed: Array) -> Array:
    """(keys,) lengths of the vectors that a query adds; weights (heads, keys)."""
    return np.linalg.norm(np.einsum("hk,hkd->kd", weights, transformed), axis=-1)


def rollout(subject: Subject) -> Array:
    """Attention rollout (Abnar and Zuidema 2020, section 3).

    Each sub-layer passes on half its input and half what it attends to. In the decoder the rows
    follow the target back to the source through self-attention and cross-attention.
    """
    half = lambda weights: 0.5 * np.eye(len(weights)) + 0.5 * weights  # noqa: E731
    encoder = [half(layer.attention.mean(axis=0)) for layer in subject.record.encoder]
    decoder = []
    for layer in subject.record.decoder:
        before = half(layer.self_attention.mean(axis=0))
        decoder.append((0.5 * before, 0.5 * layer.cross_attention.mean(axis=0)))
    return _places(subject, rolled(encoder, decoder))


@torch.no_grad()
def value_zeroing(subject: Subject) -> Array:
    """How far the output of a layer turns when the value of a position is zero.

    The cosine distance of the outputs, as shares of the distances by all positions that the layer
    attends to (Mohebbi et al. 2023, section 3). For a classifier the layers are multiplied, as in
    the paper. For a translator this is the mean over the cross-attention of all decoder layers: the
    product with the encoder's layers loses which word is where (docs/experiments.md).
    """
    view = second_view(subject.model)
    zeroed = {name: _ZeroedValues(found) for name, found in attentions_of(view).items()}
    device = next(view.parameters()).device

    def tensor(x: Array) -> Tensor:
        return torch.as_tensor(x, device=device)[None]

    def shares(run: Callable[[int], Tensor], *attended: tuple[str, int]) -> Array:
        found = [zeroed[name].distances(run, length) for name, length in attended]
        return _shares(np.concatenate(found, axis=1))

    record, mixing = subject.record, []
    if not record.decoder:
        layers = zip(layers_of(view, EncoderLayer), record.encoder, strict=True)
        for number, (layer, seen) in enumerate(layers, start=1):
            run = _encoder_layer(layer, tensor(seen.input))
            mixing.append(shares(run, (f"encoder.{number}.self", len(seen.input))))
        return _places(subject, rolled(mixing, []))
    memory = tensor(record.memory)
    layers = zip(layers_of(view, DecoderLayer), record.decoder, strict=True)
    for number, (layer, seen) in enumerate(layers, start=1):
        run, length = _decoder_layer(layer, tensor(seen.input), memory), len(seen.input)
        name = f"decoder.{number}"
        both = shares(run, (f"{name}.self", length), (f"{name}.cross", memory.size(1)))
        mixing.append(both[:, length:])
    return _places(subject, np.mean(mixing, axis=0))


def gradient_input(subject: Subject) -> Array:
    """Gradient of the log-probability times the embedding, summed over the dimensions.

    A classifier's linear model of n-grams reads no embeddings, so its part is missing, here and in
    integrated gradients; `removal` has it.
    """
    return _gradients(subject, 1)[0]


def integrated_gradients(subject: Subject) -> Array:
    """Integrated gradients from zero embeddings (Sundararajan et al. 2017, equation 3)."""
    return integrated_gradients_with_error(subject)[0]


def integrated_gradients_with_error(subject: Subject, steps: int = STEPS) -> tuple[Array, Array]:
    """Integrated gradients, and (places,) their sums minus what they should sum to."""
    found, difference = _gradients(subject, steps)
    return found, found.sum(axis=1) - difference


def removal(subject: Subject) -> Array:
    """The log-probability minus that without the source word: exact, no theory needed.

    The positions of a word share its effect equally, so that their sum is the effect of the word. A
    position outside the words, such as that of an end symbol, is removed by itself.
    """
    words = [word.positions for word in subject.source_words]
    inside = {position for word in words for position in word}
    words += [(i,) for i in range(subject.replay.n_source) if i not in inside]
    gains = effects(subject.replay, words, prefix_words=[], heads=[]).by_source[..., 0]
    found = np.zeros((subject.places, subject.replay.n_source))
    for word, gain in zip(words, gains, strict=True):
        found[:, list(word)] = gain[:, None] / len(word)
    return found


class Measure(NamedTuple):
    """A measure: its title, what it is in one sentence, and the function that computes it."""

    title: str
    meaning: str
    compute: Callable[[Subject], Array]
    nats: bool = False  # parts of a log-probability, which add up over the pieces of a word


MEASURES = {
    "removal": Measure(
        "Removal",
        "How much the log-probability of the output falls if the word is removed. Exact.",
        removal,
        nats=True,
    ),
    "gradient_input": Measure(
        "Gradient × input",
        "The slope of the log-probability along the embedding of the word.",
        gradient_input,
        nats=True,
    ),
    "integrated_gradients": Measure(
        "Integrated gradients",
        "The mean slope of the log-probability on the way from a zero embedding to the word's.",
        integrated_gradients,
        nats=True,
    ),
    "value_zeroing": Measure(
        "Value zeroing",
        "How far the vectors of a layer turn if the value of the word is zero, mean of layers.",
        value_zeroing,
    ),
    "rollout": Measure(
        "Attention rollout",
        "Attention weights followed through all layers, half of each layer being its input.",
        rollout,
    ),
    "norms": Measure(
        "Weights × norms",
        "The length of the vector that a layer adds from the word, mean over layers.",
        norms,
    ),
    "all_layers": Measure(
        "Mean of all layers", "The attention weight, mean over all heads of all layers.", all_layers
    ),
    "last_layer": Measure(
        "Last layer", "The attention weight, mean over the heads of the last layer.", last_layer
    ),
}


def measures_for(model: EncoderDecoder | EncoderClassifier) -> dict[str, Measure]:
    """The measures that differ for a model: with one layer, its weights are the mean of all."""
    stack = model.decoder if isinstance(model, EncoderDecoder) else model.encoder
    equal = ("last_layer",) if len(stack.layers) == 1 else ()
    return {name: measure for name, measure in MEASURES.items() if name not in equal}


def rolled(encoder: Sequence[Array], decoder: Sequence[tuple[Array, Array]]) -> Array:
    """Multiply the mixing matrices of all layers: (target, source), or (source, source).

    A decoder layer has what it takes from the target and what it takes from the memory.
    """
    memory = np.linalg.multi_dot([np.eye(len(encoder[0])), *encoder[::-1]]) if encoder else None
    if not decoder or memory is None:
        return cast(Array, memory)
    source = np.zeros_like(decoder[0][1])
    for own, cross in decoder:
        source = own @ source + cross @ memory
    return source


def _weights(subject: Subject, layers: Any) -> Array:
    record = subject.record
    weights = record.cross_attentions if record.decoder else record.encoder_attentions
    return _places(subject, weights[layers].mean(axis=(0, 1)))


def _places(subject: Subject, found: Array) -> Array:
    """From (positions, source) to (places, source): what a classifier pools, or each output."""
    if subject.record.decoder:
        return found[: subject.places]
    return np.tile(subject.pooled @ found, (subject.places, 1))


class _ZeroedValues:
    """Can set the value of one position in each row of an attention to zero."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        self._kept: Tensor | None = None
        intercept(attention, values=self._zeroed)

    def _zeroed(self, values: Tensor) -> Tensor:
        return values if self._kept is None else values * self._kept.to(values)[:, None, :, None]

    def distances(self, run: Callable[[int], Tensor], positions: int) -> Array:
        """(length, positions) the cosine distance that each zeroed value makes at each output."""
        complete = run(1)
        found = []
        step = max(1, TOKENS // complete.size(1))
        for kept in (1 - torch.eye(positions)).split(step):
            self._kept = kept
            cosine = torch.cosine_similarity(run(len(kept)), complete, dim=-1)
            found.append((1 - cosine).double().cpu())
        self._kept = None
        return torch.cat(found).T.numpy().clip(min=0)


def _encoder_layer(layer: EncoderLayer, x: Tensor) -> Callable[[int], Tensor]:
    return lambda rows: layer(x.expand(rows, -1, -1))


def _decoder_layer(layer: DecoderLayer, x: Tensor, memory: Tensor) -> Callable[[int], Tensor]:
    return lambda rows: layer(x.expand(rows, -1, -1), memory.expand(rows, -1, -1))


def _shares(distances: Array) -> Array:
    """Rows normalised to sum to 1; a row of zeros stays so."""
    totals = distances.sum(axis=1, keepdims=True)
    return np.divide(distances, totals, out=np.zeros_like(distances), where=totals > 0)


def _gradients(subject: Subject, steps: int) -> tuple[Array, Array]:
    """Gradient × embedding, mean over `steps` points of the line from zero to the embedding.

    Also (places,) the log-probability minus that for zero embeddings.
    """
    replay = subject.replay
    points = [1.0] if steps == 1 else [(step + 0.5) / steps for step in range(steps)]
    pairs = [(place, point) for place in range(subject.places) for point in points]
    rows = max(1, TOKENS // (replay.n_source + replay.n_prefix))
    found = np.zeros((subject.places, replay.n_source))
    for first in range(0, len(pairs), rows):
        places, scales = zip(*pairs[first : first + rows], strict=True)
        np.add.at(found, [*places], replay.along(places, scales)[1] / len(points))
    every = range(subject.places)
    ends = [replay.along(every, [scale] * subject.places)[0] for scale in (1.0, 0.0)]
    return found, ends[0] - ends[1]
