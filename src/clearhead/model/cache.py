"""The keys and values of what was decoded so far: the state of a search, not of the model."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.model.attention import KeysValues


class LayerCache:
    """One layer's keys and values of the target so far, and those of the memory.

    Room is allocated ahead and doubles when it is full, so that a step copies only its own rows.
    """

    def __init__(self, memory: KeysValues) -> None:
        self.memory = memory
        self.length = 0
        rows, heads, _, d_k = memory.keys.shape
        self._room = KeysValues(
            memory.keys.new_empty(rows, heads, FIRST_ROOM, d_k),
            memory.values.new_empty(rows, heads, FIRST_ROOM, memory.values.size(-1)),
        )

    def extend(self, new: KeysValues) -> KeysValues:
        """Append keys and values (rows, heads, new, width); gives those of the whole target."""
        end = self.length + new.keys.size(2)
        if end > self._room.keys.size(2):
            self._room = KeysValues(*(_with_room(part, 2 * end) for part in self._room))
        for room, part in zip(self._room, new, strict=True):
            room[:, :, self.length : end] = part
        self.length = end
        return KeysValues(*(room[:, :, :end] for room in self._room))

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i continues what was row rows[i]; there may be fewer rows, or more."""
        self.memory = KeysValues(*(part.index_select(0, rows) for part in self.memory))
        self._room = KeysValues(*(self._moved(room, rows) for room in self._room))

    def _moved(self, room: Tensor, rows: Tensor) -> Tensor:
        moved = room.new_empty(len(rows), *room.shape[1:])
        moved[:, :, : self.length] = room[:, :, : self.length].index_select(0, rows)
        return moved


FIRST_ROOM = 32
"""Target positions allocated at first."""


class KVCache:
    """The caches of all decoder layers and the mask of the memory they look at."""

    def __init__(
        self, memories: list[KeysValues], memory_mask: Bool[Tensor, "rows 1 1 source"]
    ) -> None:
        self.layers = [LayerCache(memory) for memory in memories]
        self.memory_mask = memory_mask

    @property
    def length(self) -> int:
        """How many target positions are held."""
        return self.layers[0].length

    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i continues what was row rows[i]; there may be fewer rows, or more."""
        self.memory_mask = self.memory_mask.index_select(0, rows)
        for layer in self.layers:
            layer.reorder(rows)


def _with_room(part: Tensor, length: int) -> Tensor:
    grown = torch.empty(*part.shape[:2], length, part.size(3), dtype=part.dtype, device=part.device)
    grown[:, :, : part.size(2)] = part
    return grown
