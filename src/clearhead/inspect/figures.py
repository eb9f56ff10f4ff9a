"""Pictures of a record: the attention of each head, and the values of each layer.

Layers and heads count from 0, or from the end if they are negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from clearhead.errors import ConfigError, DataError
from clearhead.files import Write, write_together
from clearhead.inspect.heatmaps import AxisNames, Panel, Scale, heatmap_figure, save
from clearhead.inspect.record import Array, Record

Attention = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder or of the decoder, or attention from target to source."""

FORMATS = ("png", "svg")
ATTENTIONS: dict[Attention, tuple[str, str]] = {
    "encoder": ("Encoder self-attention", "attention"),
    "decoder": ("Decoder self-attention", "self_attention"),
    "cross": ("Cross-attention", "cross_attention"),
}
"""The title of each kind, and its field in the record of a layer."""


def attention_figure(
    record: Record, attention: Attention = "encoder", layer: int = -1, head: int | None = None
) -> Figure:
    """The weights of one head, or their mean over all heads; queries down, keys across.

    Raises:
        DataError: the record has no such attention, layer or head.
    """
    title, weights = _layer_weights(record, attention, layer)
    if head is None:
        values, which = weights.mean(axis=0), f"mean over its {_count(len(weights), 'head')}"
    else:
        number = _index(head, len(weights), "head")
        values, which = weights[number], f"head {number + 1} of {len(weights)}"
    return _attention_maps(record, attention, f"{title}: {which}", [("", values)])


def heads_figure(record: Record, attention: Attention = "encoder", layer: int = -1) -> Figure:
    """The weights of every head of a layer, one panel per head.

    Raises:
        DataError: the record has no such attention or layer.
    """
    title, weights = _layer_weights(record, attention, layer)
    panels = [(f"head {number}", values) for number, values in enumerate(weights, start=1)]
    return _attention_maps(record, attention, f"{title}: each head", panels)


def layer_figure(record: Record, layer: int = -1) -> Figure:
    """Inside an encoder layer: its input, and the outputs of attention and feed-forward network.

    Raises:
        DataError: the record has no such layer.
    """
    number = _index(layer, len(record.encoder), "encoder layer")
    inside = record.encoder[number]
    title = f"Inside the encoder, layer {number + 1} of {len(record.encoder)}"
    panels = [
        ("input", inside.input),
        ("output of the attention", inside.attention_output),
        ("output of the feed-forward network", inside.feed_forward_output),
    ]
    return _activation_maps(record, title, panels)


def stack_figure(record: Record) -> Figure:
    """The input of the encoder, and the output of each layer."""
    outputs = [layer.output for layer in record.encoder]
    panels = [("input", record.encoder[0].input)]
    panels += [(f"output of layer {number}", x) for number, x in enumerate(outputs, start=1)]
    return _activation_maps(record, "Through the encoder", panels)


def confusion_figure(confusion: Array, names: Sequence[str]) -> Figure:
    """A confusion matrix of whole numbers (labels, labels): true labels down, predicted across.

    A cell holds the number of examples; its colour is their share of the examples of the true
    label.

    Raises:
        ValueError: the shape does not fit the number of names.
    """
    if confusion.shape != (len(names), len(names)):
        raise ValueError(f"a confusion of shape {confusion.shape} for {len(names)} labels")
    totals = confusion.sum(axis=1, keepdims=True)
    shares = confusion / np.maximum(totals, 1)
    return heatmap_figure(
        f"Confusion of labels, {_count(int(totals.sum()), 'example')}",
        [Panel("", shares, written=confusion)],
        Scale("share of the true label", "GnBu", 0.0, 1.0),
        AxisNames("true label", names),
        AxisNames("predicted label", names),
    )


def figures_of(record: Record) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The file name (without suffix) of each picture of a record, and the function that draws it.

    First each attention (the mean over the heads of the last layer), then every head of every
    layer, then the inside of each encoder layer, and the outputs of all encoder layers.
    """
    counts: dict[Attention, int] = {name: len(_layers(record, name)) for name in ATTENTIONS}
    for name, count in counts.items():
        if count:
            yield f"{name}-attention", partial(attention_figure, record, name)
    for name, count in counts.items():
        for layer in range(count):
            yield f"{name}-heads-{layer + 1}", partial(heads_figure, record, name, layer)
    for layer in range(counts["encoder"]):
        yield f"encoder-layer-{layer + 1}", partial(layer_figure, record, layer)
    yield "encoder-stack", partial(stack_figure, record)


def draw_all(record: Record, folder: str | Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw every picture of a record into a folder, and return the files.

    Raises:
        ConfigError: a format is not one of `FORMATS`.
        DataError: the files cannot be written; then none is.
    """
    return write_figures(figures_of(record), folder, formats)


def write_figures(
    figures: Iterable[tuple[str, Callable[[], Figure]]],
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Draw and write figures one by one, as files such as `name.png`.

    Raises:
        ConfigError: a format is not one of `FORMATS`.
        DataError: the files cannot be written; then none is.
    """
    check_formats(formats)

    def files() -> Iterator[tuple[str, Write]]:
        for name, draw in figures:
            figure = draw()
            for form in dict.fromkeys(formats):
                yield f"{name}.{form}", partial(save, figure, form=form)

    return write_together(Path(folder), files())


def check_formats(formats: Sequence[str]) -> None:
    """Check formats before anything is drawn.

    Raises:
        ConfigError: a format is not one of `FORMATS`.
    """
    wrong = [form for form in formats if form not in FORMATS]
    if wrong or not formats:
        raise ConfigError(
            f"unknown picture format: {', '.join(map(repr, wrong)) or 'none given'}",
            todo=f"choose from {' and '.join(FORMATS)}",
        )


def _layers(record: Record, attention: Attention) -> Sequence[Any]:
    return record.encoder if attention == "encoder" else record.decoder


def _layer_weights(record: Record, attention: Attention, layer: int) -> tuple[str, Array]:
    """The title and the weights (heads, queries, keys) of a layer."""
    layers = _layers(record, attention)
    if not layers:
        raise DataError("the record of a classifier has no decoder")
    number = _index(layer, len(layers), "layer")
    title, field = ATTENTIONS[attention]
    return f"{title}, layer {number + 1} of {len(layers)}", getattr(layers[number], field)


def _index(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise DataError(f"there is no {what} {number}", why=f"there are {count}, counted from 0")
    return number % count


def _attention_maps(
    record: Record, attention: Attention, title: str, panels: Sequence[tuple[str, Array]]
) -> Figure:
    source, target = (record.source_position, record.source), ("target position", record.target)
    queries = source if attention == "encoder" else target
    keys = target if attention == "decoder" else source
    # Later positions are masked, which is not the same as a weight of zero.
    ahead = np.triu(np.ones_like(panels[0][1], dtype=bool), k=1)
    return heatmap_figure(
        title,
        [Panel(name, x, ahead if attention == "decoder" else None) for name, x in panels],
        Scale("attention weight", "GnBu", 0.0, max(float(x.max()) for _, x in panels)),
        AxisNames(f"query: {queries[0]}", queries[1]),
        AxisNames(f"key: {keys[0]}", keys[1]),
    )


def _activation_maps(record: Record, title: str, panels: Sequence[tuple[str, Array]]) -> Figure:
    """Vectors side by side: positions across, dimensions down, which keeps the picture narrow."""
    largest = max(float(np.abs(x).max()) for _, x in panels) or 1.0
    dimensions = [str(number) for number in range(1, panels[0][1].shape[1] + 1)]
    return heatmap_figure(
        title,
        [Panel(name, x.T) for name, x in panels],
        Scale("activation", "RdBu_r", -largest, largest),
        AxisNames("dimension", dimensions),
        AxisNames(record.source_position, record.source),
        max_columns=8,
        square=False,
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
