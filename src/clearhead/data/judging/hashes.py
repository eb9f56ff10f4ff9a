"""64-bit hashes of examples, to find repeated ones among millions.

Among 50 million different examples, one corpus in 15,000 has two with the same hash; one of the
two is then dropped.
"""

from __future__ import annotations

import hashlib

import numpy as np


def text_hash(*texts: str) -> int:
    """64 bits of one or several texts, without the white space at their ends."""
    return _hash("\0".join(text.strip() for text in texts).encode())


def input_hash(content: str | np.ndarray) -> int:
    """64 bits of a text, as `text_hash`, or of the values of features."""
    if isinstance(content, str):
        return text_hash(content)
    # All NaNs are the same, and so are 0 and -0.
    values = np.where(np.isnan(content), np.float32("nan"), content + 0).astype("<f4")
    return _hash(repr(values.shape).encode() + values.tobytes())


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class HashSet:
    """A set of 64-bit hashes that takes 8 bytes each: 400 MB for 50 million.

    It has sorted runs, each at least twice as long as the next. Adding n hashes in blocks takes
    O(n log n) time; a look-up takes one binary search per run.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def sorted(self) -> np.ndarray:
        """All hashes, ascending: uint64 (n,)."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *self._runs]))

    def contains(self, hashes: np.ndarray) -> np.ndarray:
        """Which of the hashes (N,) are in the set: bool (N,)."""
        found = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[at] == hashes
        return found

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add hashes (N,), and return which of them are repetitions: bool (N,)."""
        distinct, first = np.unique(hashes, return_index=True)
        known = self.contains(distinct)
        repeated = np.ones(len(hashes), dtype=bool)
        repeated[first] = known
        if not known.all():
            self._runs.append(distinct[~known])
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            merged = np.concatenate([self._runs.pop(), last])
            merged.sort(kind="stable")  # on two sorted runs this is a merge
            self._runs.append(merged)
        return repeated
