"""Pictures of one input: attention, vectors, alignment, and what each head and each word did.

Layers and heads count from 0, or from the end if they are negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from clearhead.errors import DataError
from clearhead.inspect.drawing import LIGHT, Draw, Theme
from clearhead.inspect.heads import KINDS, Attention, Head, Stack
from clearhead.inspect.heatmaps import (
    AxisNames,
    Cells,
    Panel,
    Scale,
    fitting_cells,
    heatmap_figure,
)
from clearhead.inspect.record import Array, Record

STEPS: dict[Stack, Sequence[tuple[str, str]]] = {
    "encoder": (
        ("input", "input"),
        ("attention_output", "output of self-attention"),
        ("after_attention", "after self-attention"),
        ("hidden_units", "hidden units"),
        ("feed_forward_output", "output of feed-forward"),
        ("output", "output"),
    ),
    "decoder": (
        ("input", "input"),
        ("self_attention_output", "output of self-attention"),
        ("after_self_attention", "after self-attention"),
        ("cross_attention_output", "output of cross-attention"),
        ("after_cross_attention", "after cross-attention"),
        ("hidden_units", "hidden units"),
        ("feed_forward_output", "output of feed-forward"),
        ("output", "output"),
    ),
}
"""The steps of a layer: the field of its record, and the title."""

LARGEST = 9.5
"""Largest width and height in inches of a matrix that is alone."""

MANY = 20
"""With more positions the colour of a weight follows its square root."""

CLIPPED = 0.995
"""The share of the numbers of a layer that are within the scale of its colours."""


def attention_figure(
    record: Record,
    attention: Attention = "encoder",
    layer: int = -1,
    head: int | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """The weights of one head, or their mean over all heads; queries down, keys across.

    Raises:
        DataError: the record has no such attention, layer or head.
    """
    weights, place = _layer_weights(record, attention, layer)
    if head is None:
        values, which = weights.mean(axis=0), f"mean over its {_count(len(weights), 'head')}"
    else:
        number = _index(head, len(weights), "head")
        values, which = weights[number], f"head {number + 1} of {len(weights)}"
    (queries, rows), (keys, columns) = _sides(record, attention)
    panel = Panel(
        "",
        values,
        AxisNames(f"query: {queries}", rows),
        AxisNames(f"key: {keys}", columns),
        fitting_cells(values.shape, LARGEST, LARGEST, 0.75),
        _ahead(attention, values),
    )
    title = f"{KINDS[attention].title}, {place}, {which}"
    return heatmap_figure(title, [panel], _weight_scale(values), theme=theme)


def heads_figure(
    record: Record,
    attention: Attention = "encoder",
    theme: Theme = LIGHT,
    when: str = "",
    largest: float | None = None,
) -> Figure:
    """Every head of every layer on one page: layers down, heads across.

    Args:
        record: of an input.
        attention: the kind.
        theme: the colours.
        when: is added to the title, e.g. a step of training.
        largest: the end of the scale; by default the largest weight.

    Raises:
        DataError: the record has no such attention.
    """
    count = len(_layers(record, attention))
    layers = [_layer_weights(record, attention, i)[0] for i in range(count)]
    heads = max(map(len, layers))
    panels = [
        attention_panel(
            f"head {head}" if layer == 1 else "",
            values,
            record,
            attention,
            f"layer {layer}",
            min(3.0, max(0.8, 12 / heads)),
        )
        for layer, weights in enumerate(layers, start=1)
        for head, values in enumerate(weights, start=1)
    ]
    title = f"{KINDS[attention].title}: every head of every layer"
    (queries, _), (keys, _) = _sides(record, attention)
    note = f"A row of a panel is a query ({queries}), a column is a key ({keys})."
    scale = _weight_scale(*(panel.values for panel in panels))
    if largest is not None:
        scale = replace(scale, high=largest)
    return heatmap_figure(f"{title}, {when}" if when else title, panels, scale, heads, note, theme)


def attention_panel(
    title: str, values: Array, record: Record, attention: Attention, left: str, side: float
) -> Panel:
    """A small heat map of weights (queries, keys), at most `side` inches wide and high.

    Args:
        title: above it.
        values: the weights.
        record: has the names of queries and keys.
        attention: the kind.
        left: the text at the left.
        side: in inches.
    """
    (_, rows), (_, columns) = _sides(record, attention)
    cells = fitting_cells((len(rows), len(columns)), side, side, 0.3, square=False)
    down, across = AxisNames(left, rows), AxisNames("", columns)
    return Panel(title, values, down, across, cells, _ahead(attention, values))


def layer_figure(
    record: Record, layer: int = -1, stack: Stack = "encoder", theme: Theme = LIGHT
) -> Figure:
    """Inside a layer: its input and what each step makes of it; positions down, dimensions across.

    The hidden units of the feed-forward network are shown if the record has them.

    Raises:
        DataError: the record has no such layer.
    """
    layers = _layers(record, stack)
    number = _index(layer, len(layers), f"{stack} layer")
    values = {
        **vars(layers[number]),
        "hidden_units": record.details.get(f"{stack}.{number + 1}.feed_forward.hidden_units"),
    }
    steps = [(title, values[name]) for name, title in STEPS[stack] if values[name] is not None]
    limits = [_limit(x) for _, x in steps]
    parts = [
        (f"{i}. {title}, ±{limit:.2g}", x)
        for i, ((title, x), limit) in enumerate(zip(steps, limits, strict=True), start=1)
    ]
    return heatmap_figure(
        f"Inside layer {number + 1} of {len(layers)} of the {stack}, step by step",
        _vectors(record, stack, parts, limits),
        Scale("share of the panel's limit", "change", -1.0, 1.0),
        4 if len(parts) > 6 else 3,
        f"Rows are positions, columns are the {_count(steps[0][1].shape[1], 'dimension')} of their "
        "vectors or the hidden units. Each panel has its own scale, up to the number in its title.",
        theme,
    )


def stack_figure(record: Record, stack: Stack = "encoder", theme: Theme = LIGHT) -> Figure:
    """The input of the encoder or decoder, and the output of each layer.

    Raises:
        DataError: the record has no decoder.
    """
    layers = _layers(record, stack)
    parts = [("input", layers[0].input)]
    parts += [(f"output of layer {number}", x.output) for number, x in enumerate(layers, start=1)]
    limit = _limit(np.stack([x for _, x in parts]))
    return heatmap_figure(
        f"Through the layers of the {stack}",
        _vectors(record, stack, parts, [None] * len(parts)),
        Scale("activation", "change", -limit, limit),
        min(4, int(np.ceil(np.sqrt(len(parts))))),
        f"Rows are positions, columns are the {_count(layers[0].input.shape[1], 'dimension')} of "
        "their vectors.",
        theme,
    )


def alignment_figure(
    matrix: Array,
    links: Iterable[tuple[int, int]],
    source: Sequence[str],
    target: Sequence[str],
    how: str,
    theme: Theme = LIGHT,
) -> Figure:
    """The share of each source word in each target word, with a frame around each link.

    Args:
        matrix: (target words, source words) as `word_matrix` makes it; less than 0 counts as 0.
        links: pairs of a source word and a target word, from 0.
        source: words.
        target: words.
        how: the name of the measure or attention.
        theme: the colours.
    """
    positive = matrix.clip(min=0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    panel = Panel(
        "",
        shares,
        AxisNames("target word", target),
        AxisNames("source word", source),
        fitting_cells(shares.shape, LARGEST, LARGEST, 0.6),
        marked=[(target, source) for source, target in links],
    )
    note = f"By {how}. Each row sums to 1; a frame is a link between two words."
    root = max(shares.shape) > MANY
    scale = Scale("share of the target word", "amount", 0.0, 1.0, root)
    return heatmap_figure("Alignment of source and target words", [panel], scale, 1, note, theme)


def head_effects_figure(
    heads: Sequence[Head], effects: Array, outputs: Sequence[str], theme: Theme = LIGHT
) -> Figure:
    """What each head did for each output word or label: heads down, outputs across.

    Args:
        heads: of the model.
        effects: (heads, outputs) log-probability with the head minus without it.
        outputs: words or labels.
        theme: the colours.
    """
    kinds = {
        kind: rows
        for kind in KINDS.values()
        if (rows := [row for row, head in enumerate(heads) if kind.has(str(head))])
    }
    beside = len(outputs) <= 12
    width = 4.2 if beside else LARGEST
    largest = max(map(len, kinds.values()))
    cells = Cells(min(0.42, width / len(outputs)), min(0.3, max(0.12, 3 / largest)))
    panels = [
        Panel(
            kind.title,
            effects[rows],
            AxisNames("layer.head", [_short(heads[row]) for row in rows]),
            AxisNames("", outputs),
            cells,
        )
        for kind, rows in kinds.items()
    ]
    note = (
        "How much the log-probability of an output falls if a head is switched off. Blue: the "
        "head helps. Orange: it hinders."
    )
    columns = len(panels) if beside else 1
    return heatmap_figure(
        "What each head did", panels, _effect_scale(effects), columns, note, theme
    )


def word_effects_figure(
    effects: Array,
    outputs: Sequence[str],
    source: Sequence[str],
    unit: str = "word",
    theme: Theme = LIGHT,
) -> Figure:
    """What each source word did for each output word or label: outputs down, source across.

    Args:
        effects: (outputs, source words) log-probability with the word minus without it.
        outputs: words or labels.
        source: words or frames.
        unit: what the columns are.
        theme: the colours.
    """
    panel = Panel(
        "",
        effects,
        AxisNames("output", outputs),
        AxisNames(f"source {unit}", source),
        fitting_cells(effects.shape, LARGEST, LARGEST, 0.6),
    )
    note = (
        f"How much the log-probability of an output falls if a source {unit} is removed. Blue: the "
        f"{unit} helps. Orange: it hinders."
    )
    title = f"What each source {unit} did"
    return heatmap_figure(title, [panel], _effect_scale(effects), 1, note, theme)


def confusion_figure(confusion: Array, names: Sequence[str], theme: Theme = LIGHT) -> Figure:
    """A confusion matrix of whole numbers (labels, labels): true labels down, predicted across.

    A cell holds the number of examples; its colour is their share of the examples of the true
    label.

    Raises:
        ValueError: the shape does not fit the number of names.
    """
    if confusion.shape != (len(names), len(names)):
        raise ValueError(f"a confusion of shape {confusion.shape} for {len(names)} labels")
    totals = confusion.sum(axis=1, keepdims=True)
    panel = Panel(
        "",
        confusion / np.maximum(totals, 1),
        AxisNames("true label", names),
        AxisNames("predicted label", names),
        fitting_cells(confusion.shape, LARGEST, LARGEST, 0.6),
        written=confusion,
    )
    title = f"Confusion of labels, {_count(int(totals.sum()), 'example')}"
    return heatmap_figure(
        title, [panel], Scale("share of the true label", "amount", 0.0, 1.0), theme=theme
    )


def figures_of(record: Record, theme: Theme = LIGHT) -> Iterator[tuple[str, Draw]]:
    """The name of each picture that a record alone gives, and the function that draws it.

    All heads of each kind of attention; all layers of each stack; the inside of each layer; and
    the mean and each head of each attention.
    """
    stacks: Sequence[Stack] = ("encoder", "decoder") if record.decoder else ("encoder",)
    kinds: Sequence[Attention] = tuple(KINDS) if record.decoder else ("encoder",)
    for kind in kinds:
        yield f"{kind}-heads", partial(heads_figure, record, kind, theme)
    for stack in stacks:
        yield f"{stack}-layers", partial(stack_figure, record, stack, theme)
    for stack in stacks:
        for layer in range(len(_layers(record, stack))):
            yield f"{stack}.{layer + 1}", partial(layer_figure, record, layer, stack, theme)
    for kind in kinds:
        _, stack, last, _ = KINDS[kind]
        for layer in range(len(_layers(record, stack))):
            place = f"{stack}.{layer + 1}.{last}"
            draw = partial(attention_figure, record, kind, layer, theme=theme)
            yield place, draw
            for head in range(len(_layer_weights(record, kind, layer)[0])):
                yield f"{place}.{head + 1}", partial(draw, head)


def _short(head: Head) -> str:
    return f"{head.attention.split('.')[1]}.{head.number}"


def _layers(record: Record, stack: str) -> Sequence[Any]:
    layers = record.encoder if stack == "encoder" else record.decoder
    if not layers:
        raise DataError("the record of a classifier has no decoder")
    return layers


def _layer_weights(record: Record, attention: Attention, layer: int) -> tuple[Array, str]:
    """The weights (heads, queries, keys) of a layer, and its place."""
    layers = _layers(record, attention)
    number = _index(layer, len(layers), "layer")
    weights = getattr(layers[number], KINDS[attention].field)
    return weights, f"layer {number + 1} of {len(layers)}"


def _index(number: int, count: int, what: str) -> int:
    if not -count <= number < count:
        raise DataError(f"there is no {what} {number}", why=f"there are {count}, counted from 0")
    return number % count


Side = tuple[str, Sequence[str]]
"""What positions are, and their names."""


def _sides(record: Record, attention: Attention) -> tuple[Side, Side]:
    """The queries and the keys of an attention."""
    source, target = (record.source_position, record.source), ("target position", record.target)
    return (
        source if attention == "encoder" else target,
        target if attention == "decoder" else source,
    )


def _ahead(attention: Attention, values: Array) -> Array | None:
    """Later positions are masked in the decoder, which is not the same as a weight of zero."""
    return np.triu(np.ones_like(values, dtype=bool), k=1) if attention == "decoder" else None


def _weight_scale(*values: Array) -> Scale:
    """From 0 to the largest weight. Between many positions most weights are small."""
    largest = max(float(x.max()) for x in values)
    root = max(values[0].shape) > MANY
    return Scale("attention weight", "amount", 0.0, largest, root)


def _effect_scale(effects: Array) -> Scale:
    largest = float(np.abs(effects).max()) or 1.0
    return Scale("change of log-probability", "change", -largest, largest)


def _vectors(
    record: Record, stack: Stack, parts: Sequence[tuple[str, Array]], limits: Sequence[float | None]
) -> list[Panel]:
    """Vectors of each position: positions down, dimensions across."""
    unit, names = _sides(record, stack)[0]
    height = min(0.2, max(0.11, 6 / len(names)))
    return [
        Panel(
            name,
            x,
            AxisNames(unit, names),
            AxisNames("", ()),
            Cells(2.6 / x.shape[1], height),
            limit=limit,
        )
        for (name, x), limit in zip(parts, limits, strict=True)
    ]


def _limit(x: Array) -> float:
    """The end of the scale of activations: a few larger ones would make all others pale."""
    return float(np.quantile(np.abs(x), CLIPPED)) or 1.0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
