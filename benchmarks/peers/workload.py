"""What all peers work on: batches of ids to train on, sentences to decode. Needs NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .shape import BOS, EOS, PAD


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
        """(B,) tokens of each source."""
        return (self.source != PAD).sum(axis=1)

    @property
    def target_tokens(self) -> int:
        """Target tokens to be predicted: no padding, but EOS."""
        return int((self.target_output != PAD).sum())

    @property
    def padding_share(self) -> float:
        """The share of both sides' places that hold padding."""
        places = self.source.size + self.target_output.size
        return 1 - (int(self.source_lengths.sum()) + self.target_tokens) / places


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """The batch of B sources and B targets, given without special symbols."""
    return Batch(padded(sources), padded([[BOS, *target, EOS] for target in targets]))


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """The rows as one array, shorter ones filled up with PAD."""
    array = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for place, ids in zip(array, rows, strict=True):
        place[: len(ids)] = ids
    return array


@dataclass(frozen=True)
class Workload:
    """Batches to train on, sentences (ids without special symbols) to decode, the vocabulary."""

    batches: Sequence[Batch]
    sentences: Sequence[Sequence[int]]
    vocabulary: int

    @property
    def padding_share(self) -> float:
        """The share of all batches' places that hold padding."""
        places = [batch.source.size + batch.target_output.size for batch in self.batches]
        shares = [batch.padding_share for batch in self.batches]
        return float(np.average(shares, weights=places))

    def slice_of_batches(self, first: int, count: int) -> list[Batch]:
        """`count` batches from index `first` on; after the last comes the first again."""
        return [self.batches[i % len(self.batches)] for i in range(first, first + count)]

    def slice_of_sentences(self, first: int, count: int) -> list[Sequence[int]]:
        """`count` sentences from index `first` on, as `slice_of_batches`, the longest first."""
        taken = [self.sentences[i % len(self.sentences)] for i in range(first, first + count)]
        return sorted(taken, key=len, reverse=True)

    def write(self, path: Path) -> None:
        """Write all as one .npz file."""
        arrays = {"vocabulary": np.asarray(self.vocabulary), "sentences": padded(self.sentences)}
        for index, batch in enumerate(self.batches):
            arrays[f"source {index}"] = batch.source
            arrays[f"target {index}"] = batch.target
        with path.open("wb") as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)

    @classmethod
    def read(cls, path: Path) -> Workload:
        """What `write` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            count = sum(name.startswith("source ") for name in arrays.files)
            batches = [Batch(arrays[f"source {i}"], arrays[f"target {i}"]) for i in range(count)]
            sentences = [[int(i) for i in row if i != PAD] for row in arrays["sentences"]]
            return cls(batches, sentences, int(arrays["vocabulary"]))
