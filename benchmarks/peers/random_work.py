"""Makes a workload of random ids, which needs no data: all sentences have the same length."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clearhead.tokenizer import WordTokenizer

from .shape import UNK
from .workload import Workload, make_batch

BATCHES = 4
"""Different batches; after the last comes the first again."""

SENTENCES = 256


def write_random_workload(
    folder: Path, vocabulary: int, length: int, batch_tokens: int
) -> Workload:
    """Write `workload.npz` and a tokenizer of made-up words into the folder; always the same.

    Args:
        folder: gets them.
        vocabulary: of the tokenizer, special symbols among them.
        length: of all sources, and of all targets with EOS; so no place is padding.
        batch_tokens: places of a batch on each side, at most, unless one sentence has more.
    """
    chance = np.random.default_rng(1)

    def ids(rows: int, width: int) -> list[list[int]]:
        return chance.integers(UNK + 1, vocabulary, (rows, width)).tolist()

    rows = max(1, batch_tokens // length)
    batches = [make_batch(ids(rows, length), ids(rows, length - 1)) for _ in range(BATCHES)]
    workload = Workload(batches, ids(SENTENCES, length), vocabulary)
    workload.write(folder / "workload.npz")
    # The last id is the tokenizer's unknown word, the first three are special.
    words = [f"w{number}" for number in range(UNK, vocabulary - 1)]
    WordTokenizer(words).save(folder, "tokenizer")
    return workload
