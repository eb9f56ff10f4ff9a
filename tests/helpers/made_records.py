"""Records of random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clearhead.inspect.drawing import write_figures
from clearhead.inspect.pictures import pictures_of_record
from clearhead.inspect.record import DecoderLayerRecord, EncoderLayerRecord, Record

SOURCE = ("▁the", "▁cat", "▁is", "▁black", ".")
TARGET = ("<s>", "▁el", "▁gato", "▁negro")
ROWS = ("<s> → ▁el", "▁el → ▁gato", "▁gato → ▁negro", "▁negro → …")
"""The names of the rows of the decoder."""


def made_record(
    source: Sequence[str] = SOURCE,
    target: Sequence[str] = TARGET,
    layers: int = 2,
    heads: int = 3,
    d_model: int = 6,
) -> Record:
    """A record of random numbers; without a target it is that of a classifier."""
    rng = np.random.default_rng(1)
    s, t = len(source), len(target)

    def x(length: int) -> np.ndarray:
        return rng.normal(size=(length, d_model))

    def weights(queries: int, keys: int, causal: bool = False) -> np.ndarray:
        drawn = rng.random((heads, queries, keys))
        drawn = np.tril(drawn) if causal else drawn
        return drawn / drawn.sum(axis=-1, keepdims=True)

    encoder = [
        EncoderLayerRecord(x(s), weights(s, s), x(s), x(s), x(s), x(s)) for _ in range(layers)
    ]
    decoder = [
        DecoderLayerRecord(
            x(t), weights(t, t, True), x(t), x(t), weights(t, s), x(t), x(t), x(t), x(t)
        )
        for _ in range(layers if target else 0)
    ]
    return Record(
        tuple(source),
        tuple(target),
        np.arange(s),
        tuple(encoder),
        tuple(decoder),
        x(s),
        x(t or 1),
        x(t or 1),
    )


def words(count: int) -> tuple[str, ...]:
    """So many names of different lengths."""
    return tuple("▁" + "translation"[: 2 + i % 10] + str(i) for i in range(count))


def draw_all(record: Record, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Draw all heads and all layers of a record, and return the files."""
    found = pictures_of_record(record)
    return write_figures([each for each in found.items() if "." not in each[0]], folder, formats)
