"""Kill a small run between any two calls that change its files, and cut the power there.

    .venv/bin/python tests/faults/syscalls.py                   # some minutes
    .venv/bin/python tests/faults/syscalls.py --kills 5 --cuts 5

A layer between the run and the kernel (`layer.c`, compiled with `cc`) sees each call of the run on
its folder. It kills the process at a chosen call, or in the middle of a write. It also logs
the calls; from the log, `disk.py` makes what a power cut would leave at a chosen call. After each
fault a model that was complete must load, the same command must resume the run with the loss of at
most one interval between two saves, and the result must have the same bits as without a fault.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import run_processes
from disk import Call, Disk, evenly, read_calls, write_image
from run_processes import helper

Layer = Callable[[bytes, int, bytes, int, int], int]
"""`watch` of `layer.c`; see `watching`."""

FAULTS = {
    "kill": "SIGKILL",
    "synced": "power cut, only what was synced is left",
    "names": "power cut, names without contents are left",
    "parts": "power cut, some names and parts of contents are left",
}

INTERVAL = 2
"""Steps between two saves."""

TRAINING = f"""max_steps = 6
validate_every = {INTERVAL}
checkpoint_minutes = 0
report_every = 1
"""


class Fault(NamedTuple):
    """What a run had done when it was stopped: its last step, and whether a model was complete."""

    step: int
    has_model: bool


def main(words: list[str] | None = None) -> int:
    """Make all faults, record; 1 if something was lost."""
    command, results = helper("command"), helper("results")
    parser = command.make_parser(__doc__)
    parser.add_argument("--kills", type=command.positive, default=200, help="default: 200")
    parser.add_argument("--cuts", type=command.positive, default=100, help="of power (100)")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    options = parser.parse_args(words)
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        print("skipped: this needs Linux and a C compiler (cc)")
        return 0
    found = results.Results("syscalls", words, options.output)
    code = command.exit_code_of(partial(measure, options, found, compiler, command.log))
    for record in found.records:
        print(results.line(record), flush=True)
    return code or int(any(record["met"] is False for record in found.records))


def compiled(compiler: str, folder: Path) -> Layer:
    """The function `watch` of the layer."""
    library = folder / "layer.so"
    source = str(Path(__file__).with_name("layer.c"))
    words = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), source]
    subprocess.run(words, check=True)
    watch = ctypes.CDLL(str(library)).watch
    numbers = ctypes.c_int, ctypes.c_int
    watch.argtypes = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, *numbers]
    return watch


def watching(
    layer: Layer, folder: Path, at: int = 0, log: str = "", error: int = 0, later: bool = False
) -> Callable[[], None]:
    """A function after which the layer watches what its process does to a folder.

    Args:
        layer: from `compiled`.
        folder: without symbolic links in its path.
        at: the number of a call, from 1. The process is killed there; 0: never.
        log: a file to which the calls are appended.
        error: if it is not 0, the call fails with this number instead.
        later: whether all later calls fail too.
    """

    def watch() -> None:
        if code := layer(os.fsencode(folder), at, os.fsencode(log), error, later):
            raise OSError(code, os.strerror(code))

    return watch


def measure(options: Any, found: Any, compiler: str, log: Any) -> None:
    """All kills and power cuts."""
    with TemporaryDirectory(prefix="clearhead-syscalls-") as name:
        folder = Path(name).resolve()
        trials = Trials(folder, compiled(compiler, folder))
        calls = trials.record()
        log(f"the run makes {len(calls)} calls that change its folder")
        trials.check_log(calls)
        for name in options.faults:
            kind = FAULTS[name]
            fault = trials.kill if name == "kill" else partial(trials.cut, name)
            moments = evenly(options.kills if name == "kill" else options.cuts, len(calls))
            wrong = []
            for number in moments:
                problems = fault(number)
                if problems:
                    log(f"{kind} at call {number} ({trials.described(number)}): {problems}")
                    wrong.append((number, problems))
            found.add(
                "faults while files are written",
                "%",
                [100 * (1 - len(wrong) / len(moments))],
                subject=f"{kind}, {len(moments)} moments",
                claim="faults-of-saving",
                note="; ".join(dict.fromkeys(text for _, texts in wrong for text in texts)) or None,
                command="make faults",
            )
            found.write()


class Trials:
    """Runs in a folder that are stopped at a call, and what is left of them."""

    def __init__(self, folder: Path, layer: Layer) -> None:
        self.layer = layer
        self.folder, self.expected = folder / "work", folder / "expected"
        self.run = self.folder / "run"
        self.folder.mkdir()
        run_processes.write_data(self.folder)
        self.toml = run_processes.write_run(self.folder, "run", run_processes.TRANSLATION, TRAINING)
        self.texts, self.output = folder / "in.txt", folder / "output.log"
        self.texts.write_text("1 a b\n", encoding="utf-8")
        self.log_file = folder / "calls.log"
        self.calls: list[Call] = []
        self.faults: list[Fault] = []

    def record(self) -> list[Call]:
        """Make the run without a fault, keep its result, and log its calls."""
        if code := self._start(log=str(self.log_file)):
            last = run_processes.last_line(self.output)
            raise RuntimeError(f"the run without faults ended with {code}: {last}")
        self.run.rename(self.expected)
        self.calls = list(read_calls(self.log_file))
        self.faults = list(faults(self.calls, self.run))
        return self.calls

    def check_log(self, calls: Sequence[Call]) -> None:
        """Compare the files that the log leads to with those of the run."""
        disk = Disk(self.folder)
        for call in calls:
            disk.make(call)
        left = {p.relative_to(self.run): c for p, c in disk.now().items() if p != self.run}
        real = {
            path.relative_to(self.expected): None if path.is_dir() else path.read_bytes()
            for path in self.expected.rglob("*")
        }
        if left != real:
            other = sorted(str(k) for k in left.keys() | real.keys() if left.get(k) != real.get(k))
            raise RuntimeError(f"the layer does not see all changes of {', '.join(other)}")

    def described(self, number: int) -> str:
        """The call that a fault prevents."""
        call = self.calls[number - 1]
        return f"{call.kind} {call.path.relative_to(self.folder)}"

    def kill(self, number: int) -> list[str]:
        """Kill a run before a call; what is wrong afterwards."""
        self._remove()
        code = self._start(kill_at=number)
        if code != -signal.SIGKILL:
            return [f"it was not killed, but ended with {code}"]
        return self._problems(self.faults[number - 1])

    def cut(self, kind: str, number: int) -> list[str]:
        """Cut the power before a call; what is wrong afterwards."""
        disk = Disk(self.folder)
        for call in self.calls[: number - 1]:
            disk.make(call)
        self._remove()
        if kind == "parts":
            write_image(disk.parts(random.Random(number)))
        else:
            write_image(disk.only_synced() if kind == "synced" else disk.names_alone())
        return self._problems(self.faults[number - 1])

    def _remove(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)
        self.output.unlink(missing_ok=True)

    def _start(self, kill_at: int = 0, log: str = "") -> int:
        """Train while the layer watches; returns the exit code."""
        watch = watching(self.layer, self.folder, kill_at, log)
        return run_processes.finish(["train", str(self.toml)], self.output, watch)

    def _problems(self, fault: Fault) -> list[str]:
        """What is wrong after a fault: the model, the state, or the result of the resumed run."""
        found = []
        if fault.has_model:
            words = ["translate", str(self.run), "-i", str(self.texts)]
            if run_processes.finish([*words, "--engine", "torch"], self.output):
                found.append(f"the model does not load: {run_processes.last_line(self.output)}")
        if run_processes.finish(["train", str(self.toml)], self.output):
            return [*found, f"the run does not resume: {run_processes.last_line(self.output)}"]
        resumed = [e["step"] for e in run_processes.events(self.run) if e["event"] == "RunStarted"]
        if fault.step - resumed[-1] > INTERVAL:
            found.append(f"{fault.step - resumed[-1]} steps are lost")
        return found + run_processes.differences(self.run, self.expected)


def faults(calls: Sequence[Call], run: Path) -> Iterator[Fault]:
    """For each call of a run without faults: what a fault before it must not lose."""
    step, has_model = 0, False
    for call in calls:
        yield Fault(step, has_model)
        if call.kind == "W" and call.path == run / "training" / "log.jsonl":
            event = json.loads(call.data)
            step = event["step"] if event["event"] == "Progress" else step
            # The model is complete and synced when its score is logged.
            has_model |= event["event"] == "Validated"


if __name__ == "__main__":
    sys.exit(main())
