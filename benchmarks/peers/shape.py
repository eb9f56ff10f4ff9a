"""The sizes of model at which peers are compared. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

PAD, BOS, EOS, UNK = range(4)
"""The ids that have a meaning; they are those of clearhead's tokenizers."""

LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-3
ADAM_BETAS = (0.9, 0.98)
POSITIONS = 512
"""Tokens of a sentence, at most: so many places have the peers' tables of positions."""

DECODED = 40
"""Steps that every decoding takes, no more and no fewer. Clearhead's cache has room for fewer at
first, so that what its growth costs is measured too."""


@dataclass(frozen=True)
class Shape:
    """An encoder-decoder with one embedding for source, target and output.

    `layers` is the number in the encoder, and again in the decoder.
    """

    layers: int
    d_model: int
    d_ff: int
    heads: int
    dropout: float


SIZES = {
    "tiny": Shape(layers=4, d_model=128, d_ff=256, heads=4, dropout=0.3),
    "base": Shape(layers=6, d_model=512, d_ff=2048, heads=8, dropout=0.1),
    "big": Shape(layers=6, d_model=1024, d_ff=4096, heads=16, dropout=0.3),
}
