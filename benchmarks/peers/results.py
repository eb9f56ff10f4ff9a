"""What was measured, and the ratios that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from command import write_json

from .roster import Contender


@dataclass
class Row:
    """A contender in one measurement: its value in each round, None where there was none.

    `loss` is the mean loss of its last slice, where it trained.
    """

    contender: Contender
    values: list[float | None] = field(default_factory=list)
    peak_mb: float | None = None
    loss: float | None = None
    error: str = ""

    @property
    def measured(self) -> list[float]:
        """The values that there are."""
        return [value for value in self.values if value is not None]

    @property
    def median(self) -> float:
        """The median of the values that there are; there must be one."""
        return median(self.measured)


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

    def fastest(self, rows: Iterable[Row]) -> Row | None:
        """The one of these rows with the best median; None where none has a value."""
        best = min if self.unit == "s" else max
        measured = [row for row in rows if row.measured]
        return best(measured, key=lambda row: row.median, default=None)

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        """Each row, for JSON."""
        for row in self.rows:
            yield {
                "work": self.work,
                "size": self.size,
                "measurement": self.name,
                "unit": self.unit,
                "peer": row.contender.label,
                "values": row.values,
                "median": row.median if row.measured else None,
                "ratios": {own.contender.label: paired_ratio(own, row) for own in self.own},
                "peak_mb": row.peak_mb,
                "loss": row.loss,
                "error": row.error or None,
            }


Keep = Callable[[Sequence[Measurement]], None]


def keeper(path: str | None, facts: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> Keep:
    """What writes the JSON, if one is wanted, so that no end of the benchmark loses more.

    Args:
        path: of the file; None: none is wanted.
        facts: what stands before the rows.
        rows: those that are complete; more may be added later.

    Returns:
        A function of the measurements that are being made, whose rows come last.
    """

    def keep(measurements: Sequence[Measurement]) -> None:
        if path is not None:
            so_far = [row for measurement in measurements for row in measurement.to_dicts()]
            write_json(path, {**facts, "rows": [*rows, *so_far]})

    return keep


def pairs(one: Row, other: Row) -> list[tuple[float, float]]:
    """The values of two rows in each round that has both."""
    both = zip(one.values, other.values, strict=False)
    return [(a, b) for a, b in both if a is not None and b is not None]


def paired_ratios(above: Row, below: Row) -> list[float]:
    """The ratio above : below of each round that has both.

    The two values are of the same round, but minutes may lie between them: a slow moment of the
    machine that is shorter than a round meets only one of the two. How far that goes is seen in
    how far the ratios lie apart.
    """
    return [a / b for a, b in pairs(above, below)]


def paired_ratio(above: Row, below: Row) -> float | None:
    """The median of the rounds' ratios above : below; None where no round has both."""
    ratios = paired_ratios(above, below)
    return median(ratios) if ratios else None


def fill_up(rows: Sequence[Row], rounds: int) -> None:
    """Note that a round is over: who had no value in it gets None."""
    for row in rows:
        row.values += [None] * (rounds - len(row.values))
