"""The first weights of a model."""

from __future__ import annotations

import torch
from torch import nn

from clearhead.model.attention import MultiHeadAttention
from clearhead.model.inputs import FeatureProjection
from clearhead.model.layers import FeedForward
from clearhead.model.transformer import (
    Decoder,
    Encoder,
    EncoderClassifier,
    EncoderDecoder,
)


def initialise(model: nn.Module, how: str) -> None:
    """Draw new weights for a model, as `ModelConfig.initialisation` names it.

    Args:
        model: its modules as PyTorch initialised them.
        how: `pytorch`, `xavier`, `xavier_unit` or `xavier_scaled`.
    """
    if how == "pytorch":
        return
    _draw_xavier(model)
    if how == "xavier":
        return
    _draw_unit_embeddings(model)
    if how == "xavier_scaled":
        _scale_residual_branches(model)


def _draw_xavier(model: nn.Module) -> None:
    """Glorot and Bengio 2010, uniform, on the paper's matrices; W^Q, W^K and W^V each by itself."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for part in module.packed.weight.split(module.widths):
                nn.init.xavier_uniform_(part)
            nn.init.xavier_uniform_(module.output.weight)
        elif isinstance(module, FeedForward):
            nn.init.xavier_uniform_(module.hidden.weight)
            nn.init.xavier_uniform_(module.output.weight)
        elif isinstance(module, EncoderDecoder | EncoderClassifier):
            nn.init.xavier_uniform_(module.output.weight)
        elif isinstance(module, FeatureProjection):
            nn.init.xavier_uniform_(module.projection.weight)
        elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
            nn.init.xavier_uniform_(module.weight)
            _keep_padding_zero(module)


def _draw_unit_embeddings(model: nn.Module) -> None:
    """Embeddings from N(0, 1/d_model): scaled by √d_model, each number has a deviation of 1."""
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            _keep_padding_zero(module)


def _keep_padding_zero(module: nn.Embedding | nn.EmbeddingBag) -> None:
    """As in PyTorch, the vector at `padding_idx` is zero and is never trained."""
    if module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


def _scale_residual_branches(model: nn.Module) -> None:
    """The output matrix of each of a stack's N sub-layers, divided by √N.

    So what they add together does not grow with N (Radford et al. 2019, section 2.3).
    """
    for stack in model.modules():
        if not isinstance(stack, Encoder | Decoder):
            continue
        outputs = [
            sublayer.output
            for sublayer in stack.modules()
            if isinstance(sublayer, MultiHeadAttention | FeedForward)
        ]
        with torch.no_grad():
            for output in outputs:
                output.weight.mul_(len(outputs) ** -0.5)
