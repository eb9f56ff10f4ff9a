"""Speed of training and decoding beside busy processes, for several ways in which threads wait.

    .venv/bin/python benchmarks/beside.py --quick               # about 12 minutes
    .venv/bin/python benchmarks/beside.py                       # all cells, about 45 minutes
    .venv/bin/python benchmarks/beside.py --programs demo fit   # 9 minutes

OpenMP threads poll for a while before they sleep (`GOMP_SPINCOUNT`). That is fast alone. Beside
another busy process a polling thread may take the core of the thread that it waits for. For each
setting there is a whole process with two threads, and one process with a single thread, which never
waits. They work in turns, alone and beside 1, 2 and 4 busy processes; the weights and the texts are
random. Records are written after each turn, so the script can be interrupted. The length of the
turns is chosen so that `--minutes` are kept.

With `--programs` the works are `make demo` and the training of a classifier, started as a user
starts them: with no variable that says how threads wait. `--source` names the source tree whose
programs run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from command import exit_code_of, log, make_parser, positive, whole
from peers.contest import rotated
from peers.process import KEEPING, PeerError, PeerProcess
from peers.protocol import Job, apart
from peers.workload import SIZES, write_random_workload
from results import Results, print_results, rounded

from clearhead.device import SPIN_COUNT, WAITING

ROOT = Path(__file__).parents[1]
COUNTS = (0, 500, 1000, 2000, 4000, 10_000)
USUAL = 4000
"""The spin count that the speed of clearhead's own one is compared with, alone."""

COMPARISONS = {
    "beside-alone": ((SPIN_COUNT, 0), (USUAL, 0)),
    "beside-1": ((SPIN_COUNT, 1), (SPIN_COUNT, 0)),
    "beside-2": ((SPIN_COUNT, 2), (SPIN_COUNT, 0)),
}
"""For each claim the spin count and the busy processes of the two speeds that it compares."""

PASSIVE = "passive"
WORKS = ("training", "torch", "ctranslate2")
BUSY = (0, 1, 2, 4)


class Search(NamedTuple):
    """A kind of decoding: how many sentences at a time, and the width of the beam."""

    text: str
    sentences: int
    beam_size: int


SEARCHES = {
    "greedy1": Search("greedy, one sentence", 1, 1),
    "beam1": Search("beam of 5, one sentence", 1, 5),
    "greedy16": Search("greedy, batches of 16", 16, 1),
    "beam16": Search("beam of 5, batches of 16", 16, 5),
}
QUICK = {
    "counts": ["0", str(SPIN_COUNT), str(USUAL), PASSIVE],
    "busy": [0, 1, 2],
    "searches": ["greedy1", "beam16"],
    "minutes": 12,
}
VOCABULARY = 8000
LENGTH = 24  # tokens of a sentence, the end symbol included
PAIRS = 6000
LEAST_S = 0.3  # of a turn
PATIENCE_S = 90.0  # for one turn; beside busy processes a single step may take long

LOOP = """
import os
while os.getppid() == {parent}:
    for _ in range(1_000_000):
        pass
"""
"""A busy process. It ends by itself if the benchmark was killed."""


FIT = """
import random
from dataclasses import replace
import clearhead
chance = random.Random(1)
y = [chance.choice("abcdef") for _ in range(5000)]
texts = [" ".join([label, *(f"w{chance.randrange(4000)}" for _ in range(9))]) for label in y]
examples = list(zip(texts, y))
config = clearhead.propose(examples, "runs/fit")
config = replace(config, training=replace(config.training, max_epochs=10_000))
clearhead.train(config, examples=examples)
"""

PROGRAMS = {
    "demo": ("make demo", ["examples/demo.py"], "runs/phrasebook-en-es"),
    "fit": ("the training of a classifier", ["-c", FIT], "runs/fit"),
}
"""Of each program: its name, the arguments of Python, and the folder of its first run."""


@dataclass(frozen=True)
class Setting:
    """How many threads work, and how they wait; `waiting` is a spin count or `passive`."""

    threads: int
    waiting: str = ""

    @property
    def name(self) -> str:
        """The subject of records: `GOMP_SPINCOUNT=1000`, `1 thread`."""
        return " ".join(f"{k}={v}" for k, v in self.environment.items()) or "1 thread"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a user would set before the command."""
        if not self.waiting:
            return {}
        if self.waiting == PASSIVE:
            return {"OMP_WAIT_POLICY": "PASSIVE"}
        return {"GOMP_SPINCOUNT": self.waiting}


@dataclass
class Row:
    """A setting in one measurement: its speeds by number of busy processes, in each round."""

    setting: Setting
    speeds: dict[int, list[float]] = field(default_factory=dict)
    error: str = ""


@dataclass
class Measurement:
    """One work of one size, with a row for each setting; decoding has a search."""

    work: str
    size: str
    search: Search | None
    rows: list[Row]

    @property
    def group(self) -> str:
        """The work and the size: `training TINY`."""
        return f"{self.work} {self.size.upper()}"

    @property
    def name(self) -> str:
        """The measure of records: `torch BASE, beam of 5, batches of 16`."""
        return f"{self.group}, {self.search.text}" if self.search else self.group

    @property
    def unit(self) -> str:
        """What is counted."""
        return "sentences/s" if self.search else "target tokens/s"

    def request(self, seconds: float) -> dict[str, Any]:
        """The request for a turn of so many seconds."""
        search = self.search
        more = {"sentences": search.sentences, "beam_size": search.beam_size} if search else {}
        return {"seconds": seconds, **more}

    def speed(self, count: int, busy: int) -> float | None:
        """The median speed with a spin count beside busy processes; None if not measured."""
        for row in self.rows:
            if row.setting.waiting == str(count) and row.speeds.get(busy):
                return median(row.speeds[busy])
        return None

    def row(self, setting: Setting) -> Row:
        """The row of a setting."""
        return next(row for row in self.rows if row.setting == setting)


class Pace:
    """Divides the time that is left among the turns that are left."""

    def __init__(self, turns: int, minutes: float) -> None:
        self.left = turns
        self._end = time.monotonic() + 60 * minutes

    def next_s(self) -> float:
        """The seconds of the next turn. A tenth is kept for steps that end later."""
        seconds = 0.9 * (self._end - time.monotonic()) / max(1, self.left)
        self.left -= 1
        return max(LEAST_S, seconds)

    def __str__(self) -> str:
        return f"{self.left} turns, {max(0.0, self._end - time.monotonic()) / 60:.1f} minutes left"


def main(words: list[str] | None = None) -> int:
    """Measure, print and record."""
    parser = make_parser(__doc__)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--sizes", nargs="+", choices=("tiny", "base"), default=["tiny", "base"])
    parser.add_argument("--searches", nargs="+", choices=list(SEARCHES), default=list(SEARCHES))
    parser.add_argument(
        "--counts",
        nargs="+",
        type=waiting,
        default=[*map(str, COUNTS), PASSIVE],
        help="values of GOMP_SPINCOUNT; passive: OMP_WAIT_POLICY=PASSIVE"
        f" (default: {' '.join(map(str, COUNTS))} passive)",
    )
    parser.add_argument(
        "--busy",
        nargs="+",
        type=whole(0),
        default=list(BUSY),
        help="numbers of busy processes (default: 0 1 2 4); 0 is always measured",
    )
    parser.add_argument("--rounds", type=positive, default=2, help="turns of a cell (default: 2)")
    parser.add_argument("--threads", type=whole(2), default=2, help="of a process (default: 2)")
    parser.add_argument("--minutes", type=positive, default=45, help="in all (default: 45)")
    parser.add_argument("--quick", action="store_true", help="the essential cells, in 12 minutes")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), help="measure these alone")
    parser.add_argument(
        "--source", type=Path, default=ROOT, help="source tree of the programs (default: this one)"
    )
    given = sys.argv[1:] if words is None else words
    if "--quick" in given:
        parser.set_defaults(**QUICK)
    if "--programs" in given:
        parser.set_defaults(busy=[0, 1, 2], rounds=1, minutes=9)
    options = parser.parse_args(given)
    return exit_code_of(partial(run_programs if options.programs else compare, options, words))


def run_programs(options: argparse.Namespace, words: list[str] | None) -> None:
    """Start each program alone and beside busy processes, and record its steps per second."""
    busy = sorted({0, *options.busy})
    seconds = 60 * options.minutes / (len(options.programs) * len(busy) * options.rounds)
    results = Results("programs", words, options.output)
    for program in options.programs:
        speeds: dict[int, list[float]] = {count: [] for count in busy}
        for _ in range(options.rounds):
            for count in busy:
                log(f"{program} of {options.source}, beside {count}, {seconds:.0f} s")
                speeds[count] += steps_per_second(program, options.source, count, seconds)
        medians = {n: median(values) for n, values in speeds.items() if values}
        more = {f"beside {n}": rounded(value) for n, value in medians.items() if n}
        results.add(
            PROGRAMS[program][0],
            "steps/s",
            speeds[0],
            subject="as a user starts it",
            more=more,
            note="; ".join(f"beside {n}: {medians[n] / medians[0]:.2f} of alone" for n in medians)
            if speeds[0]
            else "it reported no progress",
        )
        results.write()
    print_results(results.records)


def steps_per_second(program: str, source: Path, busy: int, seconds: float) -> list[float]:
    """The speed of a program that is started and ended after so many seconds.

    It is that between its first and its last report of progress; nothing without two reports.
    """
    source = source.resolve()
    _, arguments, run = PROGRAMS[program]
    arguments = [str(source / a) if a.endswith(".py") else a for a in arguments]
    others = {name: value for name, value in os.environ.items() if name not in WAITING}
    # As `make demo` did before the program itself kept freed memory.
    more = {"PYTHONPATH": str(source / "src"), **(KEEPING if program == "demo" else {})}
    with TemporaryDirectory(prefix="clearhead-benchmark-") as folder, busy_processes(busy):
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={**others, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        process.wait()
        reports = Path(folder, run, "training", "log.jsonl")
        lines = reports.read_text(encoding="utf-8").splitlines() if reports.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("}")]
    found = [event for event in events if event["event"] == "Progress"]
    if len(found) < 2:
        return []
    first, last = found[0], found[-1]
    return [(last["step"] - first["step"]) / (last["elapsed_s"] - first["elapsed_s"])]


def waiting(text: str) -> str:
    """The type of a spin count, or the word `passive`."""
    return PASSIVE if text == PASSIVE else str(whole(0)(text))


def compare(options: argparse.Namespace, words: list[str] | None) -> None:
    """Measure one work and size after the other, and record each turn."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        os.environ.pop(name, None)  # each process has its own
    settings = [Setting(options.threads, text) for text in dict.fromkeys(options.counts)]
    settings.append(Setting(1))
    busy = sorted({0, *options.busy})
    results = Results("beside", words, options.output)
    groups = [
        [
            Measurement(work, size, search, [Row(setting) for setting in settings])
            for search in (
                [None] if work == "training" else [SEARCHES[name] for name in options.searches]
            )
        ]
        for work in options.works
        for size in options.sizes
    ]
    turns = options.rounds * len(busy) * len(settings) * sum(map(len, groups))
    pace = Pace(turns, options.minutes)
    with TemporaryDirectory(prefix="clearhead-benchmark-") as name:
        folder = Path(name)
        prepare(folder, options.sizes, options.works)
        try:
            for group in groups:
                measure(group, busy, options.rounds, folder, pace, results)
        finally:
            print_results(results.records)


def prepare(folder: Path, sizes: Sequence[str], works: Sequence[str]) -> None:
    """Write random pairs and texts, and for each size a model whose outputs never end."""
    log("writing random texts and models")
    chance = np.random.default_rng(1)
    rows = chance.integers(0, VOCABULARY - 10, (PAIRS, 2, LENGTH - 1))
    pairs = ["\t".join(" ".join(f"w{i}" for i in side) for side in row) for row in rows]
    (folder / "pairs.tsv").write_text("\n".join([*pairs, ""]), encoding="utf-8")
    texts = [pair.partition("\t")[0] for pair in pairs[:64]]
    (folder / "texts.txt").write_text("\n".join([*texts, ""]), encoding="utf-8")
    if set(works) == {"training"}:
        return
    write_random_workload(folder, VOCABULARY, LENGTH, 1)
    for size in sizes:
        kind = "ctranslate2" if "ctranslate2" in works else "torch"
        tokenizer = folder / "tokenizer"
        job = Job(SIZES[size], VOCABULARY, kind, 1, folder / f"model-{size}", tokenizer)
        # In a process of its own, because this one must stay small and without threads.
        apart(save_model, job)


def save_model(job: Job) -> None:
    """Write the model folder of a job."""
    from peers.clearhead_training import save

    save(job)


def measure(
    group: Sequence[Measurement],
    busy: Sequence[int],
    rounds: int,
    folder: Path,
    pace: Pace,
    results: Results,
) -> None:
    """Let the processes of all settings take turns in the measurements of one work and size."""
    settings = [row.setting for row in group[0].rows]
    with ExitStack() as stack:
        ready: dict[Setting, PeerProcess] = {}
        for setting in settings:
            log(f"start of {group[0].group}, {setting.name}; {pace}")
            try:
                ready[setting] = start(stack, group[0], setting, folder)
            except PeerError as error:
                for measurement in group:
                    measurement.row(setting).error = str(error)
        before = len(results.records)
        for number in range(rounds):
            for count in busy:
                with busy_processes(count):
                    for measurement in group:
                        for setting in rotated(settings, number):
                            log(
                                f"{measurement.name}, {setting.name}, beside {count},"
                                f" round {number + 1}; {pace}"
                            )
                            request = measurement.request(pace.next_s())
                            take_turn(ready, measurement.row(setting), count, request)
                            del results.records[before:]
                            record(group, results)
                            results.write()


def start(
    stack: ExitStack, measurement: Measurement, setting: Setting, folder: Path
) -> PeerProcess:
    """The process of a setting, which has done a first piece of work."""
    words = [measurement.work, measurement.size, setting.waiting, str(setting.threads)]
    log_file = folder / f"{'-'.join(filter(None, words))}.log"
    process = PeerProcess(
        sys.executable,
        "turns",
        log_file,
        setting.threads,
        PATIENCE_S,
        keep_memory=True,
        more=setting.environment,
    )
    stack.enter_context(process)
    if measurement.work == "training":
        run = {
            "size": measurement.size,
            "folder": str(log_file.with_suffix(".run")),
            "pairs": str(folder / "pairs.tsv"),
        }
    else:
        run = {
            "folder": str(folder / f"model-{measurement.size}"),
            "texts": str(folder / "texts.txt"),
        }
    process.ask({"work": measurement.work, "threads": setting.threads, **run})
    return process


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes that compute without end, each with one thread."""
    program = LOOP.format(parent=os.getpid())
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            started.append(subprocess.Popen([sys.executable, "-S", "-c", program]))
            stack.callback(started[-1].wait)
            stack.callback(started[-1].kill)
        yield started


def take_turn(
    ready: dict[Setting, PeerProcess], row: Row, busy: int, request: dict[str, Any]
) -> None:
    """Let a process work for some seconds; one that fails takes part no longer."""
    if row.setting not in ready:
        return
    try:
        answer = ready[row.setting].ask(request)
    except PeerError as error:
        row.error = f"beside {busy}: {error}"
        del ready[row.setting]
        return
    row.speeds.setdefault(busy, []).append(answer["units"] / answer["seconds"])


def record(group: Sequence[Measurement], results: Results) -> None:
    """Add a record for each row so far, and for each claim about clearhead's own spin count."""
    for measurement in group:
        for row in measurement.rows:
            if row.speeds or row.error:
                results.add(
                    measurement.name,
                    measurement.unit,
                    row.speeds.get(0, []),
                    subject=row.setting.name,
                    range="rounds",
                    more={f"beside {n}": rounded(median(v)) for n, v in row.speeds.items() if n},
                    note=row.error or None,
                )
    for claim, (one, other) in COMPARISONS.items():
        ratios = {}
        for measurement in group:
            above, below = measurement.speed(*one), measurement.speed(*other)
            if above and below:
                ratios[measurement.name] = above / below
        if ratios:
            worst = min(ratios, key=lambda name: ratios[name])
            peer = f"GOMP_SPINCOUNT={USUAL}" if claim == "beside-alone" else "alone"
            results.add(
                group[0].group,
                "times",
                [ratios[worst]],
                subject=group[0].group,
                peer=peer,
                claim=claim,
                note=f"the lowest of its measurements: {worst}",
            )


if __name__ == "__main__":
    sys.exit(main())
