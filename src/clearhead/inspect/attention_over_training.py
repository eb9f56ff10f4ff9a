"""Pictures of attention over the course of a run: a strip of moments, and an animation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from clearhead.inspect.drawing import LIGHT, Animation, Theme, fixed_settings
from clearhead.inspect.figures import MANY, attention_panel, heads_figure
from clearhead.inspect.heads import KINDS, Attention
from clearhead.inspect.heatmaps import Scale, heatmap_figure
from clearhead.inspect.record import Record

MOMENTS, FRAMES = 6, 60
"""Validations of a strip and of an animation, evenly chosen if there are more."""

Files = Sequence[tuple[int, Path]]
"""Steps and the files of their records."""


def strip_figure(files: Files, theme: Theme = LIGHT) -> Figure:
    """The mean attention of each layer: steps across, layers down.

    Raises:
        DataError: a record cannot be read.
    """
    moments = [(step, Record.load(path)) for step, path in _evenly(files, MOMENTS)]
    kind = _kind(moments[0][1])
    layers = len(moments[0][1].encoder if kind == "encoder" else moments[0][1].decoder)
    panels = [
        attention_panel(
            f"step {step:,}" if layer == 0 else "",
            getattr(record, f"{kind}_attentions")[layer].astype(float).mean(axis=0),
            record,
            kind,
            f"layer {layer + 1}",
            min(2.4, max(0.8, 12 / len(moments))),
        )
        for layer in range(layers)
        for step, record in moments
    ]
    title = f"{KINDS[kind].title} over the course of training"
    note = "Each panel is the mean over the heads of a layer. A row is a query, a column is a key."
    scale = Scale("attention weight", "amount", 0.0, 1.0, max(panels[0].values.shape) > MANY)
    return heatmap_figure(title, panels, scale, len(moments), note, theme)


def animation(files: Files, theme: Theme = LIGHT) -> Animation:
    """Every head of every layer, one validation after the other.

    Raises:
        DataError: a record cannot be read.
    """
    moments = [(step, Record.load(path)) for step, path in _evenly(files, FRAMES)]
    last_step, last = moments[-1]
    kind = _kind(last)
    figure = heads_figure(last, kind, theme, f"step {last_step:,}", largest=1.0)
    meshes = [x for axes in figure.axes[:-1] for x in axes.collections if isinstance(x, QuadMesh)]
    for axes in figure.axes:
        for number in list(axes.texts):
            number.remove()
    title, text = figure.texts[0], figure.texts[0].get_text()

    def show(frame: int) -> None:
        step, record = moments[frame]
        weights = getattr(record, f"{kind}_attentions")
        for mesh, values in zip(meshes, weights.reshape(-1, *weights.shape[2:]), strict=True):
            mesh.set_array(values.astype(float))
        with fixed_settings(theme):
            title.set_text(text.replace(f"step {last_step:,}", f"step {step:,}"))

    return Animation(figure, show, len(moments))


def _kind(record: Record) -> Attention:
    return "cross" if record.decoder else "encoder"


def _evenly(files: Files, count: int) -> Files:
    """At most so many of the files, always the first and the last."""
    chosen = np.linspace(0, len(files) - 1, min(count, len(files))).round().astype(int)
    return [files[i] for i in dict.fromkeys(chosen.tolist())]
