"""Whether a small model learns to copy and to reverse sequences (reference system E).

    .venv/bin/python benchmarks/copying.py

The script trains one model to copy and one to reverse random sequences, and tests each on 1,000
unseen sequences, as `clearhead train` and `translate` would. The model is in `copying.toml`. The
exit code is 1 if any output is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from command import exit_code_of, make_parser, positive
from results import Results, line

import clearhead
from clearhead import api
from clearhead.settings import RunConfig, read_config
from clearhead.training.display import choose_display

PARTS = ("train", "validation", "test")
TASKS = {"copying": str, "reversing": lambda sequence: " ".join(reversed(sequence.split()))}


def main(words: list[str] | None = None) -> int:
    """Train, test and record; return 1 if any output is wrong."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--pairs", type=positive, default=20_000, help="training pairs per task (default: 20,000)"
    )
    parser.add_argument(
        "--steps", type=positive, default=2500, help="training steps per task (default: 2,500)"
    )
    options = parser.parse_args(words)
    results = Results("copying", words, options.output)
    code = exit_code_of(partial(measure, options, results))
    return code or int(any(record["met"] is False for record in results.records))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Train a model for each task and count its right outputs."""
    for task in TASKS:
        began = time.monotonic()
        right, of = trained(task, options.pairs, options.steps)
        more = {"wrong": of - right, "seconds": round(time.monotonic() - began)}
        print(line(results.add(task, "sequences", [right], claim=task, more=more)))
    results.write()


def trained(task: str, pairs: int, steps: int) -> tuple[int, int]:
    """Train a model; return for how many of the unseen sequences it is right, and their number."""
    with TemporaryDirectory() as folder:
        *_, test = write_data(Path(folder), pairs, TASKS[task])
        config = run_config(folder, steps)
        if not clearhead.train(config, observers=[choose_display(sys.stderr)]).finished:
            sys.exit(130)  # interrupted
        translator = api.load_translator(config.folder, device=config.training.device)
        found = translator.translate(test)
    right = sum(
        best.text == TASKS[task](sequence) for sequence, (best, *_) in zip(test, found, strict=True)
    )
    return right, len(test)


def write_data(folder: Path, pairs: int, answer: Callable[[str], str]) -> list[list[str]]:
    """Write the three files of a run; return their sequences. Those of the test are the last."""
    chance = random.Random(1)
    seen: dict[str, None] = {}
    while len(seen) < pairs + 1100:
        symbols = chance.choices(range(1, 11), k=chance.randint(4, 12))
        seen[" ".join(map(str, symbols))] = None
    sequences = list(seen)
    chance.shuffle(sequences)
    parts = [sequences[:pairs], sequences[pairs : pairs + 100], sequences[pairs + 100 :]]
    for name, part in zip(PARTS, parts, strict=True):
        lines = (f"{sequence}\t{answer(sequence)}\n" for sequence in part)
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return parts


def run_config(folder: str, steps: int) -> RunConfig:
    """The configuration with all files in a folder, and so many steps."""
    files = [f"data.{part}=['{folder}/{part}.tsv']" for part in PARTS]
    length = [f"training.max_steps={steps}", f"training.validate_every={steps}"]
    overrides = [*files, f"folder={folder}/model", *length]
    return read_config(Path(__file__).with_suffix(".toml"), overrides)


if __name__ == "__main__":
    sys.exit(main())
