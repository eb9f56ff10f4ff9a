"""Record what a model computes for an input and its output.

A second view of the model replays them. It shares the weights of the model and has modules of its
own, which are watched. The model itself, whose fast attention keeps no weights, does not change.
The replay reads the whole target at once (teacher forcing), so it depends neither on the search
that found the target nor on the engine that ran it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from clearhead.decoding.engine import Hypothesis
from clearhead.device import explain_full_memory
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.record import Array, DecoderLayerRecord, EncoderLayerRecord, Record
from clearhead.model.attention import Mask, MultiHeadAttention, attention_weights
from clearhead.model.dropout import Dropout
from clearhead.model.layers import DecoderLayer, EncoderLayer
from clearhead.model.pooling import AttentionPooling
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.tokenizer import BOS, Tokenizer

LONGEST = 1024
"""Maximum number of positions: the size of attention weights grows with its square."""

_Model = TypeVar("_Model", bound=nn.Module)


class _Translator(Protocol):
    """The part of a translator that is used; the engine has the attribute `model`."""

    @property
    def engine(self) -> Any: ...
    @property
    def source_tokenizer(self) -> Tokenizer: ...
    @property
    def target_tokenizer(self) -> Tokenizer: ...


class _Classifier(Protocol):
    """The part of a classifier that is used."""

    @property
    def model(self) -> EncoderClassifier: ...
    def encode(self, source: Any) -> tuple[Any, Sequence[str]]: ...


def record(
    subject: _Translator | _Classifier,
    source: Any,
    target: str | Hypothesis | None = None,
) -> Record:
    """Record what a translator or a classifier computes for an input.

    Args:
        subject: the translator or classifier; it does not change.
        source: a text; for a classifier of features an array (length, width).
        target: for a translator its translation, or any other text. The tokens of a `Hypothesis`
            are replayed as they are; a text is encoded first.

    Raises:
        ConfigError: a translator has no target, a classifier has one, or the engine has no model.
        DataError: the source is empty, or source or target are too long.
        ClearheadError: the memory of the GPU is full.
    """
    if isinstance(source, str) and not source.strip():
        raise DataError("the source is empty", where="record", todo="give a text")
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu", "record"):
        if hasattr(subject, "target_tokenizer"):
            return _of_translator(cast(_Translator, subject), source, target)
        if target is not None:
            raise ConfigError("a classifier has no target", where="record", todo="leave it out")
        classifier = cast(_Classifier, subject)
        row, names = classifier.encode(source)
        result = record_classification(classifier.model, row)
        return dataclasses.replace(result, source=tuple(names))


def _of_translator(translator: _Translator, source: str, target: str | Hypothesis | None) -> Record:
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
    encode = translator.target_tokenizer.encode
    source_ids = translator.source_tokenizer.encode(source)
    target_ids = encode(target) if isinstance(target, str) else list(target.tokens)
    result = record_translation(translator.engine.model, source_ids, target_ids)
    pieces = translator.target_tokenizer.pieces([BOS, *target_ids])
    return dataclasses.replace(
        result,
        source=tuple(translator.source_tokenizer.pieces(source_ids)),
        target=tuple(pieces[: len(result.target)]),
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
            then these: T + 1 positions. Position i predicts target_ids[i], and the last one
            what follows the target. If the target fills all trained positions, it was cut there
            and nothing follows, so its last id is not read.

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
    encoder, decoder = _watch_layers(view.encoder), _watch_layers(view.decoder)
    source = torch.tensor([[*source_ids]], device=device)
    memory, mask = view.encode(source)
    hidden = view.decode(torch.tensor([read], device=device), memory, mask)
    return Record(
        source=tuple(map(str, source_ids)),
        target=tuple(map(str, read)),
        input=array(source),
        encoder=tuple(EncoderLayerRecord(**watch.values) for watch in encoder),
        decoder=tuple(DecoderLayerRecord(**watch.values) for watch in decoder),
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
    encoder, head = _watch_layers(view.encoder), Watch()
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
        encoder=tuple(EncoderLayerRecord(**watch.values) for watch in encoder),
        decoder=(),
        memory=head.values["memory"],
        hidden=head.values["hidden"],
        logits=array(logits),
        unit="frame" if x.is_floating_point() else "token",
        pooling_weights=head.values.get("pooling_weights"),
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


def _watch_layers(stack: nn.Module) -> list[Watch]:
    """Watch each layer; the names are the fields of its record."""
    watches = []
    for layer in stack.modules():
        if isinstance(layer, EncoderLayer):
            attentions = {"attention": layer.self_attention}
        elif isinstance(layer, DecoderLayer):
            attentions = {
                "self_attention": layer.self_attention,
                "cross_attention": layer.cross_attention,
            }
        else:
            continue
        watch = Watch()
        watch.input(layer, "input")
        for number, (name, attention) in enumerate(attentions.items()):
            watch.weights(attention, name)
            watch.output(attention, f"{name}_output")
            watch.output(layer.residuals[number], f"after_{name}")
        watch.output(layer.feed_forward, "feed_forward_output")
        watch.output(layer, "output")
        watches.append(watch)
    return watches


class Watch:
    """Copies what the modules of a view compute to `values`, each under a name."""

    def __init__(self) -> None:
        self.values: dict[str, Array] = {}

    def input(self, module: nn.Module, name: str) -> None:
        """Copy the first argument of a module."""

        def copy(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            self.values[name] = array(inputs[0])

        module.register_forward_pre_hook(copy)

    def output(self, module: nn.Module, name: str) -> None:
        """Copy the result of a module."""

        def copy(module: nn.Module, inputs: tuple[Any, ...], result: Tensor) -> None:
            self.values[name] = array(result)

        module.register_forward_hook(copy)

    def weights(self, attention: MultiHeadAttention, name: str) -> None:
        """Copy the weights of an attention, which then computes the formula step by step."""

        def attend(
            queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, dropout: Dropout
        ) -> Tensor:
            weights = attention_weights(queries, keys, mask)
            self.values[name] = array(weights)
            return dropout(weights) @ values

        attention.attend = attend

    def pooling(self, pooling: AttentionPooling, name: str) -> None:
        """Copy the weights (length,) of a learned pooling."""

        def copy(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            self.values[name] = array(pooling.weights(*inputs))[:, 0]

        pooling.register_forward_pre_hook(copy)


def array(tensor: Tensor) -> Array:
    """A copy of a batch of one, without the batch dimension."""
    return tensor.detach()[0].cpu().numpy().copy()
