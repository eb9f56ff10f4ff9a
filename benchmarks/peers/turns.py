"""Lets the contenders work by turns: a short slice of each, then the next round."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from .contest import Contest, note_failure, rotated
from .process import PeerError, PeerProcess
from .progress import Progress
from .results import Measurement, fill_up
from .roster import Contender
from .slices import Slice


def measure(contest: Contest, slices: Sequence[Slice]) -> list[Measurement]:
    """Measure the memory of each contender by itself, then the speed of all of them by turns."""
    measurements = [contest.measurement(slice_.name, "tokens/s") for slice_ in slices]
    total = len(contest.contenders) * (2 + contest.rounds * len(slices))
    progress = Progress(f"{contest.work} {contest.size}", total)
    for contender in contest.contenders:
        progress.next(f"memory of {contender.label}")
        measure_memory(contest, contender, slices, measurements)
    with ExitStack() as stack:
        ready: dict[Contender, PeerProcess] = {}
        for contender in contest.contenders:
            progress.next(f"start of {contender.label}")
            if any(not measurement.row(contender).error for measurement in measurements):
                process = stack.enter_context(contest.process(contender))
                try:
                    process.ask(contest.start(contender))
                    ready[contender] = process
                except PeerError as error:
                    note_failure(measurements, contender, str(error))
        for number in range(contest.rounds):
            for slice_, measurement in zip(slices, measurements, strict=True):
                for contender in rotated(contest.contenders, number):
                    progress.next(f"round {number + 1}, {slice_.name}, {contender.label}")
                    take_turn(ready, contender, slice_.in_round(number), measurement)
                fill_up(measurement.rows, number + 1)
            contest.keep(measurements)
    return measurements


def measure_memory(
    contest: Contest,
    contender: Contender,
    slices: Sequence[Slice],
    measurements: Sequence[Measurement],
) -> None:
    """The peak of a process that does nothing else; who fails in a slice is out of it."""
    if all(measurement.row(contender).error for measurement in measurements):
        return
    with contest.process(contender) as process:
        try:
            process.ask(contest.start(contender))
        except PeerError as error:
            note_failure(measurements, contender, str(error))
            return
        for slice_, measurement in zip(slices, measurements, strict=True):
            try:
                answer = process.ask(slice_.for_memory())
                measurement.row(contender).peak_mb = answer["peak_mb"]
            except PeerError as error:
                note_failure([measurement], contender, str(error))


def take_turn(
    ready: dict[Contender, PeerProcess],
    contender: Contender,
    request: dict[str, Any],
    measurement: Measurement,
) -> None:
    """Let a contender that still takes part do a slice; who fails is out of this measurement."""
    row = measurement.row(contender)
    if contender not in ready or row.error:
        return
    try:
        answer = ready[contender].ask(request)
    except PeerError as error:
        row.error = str(error)
        return
    row.values.append(answer["tokens"] / answer["seconds"])
    row.loss = answer.get("loss")
