"""Steps whose loss or gradient is not finite: when the run goes back, in which order, and why.

Such a step changes no weight. After several in a row the run goes back to the last good state and
takes the remaining batches of the epoch in another order. If this does not help, it ends. The same
happens if the weights are not finite when they are to be evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import TrainingError, first_few

MOST_IN_A_ROW = 5
"""Bad steps in a row after which the run goes back."""

BAD_IN_A_ROW = f"no finite loss and gradient in {MOST_IN_A_ROW} steps in a row"
"""Why the run goes back then."""

MOST_ATTEMPTS = 2
"""How often a run goes back without a later good state. Then it ends."""

BLOCK_BATCHES = 32
"""Batches that are held in memory and permuted together."""

SHOWN_EXAMPLES = 5

IF_DIVERGED = (
    "lower training.schedule.peak (with kind = 'paper', raise training.schedule.warmup instead) "
    "and start over: --restart"
)
"""What to do if the learning rate was too high."""

From = Callable[[int], Iterator[Any]]
"""The batches of an epoch from an index on."""


def reordered(batches: From, start: int, seed: Sequence[int]) -> From:
    """The same batches, those from index `start` on in another order, each once."""
    # Blocks of `BLOCK_BATCHES` are permuted, so that few batches are in memory.

    def batches_from(first: int) -> Iterator[Any]:
        skipped = (first - start) % BLOCK_BATCHES
        block_start = first - skipped
        source = batches(block_start)
        while block := list(islice(source, BLOCK_BATCHES)):
            order = np.random.default_rng((*seed, block_start)).permutation(len(block))
            for index in order[skipped:].tolist():
                yield block[index]
            skipped = 0
            block_start += len(block)

    return batches_from


def diagnosis(
    trouble: str,
    step: int,
    rate: float,
    weights_are_finite: bool,
    examples: Iterable[Sequence[str]],
    attempts: str,
    model: Path | None,
) -> TrainingError:
    """The error that ends a run which has diverged."""
    counts = Counter(place for places in examples for place in set(places))
    common = [place for place, count in counts.items() if count > 1]
    weights = "finite" if weights_are_finite else "not finite: the last update was too large"
    why = (
        f"the learning rate is {rate:.3g}; the weights are {weights}; {attempts}; "
        f"examples in more than one of these steps: {first_few(common, SHOWN_EXAMPLES) or 'none'}"
    )
    todo = IF_DIVERGED
    if common and weights_are_finite:
        todo = f"look at these examples (all are in training/log.jsonl); or {todo}"
    if model is not None:
        todo += f'; or train the model that is kept in a new folder: start_from = "{model}"'
    return TrainingError(
        f"training diverged: {trouble}",
        where=f"step {step}",
        why=why,
        todo=todo,
    )
