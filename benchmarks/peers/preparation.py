"""Makes the workload from Multi30k: clearhead's tokenizer, clearhead's batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from clearhead.data.batches import batch_order
from clearhead.data.readers import Pair, read_pairs
from clearhead.settings import RunConfig
from clearhead.tokenizer import Tokenizer, learn_tokenizer

from .workload import Batch, Workload, make_batch

VOCABULARY = 10_000
BATCH_TOKENS = 4096
"""Places of a batch on each side, padding included."""

SENTENCES = 1000


def prepare_workload(config: RunConfig, folder: Path, pairs: int | None = None) -> Path:
    """Learn the tokenizer, make the batches, write both into the folder.

    Args:
        config: names the training and the test files.
        folder: gets `workload.npz`, `tokenizer.json` and `tokenizer.model`.
        pairs: of the training data, at most.

    Returns:
        The path of the workload.

    Raises:
        DataError: a file is missing or damaged.
    """
    training = list(islice(read_pairs(config.data.train), pairs))
    settings = dataclasses.replace(config.tokenizer, max_vocabulary=VOCABULARY)
    tokenizer = learn_tokenizer((text for pair in training for text in pair[:2]), settings)
    tokenizer.save(folder, "tokenizer")
    tests = islice(read_pairs(config.data.test, "test"), SENTENCES)
    sentences = tokenizer.encode_batch([pair.source for pair in tests])
    batches = training_batches(tokenizer, training)
    path = folder / "workload.npz"
    Workload(batches, sentences, len(tokenizer)).write(path)
    return path


def training_batches(
    tokenizer: Tokenizer, pairs: Sequence[Pair], batch_tokens: int = BATCH_TOKENS
) -> list[Batch]:
    """The batches of one epoch in their order: pairs of like length together, shuffled."""
    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    targets = tokenizer.encode_batch([pair.target for pair in pairs])
    kept = [i for i in range(len(pairs)) if sources[i] and targets[i]]
    source_lengths = np.array([len(sources[i]) for i in kept])
    target_lengths = np.array([len(targets[i]) for i in kept])
    return [
        make_batch([sources[kept[i]] for i in rows], [targets[kept[i]] for i in rows])
        for rows in batch_order(source_lengths, target_lengths, batch_tokens, 1, 0)
    ]
