"""Record what a model computes for an input and its output.

A second view of the model replays them. It shares the weights of the model and has modules of its
own, which are watched. The model itself, whose fast attention keeps no weights, does not change.
The replay reads the whole target at once (teacher forcing), so it depends neither on the search
that found the target nor on the engine that ran it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from clearhead.decoding.engine import Hypothesis
from clearhead.device import explain_full_memory, set_up_thread
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.folder.model_folder import ModelFolder
from clearhead.inspect.heads import checked
from clearhead.inspect.own import inspected
from clearhead.inspect.record import (
    DETAILS,
    Array,
    DecoderLayerRecord,
    EncoderLayerRecord,
    Record,
)
from clearhead.inspect.view import layers_of, second_view, set_attend
from clearhead.model.attention import Mask, MultiHeadAttention, attention_weights
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import ConvolvedInput
from clearhead.model.layers import DecoderLayer, EncoderLayer, FeedForward, PostNorm, Residual
from clearhead.model.pooling import AttentionPooling
from clearhead.model.positions import Positions
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.settings import RunConfig
from clearhead.text.spans import Protection
from clearhead.tokenizer import Tokenizer
from clearhead.tokenizer.normal_form import is_blank

LONGEST = 1024
"""Maximum number of positions: the size of attention weights grows with its square."""


class TranslatorLike(Protocol):
    """The part of a translator that inspection uses."""

    @property
    def config(self) -> RunConfig: ...
    @property
    def folder(self) -> ModelFolder: ...
    @property
    def model(self) -> EncoderDecoder: ...
    @property
    def protection(self) -> Protection: ...
    @property
    def source_tokenizer(self) -> Tokenizer: ...
    @property
    def target_tokenizer(self) -> Tokenizer: ...


def masked_pair(translator: TranslatorLike, source: str, target: str) -> tuple[str, str]:
    """A source and a translation with symbols for the spans that the translator protects."""
    protection = translator.protection
    masked = protection.mask(source)
    return masked.text, protection.mask_like(target, masked)


def ids_of(translator: TranslatorLike, source: Any, target: Any) -> tuple[list[int], list[int]]:
    """The ids that a translator reads of a source, and those of a translation.

    Raises:
        DataError: one of them is no text, but the translator is no model of `clearhead.nn`.
    """
    for what, given in (("source", source), ("target", target)):
        if translator.folder is not None and not isinstance(given, str | Hypothesis):
            todo = "give a text; ids are for models of clearhead.nn"
            raise DataError(f"the {what} is {type_of(given)}, not a text", todo=todo)
    if isinstance(source, str):
        known = target if isinstance(target, str) else ""
        source, known = masked_pair(translator, source, known)
        target = known if isinstance(target, str) else target
    ids = translator.source_tokenizer.encode(source)
    if isinstance(target, Hypothesis):
        return ids, list(target.tokens)
    return ids, translator.target_tokenizer.encode(target)


class ClassifierLike(Protocol):
    """The part of a classifier that inspection uses.

    `labels` are in the order of the logits, and `temperature` divides the logits. `encode` gives
    the input of the model, and the names of its positions.
    """

    @property
    def config(self) -> RunConfig: ...
    @property
    def folder(self) -> ModelFolder: ...
    @property
    def model(self) -> EncoderClassifier: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def temperature(self) -> float: ...
    @property
    def multi_label(self) -> bool: ...
    def encode(self, source: Any) -> tuple[Any, Sequence[str]]: ...


def record(
    subject: TranslatorLike | ClassifierLike | nn.Module,
    source: Any,
    target: Any = None,
    keep: str | Iterable[str] = (),
    tokenizer: Any = None,
) -> Record:
    """Record what a translator or a classifier computes for an input.

        seen = clearhead.record(translator, "A man sleeps.", "Ein Mann schläft.")
        seen.cross_attentions  # (layers, heads, target length, source length)

        seen = clearhead.record(model, [5, 8, 3], [4, 9])  # a model of clearhead.nn and its ids

    Args:
        subject: the translator or classifier, with any engine, or a model of `clearhead.nn`; it
            does not change.
        source: a text; for a classifier of features an array (length, width); for a model of
            `clearhead.nn` also ids (length,).
        target: for a translator its translation, or any other text, or ids as in `source`. The
            tokens of a `Hypothesis` are replayed as they are; a text is encoded first.
        tokenizer: for a model of `clearhead.nn`, an object with `encode` and `decode`, or a pair of
            them for source and target.
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
    subject = inspected(subject, tokenizer)
    kept = frozenset(checked(keep, DETAILS, "a detail of a record", "record"))
    set_up_thread()
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu", "record"):
        if has_target(subject, target, "record"):
            return _of_translator(cast(TranslatorLike, subject), source, target, kept)
        classifier = cast(ClassifierLike, subject)
        row, names = classifier.encode(source)
        result = record_classification(classifier.model, row, kept)
        return dataclasses.replace(result, source=tuple(names))


def is_translator(subject: object, where: str) -> bool:
    """Whether the subject is a translator; otherwise it is a classifier."""
    if hasattr(subject, "target_tokenizer"):
        if getattr(subject, "is_ensemble", False):
            what, todo = "several models compute an ensemble", "look into one: load its folder"
            raise ConfigError(what, where=where, todo=todo)
        return True
    if not (hasattr(subject, "encode") and hasattr(subject, "labels")):
        todo = (
            "give what clearhead.load returns, a model of clearhead.nn, or the model_ of a fitted "
            "TextClassifier"
        )
        what = f"the model is {type_of(subject)}, neither a translator nor a classifier"
        raise ConfigError(what, where=where, todo=todo)
    return False


def has_target(model: object, target: Any, where: str) -> bool:
    """Whether the model is a translator, which needs a target; a classifier has none."""
    translates = is_translator(model, where)
    if translates and target is None:
        todo = "give one, e.g. translator.translate([source])[0][0]"
        raise ConfigError("a translator needs the translation too", where=where, todo=todo)
    if not translates and target is not None:
        raise ConfigError("a classifier has no target", where=where, todo="leave it out")
    return translates


def _of_translator(
    translator: TranslatorLike, source: Any, target: Any, keep: frozenset[str]
) -> Record:
    source_ids, target_ids = ids_of(translator, source, target)
    result = record_translation(translator.model, source_ids, target_ids, keep)
    model = translator.model
    pieces = translator.target_tokenizer.pieces([model.bos_id, *target_ids, model.eos_id])
    return dataclasses.replace(
        result,
        source=tuple(translator.source_tokenizer.pieces(source_ids)),
        target=tuple(pieces[: len(result.target)]),
        predicted=tuple(pieces[1 : 1 + len(result.target)]),
    )


@torch.no_grad()
def record_translation(
    model: EncoderDecoder,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    keep: frozenset[str] = frozenset(),
) -> Record:
    """Record an encoder-decoder; the ids have no start and end symbols."""
    # Position i predicts target_ids[i], and the last one what follows the target. If the target
    # fills all trained positions, it was cut there and nothing follows: its last id is not read.
    read = [model.bos_id, *target_ids]
    if len(target_ids) == model.target_input.max_length:
        read.pop()
    check_length("source", len(source_ids))
    check_length("target", len(read))
    view = second_view(model)
    device = next(model.parameters()).device
    watch = Watch(keep)
    watch.stack(layers_of(view, EncoderLayer), "encoder")
    watch.stack(layers_of(view, DecoderLayer), "decoder")
    watch.input(view.source_input, "source")
    watch.input(view.target_input, "target")
    source = torch.tensor([[*source_ids]], device=device)
    memory, mask = view.encode(source)
    hidden = view.decode(torch.tensor([read], device=device), memory, mask)
    logits = view.output(hidden)
    if "probabilities" in keep:
        watch.details["probabilities"] = array(logits.softmax(dim=-1))
    layers = watch.layers.items()
    return Record(
        source=tuple(map(str, source_ids)),
        target=tuple(map(str, read)),
        input=array(source),
        encoder=tuple(EncoderLayerRecord(**x) for name, x in layers if name.startswith("encoder")),
        decoder=tuple(DecoderLayerRecord(**x) for name, x in layers if name.startswith("decoder")),
        memory=array(memory),
        hidden=array(hidden),
        logits=array(logits),
        details=watch.details,
    )


@torch.no_grad()
def record_classification(
    model: EncoderClassifier, row: Any, keep: frozenset[str] = frozenset()
) -> Record:
    """Record a classifier for the row that it encodes, without padding."""
    x = torch.as_tensor(row, device=next(model.parameters()).device)[None]
    check_length("input", x.size(1))
    view = second_view(model)
    watch = Watch(keep)
    watch.stack(layers_of(view, EncoderLayer), "encoder")
    watch.input(view.input, "source")
    memory, mask = view.encode(x)
    hidden = view.state(memory, mask)
    logits = view.logits(x, hidden)
    learned = [each for each in view.pooling.poolings if isinstance(each, AttentionPooling)]
    if "probabilities" in keep:
        watch.details["probabilities"] = array(logits.softmax(dim=-1))
    return Record(
        source=tuple(str(number) for number in range(1, x.size(1) + 1)),
        target=(),
        input=array(x),
        encoder=tuple(EncoderLayerRecord(**x) for x in watch.layers.values()),
        decoder=(),
        memory=array(memory),
        hidden=array(hidden),
        logits=array(logits),
        unit="frame" if x.is_floating_point() else "token",
        pooling_weights=array(learned[0].weights(memory, mask))[:, 0] if learned else None,
        details=watch.details,
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


Copy = Callable[[Tensor], None]
"""Takes a copy of a value of a batch of one."""


class Watch:
    """Copies what the modules of a view compute.

    Args:
        keep: the details to copy.
    """

    def __init__(self, keep: frozenset[str]) -> None:
        self.layers: dict[str, dict[str, Array]] = {}  # by layer the fields of its record
        self.details: dict[str, Array] = {}  # by names such as `encoder.1.self.queries`
        self._keep = keep

    def field(self, layer: str, name: str) -> Copy:
        """Copies a value that belongs to the record of a layer."""

        def copy(tensor: Tensor) -> None:
            self.layers.setdefault(layer, {})[name] = array(tensor)

        return copy

    def detail(self, place: str, detail: str) -> Copy:
        """Copies a value if the detail is to be kept."""

        def copy(tensor: Tensor) -> None:
            if detail in self._keep:
                self.details[f"{place}.{detail}"] = array(tensor)

        return copy

    def stack(self, layers: Sequence[EncoderLayer | DecoderLayer], stack: str) -> None:
        """Watch the layers of the encoder or decoder."""
        for number, layer in enumerate(layers, start=1):
            name = f"{stack}.{number}"
            attentions = {"attention": layer.self_attention}
            if isinstance(layer, DecoderLayer):
                attentions = {
                    "self_attention": layer.self_attention,
                    "cross_attention": layer.cross_attention,
                }
            residuals = list(cast("Iterable[Residual]", layer.residuals))
            before(layer, self.field(name, "input"))
            for (field, attention), kind, residual in zip(
                attentions.items(), ("self", "cross"), residuals, strict=False
            ):
                self.attention(attention, self.field(name, field), f"{name}.{kind}")
                after(attention, self.field(name, f"{field}_output"))
                after(residual, self.field(name, f"after_{field}"))
                self.residual(residual, f"{name}.{kind}")
            network = f"{name}.feed_forward"
            after(layer.feed_forward, self.field(name, "feed_forward_output"))
            if isinstance(layer.feed_forward, FeedForward):  # otherwise it is somebody's own
                after(layer.feed_forward.activation, self.detail(network, "hidden_units"))
            self.residual(residuals[-1], network)
            after(layer, self.field(name, "output"))

    def attention(self, watched: MultiHeadAttention, weights_of: Copy, place: str) -> None:
        """Let an attention compute the formula step by step, and copy the weights and each step."""

        def attend(
            queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, dropout: Dropout
        ) -> Tensor:
            weights = attention_weights(queries, keys, mask)
            weights_of(weights)
            context = dropout(weights) @ values
            self.detail(place, "queries")(queries)
            self.detail(place, "keys")(keys)
            self.detail(place, "values")(values)
            if "scores" in self._keep:
                scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
                self.detail(place, "scores")(scores)
            self.detail(place, "head_outputs")(context)
            if "head_parts" in self._keep:  # with the bias of W^O they sum to the output
                self.detail(place, "head_parts")(context @ output_by_head(watched))
            return context

        set_attend(watched, attend)

    def residual(self, residual: Residual, place: str) -> None:
        """Watch the sum x + Sublayer(…) and the output of the norm, whichever comes first."""
        after(residual.norm, self.detail(place, "norms"))
        if isinstance(residual, PostNorm):
            before(residual.norm, self.detail(place, "residuals"))
        else:
            after(residual, self.detail(place, "residuals"))

    def input(self, part: nn.Module, side: str) -> None:
        """Watch embeddings (or projected frames), and the vectors that the positions add."""

        def added(positions: Positions, x: Tensor) -> None:
            vectors = positions.vectors(0, x.size(1))
            vectors = torch.zeros_like(x) if vectors is None else vectors.expand_as(x)
            self.detail(side, "positions")(vectors)

        for module in part.modules():
            if isinstance(module, Positions):
                before(module, self.detail(side, "embeddings"))
                before(module, partial(added, module))
            if isinstance(module, ConvolvedInput):
                after(module.activation, self.detail(side, "convolutions"))


def before(module: nn.Module, copy: Copy) -> None:
    """Copy the first argument of a module."""

    def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        copy(inputs[0])

    module.register_forward_pre_hook(hook)


def after(module: nn.Module, copy: Copy) -> None:
    """Copy the result of a module."""

    def hook(module: nn.Module, inputs: tuple[Any, ...], result: Tensor) -> None:
        copy(result)

    module.register_forward_hook(hook)


def output_by_head(attention: MultiHeadAttention) -> Tensor:
    """The rows of W^O of each head, (heads, d_v, d_model)."""
    return attention.output.weight.T.unflatten(0, (attention.n_heads, -1))


def array(tensor: Tensor) -> Array:
    """A copy of a batch of one, without the batch dimension."""
    return tensor.detach()[0].cpu().numpy().copy()
