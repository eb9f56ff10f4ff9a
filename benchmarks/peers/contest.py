"""One work at one size: who takes part, and on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .process import PeerProcess
from .results import Keep, Measurement, Row
from .roster import PEERS, Contender

Item = TypeVar("Item")


@dataclass(frozen=True)
class Contest:
    """One work at one size: who takes part, on what, for how long.

    `pythons` has the Python of each peer that could be installed, `failures` why the others could
    not; `folder` holds the workload and gets all that is written; `keep_memory` is for
    `environment_of`; `device` is `cpu` or `cuda`; `keep` gets the measurements each round.
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
    keep: Keep = lambda measurements: None

    def measurement(self, name: str, unit: str) -> Measurement:
        """An empty measurement; who could not be installed is noted."""
        rows = [Row(c, error=self.failures.get(c.peer, "")) for c in self.contenders]
        return Measurement(self.work, self.size, name, unit, rows)

    def process(self, contender: Contender) -> PeerProcess:
        """A new process of a contender."""
        log = self.folder / f"{contender.file_name}.log"
        module = PEERS[contender.peer].module
        python = self.pythons[contender.peer]
        return PeerProcess(python, module, log, self.threads, self.limit_s, self.keep_memory)

    def job(self, contender: Contender) -> dict[str, Any]:
        """What a request says of the model that a contender makes."""
        name = f"{contender.file_name}-{self.size}-{self.work}"
        return {
            "workload": str(self.folder / "workload.npz"),
            "size": self.size,
            "kind": contender.kind,
            "threads": self.threads,
            "folder": str(self.folder / name),
            "device": self.device,
        }

    def start(self, contender: Contender) -> dict[str, Any]:
        """The first request to a contender."""
        return {"do": "start", "work": self.work, **self.job(contender)}


def note_failure(measurements: Sequence[Measurement], contender: Contender, error: str) -> None:
    """Write down why a contender takes no part in what it has no value in."""
    for measurement in measurements:
        row = measurement.row(contender)
        if not row.measured:
            row.error = error


def rotated(items: Sequence[Item], by: int) -> Iterator[Item]:
    """The items from index `by` on, then those before: nobody is always the first of a round."""
    return (items[(i + by) % len(items)] for i in range(len(items)))
