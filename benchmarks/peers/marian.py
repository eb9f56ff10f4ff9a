"""Marian in C++ (the wheel `pymarian`): its own trainer, in float32.

Marian's trainer reads sentences from files, divides them into batches and reports the time of each
update. To train on exactly the batches of the other peers, it runs once per batch, on a file with
this batch twice: the first update warms up, and Marian times the second. The model and the state of
the optimizer pass from one process to the next; the start of a process is not timed. Each thread
computes a share of the batch, and the gradients are summed.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .protocol import Abilities, Job, Program, serve
from .workload import ADAM_BETAS, EOS, LABEL_SMOOTHING, LEARNING_RATE, PAD, POSITIONS, Batch

UPDATE = re.compile(
    r"Up\. [\d,]+ : Sen\. ([\d,]+) : Cost ([-\d.naif]+) \* ([\d,]+) .*?: ([\d.]+) words/s"
)
"""A line of Marian's log: sentences so far, mean loss, target tokens, target tokens/s."""


class Trainer(Program):
    """`pymarian train`, run once for each batch."""

    def __init__(self, job: Job) -> None:
        if job.kind != "float32" or job.device != "cpu":
            raise ValueError(f"Marian does not train in {job.kind} on {job.device}")
        self.job = job
        self.updates = 0
        job.folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(job.folder / "vocabulary.yml", job.vocabulary)
        # Otherwise Marian would continue with the model of an earlier run.
        for old in job.folder.glob("model.npz*"):
            old.unlink()

    def train(self, batches: Sequence[Batch]) -> tuple[list[float], list[float]]:
        seconds, losses = [], []
        for batch in batches:
            folder = self.job.folder
            write_twice(folder / "batch.source", batch.source)
            write_twice(folder / "batch.target", batch.target_output)
            self.updates += 2
            done = subprocess.run(
                command(self.job, len(batch.source), self.updates),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                # Each thread of Marian is a worker, whose products must not use more threads.
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"Marian: {(done.stdout.splitlines() or ['no output'])[-1]}")
            taken, loss = read_updates(done.stdout, len(batch.source), batch.target_tokens)
            seconds.append(taken)
            losses.append(loss)
        return seconds, losses

    def peak_mb(self) -> float:
        # Of the largest child. This starts at the memory of this process, which is smaller.
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6


def read_updates(log: str, sentences: int, tokens: int) -> tuple[float, float]:
    """The seconds of the second update, and the loss of the first.

    Raises:
        ValueError: there are not two updates, or one has not the whole batch.
    """
    updates = UPDATE.findall(log)
    if len(updates) != 2:
        raise ValueError(f"Marian made {len(updates)} updates, not 2")
    seen = [int(count.replace(",", "")) for count, _, _, _ in updates]
    labels = [int(count.replace(",", "")) for _, _, count, _ in updates]
    if seen[1] - seen[0] != sentences or labels != [tokens, tokens]:
        raise ValueError(
            f"Marian trained on {seen[1] - seen[0]} sentences with {labels} target tokens,"
            f" not on {sentences} with {tokens}"
        )
    # The rate has more digits than the time in the same line.
    return tokens / float(updates[1][3]), float(updates[0][1])


def command(job: Job, sentences: int, updates: int) -> list[str]:
    """The command that trains on the written batch until there are so many updates in total."""
    shape, folder = job.shape, job.folder
    vocabulary, size = str(folder / "vocabulary.yml"), str(job.vocabulary)
    options: dict[str, Sequence[object]] = {
        "type": ["transformer"],
        "model": [folder / "model.npz"],
        "train-sets": [folder / "batch.source", folder / "batch.target"],
        "vocabs": [vocabulary, vocabulary],
        "dim-vocabs": [size, size],
        "tied-embeddings-all": [],
        "dim-emb": [shape.d_model],
        "transformer-dim-ffn": [shape.d_ff],
        "transformer-heads": [shape.heads],
        "enc-depth": [shape.layers],
        "dec-depth": [shape.layers],
        "transformer-ffn-activation": ["relu"],
        # Pre-norm, like the other peers that have a choice.
        "transformer-preprocess": ["n"],
        "transformer-postprocess": ["da"],
        "transformer-postprocess-top": ["n"],
        "transformer-dropout": [shape.dropout],
        "transformer-dropout-attention": [shape.dropout],
        "transformer-dropout-ffn": [shape.dropout],
        "label-smoothing": [LABEL_SMOOTHING],
        "optimizer": ["adam"],
        "optimizer-params": [*ADAM_BETAS, "1e-9"],
        "learn-rate": [LEARNING_RATE],
        # The order of the sentences; half of the file is a batch.
        "mini-batch": [sentences],
        "maxi-batch": [1],
        "maxi-batch-sort": ["none"],
        "shuffle": ["none"],
        "max-length": [POSITIONS],
        "cpu-threads": [job.threads],
        "sync-sgd": [],
        "after-batches": [updates],
        "disp-freq": ["1u"],
        "overwrite": [],
        "no-restore-corpus": [],
        "seed": [1],
    }
    words = [sys.executable, "-m", "pymarian", "train"]
    for name, values in options.items():
        words += [f"--{name}", *map(str, values)]
    # Marian only accepts a value for a switch in this form.
    return [*words, "--mini-batch-round-up=false"]


def write_vocabulary(path: Path, size: int) -> None:
    """Write Marian's vocabulary: end symbol, unknown token, then a name for each other id."""
    names = ["</s>", "<unk>", *(f"id{i}" for i in range(2, size))]
    path.write_text("".join(f'"{name}": {i}\n' for i, name in enumerate(names)), encoding="utf-8")


def write_twice(path: Path, rows: np.ndarray) -> None:
    """Write each row as a line, twice, without padding and the end symbol, which Marian adds."""
    lines = (" ".join(f"id{i}" for i in row.tolist() if i not in (PAD, EOS)) for row in rows)
    path.write_text(2 * "".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    serve(Abilities(trainer=Trainer))
