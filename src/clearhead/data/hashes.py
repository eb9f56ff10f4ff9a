"""Sentence pairs as 64-bit hashes, to find those that come twice among millions.

Two of 50 million different pairs share a hash by chance in one of 15,000 corpora; one of them
is then left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from clearhead.data.readers import Pair


def pair_hash(*texts: str) -> int:
    """64 bits of a text, or of a pair, without the spaces at its ends."""
    joined = "\0".join(text.strip() for text in texts)
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "little")


def hash_array(values: Iterable[int]) -> np.ndarray:
    """Hashes as an array, uint64 (N,)."""
    return np.fromiter(values, dtype=np.uint64)


class HashSet:
    """A set of 64-bit hashes in 8 bytes each, so that 50 million pairs take 400 MB.

    Sorted runs, each at least twice as long as the next: adding n hashes in blocks takes
    O(n log n) time, and a look-up one binary search a run.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def contains(self, hashes: np.ndarray) -> np.ndarray:
        """Which of the hashes (N,) are in the set: bool (N,)."""
        found = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[at] == hashes
        return found

    def add(self, hashes: np.ndarray) -> None:
        """Put hashes (N,), none of them in the set yet, into the set."""
        if len(hashes) == 0:
            return
        self._runs.append(np.sort(hashes))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            merged = np.concatenate([self._runs.pop(), last])
            merged.sort(kind="stable")  # on two sorted runs this is a merge
            self._runs.append(merged)


class HeldOut:
    """The hashes of validation and test pairs, of their sources and of their targets."""

    def __init__(self, pairs: Iterable[tuple[str, str] | Pair] = ()) -> None:
        both, sources, targets = [], [], []
        for source, target, *_ in pairs:
            both.append(pair_hash(source, target))
            sources.append(pair_hash(source))
            targets.append(pair_hash(target))
        self.pairs = np.unique(hash_array(both))
        self.sources = np.unique(hash_array(sources))
        self.targets = np.unique(hash_array(targets))
