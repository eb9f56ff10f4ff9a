"""Kill small runs at random moments, resume them, and compare with the run that was not killed.

    .venv/bin/python tests/faults/kills.py                      # 110 kills, some minutes
    .venv/bin/python tests/faults/kills.py --kills 1            # one of each kind

Each trial starts a new run, kills it with SIGKILL at a moment that is chosen evenly from its whole
time, and repeats the command. A moment before the first event or after the last one is drawn again:
there is nothing to resume. Weights, scores and state must then have the same bits as those of
the run that was not killed. The runs save their state after every few steps.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
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

command, results = helper("command"), helper("results")

# A thousandth of a minute: the state is saved after almost every step.
SAVING = "validate_every = 10\ncheckpoint_minutes = 0.001\n"


class Variant(NamedTuple):
    """A kind of run, and how often it is killed."""

    name: str
    kills: int
    template: str
    training: str


VARIANTS = (
    Variant("float32", 50, TRANSLATION, "max_steps = 25\n"),
    Variant("bf16", 20, TRANSLATION, 'max_steps = 25\nprecision = "bf16"\n'),
    Variant("accumulation", 20, TRANSLATION, "max_steps = 15\naccumulate = 3\n"),
    Variant("classifier", 20, CLASSIFICATION, "max_steps = 120\n"),
)


class Trial(NamedTuple):
    """A run that was killed: its last event before, and what was wrong after it was resumed."""

    phase: str
    wrong: list[str]


def main(words: list[str] | None = None) -> int:
    """Kill, resume, compare, record; 1 if a run ends with another result."""
    parser = command.make_parser(__doc__)
    parser.add_argument("--kills", type=command.positive, help="of each kind (default: 50, 20 …)")
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
        for variant in VARIANTS:
            kills = options.kills or variant.kills
            expected, seconds = unkilled(folder, variant)
            trials = []
            while len(trials) < kills:
                moment = chance.uniform(0, seconds)
                trial = killed(folder, variant, expected, moment)
                if trial is not None:
                    command.log(f"{variant.name}: {trial.phase}: {trial.wrong or 'the same bits'}")
                    trials.append(trial)
            record(found, variant, trials)
            found.write()
            print(results.line(found.records[-1]), flush=True)


def unkilled(folder: Path, variant: Variant) -> tuple[Path, float]:
    """The folder of a run that is not killed, and its seconds.

    It is run twice, because the first run may take longer.
    """
    run = folder / f"{variant.name}-expected"
    toml = write_run(folder, run.name, variant.template, SAVING + variant.training)
    log = folder / f"{run.name}.log"
    seconds = 0.0
    for _ in range(2):
        shutil.rmtree(run, ignore_errors=True)
        began = time.monotonic()
        code = finish(["train", str(toml)], log)
        seconds = time.monotonic() - began
        if code:
            raise RuntimeError(f"the run that is not killed failed: {last_line(log)}")
    return run, seconds


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


def record(found: Any, variant: Variant, trials: list[Trial]) -> None:
    """Add the share of runs that ended with the same bits; `more` has where they were killed."""
    right = sum(not trial.wrong for trial in trials)
    wrong = dict.fromkeys(text for trial in trials for text in trial.wrong)
    found.add(
        "killed runs",
        "%",
        [100 * right / len(trials)],
        subject=f"{variant.name}, {len(trials)} kills",
        more=dict(Counter(trial.phase for trial in trials)),
        claim="killed-runs",
        note="; ".join(wrong) or None,
        command="make faults",
    )


if __name__ == "__main__":
    sys.exit(main())
