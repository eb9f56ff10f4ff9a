"""A second view of a model: modules of its own with the same weights, and its attentions by name.

Hooks, other attention functions and changed parameters of the view do not affect the model, whose
fast attention keeps no weights.
"""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

from clearhead.inspect.heads import Head
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.layers import DecoderLayer, EncoderLayer

_Model = TypeVar("_Model", bound=nn.Module)


def second_view(model: _Model) -> _Model:
    """The same parameters and buffers in new modules, without dropout."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def attentions_of(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """The attentions of a model by name, e.g. `encoder.1.self`, from the first encoder layer on."""
    found: dict[str, MultiHeadAttention] = {}
    encoder = [layer for layer in model.modules() if isinstance(layer, EncoderLayer)]
    decoder = [layer for layer in model.modules() if isinstance(layer, DecoderLayer)]
    for number, layer in enumerate(encoder, start=1):
        found[f"encoder.{number}.self"] = layer.self_attention
    for number, layer in enumerate(decoder, start=1):
        found[f"decoder.{number}.self"] = layer.self_attention
        found[f"decoder.{number}.cross"] = layer.cross_attention
    return found


def heads_of(model: nn.Module) -> tuple[Head, ...]:
    """All heads of a model, attention by attention in the order of `attentions_of`."""
    return tuple(
        Head(name, number)
        for name, attention in attentions_of(model).items()
        for number in range(1, attention.n_heads + 1)
    )
