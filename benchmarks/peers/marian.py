"""Marian itself, in C++ (the wheel `pymarian`): its own trainer, in float32.

Marian's trainer reads sentences from files, cuts them into batches by itself and reports the time
of each update. To train on exactly the batches of the other peers, each batch is a file of its own:
it holds the batch twice, the first update warms up and the second is timed by Marian. The model
and the optimizer's state pass from one process to the next, whose start is not timed. Each thread
works on its share of the batch, and the gradients are summed.
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
    """`pymarian train`, called once for each batch."""

    def __init__(self, job: Job) -> None:
        if job.kind != "float32" or job.device != "cpu":
            raise ValueError(f"Marian does not train in {job.kind} on {job.device}")
        self.job = job
        self.updates = 0
        job.folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(job.folder / "vocabulary.yml", job.vocabulary)
        # A model of an earlier run would be trained further.
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
                # A thread of Marian's is a worker of its own; its products must not share cores.
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
        # Of the largest child. On Linux this starts with this process's own memory, which is less.
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit / 1e6


def read_updates(log: str, sentences: int, tokens: int) -> tuple[float, float]:
    """Seconds of the second update, and the loss before the first.

    Raises:
        ValueError: there are not two updates, or one is not of the whole batch.
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
    # The rate has more digits than the time beside it.
    return tokens / float(updates[1][3]), float(updates[0][1])


def command(job: Job, sentences: int, updates: int) -> list[str]:
    """Train on the written batch until there are so many updates in all."""
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
        # Pre-norm, as the other peers are where they have a choice.
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
        # The sentences in their order; half of the file is a batch.
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
    # Only in this form does Marian take a value for a switch.
    return [*words, "--mini-batch-round-up=false"]


def write_vocabulary(path: Path, size: int) -> None:
    """Marian's vocabulary: the end symbol and the unknown token first, then a name for each id."""
    names = ["</s>", "<unk>", *(f"id{i}" for i in range(2, size))]
    path.write_text("".join(f'"{name}": {i}\n' for i, name in enumerate(names)), encoding="utf-8")


def write_twice(path: Path, rows: np.ndarray) -> None:
    """A line for each row, twice, without padding and the end symbol, which Marian adds."""
    lines = (" ".join(f"id{i}" for i in row.tolist() if i not in (PAD, EOS)) for row in rows)
    path.write_text(2 * "".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    serve(Abilities(trainer=Trainer))
