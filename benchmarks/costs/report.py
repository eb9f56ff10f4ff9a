"""What was measured, as tables for people and as a tree for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from costs.curve import Curve
from costs.fit import fit_of


def report(curves: Sequence[Curve]) -> str:
    """The points of each curve, then the fits of all of them, as Markdown."""
    blocks = [points_table(curve) for curve in curves]
    return "\n\n".join([*blocks, fits_table(curves)])


def points_table(curve: Curve) -> str:
    """A curve's points: the median cost of a batch and of a unit, the range over the rounds."""
    lines = [
        f"**{curve.name}**",
        "",
        f"| {curve.x_name} | ms a batch | lowest | highest | ms a {curve.unit} |",
        "|---:|---:|---:|---:|---:|",
    ]
    for point in curve.points:
        batch = [1000 * seconds for seconds in curve.seconds[point]]
        unit = median(batch) / curve.units[point]
        shown = (median(batch), min(batch), max(batch), unit)
        lines.append(f"| {point:,} | {' | '.join(map(figure_of, shown))} |")
    return "\n".join(lines)


def fits_table(curves: Sequence[Curve]) -> str:
    """The exponents seen, of all points and of the last two; theory's; how straight the line is."""
    lines = [
        "| curve | cost | exponent | at the end | theory | a + b·n | off by at most |",
        "|---|---|---:|---:|---|---|---:|",
    ]
    for curve in curves:
        seen = fit_of(curve)
        sign = "+" if seen.slope >= 0 else "−"
        straight = f"{figure_of(seen.fixed)} {sign} {figure_of(abs(seen.slope))}·n"
        lines.append(
            f"| {curve.name}; n = {curve.x_name} | {curve.cost_name} | {seen.exponent:.2f} |"
            f" {seen.last_exponent:.2f} | {curve.theory} | {straight} | {100 * seen.worst:.0f} % |"
        )
    return "\n".join(lines)


def figure_of(value: float) -> str:
    """A number with three digits that mean something: `0.0123`, `4.56`, `1,234`."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}".replace("-", "−")


def as_json(curves: Sequence[Curve], facts: dict[str, Any]) -> dict[str, Any]:
    """All that was measured, and on what."""
    return {
        **facts,
        "curves": [
            {
                "name": curve.name,
                "x": curve.x_name,
                "unit": curve.unit,
                "cost": curve.cost_name,
                "theory": curve.theory,
                "points": [
                    {
                        "x": point,
                        "units": curve.units[point],
                        "seconds": curve.seconds[point],
                        "cost": curve.cost(point),
                    }
                    for point in curve.points
                ],
                "fit": fit_of(curve)._asdict(),
            }
            for curve in curves
        ],
    }
