"""The measured values of each contender, and their ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .roster import Contender


@dataclass
class Row:
    """A contender in one measurement: its value in each round, None if it has none.

    `loss` is the mean loss of its last slice, if it trained.
    """

    contender: Contender
    values: list[float | None] = field(default_factory=list)
    peak_mb: float | None = None
    loss: float | None = None
    error: str = ""

    @property
    def measured(self) -> list[float]:
        """The values without the missing ones."""
        return [value for value in self.values if value is not None]

    @property
    def median(self) -> float:
        """The median of the values; there must be one."""
        return median(self.measured)


@dataclass
class Measurement:
    """All contenders in one measurement of one size, for example decoding `b64` of `base`."""

    work: str
    size: str
    name: str
    unit: str
    rows: list[Row]

    def row(self, contender: Contender) -> Row:
        """The row of a contender."""
        return next(row for row in self.rows if row.contender == contender)

    @property
    def title(self) -> str:
        """The name of the measurement in records."""
        return f"{self.work} {self.size}, {self.name}"

    @property
    def own(self) -> list[Row]:
        """The rows of clearhead that have values."""
        return [row for row in self.rows if row.contender.is_own and row.measured]

    @property
    def peers(self) -> list[Row]:
        """The rows of the others that have values."""
        return [row for row in self.rows if not row.contender.is_own and row.measured]

    def fastest(self, rows: Iterable[Row]) -> Row | None:
        """The row with the best median; None if none has a value."""
        best = min if self.unit == "s" else max
        measured = [row for row in rows if row.measured]
        return best(measured, key=lambda row: row.median, default=None)

    def fields(
        self, row: Row, more: Callable[[Row], dict[str, float]] | None = None
    ) -> dict[str, Any]:
        """The fields of the record of a row, with the ratio of clearhead's fastest row to it."""
        figures = {"peak MB": row.peak_mb, "loss": row.loss}
        figures |= more(row) if more is not None and row.measured else {}
        own = self.fastest(self.own)
        ratio = None
        if own is not None and self.unit != "s" and (ratios := paired_ratios(own, row)):
            ratio = {"of": own.contender.label, "median": median(ratios)}
            ratio |= {"min": min(ratios), "max": max(ratios)}
        return {
            "unit": self.unit,
            "values": row.measured,
            "subject": row.contender.label,
            "range": "rounds",
            "ratio": ratio,
            "more": {name: value for name, value in figures.items() if value is not None},
            "note": row.error or None,
        }


def leanest(rows: Iterable[Row]) -> Row | None:
    """The row with the least peak memory; None if none was measured."""
    return min((r for r in rows if r.peak_mb), key=lambda r: r.peak_mb or 0.0, default=None)


def pairs(one: Row, other: Row) -> list[tuple[float, float]]:
    """The values of two rows in each round in which both have one."""
    both = zip(one.values, other.values, strict=False)
    return [(a, b) for a, b in both if a is not None and b is not None]


def paired_ratios(above: Row, below: Row) -> list[float]:
    """The ratio above : below of each round in which both have a value.

    The two values may be measured minutes apart, so a slow moment of the machine may affect only
    one of them. The range of the ratios shows that.
    """
    return [a / b for a, b in pairs(above, below)]


def fill_up(rows: Sequence[Row], rounds: int) -> None:
    """End a round: rows without a value in it get None."""
    for row in rows:
        row.values += [None] * (rounds - len(row.values))
