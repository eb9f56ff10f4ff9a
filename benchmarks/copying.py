"""Whether a small model learns to copy and to reverse sequences (reference system E).

    .venv/bin/python benchmarks/copying.py

The script trains one model to copy and one to reverse random sequences, and tests each on 1,000
unseen sequences. Model and sequences are those of `examples/reference/e_copying.py`. The exit code
is 1 if any output is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from command import exit_code_of, make_parser, positive
from results import Results, line

from clearhead.settings import RunConfig, read_config

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.reference import e_copying

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
        return e_copying.learned(run_config(folder, steps), pairs, TASKS[task])


def run_config(folder: str, steps: int) -> RunConfig:
    """The narrower model of system E, trained for so many steps, with all files in a folder."""
    files = [f"data.{part}=['{folder}/{part}.tsv']" for part in ("train", "validation", "test")]
    overrides = [
        *(*e_copying.NARROWER, *files, f"folder={folder}/model"),
        *(f"training.max_steps={steps}", f"training.validate_every={steps}"),
    ]
    return read_config(e_copying.CONFIG, overrides)


if __name__ == "__main__":
    sys.exit(main())
