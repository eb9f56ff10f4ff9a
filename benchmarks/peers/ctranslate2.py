"""CTranslate2: a Transformer with random weights in its own format."""

# CTranslate2's specifications declare weights that are not set yet as None or as text.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec

from .protocol import Abilities, Job, apart, serve
from .workload import DECODED, POSITIONS, sinusoids, tokens_of


class Weights:
    """Random weights of a model, always the same ones."""

    def __init__(self) -> None:
        self.chance = np.random.default_rng(1)

    def matrix(self, rows: int, columns: int, scale: float) -> np.ndarray:
        """(rows, columns) normal numbers with the standard deviation `scale`."""
        return self.chance.normal(0, scale, (rows, columns)).astype(np.float32)

    def linear(self, spec: common_spec.LinearSpec, inputs: int, outputs: int) -> None:
        """Set a projection: Xavier-normal weights and a bias of zeros."""
        spec.weight = self.matrix(outputs, inputs, math.sqrt(2 / (inputs + outputs)))
        spec.bias = np.zeros(outputs, dtype=np.float32)

    def norm(self, spec: common_spec.LayerNormSpec, width: int) -> None:
        """Set a layer norm: scale 1 and offset 0."""
        spec.gamma = np.ones(width, dtype=np.float32)
        spec.beta = np.zeros(width, dtype=np.float32)


def build(job: Job) -> TransformerSpec:
    """A pre-norm Transformer of the job's shape with shared embeddings."""
    shape, weights = job.shape, Weights()
    spec = TransformerSpec.from_config((shape.layers, shape.layers), shape.heads, pre_norm=True)
    embedding = weights.matrix(job.vocabulary, shape.d_model, shape.d_model**-0.5)
    positions = sinusoids(POSITIONS, shape.d_model)
    for part, inputs in (
        (spec.encoder, spec.encoder.embeddings[0]),
        (spec.decoder, spec.decoder.embeddings),
    ):
        inputs.weight = embedding
        part.scale_embeddings = True
        part.position_encodings.encodings = positions
        weights.norm(part.layer_norm, shape.d_model)
        for layer in part.layer:
            set_layer(layer, weights, shape.d_model, shape.d_ff)
    spec.decoder.projection.weight = embedding
    spec.register_source_vocabulary(tokens_of(job.vocabulary))
    spec.register_target_vocabulary(tokens_of(job.vocabulary))
    return spec


def set_layer(
    layer: transformer_spec.TransformerDecoderLayerSpec, weights: Weights, width: int, d_ff: int
) -> None:
    """Set the weights of a layer of the encoder or decoder."""
    weights.linear(layer.self_attention.linear[0], width, 3 * width)
    weights.linear(layer.self_attention.linear[1], width, width)
    weights.norm(layer.self_attention.layer_norm, width)
    if hasattr(layer, "attention"):
        weights.linear(layer.attention.linear[0], width, width)
        weights.linear(layer.attention.linear[1], width, 2 * width)
        weights.linear(layer.attention.linear[2], width, width)
        weights.norm(layer.attention.layer_norm, width)
    weights.linear(layer.ffn.linear_0, width, d_ff)
    weights.linear(layer.ffn.linear_1, d_ff, width)
    weights.norm(layer.ffn.layer_norm, width)


def write_model(job: Job) -> None:
    """Write a model folder in the job's compute type."""
    spec = build(job)
    spec.validate()
    spec.optimize(quantization=None if job.kind == "float32" else job.kind)
    job.folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(job.folder))


def save(job: Job) -> list[str]:
    """Write a model folder; return the script that translates with it."""
    apart(write_model, job)
    pieces = job.tokenizer.with_suffix(".model")
    script = "cold_start/ctranslate2_sentence.py"
    return [script, str(job.folder), str(pieces), job.kind, str(job.threads), str(DECODED)]


class Decoder:
    """`translate_batch`, with the job's compute type."""

    def __init__(self, job: Job) -> None:
        apart(write_model, job)
        self.pieces = tokens_of(job.vocabulary)
        self.translator = ctranslate2.Translator(
            str(job.folder),
            device="cpu",
            compute_type=job.kind,
            inter_threads=1,
            intra_threads=job.threads,
        )

    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        found = self.translator.translate_batch(
            [[self.pieces[i] for i in sentence] for sentence in sentences],
            beam_size=beam_size,
            min_decoding_length=DECODED,
            max_decoding_length=DECODED,
        )
        return [len(result.hypotheses[0]) for result in found]


if __name__ == "__main__":
    serve(Abilities(decoder=Decoder, save=save))
