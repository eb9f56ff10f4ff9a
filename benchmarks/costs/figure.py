"""The curves as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from costs.curve import Curve
from costs.fit import fit_of

MOST_TICKS = 7


def draw(curves: Sequence[Curve], path: str, title: str) -> None:
    """A panel for each curve, on logarithmic axes: medians, range, and the line a + b·n."""
    from matplotlib.figure import Figure

    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(5.2 * columns, 4.3 * rows + 0.5), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for panel, curve in zip(panels, curves, strict=False):
        draw_curve(panel, curve)
    for panel in panels[len(curves) :]:
        panel.remove()
    figure.savefig(path, dpi=120)


def draw_curve(panel: Any, curve: Curve) -> None:
    """One curve in its panel."""
    costs = np.array([curve.cost(point) for point in curve.points])
    lowest = np.array([min(curve.costs(point)) for point in curve.points])
    highest = np.array([max(curve.costs(point)) for point in curve.points])
    seen = fit_of(curve)
    x = np.geomspace(curve.points[0], curve.points[-1], 100)
    straight = seen.fixed + seen.slope * x
    line = f"a + b·n, off by at most {100 * seen.worst:.0f} %"
    # A fitted line may fall below zero, where logarithmic axes end.
    panel.plot(x[straight > 0], straight[straight > 0], color="tab:orange", label=line)
    panel.errorbar(
        *(curve.points, costs, (costs - lowest, highest - costs)),
        **dict(fmt="o", color="tab:blue", capsize=3, label="median and range"),
    )
    panel.set(xscale="log", yscale="log", xlabel=f"n: {curve.x_name}", ylabel=curve.cost_name)
    panel.set_title(
        f"{curve.name}\nexponent {seen.exponent:.2f}, at the end {seen.last_exponent:.2f}",
        fontsize="medium",
    )
    panel.set_xticks(curve.points, [f"{point:,}" for point in curve.points])
    low, high = float(lowest.min()) / 1.5, float(highest.max()) * 1.5
    ticks = round_numbers(low, high)
    panel.set_ylim(low, high)
    panel.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(fontsize="small", loc="upper left")


def round_numbers(low: float, high: float) -> list[float]:
    """Numbers of one digit and zeros between two bounds, of fewer digits where they are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for digits in (range(1, 10), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        # As text: powers of ten below one are no exact floats.
        ticks = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks
