"""Every point of every curve is visited by turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clearhead.training.display import duration
from costs.curve import Curve

LEAST_SECONDS = 0.2
"""A visit repeats what is shorter than this, since clocks and schedulers are coarse."""


class Visit(NamedTuple):
    """One turn of a point; those of round 0 only warm up."""

    round: int
    curve: Curve
    point: int

    @property
    def where(self) -> tuple[str, int]:
        """The curve and the point, whatever the round."""
        return self.curve.name, self.point


def visits(curves: Sequence[Curve], rounds: int) -> Iterator[Visit]:
    """Every point once a round, forwards and backwards by turns; a round 0 comes first."""
    turns = [(curve, point) for curve in curves for point in curve.points]
    for number in range(rounds + 1):
        for curve, point in turns[:: -1 if number % 2 else 1]:
            yield Visit(number, curve, point)


def measure(curves: Sequence[Curve], rounds: int) -> None:
    """Visit every point in every round; what they took is added to the curves."""
    plan = list(visits(curves, rounds))
    took: dict[tuple[str, int], float] = {}
    on_terminal = sys.stderr.isatty()
    for number, visit in enumerate(plan, start=1):
        began = time.perf_counter()
        work = visit.curve.work(visit.point)
        seconds = seconds_of(work.call, warm=visit.round > 0)
        took[visit.where] = max(LEAST_SECONDS, time.perf_counter() - began)
        if visit.round > 0:
            visit.curve.units[visit.point] = work.units
            visit.curve.seconds.setdefault(visit.point, []).append(seconds)
        left = plan[number:]
        if on_terminal or not left or left[0].round > visit.round:
            line = f"round {visit.round} of {rounds}" if visit.round else "warming up"
            line += (
                f", {number} of {len(plan)} visits{time_left([took.get(v.where) for v in left])}"
            )
            begin, end = ("\r\x1b[K", "" if left else "\n") if on_terminal else ("", "\n")
            print(f"{begin}{line}", end=end, file=sys.stderr, flush=True)


def time_left(last_took: Sequence[float | None]) -> str:
    """In words, from what each visit that is left took the last time; "" before all are known."""
    known = [seconds for seconds in last_took if seconds is not None]
    return f", {duration(sum(known))} left" if len(known) == len(last_took) else ""


def seconds_of(call: Callable[[], object], warm: bool = True) -> float:
    """The mean seconds of a call, made as often as `LEAST_SECONDS` need; once while cold."""
    began, calls = time.perf_counter(), 0
    while True:
        call()
        calls += 1
        seconds = time.perf_counter() - began
        if not warm or seconds >= LEAST_SECONDS:
            return seconds / calls
