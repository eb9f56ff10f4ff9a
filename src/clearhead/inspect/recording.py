"""Record what a model computes for an input and its output.

A second view of the model replays them. It shares the weights of the model and has modules of its
own, which are watched. The model itself, whose fast attention keeps no weights, does not change.
The replay reads the whole target at once (teacher forcing), so it depends neither on the search
that found the target nor on the engine that ran it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from clearhead.decoding.engine import Hypothesis
from clearhead.device import explain_full_memory, set_up_thread
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.heads import checked
from clearhead.inspect.record import (
    DETAILS,
    Array,
    DecoderLayerRecord,
    Detail,
    EncoderLayerRecord,
    Record,
)
from clearhead.inspect.view import second_view
from clearhead.model.attention import Mask, MultiHeadAttention, attention_weights
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import ConvolvedInput
from clearhead.model.layers import DecoderLayer, EncoderLayer, PostNorm, Residual
from clearhead.model.pooling import AttentionPooling
from clearhead.model.positions import Positions
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.settings import RunConfig
from clearhead.tokenizer import BOS, Tokenizer
from clearhead.tokenizer.normal_form import is_blank

LONGEST = 1024
"""Maximum number of positions: the size of attention weights grows with its square."""


class TranslatorLike(Protocol):
    """The part of a translator that inspection uses."""

    @property
    def config(self) -> RunConfig:
        """The configuration of its training."""
        ...

    @property
    def folder(self) -> ModelFolder:
        """The model folder."""
        ...

    @property
    def model(self) -> EncoderDecoder:
        """The PyTorch model."""
        ...

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of source texts."""
        ...

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of target texts."""
        ...


class ClassifierLike(Protocol):
    """The part of a classifier that inspection uses."""

    @property
    def config(self) -> RunConfig:
        """The configuration of its training."""
        ...

    @property
    def folder(self) -> ModelFolder:
        """The model folder."""
        ...

    @property
    def model(self) -> EncoderClassifier:
        """The PyTorch model."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the logits."""
        ...

    @property
    def temperature(self) -> float:
        """Divides the logits."""
        ...

    def encode(self, source: Any) -> tuple[Any, Sequence[str]]:
        """The input of the model, and the names of its positions."""
        ...


def record(
    subject: TranslatorLike | ClassifierLike,
    source: Any,
    target: str | Hypothesis | None = None,
    keep: str | Iterable[Detail] = (),
) -> Record:
    """Record what a translator or a classifier computes for an input.

    Args:
        subject: the translator or classifier, with any engine; it does not change.
        source: a text; for a classifier of features an array (length, width).
        target: for a translator its translation, or any other text. The tokens of a `Hypothesis`
            are replayed as they are; a text is encoded first.
        keep: what `Record.details` keeps in addition, by the names in `DETAILS`, as a list or
            separated by commas.

    Raises:
        ConfigError: a translator has no target, a classifier has one, the subject is neither, or a
            name in `keep` is unknown.
        DataError: the source is empty, or source or target are too long.
        ClearheadError: the memory of the GPU is full.
    """
    if isinstance(source, str) and is_blank(source):
        raise DataError("the source is empty", where="record", todo="give a text")
    kept = frozenset(checked(keep, DETAILS, "a detail of a record", "record"))
    set_up_thread()
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu", "record"):
        if is_translator(subject, "record"):
            return _of_translator(cast(TranslatorLike, subject), source, target, kept)
        if target is not None:
            raise ConfigError("a classifier has no target", where="record", todo="leave it out")
        classifier = cast(ClassifierLike, subject)
        row, names = classifier.encode(source)
        result = record_classification(classifier.model, row, kept)
        return dataclasses.replace(result, source=tuple(names))


def is_translator(subject: object, where: str) -> bool:
    """Whether the subject is a translator; otherwise it is a classifier."""
    if hasattr(subject, "target_tokenizer"):
        return True
    if not (hasattr(subject, "encode") and hasattr(subject, "labels")):
        todo = "give what clearhead.load returns, or the model_ of a fitted TextClassifier"
        what = f"the model is {type_of(subject)}, neither a translator nor a classifier"
        raise ConfigError(what, where=where, todo=todo)
    return False


def _of_translator(
    translator: TranslatorLike,
    source: str,
    target: str | Hypothesis | None,
    keep: frozenset[Detail],
) -> Record:
    if target is None:
        raise ConfigError(
            "the record of a translator needs a source and its translation",
            where="record",
            why="there is no target",
            todo="give a translation, e.g. translator.translate([source])[0][0]",
        )
    encode = translator.target_tokenizer.encode
    source_ids = translator.source_tokenizer.encode(source)
    target_ids = encode(target) if isinstance(target, str) else list(target.tokens)
    result = record_translation(translator.model, source_ids, target_ids, keep)
    pieces = translator.target_tokenizer.pieces([BOS, *target_ids])
    return dataclasses.replace(
        result,
        source=tuple(translator.source_tokenizer.pieces(source_ids)),
        target=tuple(pieces[: len(result.target)]),
    )


@torch.no_grad()
def record_translation(
    model: EncoderDecoder,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    keep: frozenset[Detail] = frozenset(),
) -> Record:
    """Record an encoder-decoder; the ids have no start and end symbols."""
    # Position i predicts target_ids[i], and the last one what follows the target. If the target
    # fills all trained positions, it was cut there and nothing follows: its last id is not read.
    read = [BOS, *target_ids]
    if len(target_ids) == model.target_input.max_length:
        read.pop()
    check_length("source", len(source_ids))
    check_length("target", len(read))
    view = second_view(model)
    device = next(model.parameters()).device
    details = Details(keep)
    encoder = _watch_layers(view.encoder, "encoder", details)
    decoder = _watch_layers(view.decoder, "decoder", details)
    details.of_input(view.source_input, "source")
    details.of_input(view.target_input, "target")
    source = torch.tensor([[*source_ids]], device=device)
    memory, mask = view.encode(source)
    hidden = view.decode(torch.tensor([read], device=device), memory, mask)
    logits = view.output(hidden)
    details.add("probabilities", "probabilities", logits.softmax(dim=-1))
    return Record(
        source=tuple(map(str, source_ids)),
        target=tuple(map(str, read)),
        input=array(source),
        encoder=tuple(EncoderLayerRecord(**watch.values) for watch in encoder),
        decoder=tuple(DecoderLayerRecord(**watch.values) for watch in decoder),
        memory=array(memory),
        hidden=array(hidden),
        logits=array(logits),
        details=details.values,
    )


@torch.no_grad()
def record_classification(
    model: EncoderClassifier, row: Any, keep: frozenset[Detail] = frozenset()
) -> Record:
    """Record a classifier for the row that it encodes, without padding."""
    x = torch.as_tensor(row, device=next(model.parameters()).device)[None]
    check_length("input", x.size(1))
    view = second_view(model)
    details = Details(keep)
    encoder, head = _watch_layers(view.encoder, "encoder", details), Watch()
    details.of_input(view.input, "source")
    head.output(view.encoder, "memory")
    head.input(view.output, "hidden")
    for pooling in view.pooling.poolings:
        if isinstance(pooling, AttentionPooling):
            head.pooling(pooling, "pooling_weights")
    logits = view(x)
    details.add("probabilities", "probabilities", logits.softmax(dim=-1))
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
        details=details.values,
    )


def check_length(what: str, length: int) -> None:
    """Check the number of positions of a source or target."""
    if length == 0:
        raise DataError(f"the {what} is empty", todo="give one that is not empty")
    if length > LONGEST:
        raise DataError(
            f"the {what} is too long to record: it has {length:,} positions",
            why=f"at most {LONGEST:,} are recorded, since attention weights grow with the square",
            todo="give a shorter one",
        )


def _watch_layers(stack: nn.Module, stack_name: str, details: Details) -> list[Watch]:
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
        name = f"{stack_name}.{len(watches) + 1}"
        residuals = list(cast("Iterable[Residual]", layer.residuals))
        watch.input(layer, "input")
        for (field, attention), kind, residual in zip(
            attentions.items(), ("self", "cross"), residuals, strict=False
        ):
            watch.weights(attention, field, f"{name}.{kind}", details)
            watch.output(attention, f"{field}_output")
            watch.output(residual, f"after_{field}")
            details.of_residual(residual, f"{name}.{kind}")
        watch.output(layer.feed_forward, "feed_forward_output")
        details.of_output(layer.feed_forward.activation, "hidden_units", f"{name}.feed_forward")
        details.of_residual(residuals[-1], f"{name}.feed_forward")
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

    def weights(
        self, attention: MultiHeadAttention, name: str, full_name: str, details: Details
    ) -> None:
        """Copy the weights of an attention, which then computes the formula step by step."""

        def attend(
            queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, dropout: Dropout
        ) -> Tensor:
            weights = attention_weights(queries, keys, mask)
            self.values[name] = array(weights)
            context = dropout(weights) @ values
            details.of_attention(full_name, attention, queries, keys, values, context)
            return context

        attention.attend = attend

    def pooling(self, pooling: AttentionPooling, name: str) -> None:
        """Copy the weights (length,) of a learned pooling."""

        def copy(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            self.values[name] = array(pooling.weights(*inputs))[:, 0]

        pooling.register_forward_pre_hook(copy)


class Details:
    """Copies what `keep` names to `values`, under names such as `encoder.1.self.queries`."""

    def __init__(self, keep: frozenset[Detail]) -> None:
        self.values: dict[str, Array] = {}
        self._keep = keep

    def add(self, detail: Detail, name: str, tensor: Tensor) -> None:
        """Copy a tensor if the detail is to be kept."""
        if detail in self._keep:
            self.values[name] = array(tensor)

    def of_output(self, module: nn.Module, detail: Detail, place: str) -> None:
        """Copy the result of a module."""

        def copy(module: nn.Module, inputs: tuple[Any, ...], result: Tensor) -> None:
            self.add(detail, f"{place}.{detail}", result)

        module.register_forward_hook(copy)

    def of_input(self, part: nn.Module, side: str) -> None:
        """Copy embeddings (or projected frames), and the vectors that the positions add."""

        def copy(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            assert isinstance(module, Positions)
            (x, *_) = inputs
            added = module.vectors(0, x.size(1))
            self.add("embeddings", f"{side}.embeddings", x)
            self.add(
                "positions",
                f"{side}.positions",
                torch.zeros_like(x) if added is None else added.expand_as(x),
            )

        for module in part.modules():
            if isinstance(module, Positions):
                module.register_forward_pre_hook(copy)
            if isinstance(module, ConvolvedInput):
                self.of_output(module.activation, "convolutions", side)

    def of_residual(self, residual: Residual, place: str) -> None:
        """Copy the sum x + Sublayer(…) and the output of the norm, whichever comes first."""
        self.of_output(residual.norm, "norms", place)
        if isinstance(residual, PostNorm):
            residual.norm.register_forward_pre_hook(
                lambda module, inputs: self.add("residuals", f"{place}.residuals", inputs[0])
            )
        else:
            self.of_output(residual, "residuals", place)

    def of_attention(
        self,
        place: str,
        attention: MultiHeadAttention,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        context: Tensor,
    ) -> None:
        """Copy what each head computes; `head_parts` and the bias of W^O sum to the output."""
        self.add("queries", f"{place}.queries", queries)
        self.add("keys", f"{place}.keys", keys)
        self.add("values", f"{place}.values", values)
        if "scores" in self._keep:
            scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
            self.add("scores", f"{place}.scores", scores)
        self.add("head_outputs", f"{place}.head_outputs", context)
        if "head_parts" in self._keep:
            self.add("head_parts", f"{place}.head_parts", context @ output_by_head(attention))


def output_by_head(attention: MultiHeadAttention) -> Tensor:
    """The rows of W^O of each head, (heads, d_v, d_model)."""
    return attention.output.weight.T.unflatten(0, (attention.n_heads, -1))


def array(tensor: Tensor) -> Array:
    """A copy of a batch of one, without the batch dimension."""
    return tensor.detach()[0].cpu().numpy().copy()
