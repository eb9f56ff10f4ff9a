"""A second view of a model: the same weights, in modules of its own, which are watched."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import Tensor, nn

from clearhead.inspect.record import Array, DecoderLayerRecord, EncoderLayerRecord
from clearhead.model.attention import Mask, MultiHeadAttention, attention_weights
from clearhead.model.dropout import Dropout
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.pooling import AttentionPooling

_Model = TypeVar("_Model", bound=nn.Module)


def second_view(model: _Model) -> _Model:
    """The same parameters and buffers in new modules, which do not drop anything out.

    Whatever is hooked into the view, or set in it, is unknown to the model.
    """
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def array(tensor: Tensor) -> Array:
    """The numbers of a batch of one, without the batch, in memory of their own."""
    return tensor.detach()[0].cpu().numpy().copy()


class Watch:
    """Keeps what the modules of a view compute, each under the name that it is given."""

    def __init__(self) -> None:
        self.seen: dict[str, Array] = {}

    def input(self, module: nn.Module, name: str) -> None:
        """Keep the first argument that a module is given."""

        def keep(module: nn.Module, given: tuple[Any, ...]) -> None:
            self.seen[name] = array(given[0])

        module.register_forward_pre_hook(keep)

    def output(self, module: nn.Module, name: str) -> None:
        """Keep what a module gives."""

        def keep(module: nn.Module, given: tuple[Any, ...], result: Tensor) -> None:
            self.seen[name] = array(result)

        module.register_forward_hook(keep)

    def weights(self, attention: MultiHeadAttention, name: str) -> None:
        """Keep the weights of an attention, which from now on is the written-out formula."""

        def attend(
            queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, dropout: Dropout
        ) -> Tensor:
            weights = attention_weights(queries, keys, mask)
            self.seen[name] = array(weights)
            return dropout(weights) @ values

        attention.attend = attend

    def pooling(self, pooling: AttentionPooling, name: str) -> None:
        """Keep the weights (length,) of a learned pooling."""

        def keep(module: nn.Module, given: tuple[Any, ...]) -> None:
            self.seen[name] = array(pooling.weights(*given))[:, 0]

        pooling.register_forward_pre_hook(keep)


class EncoderLayerWatch(Watch):
    """Watches a layer of a view's encoder."""

    def __init__(self, layer: EncoderLayer) -> None:
        super().__init__()
        self.input(layer, "input")
        self.weights(layer.self_attention, "attention")
        self.output(layer.self_attention, "attention_output")
        self.output(layer.residuals[0], "after_attention")
        self.output(layer.feed_forward, "feed_forward_output")
        self.output(layer, "output")

    def record(self) -> EncoderLayerRecord:
        """What the layer computed last."""
        return EncoderLayerRecord(**self.seen)


class DecoderLayerWatch(Watch):
    """Watches a layer of a view's decoder."""

    def __init__(self, layer: DecoderLayer) -> None:
        super().__init__()
        self.input(layer, "input")
        self.weights(layer.self_attention, "self_attention")
        self.output(layer.self_attention, "self_attention_output")
        self.output(layer.residuals[0], "after_self_attention")
        self.weights(layer.cross_attention, "cross_attention")
        self.output(layer.cross_attention, "cross_attention_output")
        self.output(layer.residuals[1], "after_cross_attention")
        self.output(layer.feed_forward, "feed_forward_output")
        self.output(layer, "output")

    def record(self) -> DecoderLayerRecord:
        """What the layer computed last."""
        return DecoderLayerRecord(**self.seen)
