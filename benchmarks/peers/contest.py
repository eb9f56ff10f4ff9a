"""One work at one size: all contenders take turns, a short slice of each, round by round."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .measurements import Measurement, Row, fill_up
from .process import BENCHMARKS, PeerError, PeerProcess, environment_of, last_line
from .roster import OWN, PEERS, Contender

Item = TypeVar("Item")

MEMORY_ROUNDS = 8
"""Rounds of training in the process whose memory is measured. Each batch has its own shape, and in
bf16 the kernels that are compiled for a shape stay in memory."""

BEAMS = {"b1": (32, 1, 1), "b64": (128, 64, 1), "beam5": (64, 64, 5)}
"""Sentences per slice, sentences per batch, beam size."""

SENTENCE = "two young men are playing with a ball in the park .\n"


@dataclass(frozen=True)
class Slice:
    """A short piece of work for a peer; round r starts at item r · `count`."""

    name: str
    request: Mapping[str, Any]

    def in_round(self, number: int) -> dict[str, Any]:
        """The request of a round."""
        return {**self.request, "first": number * self.request["count"]}

    def for_memory(self) -> dict[str, Any]:
        """The request that memory is measured with: for training, several rounds in one."""
        rounds = MEMORY_ROUNDS if self.request["do"] == "train" else 1
        return {**self.in_round(0), "count": rounds * self.request["count"]}


def training_slices(steps: int, warm: int = 1) -> list[Slice]:
    """Training steps, after `warm` steps without timing."""
    return [Slice("steps", {"do": "train", "count": steps, "warm": warm})]


def decoding_slices(most: int, searches: Collection[str] = tuple(BEAMS)) -> list[Slice]:
    """The chosen searches, of at most so many sentences."""
    return [
        Slice(name, dict(do="decode", count=min(count, most), batch_size=size, beam_size=beam))
        for name, (count, size, beam) in BEAMS.items()
        if name in searches
    ]


@dataclass(frozen=True)
class Contest:
    """One work at one size.

    `pythons` has the Python of each installed peer, `failures` the reason why another is missing.
    `folder` contains the workload and all files of the peers. `keep_memory` is for
    `environment_of`. `keep` is called with the measurements after each round.
    """

    work: str
    size: str
    contenders: Sequence[Contender]
    pythons: Mapping[str, str]
    failures: Mapping[str, str]
    folder: Path
    rounds: int
    threads: int
    limit_s: float
    keep_memory: bool = False
    device: str = "cpu"
    keep: Callable[[Sequence[Measurement]], object] = lambda measurements: None

    def measurement(self, name: str, unit: str) -> Measurement:
        """An empty measurement, with the reason for each peer that could not be installed."""
        rows = [Row(c, error=self.failures.get(c.peer, "")) for c in self.contenders]
        return Measurement(self.work, self.size, name, unit, rows)

    def process(self, contender: Contender) -> PeerProcess:
        """A new process of a contender."""
        log = self.folder / f"{contender.file_name}.log"
        module = PEERS[contender.peer].module
        python = self.pythons[contender.peer]
        return PeerProcess(python, module, log, self.threads, self.limit_s, self.keep_memory)

    def job(self, contender: Contender) -> dict[str, Any]:
        """The part of a request that describes the model."""
        name = f"{contender.file_name}-{self.size}-{self.work}"
        return {
            "workload": str(self.folder / "workload.npz"),
            "size": self.size,
            "kind": contender.kind,
            "threads": self.threads,
            "folder": str(self.folder / name),
            "device": self.device,
        }

    def log(self, text: str) -> None:
        """Print to stderr what is running."""
        print(f"{self.work} {self.size}: {text}", file=sys.stderr, flush=True)

    def start(self, contender: Contender, process: PeerProcess) -> None:
        """Send the first request to a contender."""
        process.ask({"do": "start", "work": self.work, **self.job(contender)})


def measure(contest: Contest, slices: Sequence[Slice]) -> list[Measurement]:
    """Measure the memory of each contender alone, then the speed of all in turns."""
    measurements = [contest.measurement(slice_.name, "tokens/s") for slice_ in slices]
    for contender in contest.contenders:
        contest.log(f"memory of {contender.label}")
        measure_memory(contest, contender, slices, measurements)
    with ExitStack() as stack:
        ready: dict[Contender, PeerProcess] = {}
        for contender in contest.contenders:
            contest.log(f"start of {contender.label}")
            if any(not measurement.row(contender).error for measurement in measurements):
                process = stack.enter_context(contest.process(contender))
                try:
                    contest.start(contender, process)
                    ready[contender] = process
                except PeerError as error:
                    note_failure(measurements, contender, str(error))
        for number in range(contest.rounds):
            for slice_, measurement in zip(slices, measurements, strict=True):
                for contender in rotated(contest.contenders, number):
                    contest.log(f"round {number + 1}, {slice_.name}, {contender.label}")
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
    """Measure the peak memory in a new process; a contender that fails is out of the slice."""
    if all(measurement.row(contender).error for measurement in measurements):
        return
    with contest.process(contender) as process:
        try:
            contest.start(contender, process)
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
    ready: Mapping[Contender, PeerProcess],
    contender: Contender,
    request: dict[str, Any],
    measurement: Measurement,
) -> None:
    """Let a contender do a slice; if it fails, it is out of this measurement."""
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


def cold_starts(contest: Contest) -> list[Measurement]:
    """Seconds of a new process that translates one sentence, and of `--help`."""
    sentence = contest.measurement("one sentence", "s")
    helped = Measurement(contest.work, contest.size, "--help", "s", [Row(Contender(OWN, "--help"))])
    commands = {contender: saved(contest, contender, sentence) for contender in contest.contenders}
    everything = [(row, sentence, commands[row.contender]) for row in sentence.rows]
    own = [contest.pythons[OWN], "-m", "clearhead", "--help"]
    everything.append((helped.rows[0], helped, own))
    for number in range(contest.rounds):
        for row, measurement, command in rotated(everything, number):
            contest.log(f"round {number + 1}, {row.contender.label}")
            if command and not row.error:
                try:
                    row.values.append(seconds_of(command, contest))
                except PeerError as error:
                    note_failure([measurement], row.contender, str(error))
        fill_up([row for row, _, _ in everything], number + 1)
        contest.keep([sentence, helped])
    return [sentence, helped]


def saved(contest: Contest, contender: Contender, measurement: Measurement) -> list[str]:
    """Write the model of a contender; return the command that translates with it."""
    if measurement.row(contender).error:
        return []
    with contest.process(contender) as process:
        try:
            answer = process.ask({"do": "save", **contest.job(contender)})
        except PeerError as error:
            note_failure([measurement], contender, str(error))
            return []
    return [contest.pythons[contender.peer], *answer["command"]]


def seconds_of(command: Sequence[str], contest: Contest) -> float:
    """The seconds of a command that prints a translation or help.

    Raises:
        PeerError: it failed, printed nothing, or took too long.
    """
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=BENCHMARKS,
            env=environment_of(contest.threads, contest.keep_memory),
            input=SENTENCE,
            capture_output=True,
            encoding="utf-8",
            timeout=contest.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"took more than {contest.limit_s:.0f} s") from None
    seconds = time.perf_counter() - began
    if done.returncode or not done.stdout.strip():
        raise PeerError(last_line(done.stderr))
    return seconds


def note_failure(measurements: Sequence[Measurement], contender: Contender, error: str) -> None:
    """Record the error of a contender in the measurements in which it has no value yet."""
    for measurement in measurements:
        row = measurement.row(contender)
        if not row.measured:
            row.error = error


def rotated(items: Sequence[Item], by: int) -> Iterator[Item]:
    """The items from index `by` on, then those before, so that each is sometimes the first."""
    return (items[(i + by) % len(items)] for i in range(len(items)))
