"""A second view of a model: the same weights, in modules of its own, which are watched."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from clearhead.decoding.device import full_memory_said
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.record import Array, DecoderLayerRecord, EncoderLayerRecord, Record
from clearhead.model.attention import Mask, MultiHeadAttention, attention_weights
from clearhead.model.dropout import Dropout
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.pooling import AttentionPooling
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.tokenizer import BOS, Tokenizer

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


# ---- inspect.recording
# Making a record: a finished input and output are replayed in a second view of the model.
#
# The replay goes through the whole target at once (teacher forcing), so the search that found
# it, and
# the engine that ran it, have no part in it; and the model itself, in which the fast attention
# keeps no weights, is left as it is.

LONGEST = 1024
"""Positions of a source or target that is recorded: the weights grow with the square."""


class Said(Protocol):
    """What a search gave, as far as it is looked at: a `Hypothesis`."""

    @property
    def tokens(self) -> Sequence[int]:
        """The target ids, without start and end symbols."""
        ...


class RecordedTranslator(Protocol):
    """What is asked of a translator."""

    @property
    def engine(self) -> Any:
        """What runs it; the model is its attribute `model`."""
        ...

    @property
    def source_tokenizer(self) -> Tokenizer:
        """Turns a source text into token ids."""
        ...

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Turns a target text into token ids."""
        ...


class RecordedClassifier(Protocol):
    """What is asked of a classifier."""

    @property
    def model(self) -> EncoderClassifier:
        """What is looked into."""
        ...

    def encode(self, source: Any) -> tuple[Any, Sequence[str]]:
        """An input's row, ids or features without padding, and the name of each position."""
        ...


def record(
    subject: RecordedTranslator | RecordedClassifier, source: Any, target: str | Said | None = None
) -> Record:
    """What a translator or a classifier computes for an input.

    Args:
        subject: looked into, and left as it is.
        source: a text; for a classifier of feature sequences (length, width), one of these.
        target: what a translator made of the source, or any other text that it might have said; a
            `Hypothesis` is replayed token by token, a text as its tokenizer encodes it.

    Raises:
        ConfigError: a translator without a target, a classifier with one, or an engine that has
            no model to look into.
        DataError: the source is empty, or source or target are too long.
        ClearheadError: the memory of the GPU is full.
    """
    if isinstance(source, str) and not source.strip():
        raise DataError("the source is empty", where="record", todo="give a text to look at")
    with full_memory_said("give a shorter input, or use the CPU: --device cpu", "record"):
        if hasattr(subject, "target_tokenizer"):
            return _of_translator(cast(RecordedTranslator, subject), source, target)
        if target is not None:
            raise ConfigError("a classifier has no target", where="record", todo="leave it out")
        return _of_classifier(cast(RecordedClassifier, subject), source)


def _of_translator(
    translator: RecordedTranslator, source: str, target: str | Said | None
) -> Record:
    if target is None:
        raise ConfigError(
            "a translator is looked at with a source and its translation",
            where="record",
            why="no target was given",
            todo="give the translation to look at, e.g. translator.translate([source])[0][0]",
        )
    if not hasattr(translator.engine, "model"):
        raise ConfigError(
            f"{type(translator.engine).__name__} has no model to look into",
            where="record",
            todo="load the translator with the PyTorch engine",
        )
    source_ids = translator.source_tokenizer.encode(source)
    if isinstance(target, str):
        target_ids = translator.target_tokenizer.encode(target)
    else:
        target_ids = list(target.tokens)
    found = record_translation(translator.engine.model, source_ids, target_ids)
    pieces = translator.target_tokenizer.pieces([BOS, *target_ids])
    return dataclasses.replace(
        found,
        source=tuple(translator.source_tokenizer.pieces(source_ids)),
        target=tuple(pieces[: len(found.target)]),
    )


def _of_classifier(classifier: RecordedClassifier, source: Any) -> Record:
    row, names = classifier.encode(source)
    return dataclasses.replace(record_classification(classifier.model, row), source=tuple(names))


@torch.no_grad()
def record_translation(
    model: EncoderDecoder, source_ids: Sequence[int], target_ids: Sequence[int]
) -> Record:
    """What an encoder-decoder computes for a source and a target, which it is told.

    Args:
        model: left as it is.
        source_ids: without start and end symbols.
        target_ids: T ids without start and end symbols. The decoder reads the start symbol and
            then these, T + 1 positions, of which position i predicts target_ids[i] and the last
            one what comes after the target. Of as many ids as there are trained positions the
            last is not read: an output that long was cut there, and nothing comes after it.

    Raises:
        DataError: the source is empty, or one of the two is too long.
    """
    read = [BOS, *target_ids]
    if len(target_ids) == model.target_input.max_length:
        read.pop()
    _check_length("source", len(source_ids))
    _check_length("target", len(read))
    view = second_view(model)
    device = next(model.parameters()).device
    encoder, decoder = _watched_encoder(view.encoder), _watched_decoder(view.decoder)
    source = torch.tensor([[*source_ids]], device=device)
    memory, mask = view.encode(source)
    hidden = view.decode(torch.tensor([read], device=device), memory, mask)
    return Record(
        source=tuple(map(str, source_ids)),
        target=tuple(map(str, read)),
        input=array(source),
        encoder=tuple(watch.record() for watch in encoder),
        decoder=tuple(watch.record() for watch in decoder),
        memory=array(memory),
        hidden=array(hidden),
        logits=array(view.output(hidden)),
    )


@torch.no_grad()
def record_classification(model: EncoderClassifier, row: Any) -> Record:
    """What a classifier computes for one input.

    Args:
        model: left as it is.
        row: ids (length,), those of spelt words (length, 1 + most), or features (length, width),
            as an array or tensor without padding.

    Raises:
        DataError: the input is empty, or too long.
    """
    x = torch.as_tensor(row, device=next(model.parameters()).device)[None]
    _check_length("input", x.size(1))
    view = second_view(model)
    encoder, head = _watched_encoder(view.encoder), Watch()
    head.output(view.encoder, "memory")
    head.input(view.output, "hidden")
    for pooling in view.pooling.poolings:
        if isinstance(pooling, AttentionPooling):
            head.pooling(pooling, "pooling_weights")
    logits = view(x)
    return Record(
        source=tuple(str(number) for number in range(1, x.size(1) + 1)),
        target=(),
        input=array(x),
        encoder=tuple(watch.record() for watch in encoder),
        decoder=(),
        memory=head.seen["memory"],
        hidden=head.seen["hidden"],
        logits=array(logits),
        unit="frame" if x.is_floating_point() else "token",
        pooling_weights=head.seen.get("pooling_weights"),
    )


def _watched_encoder(encoder: nn.Module) -> list[EncoderLayerWatch]:
    return [EncoderLayerWatch(m) for m in encoder.modules() if isinstance(m, EncoderLayer)]


def _watched_decoder(decoder: nn.Module) -> list[DecoderLayerWatch]:
    return [DecoderLayerWatch(m) for m in decoder.modules() if isinstance(m, DecoderLayer)]


def _check_length(what: str, length: int) -> None:
    if length == 0:
        raise DataError(f"the {what} is empty", todo="give one to look at")
    if length > LONGEST:
        raise DataError(
            f"the {what} is too long to look into: it has {length:,} positions",
            why=f"at most {LONGEST:,} are recorded, for the weights grow with the square",
            todo="give a shorter one",
        )
