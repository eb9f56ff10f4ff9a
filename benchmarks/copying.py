"""Reference system E's smoke test, and its natural next step: learn to copy, learn to reverse.

    .venv/bin/python benchmarks/copying.py

Ten untrained models read 1 2 … 10 and add nine symbols each, whatever they be. Then one model is
trained on copying and one on reversing random sequences, and each is tried on a thousand
sequences that it has not seen. The models and the sequences are those of
`examples/reference/e_copying.py`. Ends with exit code 1 if any answer is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from clearhead.settings import RunConfig, read_config

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.reference import e_copying

TASKS = {"copying": str, "reversing": lambda sequence: " ".join(reversed(sequence.split()))}


def main(words: list[str] | None = None) -> int:
    """Print what untrained models say, then what trained ones get right; 1 if any is wrong."""
    parser = argparse.ArgumentParser(description="Untrained models talk; trained ones copy.")
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs a task")
    parser.add_argument("--steps", type=int, default=2500, help="training steps a task")
    options = parser.parse_args(words)
    model = read_config(e_copying.CONFIG).model
    for number in range(10):
        print(f"untrained model {number}:", *e_copying.untrained(model, seed=number))
    wrong = 0
    for name in TASKS:
        began = time.monotonic()
        right, of = trained(name, options.pairs, options.steps)
        print(f"{name}: {right} of {of} unseen sequences right, {time.monotonic() - began:.0f} s")
        wrong += of - right
    return int(wrong > 0)


def trained(task: str, pairs: int, steps: int) -> tuple[int, int]:
    """How many of a thousand unseen sequences a newly trained model gets right."""
    with TemporaryDirectory() as folder:
        return e_copying.learned(run_config(folder, steps), pairs, TASKS[task])


def run_config(folder: str, steps: int) -> RunConfig:
    """The narrower system E, so many steps long, everything in a folder."""
    files = [f"data.{part}=['{folder}/{part}.tsv']" for part in ("train", "validation", "test")]
    overrides = [
        *(*e_copying.NARROWER, *files, f"folder={folder}/model"),
        *(f"training.max_steps={steps}", f"training.validate_every={steps}"),
    ]
    return read_config(e_copying.CONFIG, overrides)


if __name__ == "__main__":
    sys.exit(main())
