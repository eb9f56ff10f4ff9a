"""What damaged files do: every file of a run, a model folder and an export, cut off and flipped.

    .venv/bin/python tests/faults/damage.py

Each file is truncated at every hundredth of its length, and bits are flipped at random places. Then
the model is loaded and used, and the run is resumed to its end. An outcome is

- `detected`: an error of clearhead, or a warning that names the file,
- `harmless`: the outputs and the resumed run are those of the undamaged files, bit for bit,
- `different`: another result without an error, or
- `crashed`: any other exception.

The exit code is 1 if an outcome is `different` or `crashed`.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from run_processes import helper

from clearhead import api
from clearhead.errors import ClearheadError
from clearhead.settings import RunConfig
from clearhead.training.events import Note

command, results, small = helper("command"), helper("results"), helper("small_runs")

TEXTS = ["1 a b c", "7 h g", "25 d e f a"]
BAD = ("different", "crashed")
SHARES = 100


class Case(NamedTuple):
    """A damage of a file: its first bytes are kept, or one bit is flipped."""

    file: str
    kept: int | None = None
    bit: int | None = None

    def do(self, folder: Path) -> None:
        """Damage the file in place, under all its names."""
        with (folder / self.file).open("r+b") as file:
            if self.kept is not None:
                file.truncate(self.kept)
            if self.bit is not None:
                file.seek(self.bit // 8)
                (byte,) = file.read(1)
                file.seek(self.bit // 8)
                file.write(bytes([byte ^ 1 << self.bit % 8]))


class Subject(NamedTuple):
    """An interrupted run with its model folder and export, and what follows from it."""

    name: str
    config: RunConfig
    use: Callable[[Path], Any]
    outputs: Any
    state: dict[str, torch.Tensor]


def subjects(folder: Path) -> list[Subject]:
    """A translator and a classifier; the runs are interrupted between two validations."""
    found = []
    for name, make, use in (
        ("translator", small.small_run, translations),
        ("classifier", small.text_run, classes),
    ):
        place = folder / name
        place.mkdir()
        # A state before the last one, and recent checkpoints.
        steps = {"validate_every": 4, "max_steps": 12, "average_last": 2, "report_every": 1}
        config = with_steps(make(place), **steps)
        api.train(config, observers=[small.StopsAtReport(10)])
        if name == "translator":
            api.export_model(config.folder)
        other = folder / f"{name}-through"
        shutil.copytree(place, other)
        outputs = use(Path(config.folder))
        through = moved(config, other)
        api.train(through, observers=())
        found.append(Subject(name, config, use, outputs, small.final_state(through)))
    return found


def with_steps(config: RunConfig, **training: Any) -> RunConfig:
    changed = dataclasses.replace(config.training, **training)
    return dataclasses.replace(config, training=changed)


def moved(config: RunConfig, place: Path) -> RunConfig:
    """The run in a copy of the folder above it. The data stay where they are."""
    return dataclasses.replace(config, folder=str(place / Path(config.folder).name))


def translations(folder: Path) -> list[Any]:
    """The outputs of both engines."""
    engines = ["torch", *["ctranslate2", "auto"] * (folder / "ctranslate2").is_dir()]
    return [
        (h.text, h.score)
        for engine in engines
        for (h,) in api.load_translator(folder, device="cpu", engine=engine).translate(TEXTS)
    ]


def classes(folder: Path) -> list[Any]:
    """The labels and probabilities."""
    return api.load_classifier(folder, device="cpu").classify(TEXTS)


def files_of(folder: Path) -> list[str]:
    """The files that are not empty."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    return sorted(str(path.relative_to(folder)) for path in found)


def cases(folder: Path, flips: int, seed: int) -> Iterator[Case]:
    """All truncations, and so many flips, each of a random file at a random place."""
    names = files_of(folder)
    sizes = {name: (folder / name).stat().st_size for name in names}
    for name, size in sizes.items():
        for kept in sorted({size * share // SHARES for share in range(SHARES)}):
            yield Case(name, kept=kept)
    chance = random.Random(seed)
    for _ in range(flips):
        name = chance.choice(names)
        yield Case(name, bit=chance.randrange(8 * sizes[name]))


def outcome(subject: Subject, case: Case, place: Path) -> str:
    """Damage a copy, use its model and resume its run."""
    small.copy_with_links(Path(subject.config.folder).parent, place)
    try:
        config = moved(subject.config, place)
        case.do(Path(config.folder))
        found = {
            judged(case, lambda: subject.use(Path(config.folder)) == subject.outputs),
            judged(case, lambda: same_end(config, subject.state, case)),
        }
    finally:
        shutil.rmtree(place)
    return next(each for each in (*BAD[::-1], "detected", "harmless") if each in found)


def judged(case: Case, same: Callable[[], bool]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            is_same = same()
        except (ClearheadError, RecoveredError):
            return "detected"
        except Exception as error:
            command.log(f"{case}: {error!r}")
            return "crashed"
    if any(str(warning.message).startswith("PyTorch translates") for warning in caught):
        return "detected"
    if not is_same:
        command.log(f"{case}: another result")
    return "harmless" if is_same else "different"


class RecoveredError(Exception):
    """The run went on with a warning about a damaged file, and its end is right."""


def same_end(config: RunConfig, expected: dict[str, torch.Tensor], case: Case) -> bool:
    """Whether the resumed run ends as the one that was not damaged."""
    watcher = small.Watcher()
    api.train(config, observers=[watcher])
    found = small.final_state(config)
    same = found.keys() == expected.keys() and all(
        torch.equal(tensor, expected[name]) for name, tensor in found.items()
    )
    notes = [event.text for event in watcher.events if isinstance(event, Note)]
    if same and any("damaged" in note or "encoded again" in note for note in notes):
        raise RecoveredError
    return same


def main(words: list[str] | None = None) -> int:
    """Damage, count and record; return 1 if anything is silently different or crashes."""
    parser = command.make_parser(__doc__)
    parser.add_argument(
        "--flips", type=command.positive, default=1000, help="flipped bits in all (default: 1,000)"
    )
    parser.add_argument("--sample", type=command.positive, help="only so many cases, at random")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    options = parser.parse_args(words)
    found = results.Results("damage", words, options.output)
    code = command.exit_code_of(partial(measure, options, found))
    return code or int(any(record["met"] is False for record in found.records))


def measure(options: argparse.Namespace, found: Any) -> None:
    """Count the outcomes of all cases and record them."""
    torch.set_num_threads(1)
    with TemporaryDirectory(prefix="clearhead-damage-") as folder:
        counts = run(Path(folder), options.flips, options.sample, options.seed)
    bad = sum(count for name, count in counts.items() if name in BAD)
    found.add(
        "damaged files",
        "cases",
        [bad],
        subject=f"{counts.total():,} cases",
        more=dict(counts),
        claim="damaged-files",
        command="make faults",
    )
    found.write()
    print(results.line(found.records[-1]), flush=True)


def run(folder: Path, flips: int, sample: int | None, seed: int) -> Counter[str]:
    """The number of cases with each outcome."""
    todo = [
        (subject, case)
        for subject in subjects(folder)
        for case in cases(Path(subject.config.folder), flips // 2, seed)
    ]
    if sample is not None:
        todo = random.Random(seed).sample(todo, sample)
    counts: Counter[str] = Counter()
    for number, (subject, case) in enumerate(todo, start=1):
        counts[outcome(subject, case, folder / "copy")] += 1
        if number % 100 == 0:
            command.log(f"{number:,} of {len(todo):,} cases: {dict(counts)}")
    return counts


if __name__ == "__main__":
    sys.exit(main())
