"""Kill small runs at random moments, resume them, and compare with the run that was not killed.

    .venv/bin/python tests/faults/kills.py                      # 150 kills, 20 minutes
    .venv/bin/python tests/faults/kills.py --kills 1            # one of each kind
    .venv/bin/python tests/faults/kills.py --variants ddp       # one kind

Each trial starts a new run, kills it with SIGKILL at a moment that is chosen evenly from its whole
time, and repeats the command. A moment before the first event or after the last one is drawn again:
there is nothing to resume. Weights, scores and state must then have the same bits as those of
the run that was not killed. The runs save their state after every few steps.

Of several processes one is killed, which is chosen at random, also before the first event. torchrun
ends the others and restarts all. The time until the others have ended is recorded.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from run_processes import (
    CLASSIFICATION,
    TRANSLATION,
    differences,
    events,
    exit_code,
    finish,
    helper,
    last_line,
    start,
    write_data,
    write_run,
)

command, results, several = helper("command"), helper("results"), helper("several_processes")

# A thousandth of a minute: the state is saved after almost every step.
SAVING = "validate_every = 10\ncheckpoint_minutes = 0.001\n"
FSDP = 'parallel = "fsdp"\n'
LONGEST_RUN_S = 300


class Variant(NamedTuple):
    """A kind of run, and how often it is killed."""

    name: str
    kills: int
    template: str
    training: str
    processes: int = 1


VARIANTS = (
    Variant("float32", 50, TRANSLATION, "max_steps = 25\n"),
    Variant("bf16", 20, TRANSLATION, 'max_steps = 25\nprecision = "bf16"\n'),
    Variant("accumulation", 20, TRANSLATION, "max_steps = 15\naccumulate = 3\n"),
    Variant("classifier", 20, CLASSIFICATION, "max_steps = 120\n"),
    Variant("ddp", 20, TRANSLATION, "max_steps = 200\naccumulate = 2\n", processes=2),
    Variant("fsdp", 20, TRANSLATION, FSDP + "max_steps = 60\naccumulate = 2\n", processes=2),
)


class Trial(NamedTuple):
    """A run that was killed.

    Attributes:
        phase: its last event before.
        wrong: what was wrong after it was resumed.
        others_s: seconds until its other processes had ended.
    """

    phase: str
    wrong: list[str]
    others_s: float = 0.0


def main(words: list[str] | None = None) -> int:
    """Kill, resume, compare, record; 1 if a run ends with another result."""
    parser = command.make_parser(__doc__)
    parser.add_argument("--kills", type=command.positive, help="of each kind (default: 50, 20 …)")
    names = [variant.name for variant in VARIANTS]
    parser.add_argument(
        "--variants", nargs="+", choices=names, default=names, help="kinds of runs (default: all)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    options = parser.parse_args(words)
    found = results.Results("kills", words, options.output)
    code = command.exit_code_of(partial(measure, options, found))
    return code or int(any(record["met"] is False for record in found.records))


def measure(options: Any, found: Any) -> None:
    """All trials of all variants."""
    chance = random.Random(options.seed)
    with TemporaryDirectory(prefix="clearhead-kills-") as name:
        folder = Path(name)
        write_data(folder)
        for variant in (each for each in VARIANTS if each.name in options.variants):
            kill = killed if variant.processes == 1 else partial(killed_rank, chance)
            kills = options.kills or variant.kills
            expected, seconds = unkilled(folder, variant)
            trials = []
            while len(trials) < kills:
                moment = chance.uniform(0, seconds)
                trial = kill(folder, variant, expected, moment)
                if trial is not None:
                    command.log(f"{variant.name}: {trial.phase}: {trial.wrong or 'the same bits'}")
                    trials.append(trial)
            record(found, variant, trials)
            found.write()


def unkilled(folder: Path, variant: Variant) -> tuple[Path, float]:
    """The folder of a run that is not killed, and its seconds.

    One process is run twice, because the first run may take longer.
    """
    run = folder / f"{variant.name}-expected"
    toml = write_run(folder, run.name, variant.template, SAVING + variant.training)
    log = folder / f"{run.name}.log"
    seconds = 0.0
    for _ in range(2 if variant.processes == 1 else 1):
        shutil.rmtree(run, ignore_errors=True)
        seconds = through(toml, log, variant.processes)
    return run, seconds


def through(toml: Path, log: Path, processes: int) -> float:
    """Run to the end; the seconds since the processes have started."""
    began = time.monotonic()
    if processes == 1:
        code = finish(["train", str(toml)], log)
    else:
        with launched(toml, log, processes) as (launcher, _):
            began = time.monotonic()
            code = launcher.wait(LONGEST_RUN_S)
    if code:
        raise RuntimeError(f"the run that is not killed failed: {last_line(log)}")
    return time.monotonic() - began


def killed(folder: Path, variant: Variant, expected: Path, moment: float) -> Trial | None:
    """Kill a new run after so many seconds, and resume it.

    None if the log has no event yet, or already that of the end.
    """
    run, log = folder / variant.name, folder / f"{variant.name}.log"
    shutil.rmtree(run, ignore_errors=True)
    log.unlink(missing_ok=True)
    words = ["train", str(write_run(folder, run.name, variant.template, SAVING + variant.training))]
    process = start(words, log)
    time.sleep(moment)
    os.kill(process, signal.SIGKILL)  # if it has ended, it is still there, since none waited for it
    code, names = exit_code(process), [event["event"] for event in events(run)]
    if code != -signal.SIGKILL or not names or "RunEnded" in names:
        return None
    phase = f"after {names[-1]}"
    if finish(words, log):
        return Trial(phase, [f"it was not resumed: {last_line(log)}"])
    return Trial(phase, differences(run, expected))


@contextmanager
def launched(
    toml: Path, log: Path, processes: int
) -> Iterator[tuple[subprocess.Popen[bytes], dict[int, int]]]:
    """torchrun, and the ids of the processes that it has started, by rank."""
    words = several.torchrun(processes, "-m", "clearhead", "train", str(toml), restarts=3)
    with log.open("ab") as output:
        launcher = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
    try:
        while len(ranks := several.workers(launcher.pid)) < processes:
            if launcher.poll() is not None:
                raise RuntimeError(f"torchrun starts no process: {last_line(log)}")
            time.sleep(0.01)
        yield launcher, ranks
    finally:
        launcher.terminate()  # which ends its processes
        launcher.wait()


def killed_rank(
    chance: random.Random, folder: Path, variant: Variant, expected: Path, moment: float
) -> Trial | None:
    """Kill one process of a new run after so many seconds; torchrun restarts all.

    None if the process has ended before, or the log has the event of the end.
    """
    run, log = folder / variant.name, folder / f"{variant.name}.log"
    shutil.rmtree(run, ignore_errors=True)
    log.unlink(missing_ok=True)
    toml = write_run(folder, run.name, variant.template, SAVING + variant.training)
    with launched(toml, log, variant.processes) as (launcher, ranks):
        rank = chance.randrange(variant.processes)
        victim = ranks.pop(rank)
        time.sleep(moment)
        names = [event["event"] for event in events(run)]
        if "RunEnded" in names or not several.is_running(victim):
            return None
        os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        while any(map(several.is_running, ranks.values())):
            if time.monotonic() > began + LONGEST_RUN_S:
                raise RuntimeError(f"the other processes do not end: {last_line(log)}")
            time.sleep(0.01)
        others_s = time.monotonic() - began
        code = launcher.wait(LONGEST_RUN_S)
    phase = f"rank {rank} {f'after {names[-1]}' if names else 'before the first event'}"
    if code:
        return Trial(phase, [f"it was not resumed: {last_line(log)}"], others_s)
    wrong = differences(run, expected)
    if f"(exitcode: -9) local_rank: {rank} (pid: {victim})" not in log.read_text(encoding="utf-8"):
        wrong.append("torchrun does not name the process that was killed")
    return Trial(phase, wrong, others_s)


def record(found: Any, variant: Variant, trials: list[Trial]) -> None:
    """Add the share of runs that ended with the same bits; `more` has where they were killed.

    Of several processes, add the longest time until the others had ended.
    """
    right = sum(not trial.wrong for trial in trials)
    wrong = dict.fromkeys(text for trial in trials for text in trial.wrong)
    processes = f"{variant.processes} processes, " if variant.processes > 1 else ""
    subject = f"{variant.name}, {processes}{len(trials)} kills"
    killed_runs = found.add(
        "killed runs",
        "%",
        [100 * right / len(trials)],
        subject=subject,
        more=dict(Counter(trial.phase for trial in trials)),
        claim="killed-runs",
        note="; ".join(wrong) or None,
        command="make faults",
    )
    print(results.line(killed_runs), flush=True)
    if variant.processes > 1:
        times = [trial.others_s for trial in trials]
        longest = found.add(
            "end of the other processes",
            "s",
            [max(times)],
            subject=subject,
            more={"median": round(median(times), 3)},
            claim="killed-process",
            command="make faults",
        )
        print(results.line(longest), flush=True)


if __name__ == "__main__":
    sys.exit(main())
