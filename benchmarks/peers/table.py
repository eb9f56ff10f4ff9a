"""Measurements as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from .results import Measurement, Row, paired_ratios, pairs
from .roster import PEERS
from .shape import DECODED

NOTHING = "–"
Column = tuple[str, Callable[[Row], str]]
"""A heading, and what stands below it for a row."""


def table(measurement: Measurement, extra: Sequence[Column] = ()) -> list[str]:
    """The lines of a measurement: a heading, a table with the fastest first, and its gist.

    A ratio is clearhead's value divided by the row's: of tokens per second, above 1 where
    clearhead is faster; of seconds or memory, below 1 where it needs less. `extra` columns stand
    between the ratios and the memory; they are asked of rows that have values.
    """
    speeds, memories = [*speed_columns(measurement), *extra], memory_columns(measurement)
    heads = ["peer", *(head for head, _ in [*speeds, *memories])]
    rows = sorted(measurement.rows, key=lambda row: _rank(row, measurement.unit))
    return [
        f"### {measurement.work}, {measurement.size}, {measurement.name}",
        "",
        _line(heads),
        _line(["---", *(["---:"] * (len(heads) - 1))]),
        *(_line(_cells(row, speeds, memories)) for row in rows),
        "",
        *(f"{line}\n" for line in gist(measurement)),
    ]


def speed_columns(measurement: Measurement) -> list[Column]:
    """Speed or seconds, what goes with them, and the ratio of each of clearhead's rows."""
    columns: list[Column] = [
        (measurement.unit, lambda row: _number(row.median)),
        ("min–max", lambda row: f"{_number(min(row.measured))}–{_number(max(row.measured))}"),
    ]
    if measurement.work == "decoding":
        columns.append(("sentences/s", lambda row: _number(row.median / DECODED)))
    if any(row.loss is not None for row in measurement.rows):
        columns.append(("loss", lambda row: NOTHING if row.loss is None else f"{row.loss:.3f}"))
    return columns + [
        (f"{own.contender.label} : peer", partial(_ratio_cell, own)) for own in measurement.own
    ]


def memory_columns(measurement: Measurement) -> list[Column]:
    """The peaks, and the ratio of clearhead's to them in its fastest row."""
    if all(row.peak_mb is None for row in measurement.rows):
        return []
    columns: list[Column] = [
        ("peak MB", lambda row: NOTHING if row.peak_mb is None else f"{row.peak_mb:,.0f}")
    ]
    own = measurement.fastest(row for row in measurement.own if row.peak_mb)
    if own is not None:
        columns.append((f"peak of {own.contender.label} : peer", partial(_memory_cell, own)))
    return columns


def gist(measurement: Measurement) -> list[str]:
    """Clearhead beside the fastest peer of each sort, and beside the leanest, a line for each.

    Of speeds ratios are told, of a cold start the difference.
    """
    lines = []
    for name, rows in _sorts(measurement).items():
        peer = measurement.fastest(rows)
        if peer is not None and measurement.own:
            one = "" if measurement.unit == "s" else " = 1"
            compared = _difference if measurement.unit == "s" else _ratio
            found = (f"{own.contender.label} {compared(own, peer)}" for own in measurement.own)
            lines.append(f"fastest {name} {peer.contender.label}{one}: {', '.join(found)}")
    return lines + _leanest(measurement)


def _sorts(measurement: Measurement) -> dict[str, list[Row]]:
    """The peers by what they are fairly compared in.

    In training by precision. In decoding by whether they are in Python: CTranslate2 is written
    for decoding alone, in C++.
    """
    sorts: dict[str, list[Row]] = {}
    for row in measurement.rows:
        contender = row.contender
        if contender.is_own:
            continue
        name = "peer"
        if measurement.work == "training":
            name = f"peer in {contender.kind}"
        elif measurement.work == "decoding":
            name = "native peer" if PEERS[contender.peer].native else "Python peer"
        sorts.setdefault(name, []).append(row)
    return sorts


def _leanest(measurement: Measurement) -> list[str]:
    """Clearhead's memory beside the least of all peers, where memory was measured."""
    own = [row for row in measurement.own if row.peak_mb]
    others = [row for row in measurement.rows if row.peak_mb and not row.contender.is_own]
    peer = min(others, key=lambda row: row.peak_mb or 0.0, default=None)
    if peer is None or not own:
        return []
    found = (f"{row.contender.label} {_memory_cell(row, peer)}" for row in own)
    return [f"leanest peer {peer.contender.label} = 1: {', '.join(found)}"]


def _rank(row: Row, unit: str) -> tuple[bool, float]:
    if not row.measured:
        return True, 0.0
    return False, row.median if unit == "s" else -row.median


def _cells(row: Row, speeds: Sequence[Column], memories: Sequence[Column]) -> list[str]:
    peaks = [cell(row) for _, cell in memories]
    if not row.measured:
        missing = [_escaped(row.error or "not run"), *[NOTHING] * (len(speeds) - 1)]
        return [row.contender.label, *missing, *peaks]
    label = row.contender.label + (f" ({_escaped(row.error)})" if row.error else "")
    return [label, *(cell(row) for _, cell in speeds), *peaks]


def _ratio_cell(own: Row, row: Row) -> str:
    return "1" if own is row else _ratio(own, row)


def _memory_cell(own: Row, row: Row) -> str:
    if own is row:
        return "1"
    return f"{own.peak_mb / row.peak_mb:.2f}" if own.peak_mb and row.peak_mb else NOTHING


def _ratio(own: Row, row: Row) -> str:
    """The median of the rounds' ratios and their range."""
    ratios = paired_ratios(own, row)
    if not ratios:
        return NOTHING
    return f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def _difference(own: Row, row: Row) -> str:
    """The median of the rounds' differences in seconds, and their range."""
    found = [a - b for a, b in pairs(own, row)]
    if not found:
        return NOTHING
    middle, least, most = (
        f"{seconds:+.2f}".replace("-", "−") for seconds in (median(found), min(found), max(found))
    )
    return f"{middle} s ({least} to {most})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")[:120]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
