"""Charts of a model and its run: importance of heads, faithfulness of measures, learning curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearhead.errors import DataError, reason
from clearhead.inspect.drawing import (
    LIGHT,
    NAME_SIZE,
    POINTS,
    SIDE_SIZE,
    Theme,
    axes_at,
    blank,
    finish,
    fixed_settings,
    text_width,
)
from clearhead.inspect.heads import KINDS

MARKERS = "osD^vP*XhH"
"""Lines and groups differ by marker too, not by colour alone."""


def importance_figure(
    rows: Sequence[Mapping[str, Any]], theme: Theme = LIGHT, ablate_by: str = "zero"
) -> Figure:
    """How much worse the model is without each head, the most important first.

    Args:
        rows: as `importance_rows` makes them.
        theme: the colours.
        ablate_by: what replaced the output of each head, `zero` or its `mean`.
    """
    names = [str(row["head"]) for row in rows]
    kinds = [kind for kind in KINDS.values() if any(map(kind.has, names))]
    columns: list[tuple[str, list[Sequence[float]]]] = [
        ("loss without it − with it", [row["loss"] for row in rows]),
        ("gradient estimate", [[row["gradient"]] for row in rows]),
    ]
    if all(row.get("chrf") for row in rows):
        columns.insert(1, ("chrF without it − with it", [row["chrf"] for row in rows]))
    pitch = 0.16 if len(rows) <= 60 else 0.13
    height = pitch * len(rows)
    with fixed_settings(theme):
        figure = blank(12, height + 1)
        for number, (label, values) in enumerate(columns):
            width = 3.6 if number == 0 else 2.0
            left = 1.5 + (3.8 + 2.2 * (number - 1) if number else 0.0)
            axes = axes_at(figure, left, 0.3, width, height)
            axes.axvline(0, color=theme.faint, linewidth=0.8)
            for place, kind in enumerate(kinds):
                own = [i for i, name in enumerate(names) if kind.has(name)]
                style: dict[str, Any] = {"color": theme.lines[place], "marker": MARKERS[place]}
                _dots(axes, own, [values[i] for i in own], label=kind.title, **style)
            _rows(axes, names if number == 0 else [""] * len(names), pitch)
            axes.set_xlabel(label, fontsize=SIDE_SIZE, loc="left")
        if len(kinds) > 1:
            figure.axes[0].legend(fontsize=NAME_SIZE, loc="lower right", framealpha=0.9)
        instead = "its mean output" if ablate_by == "mean" else "zero"
        note = (
            f"Mean over a sample, with its 95 % interval; {instead} replaces the output of the "
            "head. Above 0: the model needs it."
        )
        finish(figure, "Importance of each head", note, theme)
    return figure


def faithfulness_figure(belief: Mapping[str, Any], theme: Theme = LIGHT) -> Figure:
    """Which measure may be believed: the probability of the output as words are deleted.

    Args:
        belief: as `study.belief` makes it.
        theme: the colours.
    """
    rows = belief["rows"]
    styles = {
        row["measure"]: {
            "color": theme.faint if row["measure"] == "random" else theme.lines[i % 8],
            "marker": MARKERS[i % len(MARKERS)],
        }
        for i, row in enumerate(rows)
    }
    pitch = 0.28
    height = max(3.2, pitch * len(rows))
    with fixed_settings(theme):
        figure = blank(14, height + 1)
        curves = axes_at(figure, 0.6, 0.3, 4.2, height)
        for name, values in belief["curves"].items():
            strong = name in (*belief["believed"][:1], "random", "removal")
            line = {"linewidth": 2.0 if strong else 1.0, "markersize": 4}
            shares = [100 * share for share in belief["grid"]]
            curves.plot(shares, values, **styles[name], **line, zorder=3 if strong else 2)
        curves.set(xlim=(0, 100), ylim=(0, None))
        curves.grid(True)
        curves.tick_params(labelsize=NAME_SIZE, length=2)
        curves.set_xlabel(
            "deleted source words, in the order of the measure, %", fontsize=SIDE_SIZE
        )
        curves.set_ylabel("probability of the output", fontsize=SIDE_SIZE)
        longest = max(text_width(row["title"]) for row in rows)
        left = 5.2 + longest * NAME_SIZE / POINTS
        for place, (label, key) in enumerate(
            (
                ("comprehensiveness (high is good)", "comprehensiveness"),
                ("sufficiency (low is good)", "sufficiency"),
            )
        ):
            axes = axes_at(figure, left + 2.75 * place, 0.3, 2.4, height)
            for i, row in enumerate(rows):
                _dots(axes, [i], [row[key]], **styles[row["measure"]], size=5)
            _rows(axes, [row["title"] for row in rows] if place == 0 else [""] * len(rows), pitch)
            axes.set_xlabel(label, fontsize=SIDE_SIZE, loc="left")
        note = str(belief["text"])
        finish(figure, "Which measure of attribution may be believed", note, theme)
    return figure


def _dots(
    axes: Axes,
    rows: Sequence[int],
    values: Sequence[Sequence[float]],
    size: float = 4,
    **style: Any,
) -> None:
    """A dot in each row, and a line from the low to the high end if there is an interval."""
    for row, (_, *interval) in zip(rows, values, strict=True):
        if interval:
            low, high = interval
            axes.hlines(row, low, high, color=style["color"], linewidth=1.4)
    means = [value[0] for value in values]
    axes.plot(means, rows, linestyle="none", markersize=size, **style)


def _rows(axes: Axes, names: Sequence[str], pitch: float) -> None:
    axes.set_yticks(range(len(names)), labels=names, fontsize=min(NAME_SIZE, 0.8 * pitch * 72))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(True)
    axes.tick_params(length=0, axis="y")
    axes.tick_params(labelsize=7, length=2, axis="x")
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=5)


@dataclass
class RunLog:
    """What the log of a run has about learning: lists of (step, value).

    Attributes:
        loss: of training.
        rate: the learning rate.
        scores: on the validation data, by name, always with `loss`.
        measure: the score that selects the model.
        best_step: the step of the best validation.
    """

    loss: list[tuple[int, float]] = field(default_factory=list)
    rate: list[tuple[int, float]] = field(default_factory=list)
    scores: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    measure: str = "loss"
    best_step: int = 0

    def forget_after(self, step: int) -> None:
        """Remove the steps that a run makes again."""
        for values in (self.loss, self.rate, *self.scores.values()):
            values[:] = [each for each in values if each[0] <= step]


def read_log(path: Path) -> RunLog:
    """Read `training/log.jsonl`; steps that a resumed run made again are counted once.

    A last line without a line break is being written, or was when the run was killed.

    Raises:
        DataError: it cannot be read, or is damaged.
    """
    found = RunLog()
    try:
        # Not splitlines: a text in an event may have other line separators.
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            event = json.loads(line)
            match event["event"]:
                case "RunStarted" | "WentBack":
                    found.forget_after(event["step"])
                case "Progress":
                    _add(found.loss, event["step"], event["loss"])
                    _add(found.rate, event["step"], event["learning_rate"])
                case "Validated" if event["weights"] == "current":
                    found.measure, found.best_step = event["measure"], event["best_step"]
                    for name, value in event["scores"].items():
                        _add(found.scores.setdefault(name, []), event["step"], value)
    except OSError as error:
        raise DataError("the log cannot be read", where=path, why=reason(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError("the log is damaged", where=path, why=reason(error)) from None
    return found


def _add(values: list[tuple[int, float]], step: int, value: float | None) -> None:
    """Add a value that is finite; the log has null for others."""
    if value is not None:
        values.append((int(step), float(value)))


def learning_figure(log: RunLog, theme: Theme = LIGHT) -> Figure:
    """The loss, the score that selects the model, and the learning rate of a run by step.

    Raises:
        DataError: the run has not reported a step yet.
    """
    if not log.loss:
        raise DataError("the log of the run has no steps yet")
    blue, orange = theme.lines[:2]
    score = log.scores.get(log.measure, []) if log.measure != "loss" else []
    width, gap = 6.5, 0.25
    panels: list[tuple[str, float]] = [("loss", 2.4)]
    panels += [(log.measure, 1.7)] if score else []
    panels += [("learning rate", 1.1)]
    with fixed_settings(theme):
        figure = blank(width + 1.5, sum(height + gap for _, height in panels) + 1)
        top, all_axes = 0.3, list[Axes]()
        for label, height in panels:
            axes = axes_at(figure, 1, top, width, height)
            axes.set_ylabel(label, fontsize=SIDE_SIZE)
            axes.grid(True)
            axes.tick_params(labelsize=NAME_SIZE, length=2)
            axes.tick_params(labelbottom=False)
            all_axes.append(axes)
            top += height + gap
        losses = all_axes[0]
        losses.plot(*zip(*log.loss, strict=True), color=blue, linewidth=1.2, label="training")
        if validation := log.scores.get("loss"):
            losses.plot(
                *zip(*validation, strict=True),
                **{"color": orange, "marker": "o", "markersize": 3, "label": "validation"},
            )
            losses.legend(fontsize=NAME_SIZE, framealpha=0.9)
        if score:
            all_axes[1].plot(*zip(*score, strict=True), color=orange, marker="o", markersize=3)
            for step, value in score:
                if step == log.best_step:
                    all_axes[1].plot(step, value, "*", color=theme.ink, markersize=10, zorder=4)
        all_axes[-1].plot(*zip(*log.rate, strict=True), color=blue, linewidth=1.2)
        last = max(step for step, _ in (*log.loss, *log.scores.get("loss", ())))
        for axes in all_axes:
            axes.set_xlim(0, max(1, last) * 1.02)
        all_axes[-1].tick_params(labelbottom=True)
        all_axes[-1].set_xlabel("step", fontsize=SIDE_SIZE, loc="left")
        note = f"The star is the best {log.measure}, at step {log.best_step:,}." if score else ""
        finish(figure, "Learning curves", note, theme)
    return figure
