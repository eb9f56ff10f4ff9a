"""Recording what a model computes: an input and its output are replayed in a second view of it.

The replay reads the whole target at once (teacher forcing), so it depends neither on the search
that found the target nor on the engine that ran it. The view shares the weights of the model and
has modules of its own, which are watched. The model itself, whose fast attention keeps no weights,
does not change.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from clearhead.decoding.device import explain_full_memory
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.record import Array, DecoderLayerRecord, EncoderLayerRecord, Record
from clearhead.model.attention import Mask, MultiHeadAttention, attention_weights
from clearhead.model.dropout import Dropout
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.pooling import AttentionPooling
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.tokenizer import BOS, Tokenizer

LONGEST = 1024
"""Largest number of positions that are recorded: attention weights grow with its square."""

_Model = TypeVar("_Model", bound=nn.Module)


class SearchResult(Protocol):
    """The part of a `Hypothesis` that is replayed."""

    @property
    def tokens(self) -> Sequence[int]:
        """The target ids, without start and end symbols."""
        ...


class RecordedTranslator(Protocol):
    """The part of a translator that is used."""

    @property
    def engine(self) -> Any:
        """The engine; its attribute `model` is the model."""
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
    """The part of a classifier that is used."""

    @property
    def model(self) -> EncoderClassifier:
        """The model."""
        ...

    def encode(self, source: Any) -> tuple[Any, Sequence[str]]:
        """The row of an input, ids or features without padding, and the name of each position."""
        ...


def record(
    subject: RecordedTranslator | RecordedClassifier,
    source: Any,
    target: str | SearchResult | None = None,
) -> Record:
    """Record what a translator or a classifier computes for an input.

    Args:
        subject: the translator or classifier; it does not change.
        source: a text; for a classifier of feature sequences (length, width), one of these.
        target: for a translator its translation, or any other text: a `Hypothesis` is replayed
            token by token, a text as the tokenizer encodes it.

    Raises:
        ConfigError: a translator has no target, a classifier has one, or the engine has no model.
        DataError: the source is empty, or source or target are too long.
        ClearheadError: the memory of the GPU is full.
    """
    if isinstance(source, str) and not source.strip():
        raise DataError("the source is empty", where="record", todo="give a text")
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu", "record"):
        if hasattr(subject, "target_tokenizer"):
            return _of_translator(cast(RecordedTranslator, subject), source, target)
        if target is not None:
            raise ConfigError("a classifier has no target", where="record", todo="leave it out")
        row, names = cast(RecordedClassifier, subject).encode(source)
        found = record_classification(cast(RecordedClassifier, subject).model, row)
        return dataclasses.replace(found, source=tuple(names))


def _of_translator(
    translator: RecordedTranslator, source: str, target: str | SearchResult | None
) -> Record:
    if target is None:
        raise ConfigError(
            "the record of a translator needs a source and its translation",
            where="record",
            why="there is no target",
            todo="give a translation, e.g. translator.translate([source])[0][0]",
        )
    if not hasattr(translator.engine, "model"):
        raise ConfigError(
            f"{type(translator.engine).__name__} has no model that can be recorded",
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


@torch.no_grad()
def record_translation(
    model: EncoderDecoder, source_ids: Sequence[int], target_ids: Sequence[int]
) -> Record:
    """Record what an encoder-decoder computes for a source and a given target.

    Args:
        model: does not change.
        source_ids: without start and end symbols.
        target_ids: T ids without start and end symbols. The decoder reads the start symbol and
            then these, T + 1 positions. Position i predicts target_ids[i], and the last one what
            follows the target. If the target fills all trained positions, its last id is not
            read: the output was cut there, and nothing follows.

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
    encoder, decoder = _watch_encoder(view.encoder), _watch_decoder(view.decoder)
    source = torch.tensor([[*source_ids]], device=device)
    memory, mask = view.encode(source)
    hidden = view.decode(torch.tensor([read], device=device), memory, mask)
    return Record(
        source=tuple(map(str, source_ids)),
        target=tuple(map(str, read)),
        input=array(source),
        encoder=tuple(EncoderLayerRecord(**watch.seen) for watch in encoder),
        decoder=tuple(DecoderLayerRecord(**watch.seen) for watch in decoder),
        memory=array(memory),
        hidden=array(hidden),
        logits=array(view.output(hidden)),
    )


@torch.no_grad()
def record_classification(model: EncoderClassifier, row: Any) -> Record:
    """Record what a classifier computes for one input.

    Args:
        model: does not change.
        row: ids (length,), ids of words and their n-grams (length, 1 + most), or features
            (length, width), as an array or tensor without padding.

    Raises:
        DataError: the input is empty, or too long.
    """
    x = torch.as_tensor(row, device=next(model.parameters()).device)[None]
    _check_length("input", x.size(1))
    view = second_view(model)
    encoder, head = _watch_encoder(view.encoder), Watch()
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
        encoder=tuple(EncoderLayerRecord(**watch.seen) for watch in encoder),
        decoder=(),
        memory=head.seen["memory"],
        hidden=head.seen["hidden"],
        logits=array(logits),
        unit="frame" if x.is_floating_point() else "token",
        pooling_weights=head.seen.get("pooling_weights"),
    )


def _check_length(what: str, length: int) -> None:
    if length == 0:
        raise DataError(f"the {what} is empty", todo="give one that is not empty")
    if length > LONGEST:
        raise DataError(
            f"the {what} is too long to record: it has {length:,} positions",
            why=f"at most {LONGEST:,} are recorded, since attention weights grow with the square",
            todo="give a shorter one",
        )


def second_view(model: _Model) -> _Model:
    """The same parameters and buffers in new modules, without dropout.

    Hooks and changes of the view do not affect the model.
    """
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def _watch_encoder(encoder: nn.Module) -> list[Watch]:
    """Watch each layer; the names are the fields of `EncoderLayerRecord`."""
    watches = []
    for layer in encoder.modules():
        if isinstance(layer, EncoderLayer):
            watch = Watch()
            watch.input(layer, "input")
            watch.weights(layer.self_attention, "attention")
            watch.output(layer.self_attention, "attention_output")
            watch.output(layer.residuals[0], "after_attention")
            watch.output(layer.feed_forward, "feed_forward_output")
            watch.output(layer, "output")
            watches.append(watch)
    return watches


def _watch_decoder(decoder: nn.Module) -> list[Watch]:
    """Watch each layer; the names are the fields of `DecoderLayerRecord`."""
    watches = []
    for layer in decoder.modules():
        if isinstance(layer, DecoderLayer):
            watch = Watch()
            watch.input(layer, "input")
            watch.weights(layer.self_attention, "self_attention")
            watch.output(layer.self_attention, "self_attention_output")
            watch.output(layer.residuals[0], "after_self_attention")
            watch.weights(layer.cross_attention, "cross_attention")
            watch.output(layer.cross_attention, "cross_attention_output")
            watch.output(layer.residuals[1], "after_cross_attention")
            watch.output(layer.feed_forward, "feed_forward_output")
            watch.output(layer, "output")
            watches.append(watch)
    return watches


class Watch:
    """Keeps what the modules of a view compute, each result under a name."""

    def __init__(self) -> None:
        self.seen: dict[str, Array] = {}

    def input(self, module: nn.Module, name: str) -> None:
        """Keep the first argument of a module."""

        def keep(module: nn.Module, given: tuple[Any, ...]) -> None:
            self.seen[name] = array(given[0])

        module.register_forward_pre_hook(keep)

    def output(self, module: nn.Module, name: str) -> None:
        """Keep the result of a module."""

        def keep(module: nn.Module, given: tuple[Any, ...], result: Tensor) -> None:
            self.seen[name] = array(result)

        module.register_forward_hook(keep)

    def weights(self, attention: MultiHeadAttention, name: str) -> None:
        """Keep the weights of an attention, which then computes the formula step by step."""

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


def array(tensor: Tensor) -> Array:
    """A copy of a batch of one, without the batch dimension."""
    return tensor.detach()[0].cpu().numpy().copy()
