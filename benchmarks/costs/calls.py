"""Calls that do the same in several ways, timed by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median


def by_turns(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The median seconds of each call; a first round only warms up."""
    took: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, seconds in zip(calls, took, strict=True):
            began = time.perf_counter()
            call()
            if number:
                seconds.append(time.perf_counter() - began)
    return [median(seconds) for seconds in took]
