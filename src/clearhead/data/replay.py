"""Replay: earlier training pairs are mixed into the new ones, so that less is forgotten.

Fine-tuning on new data alone makes a translator forget what it does not see any more (McCloskey and
Cohen 1989); pairs of its earlier training prevent it (Robins 1995).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from clearhead.data.corpus import Corpus


class Mixture:
    """The pairs of one epoch: all new ones, and a random sample of the earlier ones.

    It is read like a `Corpus`. The sample is a function of (seed, epoch). An earlier pair occurs
    again only after all others.

    Args:
        new: the training pairs.
        earlier: the pairs to replay.
        share: of the earlier pairs in the epoch, at least 0 and less than 1.
        seed: of the run.
        epoch: from 0.
    """

    def __init__(self, new: Corpus, earlier: Corpus, share: float, seed: int, epoch: int) -> None:
        self.new, self.earlier = new, earlier
        count = round(len(new) * share / (1 - share))
        rng = np.random.default_rng((seed, epoch, 1))
        rounds = [rng.permutation(len(earlier)) for _ in range(-(-count // len(earlier)))]
        self._rows = np.concatenate([np.empty(0, dtype=np.int64), *rounds])[:count]

    def __len__(self) -> int:
        return len(self.new) + len(self._rows)

    def source(self, row: int) -> np.ndarray:
        """The ids of a source sentence (S,), as `Corpus.source`."""
        corpus, place = self._place(row)
        return corpus.source(place)

    def target(self, row: int) -> np.ndarray:
        """The ids of a target sentence (T,), as `Corpus.target`."""
        corpus, place = self._place(row)
        return corpus.target(place)

    def place(self, row: int) -> str:
        """The file and line of a pair, as `Corpus.place`."""
        corpus, place = self._place(row)
        return corpus.place(place)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """The tokens of each source sentence, int32 (N,)."""
        earlier = self.earlier.source_lengths[self._rows]
        return np.concatenate((self.new.source_lengths, earlier))

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """The tokens of each target sentence, int32 (N,), without BOS and EOS."""
        earlier = self.earlier.target_lengths[self._rows]
        return np.concatenate((self.new.target_lengths, earlier))

    def _place(self, row: int) -> tuple[Corpus, int]:
        if row < len(self.new):
            return self.new, row
        return self.earlier, int(self._rows[row - len(self.new)])
