"""Let each call that changes files fail, as a disk does that is full, read-only or broken.

    .venv/bin/python tests/faults/errors.py                     # some minutes
    .venv/bin/python tests/faults/errors.py --moments 5 --commands train

A layer between a command and the kernel (`layer.c`) returns an error at a chosen call: once, or
from then on; then half of a write is still made. Afterwards

- the command has done its work, with a warning if a log could not be written; or its exit code is
  that of an error of clearhead, whose message advises what to do about this error,
- a model that was complete loads, and an output is the old or the new one,
- the same command without the fault gives the same bits as if there had been no fault, loses at
  most one interval between two saves, and leaves no other files.

The same holds for a small disk in memory (tmpfs) that becomes full, where mounting is allowed.
"""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import run_processes
from disk import Call, evenly, read_calls
from run_processes import TRANSLATION, finish, helper, last_line
from syscalls import INTERVAL, TRAINING, Fault, Layer, compiled, faults, watching

from clearhead.errors import ClearheadError
from clearhead.folder.exports import read_export
from clearhead.folder.model_folder import WEIGHTS, open_folder

for _name in ("api.exporting", "decoding.ctranslate2_engine", "cli.init"):
    import_module(f"clearhead.{_name}")  # before a process is forked

ADVICE = {
    "ENOSPC": "free some space",
    "EDQUOT": "quota",
    "EROFS": "another disk",
    "EIO": "check the disk",
}
"""What the message about an error must advise."""

NOT_ON_REMOVAL = {"ENOSPC": "TUX", "EDQUOT": "TUX"}
"""Calls that an error never comes from, by kind."""

EXIT_CODES = range(1, 8)
"""Those of `ClearheadError` and its kinds."""

DISK_BYTES = 2 * 2**20

command, results = helper("command"), helper("results")


class Outcome(NamedTuple):
    """A command with a fault: whether it went on, and what was wrong."""

    name: str
    went_on: bool
    wrong: list[str]


class Subject:
    """A command, and the files that it changes.

    Args:
        place: the folder with all that it changes, as it is before the command.
        words: of the command.
        output: what it writes, relative to `place`.
    """

    def __init__(self, place: Path, words: Sequence[str], output: str) -> None:
        self.place, self.words = place, list(words)
        self.output = place / output
        self.name = words[0]
        self.log = place.with_name(f"{place.name}.log")
        self.calls: list[Call] = []
        self.before, self.after = (
            place.with_name(f"{place.name}.{when}") for when in ("before", "after")
        )
        shutil.copytree(place, self.before)
        self._old = visible(self.output)

    def record(self, layer: Layer) -> None:
        """Do the command without a fault, and keep its files and its calls."""
        calls = self.place.with_name(f"{self.place.name}.calls")
        code = finish(self.words, self.log, watching(layer, self.place, log=str(calls)))
        if code:
            raise RuntimeError(f"without a fault it ended with {code}: {last_line(self.log)}")
        self.calls = list(read_calls(calls))
        shutil.copytree(self.place, self.after)
        self._new = visible(self.output)

    def restore(self) -> None:
        """Put the files in place that were there before the command."""
        for path in self.place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.before, self.place, dirs_exist_ok=True)
        self.log.unlink(missing_ok=True)

    def moments(self, count: int, error: str) -> list[int]:
        """The numbers of evenly chosen calls that may end with this error."""
        never = NOT_ON_REMOVAL.get(error, "")
        possible = [n for n, call in enumerate(self.calls, start=1) if call.kind not in never]
        return [possible[n - 1] for n in evenly(count, len(possible))]

    def printed(self) -> str:
        """What the command printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def damage(self, succeeded: bool) -> list[str]:
        """What is wrong with the output after a fault."""
        found = visible(self.output)
        wrong = []
        if found != self._new and (succeeded or found != self._old):
            wrong.append("the output is neither the old nor the new one")
        part = self.output.with_name(f"{self.output.name}.part")
        if part.exists() and part.stat().st_size and str(part) not in self.printed():
            wrong.append(f"{part.name} is not named")
        return wrong

    def differences(self) -> list[str]:
        """What differs from the files after the command without a fault."""
        return [] if contents(self.place) == contents(self.after) else ["the files after repeating"]

    def loss(self, fault: Fault) -> list[str]:
        """What was complete before the call of a fault, and is lost."""
        return []


class Training(Subject):
    """`clearhead train`."""

    faults: Sequence[Fault] = ()

    def record(self, layer: Layer) -> None:
        super().record(layer)
        self.faults = list(faults(self.calls, self.output))

    def damage(self, succeeded: bool) -> list[str]:
        """A model that does not load."""
        if succeeded:
            return run_processes.differences(self.output, self.after / self.output.name)
        if not (self.output / WEIGHTS).exists():
            return []
        words = ["translate", str(self.output), "-i", str(self.place / "in.txt")]
        code = finish([*words, "--engine", "torch"], self.log)
        return [f"the model does not load: {last_line(self.log)}"] if code else []

    def differences(self) -> list[str]:
        wrong = run_processes.differences(self.output, self.after / self.output.name)
        names = [set(contents(place)) for place in (self.place, self.after)]
        other = sorted(names[0] ^ names[1])
        return [*wrong, f"other files: {', '.join(other)}"] if other else wrong

    def loss(self, fault: Fault) -> list[str]:
        """More than an interval, after the run was resumed."""
        events = run_processes.events(self.output)
        resumed = [event["step"] for event in events if event["event"] == "RunStarted"]
        lost = fault.step - resumed[-1]
        return [f"{lost} steps are lost"] if lost > INTERVAL else []


class Export(Subject):
    """`clearhead export`, over an export of other weights."""

    def damage(self, succeeded: bool) -> list[str]:
        with suppress(ClearheadError):  # as each reader, it completes the renames
            read_export(self.output, "ctranslate2", open_folder(self.output.parent))
        return super().damage(succeeded)


def contents(place: Path) -> dict[str, bytes]:
    """The contents of a file, or of all files in a folder, by name."""
    if place.is_file():
        return {"": place.read_bytes()}
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def visible(place: Path) -> dict[str, bytes]:
    """The contents without the temporary files, which the next command removes."""
    found = contents(place)
    return {name: content for name, content in found.items() if not Path(name).name.startswith(".")}


def train_subject(folder: Path) -> Subject:
    """A training from the beginning."""
    place = folder / "train"
    place.mkdir()
    run_processes.write_data(place)
    (place / "in.txt").write_text("1 a b\n2 c\n3 d e f\n", encoding="utf-8")
    toml = run_processes.write_run(place, "run", TRANSLATION, TRAINING)
    return Training(place, ["train", str(toml)], "run")


def export_subject(folder: Path, trained: Subject) -> Subject:
    """An export over that of another model."""
    place = folder / "export"
    shutil.copytree(trained.after, place)
    fewer = TRAINING.replace("max_steps = 6", "max_steps = 4")
    toml = run_processes.write_run(place, "old", TRANSLATION, fewer)
    for words in (["train", str(toml)], ["export", str(place / "old")]):
        if finish(words, folder / "old.log"):
            raise RuntimeError(f"no export: {last_line(folder / 'old.log')}")
    (place / "old" / "ctranslate2").rename(place / "run" / "ctranslate2")
    shutil.rmtree(place / "old")
    return Export(place, ["export", str(place / "run")], "run/ctranslate2")


def translate_subject(folder: Path, trained: Subject) -> Subject:
    """A translation into a file that exists."""
    place = folder / "translate"
    place.mkdir()
    (place / "out.txt").write_text("old\n", encoding="utf-8")
    files = ["-i", str(trained.after / "in.txt"), "-o", str(place / "out.txt")]
    model = str(trained.after / "run")
    return Subject(place, ["translate", model, *files, "--engine", "torch"], "out.txt")


def init_subject(folder: Path, trained: Subject) -> Subject:
    """A configuration that replaces another one."""
    place = folder / "init"
    place.mkdir()
    (place / "new.toml").write_text("seed = 7\n", encoding="utf-8")
    data = ["--train", str(trained.after / "train.tsv")]
    data += ["--validation", str(trained.after / "validation.tsv")]
    return Subject(place, ["init", str(place / "new"), *data, "--force"], "new.toml")


SUBJECTS = {"export": export_subject, "translate": translate_subject, "init": init_subject}
"""Commands besides `train`, whose model they use."""


def wrong_message(subject: Subject, code: int, error: str) -> list[str]:
    """What is wrong with the exit code and the messages of a command with a fault."""
    text = subject.printed()
    if "Traceback" in text or "Exception ignored" in text:
        return [f"a traceback: {last_line(subject.log)}"]
    if code == 0:
        return []
    if code not in EXIT_CODES:
        return [f"it ended with {code}"]
    advice = re.search("What to do: .*", text)
    if advice is None or ADVICE[error] not in advice[0]:
        return [f"the advice does not fit: {advice[0] if advice else last_line(subject.log)}"]
    return []


def trial(subject: Subject, layer: Layer, number: int, error: str, later: bool) -> Outcome:
    """Do the command with a fault at a call, and perhaps at all later ones; repeat it without."""
    subject.restore()
    watch = watching(layer, subject.place, number, "", getattr(errno, error), later)
    code = finish(subject.words, subject.log, watch)
    call = subject.calls[number - 1]
    wrong = wrong_message(subject, code, error)
    if call.kind == "W" and call.path.name == "log.jsonl" and not later:
        if code:
            wrong.append("the failure of a log has ended the run")
        elif "warning" not in subject.printed():
            wrong.append("a log has failed without a warning")
    fault = subject.faults[number - 1] if isinstance(subject, Training) else None
    wrong += repeated(subject, code == 0, fault)
    what = f"{error}{' and later' if later else ''} at call {number}"
    note(f"{subject.name}: {what} ({call.kind} {call.path.name})", wrong)
    return Outcome(subject.name, code == 0, wrong)


def repeated(subject: Subject, succeeded: bool, fault: Fault | None = None) -> list[str]:
    """What is wrong with the files after a fault, and after repeating the command without it."""
    wrong = subject.damage(succeeded)
    if fault is not None and fault.has_model and not (subject.output / WEIGHTS).exists():
        wrong.append("the model is lost")
    if finish(subject.words, subject.log):
        return [*wrong, f"it fails again: {last_line(subject.log)}"]
    wrong += subject.differences()
    return wrong + subject.loss(fault) if fault else wrong


def main(words: list[str] | None = None) -> int:
    """Make all faults, record; 1 if something was wrong."""
    names = ["train", *SUBJECTS]
    parser = command.make_parser(__doc__)
    parser.add_argument(
        "--moments", type=command.positive, default=60, help="of each command and error (60)"
    )
    parser.add_argument("--errors", nargs="+", choices=ADVICE, default=list(ADVICE))
    parser.add_argument("--commands", nargs="+", choices=names, default=names)
    options = parser.parse_args(words)
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        print("skipped: this needs Linux and a C compiler (cc)")
        return 0
    found = results.Results("errors", words, options.output)
    code = command.exit_code_of(partial(measure, options, found, compiler))
    for record in found.records:
        print(results.line(record), flush=True)
    return code or int(any(record["met"] is False for record in found.records))


def measure(options: Any, found: Any, compiler: str) -> None:
    """All faults of all commands, then the small disk."""
    with TemporaryDirectory(prefix="clearhead-errors-") as name:
        folder = Path(name).resolve()
        layer = compiled(compiler, folder)
        trained = train_subject(folder)
        trained.record(layer)
        subjects = [trained] if "train" in options.commands else []
        for other in options.commands:
            if other != "train":
                subjects.append(SUBJECTS[other](folder, trained))
                subjects[-1].record(layer)
        for error in options.errors:
            outcomes = [
                trial(subject, layer, number, error, later)
                for subject in subjects
                for number in subject.moments(options.moments, error)
                for later in (False, True)
            ]
            record(found, error, outcomes)
        full = [outcome for subject in subjects for outcome in full_disks(subject, options)]
        if full:
            record(found, "small disk", full)


def full_disks(subject: Subject, options: Any) -> Iterator[Outcome]:
    """The outcomes of a command on a small disk with more and more space."""
    need = 2 * (size(subject.after) - size(subject.before)) + 2**16
    with small_disk(subject.place) as mounted:
        for room in evenly(options.moments, need) if mounted else ():
            subject.restore()
            ballast = subject.place / "ballast"
            ballast.write_bytes(bytes(max(0, shutil.disk_usage(subject.place).free - room)))
            code = finish(subject.words, subject.log)
            ballast.unlink()
            wrong = wrong_message(subject, code, "ENOSPC") + repeated(subject, code == 0)
            note(f"{subject.name}: {room:,} bytes are free", wrong)
            yield Outcome(subject.name, code == 0, wrong)


def size(place: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(map(len, contents(place).values()))


@contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """A disk in memory in the place of a folder; False where it cannot be mounted."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        command.log("the small disk is left out: mounting is not allowed")
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", str(place)], check=True)


def note(fault: str, wrong: list[str]) -> None:
    """Log what is wrong after a fault."""
    if wrong:
        command.log(f"{fault}: {'; '.join(wrong)}")


def record(found: Any, error: str, outcomes: Sequence[Outcome]) -> None:
    """Add the share of faults with nothing wrong; `more` has how many commands went on."""
    right = sum(not each.wrong for each in outcomes)
    texts = dict.fromkeys(text for each in outcomes for text in each.wrong)
    went_on = Counter(f"{each.name} went on" for each in outcomes if each.went_on)
    found.add(
        "errors of the disk",
        "%",
        [100 * right / len(outcomes)],
        subject=f"{error}, {len(outcomes)} faults",
        more={**Counter(each.name for each in outcomes), **went_on},
        claim="disk-errors",
        note="; ".join(texts) or None,
        command="make faults",
    )
    found.write()


if __name__ == "__main__":
    sys.exit(main())
