"""Measurements as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from .results import Measurement, Row, paired_ratio
from .roster import PEERS


def table(measurement: Measurement) -> list[str]:
    """The lines of a measurement: a heading and a table, the fastest peer first.

    A ratio is clearhead's value divided by the row's: of tokens per second, above 1 where
    clearhead is faster; of seconds, below 1.
    """
    own = measurement.own
    heads = [
        *("peer", measurement.unit, "min–max"),
        *(f"{row.contender.label} : peer" for row in own),
        "peak MB",
    ]
    rows = sorted(measurement.rows, key=lambda row: _rank(row, measurement.unit))
    return [
        f"### {measurement.work}, {measurement.size}, {measurement.name}",
        "",
        _line(heads),
        _line(["---", *(["---:"] * (len(heads) - 1))]),
        *(_line(_cells(row, own)) for row in rows),
        "",
    ]


def notes(names: Sequence[str]) -> list[str]:
    """What is to be said of how the peers were installed."""
    environments = {name: PEERS[name].environment for name in names}
    said = {name: place.note for name, place in environments.items() if place and place.note}
    return [f"- {name}: {note}" for name, note in said.items()]


def _rank(row: Row, unit: str) -> tuple[bool, float]:
    if not row.measured:
        return True, 0.0
    middle = median(row.measured)
    return False, middle if unit == "s" else -middle


def _cells(row: Row, own: Sequence[Row]) -> list[str]:
    peak = "–" if row.peak_mb is None else f"{row.peak_mb:,.0f}"
    if not row.measured:
        return [
            row.contender.label,
            _escaped(row.error or "not run"),
            *["–"] * (len(own) + 1),
            peak,
        ]
    values = row.measured
    spread = f"{_number(min(values))}–{_number(max(values))}"
    label = row.contender.label + (f" ({_escaped(row.error)})" if row.error else "")
    ratios = (paired_ratio(other, row) for other in own)
    shown = ("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
    return [label, _number(median(values)), spread, *shown, peak]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")[:120]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
