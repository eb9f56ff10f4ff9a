"""What was measured, and the ratios that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .roster import Contender


@dataclass
class Row:
    """A contender in one measurement: its value in each round, None where there was none."""

    contender: Contender
    values: list[float | None] = field(default_factory=list)
    peak_mb: float | None = None
    error: str = ""

    @property
    def measured(self) -> list[float]:
        """The values that there are."""
        return [value for value in self.values if value is not None]


@dataclass
class Measurement:
    """All contenders in one measurement of one size, e.g. decoding `b64` of `base`."""

    work: str
    size: str
    name: str
    unit: str
    rows: list[Row]

    def row(self, contender: Contender) -> Row:
        """The row of a contender."""
        return next(row for row in self.rows if row.contender == contender)

    @property
    def own(self) -> list[Row]:
        """The rows of clearhead that have values."""
        return [row for row in self.rows if row.contender.is_own and row.measured]

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        """Each row, for JSON."""
        for row in self.rows:
            values = row.measured
            yield {
                "work": self.work,
                "size": self.size,
                "measurement": self.name,
                "unit": self.unit,
                "peer": row.contender.label,
                "values": row.values,
                "median": median(values) if values else None,
                "ratios": {own.contender.label: paired_ratio(own, row) for own in self.own},
                "peak_mb": row.peak_mb,
                "error": row.error or None,
            }


def paired_ratio(above: Row, below: Row) -> float | None:
    """The median of the rounds' ratios above : below; None where no round has both.

    The two values of a round were taken one after the other, so that a slow moment of the machine
    meets both and cancels.
    """
    ratios = [
        a / b
        for a, b in zip(above.values, below.values, strict=False)
        if a is not None and b is not None
    ]
    return median(ratios) if ratios else None


def fill_up(rows: Sequence[Row], rounds: int) -> None:
    """Note that a round is over: who had no value in it gets None."""
    for row in rows:
        row.values += [None] * (rounds - len(row.values))
