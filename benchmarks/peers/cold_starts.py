"""How long a whole new process takes to translate one sentence."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from .contest import Contest, note_failure, rotated
from .process import BENCHMARKS, PeerError, environment_of, last_line
from .progress import Progress
from .results import Measurement, Row, fill_up
from .roster import OWN, Contender

SENTENCE = "two young men are playing with a ball in the park .\n"


def cold_starts(contest: Contest) -> list[Measurement]:
    """Seconds of a whole new process that translates one sentence, and of `--help`."""
    sentence = contest.measurement("one sentence", "s")
    helped = Measurement(contest.work, contest.size, "--help", "s", [Row(Contender(OWN, "--help"))])
    commands = {contender: saved(contest, contender, sentence) for contender in contest.contenders}
    everything = [(row, sentence, commands[row.contender]) for row in sentence.rows]
    own = [contest.pythons[OWN], "-m", "clearhead", "--help"]
    everything.append((helped.rows[0], helped, own))
    progress = Progress(f"{contest.work} {contest.size}", contest.rounds * len(everything))
    for number in range(contest.rounds):
        for row, measurement, command in rotated(everything, number):
            progress.next(f"round {number + 1}, {row.contender.label}")
            if command and not row.error:
                try:
                    row.values.append(seconds_of(command, contest))
                except PeerError as error:
                    note_failure([measurement], row.contender, str(error))
        fill_up([row for row, _, _ in everything], number + 1)
        contest.keep([sentence, helped])
    return [sentence, helped]


def saved(contest: Contest, contender: Contender, measurement: Measurement) -> list[str]:
    """The command that translates with a contender's model, once that is written."""
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
    """How long a command takes that answers with a sentence, or with help.

    Raises:
        PeerError: it failed, said nothing, or took too long.
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
