"""Where in a room each row lies, so that moving rows about copies little."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Copies(NamedTuple):
    """What a move copies: at `positions[i]`, from slot `sources[i]` to slot `targets[i]`.

    All of it is read before any is written.
    """

    positions: Ids
    sources: Ids
    targets: Ids


class Slots:
    """Gives each row a slot, and knows which slots hold the same.

    The hypotheses of a beam were one until they parted, and what they hold of the time before is
    the same. So a row that takes another's slot needs only what was written since, and a row that
    goes on where it lies needs nothing.

    Args:
        positions: room for so many at first.
        count: rows, and slots.

    Attributes:
        length: how many positions are written.
        of_row: (rows,) the slot of each row; together they are 0 … rows − 1.
    """

    def __init__(self, positions: int, count: int) -> None:
        self.length = 0
        self.of_row = np.arange(count)
        # (position, slot): the slot in which was written what lies there.
        self._origin = np.empty((positions, count), dtype=np.int64)

    @property
    def count(self) -> int:
        """How many slots there are, whether a row lies in them or not."""
        return self._origin.shape[1]

    def write(self) -> None:
        """Begin a new position, which each row writes in its slot.

        Where there is no room for it, it doubles, and slots without rows are given up.
        """
        if self.length == len(self._origin):
            kept = self._origin[:, : len(self.of_row)]
            self._origin = np.concatenate((kept, np.empty_like(kept)))
        self._origin[self.length] = np.arange(self.count)
        self.length += 1

    def move(self, rows: Ids) -> Copies:
        """Let row i continue what was row rows[i]; there are at most as many rows as slots."""
        old = self.of_row[rows]
        new = _nearest(old, self.count)
        going = np.flatnonzero(old != new)
        sources, targets = old[going], new[going]
        written = self._origin[: self.length]
        wanted = written[:, sources]
        positions, which = np.nonzero(written[:, targets] != wanted)
        written[:, targets] = wanted
        # Another array, since the former may be on its way to a device.
        self.of_row = new
        return Copies(positions, sources[which], targets[which])

    def widened(self, rows: Ids) -> Slots:
        """As many slots as rows, each of which has its own: row i continues row rows[i]."""
        wider = Slots(len(self._origin), len(rows))
        wider.length = self.length
        wider._origin[: self.length] = self._origin[: self.length, self.of_row[rows]]
        return wider


def _nearest(old: Ids, count: int) -> Ids:
    """(rows,) new slots, from 0 on: the old one of the first row that comes from it, if it can.

    The other rows take what is free, in order.
    """
    stays = np.full(count, -1)
    # Backwards, since of rows with the same slot the one that is written last stands.
    stays[old[::-1]] = np.arange(len(old))[::-1]
    stays = stays[: len(old)]
    free = stays < 0
    new = np.full(len(old), -1)
    new[stays[~free]] = np.flatnonzero(~free)
    new[new < 0] = np.flatnonzero(free)
    return new
