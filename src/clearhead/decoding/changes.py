"""Notices that the modules or weights of a model have been changed since they were read.

The fast decoder has copies of the weights, and an export has its own, so both would miss it.
"""

from __future__ import annotations

from functools import cache

from torch import nn

from clearhead.model.attention import (
    MultiHeadAttention,
    attention,
    explicit_attention,
    fused_attention,
)
from clearhead.model.layers import DecoderLayer, FeedForward
from clearhead.model.transformer import EncoderDecoder

PLAIN = (attention, explicit_attention, fused_attention)
"""The attention functions that compute the same."""


def is_edited(model: EncoderDecoder) -> bool:
    """Whether a module has a hook or a `forward` of its own, or the decoder has other parts."""
    return any(_differs(module) for module in model.modules()) or not _is_plain_decoder(model)


def _differs(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or "forward" in vars(module)
        or not _is_known(type(module))
        or (isinstance(module, MultiHeadAttention) and module.attend not in PLAIN)
    )


@cache
def _is_known(kind: type[nn.Module]) -> bool:
    """Whether a class computes with a `forward` of the package or of PyTorch."""
    return kind.forward.__module__.startswith(("clearhead.model.", "torch.nn."))


def _is_plain_decoder(model: EncoderDecoder) -> bool:
    """Whether the decoder has the parts that the fast decoder reads."""
    layers = [layer for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]
    attentions = [x for each in layers for x in (each.self_attention, each.cross_attention)]
    return (
        len(layers) == len(model.decoder.layers)
        and isinstance(model.output, nn.Linear)
        and all(isinstance(layer.feed_forward, FeedForward) for layer in layers)
        and all(isinstance(each, MultiHeadAttention) for each in attentions)
        and len({each.n_heads for each in attentions}) == 1
    )


def is_changed(model: EncoderDecoder, before: list[tuple[int, int]]) -> bool:
    """Whether a model is edited, or has other weights than with these `versions`."""
    return is_edited(model) or versions(model) != before


def versions(model: nn.Module) -> list[tuple[int, int]]:
    """Each parameter and how often it was changed in place, as PyTorch counts.

    A change of `parameter.data` is not counted.
    """
    return [(id(parameter), parameter._version) for parameter in model.parameters()]
