"""The laws that a curve follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costs.curve import Curve


class Fit(NamedTuple):
    """Two laws fitted to a curve: cost = c · x^exponent, and cost = fixed + slope · x.

    `last_exponent` is that of the last two points alone, where a fixed cost weighs least, and
    `worst` the greatest deviation from the second law, as a share of the cost.
    """

    exponent: float
    last_exponent: float
    fixed: float
    slope: float
    worst: float


def fit(x: Sequence[float], cost: Sequence[float]) -> Fit:
    """Least squares of log cost on log x, and of the relative deviations from fixed + slope · x."""
    xs, costs = np.asarray(x, dtype=float), np.asarray(cost, dtype=float)
    logs = np.column_stack((np.ones_like(xs), np.log(xs)))
    exponent = np.linalg.lstsq(logs, np.log(costs))[0][1]
    last = np.log(costs[-1] / costs[-2]) / np.log(xs[-1] / xs[-2])
    # Divided by the costs, so that the small points count as much as the large ones.
    relative = np.column_stack((1 / costs, xs / costs))
    fixed, slope = np.linalg.lstsq(relative, np.ones_like(xs))[0]
    worst = np.abs((fixed + slope * xs) / costs - 1).max()
    return Fit(*map(float, (exponent, last, fixed, slope, worst)))


def fit_of(curve: Curve) -> Fit:
    """The fit of a curve's medians."""
    return fit(curve.points, [curve.cost(point) for point in curve.points])
