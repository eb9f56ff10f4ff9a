"""The Transformer as a library: its modules with plain constructors, for a loop of your own.

    from clearhead import nn

    model = nn.Transformer(1000, 1000, size="tiny")
    logits = model(source, target)  # (batch, target, vocabulary)
    model.generate(source)

    mask = nn.causal_mask(5) & nn.padding_mask(target, pad_id=0)  # made by the model itself
    y = nn.Decoder(512, 8)(nn.PositionalEncoding(512)(x), memory, mask)

These are the modules that `clearhead train` trains. `record`, `explain`, `align` and `figures` look
into them, too.
"""

from clearhead.decoding.stepper import Stepper
from clearhead.model.attention import causal_mask, padding_mask
from clearhead.model.positions import SinusoidalPositions as PositionalEncoding
from clearhead.nn.generation import beam_search
from clearhead.nn.modules import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Transformer,
    TransformerClassifier,
)
from clearhead.nn.pytorch import from_torch, to_torch

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "MultiHeadAttention",
    "PositionalEncoding",
    "Stepper",
    "Transformer",
    "TransformerClassifier",
    "beam_search",
    "causal_mask",
    "from_torch",
    "padding_mask",
    "to_torch",
]
