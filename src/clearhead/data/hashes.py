"""64-bit hashes of texts, to find repeated examples among millions.

Among 50 million different examples, one corpus in 15,000 has two with the same hash; one of the
two is then dropped.
"""

from __future__ import annotations

import hashlib

import numpy as np


def pair_hash(*texts: str) -> int:
    """64 bits of a text or of several texts, without the white space at their ends."""
    joined = "\0".join(text.strip() for text in texts)
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest(), "little")


class HashSet:
    """A set of 64-bit hashes that takes 8 bytes each: 400 MB for 50 million.

    It holds sorted runs, each at least twice as long as the next. Adding n hashes in blocks takes
    O(n log n) time; a look-up takes one binary search a run.
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
        """Adds hashes (N,) and returns which came before, in the set or among them: bool (N,)."""
        distinct, first = np.unique(hashes, return_index=True)
        known = self.contains(distinct)
        before = np.ones(len(hashes), dtype=bool)
        before[first] = known
        if not known.all():
            self._runs.append(distinct[~known])
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            merged = np.concatenate([self._runs.pop(), last])
            merged.sort(kind="stable")  # on two sorted runs this is a merge
            self._runs.append(merged)
        return before
