"""A cost as a function of one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple


class Work(NamedTuple):
    """One call to be timed, and how many tokens or sentences it works on."""

    call: Callable[[], object]
    units: int


@dataclass(frozen=True)
class Curve:
    """A cost as a function of one number.

    Attributes:
        name: what is done.
        x_name: what the number is.
        unit: what a call works on many of.
        per_unit: whether theory is about the cost of a unit, or about that of a whole call.
        theory: how that cost grows.
        points: the numbers.
        work: what is to be timed at each of them.
        units: for each number those of a call.
        seconds: for each number those of a call, one for each round.
    """

    name: str
    x_name: str
    unit: str
    per_unit: bool
    theory: str
    points: Sequence[int]
    work: Callable[[int], Work]
    units: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def cost_name(self) -> str:
        """The cost that theory is about."""
        return f"ms a {self.unit}" if self.per_unit else "ms a batch"

    def costs(self, point: int) -> list[float]:
        """The cost that theory is about in each round, in milliseconds."""
        scale = 1000 / (self.units[point] if self.per_unit else 1)
        return [scale * seconds for seconds in self.seconds[point]]

    def cost(self, point: int) -> float:
        """The median of these."""
        return median(self.costs(point))
