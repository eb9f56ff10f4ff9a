"""Notices that the modules or weights of a model have been changed since they were read.

The fast decoder has copies of the weights, and an export has its own, so both would miss it.
"""

from __future__ import annotations

from torch import nn

from clearhead.model.attention import (
    MultiHeadAttention,
    attention,
    explicit_attention,
    fused_attention,
)

PLAIN = (attention, explicit_attention, fused_attention)
"""The attention functions that compute the same."""


def is_edited(model: nn.Module) -> bool:
    """Whether a module has a hook, or an attention another function than those of the package."""
    return any(
        module._forward_hooks
        or module._forward_pre_hooks
        or (isinstance(module, MultiHeadAttention) and module.attend not in PLAIN)
        for module in model.modules()
    )


def versions(model: nn.Module) -> list[tuple[int, int]]:
    """Each parameter and how often it was changed in place, as PyTorch counts.

    A change of `parameter.data` is not counted.
    """
    return [(id(parameter), parameter._version) for parameter in model.parameters()]
