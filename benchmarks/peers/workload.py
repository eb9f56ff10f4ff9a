"""The work of all peers: model sizes, batches of ids to train on, sentences to decode.

The process of a peer only needs NumPy; functions that make a workload import clearhead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from clearhead.data.reading.pairs import Pair
    from clearhead.settings import RunConfig
    from clearhead.tokenizer import Tokenizer

PAD, BOS, EOS, UNK = range(4)
"""The ids of the special symbols, as in clearhead's tokenizers."""

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")

LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-3
ADAM_BETAS = (0.9, 0.98)
POSITIONS = 512  # most tokens of a sentence: the size of the peers' tables of positions
DECODED = 40  # steps of every decoding, so many that clearhead's cache has to grow
VOCABULARY = 10_000
BATCH_TOKENS = 4096  # most token positions of a batch on each side, padding included
SENTENCES = 1000
RANDOM_BATCHES = 4
RANDOM_SENTENCES = 256


@dataclass(frozen=True)
class Shape:
    """An encoder and a decoder with `layers` layers each, and one embedding matrix."""

    layers: int
    d_model: int
    d_ff: int
    heads: int
    dropout: float


SIZES = {
    "tiny": Shape(layers=4, d_model=128, d_ff=256, heads=4, dropout=0.3),
    "base": Shape(layers=6, d_model=512, d_ff=2048, heads=8, dropout=0.1),
    "big": Shape(layers=6, d_model=1024, d_ff=4096, heads=16, dropout=0.3),
}


@dataclass(frozen=True)
class Batch:
    """B sentence pairs as ids, padded at the end.

    `source` is (B, S) without special symbols, `target` (B, T + 1) from BOS to EOS.
    """

    source: np.ndarray
    target: np.ndarray

    @property
    def target_input(self) -> np.ndarray:
        """(B, T) BOS and the target."""
        return np.where(self.target == EOS, PAD, self.target)[:, :-1]

    @property
    def target_output(self) -> np.ndarray:
        """(B, T) the target and EOS."""
        return self.target[:, 1:]

    @property
    def source_lengths(self) -> np.ndarray:
        """(B,) the number of tokens of each source."""
        return (self.source != PAD).sum(axis=1)

    @property
    def target_tokens(self) -> int:
        """The number of target tokens to predict, with EOS, without padding."""
        return int((self.target_output != PAD).sum())


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """A batch of sources and targets without special symbols."""
    return Batch(padded(sources), padded([[BOS, *target, EOS] for target in targets]))


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """The rows as one array, padded at the end."""
    array = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for row, ids in zip(array, rows, strict=True):
        row[: len(ids)] = ids
    return array


def tokens_of(vocabulary: int) -> list[str]:
    """A name for each id of a vocabulary."""
    return [*SPECIAL, *(f"piece{i}" for i in range(len(SPECIAL), vocabulary))]


def sinusoids(length: int, width: int) -> np.ndarray:
    """(length, width) sines and cosines of the positions, float32."""
    rates = np.exp(-math.log(10_000) * np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * rates
    return np.stack((np.sin(angles), np.cos(angles)), axis=2).reshape(length, width).astype("f4")


@dataclass(frozen=True)
class Workload:
    """Batches to train on, sentences (ids without special symbols) to decode, the vocabulary."""

    batches: Sequence[Batch]
    sentences: Sequence[Sequence[int]]
    vocabulary: int

    def slice_of_batches(self, first: int, count: int) -> list[Batch]:
        """`count` batches from index `first` on; after the last one, the first one again."""
        return [self.batches[i % len(self.batches)] for i in range(first, first + count)]

    def slice_of_sentences(self, first: int, count: int) -> list[Sequence[int]]:
        """`count` sentences, selected like `slice_of_batches`, the longest first."""
        taken = [self.sentences[i % len(self.sentences)] for i in range(first, first + count)]
        return sorted(taken, key=len, reverse=True)

    def write(self, path: Path) -> None:
        """Write an .npz file."""
        arrays = {"vocabulary": np.asarray(self.vocabulary), "sentences": padded(self.sentences)}
        for index, batch in enumerate(self.batches):
            arrays[f"source {index}"] = batch.source
            arrays[f"target {index}"] = batch.target
        with path.open("wb") as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)

    @classmethod
    def read(cls, path: Path) -> Workload:
        """Read a file that `write` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            count = sum(name.startswith("source ") for name in arrays.files)
            batches = [Batch(arrays[f"source {i}"], arrays[f"target {i}"]) for i in range(count)]
            sentences = [[int(i) for i in row if i != PAD] for row in arrays["sentences"]]
            return cls(batches, sentences, int(arrays["vocabulary"]))


def prepare_workload(config: RunConfig, folder: Path) -> Workload:
    """Write a tokenizer and a workload, from the files of a configuration, into a folder.

    Raises:
        DataError: a file is missing or damaged.
    """
    from clearhead.data.reading.pairs import read_pairs
    from clearhead.folder.model_folder import write_folder
    from clearhead.tokenizer import JOINT, learn_tokenizer

    training = list(read_pairs(config.data.train))
    settings = dataclasses.replace(config.tokenizer, max_vocabulary=VOCABULARY)
    tokenizer = learn_tokenizer((text for pair in training for text in pair[:2]), settings)
    write_folder(folder, RunConfig(), {JOINT: tokenizer})
    tests = islice(read_pairs(config.data.test, "test"), SENTENCES)
    sentences = tokenizer.encode_batch([pair.source for pair in tests])
    workload = Workload(training_batches(tokenizer, training), sentences, len(tokenizer))
    workload.write(folder / "workload.npz")
    return workload


def training_batches(
    tokenizer: Tokenizer, pairs: Sequence[Pair], batch_tokens: int = BATCH_TOKENS
) -> list[Batch]:
    """The batches of one epoch in their order, each of pairs of similar length."""
    from clearhead.data.order import batch_order

    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    targets = tokenizer.encode_batch([pair.target for pair in pairs])
    kept = [i for i in range(len(pairs)) if sources[i] and targets[i]]
    source_lengths = np.array([len(sources[i]) for i in kept])
    target_lengths = np.array([len(targets[i]) for i in kept])
    return [
        make_batch([sources[kept[i]] for i in rows], [targets[kept[i]] for i in rows])
        for rows in batch_order(source_lengths, target_lengths, batch_tokens, 1, 0)
    ]


def write_random_workload(
    folder: Path, vocabulary: int, length: int, batch_tokens: int
) -> Workload:
    """Write a workload of random ids and a tokenizer with such a vocabulary, always the same.

    All sources, and all targets with EOS, have the same length, so that there is no padding.
    """
    from clearhead.folder.model_folder import write_folder
    from clearhead.settings import RunConfig
    from clearhead.tokenizer import JOINT, WordTokenizer

    chance = np.random.default_rng(1)

    def ids(rows: int, width: int) -> list[list[int]]:
        return chance.integers(UNK + 1, vocabulary, (rows, width)).tolist()

    rows = max(1, batch_tokens // length)
    batches = [make_batch(ids(rows, length), ids(rows, length - 1)) for _ in range(RANDOM_BATCHES)]
    workload = Workload(batches, ids(RANDOM_SENTENCES, length), vocabulary)
    workload.write(folder / "workload.npz")
    # The last id is the tokenizer's unknown word, the first three are special.
    words = [f"w{number}" for number in range(UNK, vocabulary - 1)]
    write_folder(folder, RunConfig(), {JOINT: WordTokenizer(words)})
    return workload
