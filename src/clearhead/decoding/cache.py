"""Where in a room each row lies, so that moving rows about copies little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from clearhead.model.attention import KeysValues

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


# ---- engines.decoding_state
# What was decoded so far, laid out so that a step touches as little of it as it can.

FIRST_ROOM = 32
"""Target positions allocated at first; the room doubles when it is full."""


class Attended(NamedTuple):
    """What queries look at, as products take it: keys as columns, one matrix a head.

    `keys` (groups · heads, d_k, places), `values` (groups · heads, places, d_v); a group is a row
    or a sentence.
    """

    keys: Tensor
    values: Tensor


class DecodingState:
    """The keys and values of the memory, once a sentence, and of the target so far, once a row.

    A row is one hypothesis; several may belong to one sentence, and moving them about leaves the
    memory where it is. In the target's room (its key-value cache) each has a slot, and within a
    step rows come in the order of their slots: `into_slots` brings them there, `out_of_slots` back.
    The positions come first in the room, and there the key of each head before its value: so a step
    writes in one piece.

    `advance` comes before the layers' `extend`; what these gave is stale once rows are moved.

    Attributes:
        hidden: (sentences · heads, 1, source) what hides the memory's padding when it is added to
            scores.
    """

    def __init__(
        self, memories: Sequence[KeysValues], mask: Bool[Tensor, "sentences 1 1 source"]
    ) -> None:
        keys, values = memories[0]
        self._heads = keys.size(1)
        # Of a source that is padding alone the attention is uniform, but over zeros.
        nothing = ~mask.any(dim=-1, keepdim=True)
        self._memories = [
            KeysValues(each.keys.contiguous(), each.values.masked_fill(nothing, 0.0).contiguous())
            for each in memories
        ]
        self._view_memories()
        # The row of each slot and the slot of each row, unless they are the same.
        self._order: tuple[Tensor, Tensor] | None = None
        self._slots = Slots(FIRST_ROOM, len(mask))
        self._widths = keys.size(-1), values.size(-1)
        # (position, layer, slot, heads · (d_k + d_v)).
        self._room = keys.new_empty(
            FIRST_ROOM, len(memories), len(keys), self._heads * sum(self._widths)
        )
        self._view_room()
        self._newest = self._keys = self._values = ()
        self._hide(mask)
        self._group(np.arange(len(mask)))

    @property
    def length(self) -> int:
        """How many target positions are held, the newest included."""
        return self._slots.length

    def into_slots(self, rows: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "rows *shape"]:
        """What the search has for each row, in the order of the slots."""
        return rows if self._order is None else rows.index_select(0, self._order[0])

    def out_of_slots(self, slots: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "rows *shape"]:
        """What a step has in the order of the slots, as the search has its rows."""
        return slots if self._order is None else slots.index_select(0, self._order[1])

    def memory(self, layer: int) -> Attended:
        """What a layer sees of the memory; a group is a sentence."""
        return self._memory_views[layer]

    def advance(self) -> None:
        """Begin a new position, which each layer has yet to write."""
        position = self.length
        if position == len(self._room):
            # As the slots do: without those in which no row lies.
            rows = len(self._slots.of_row)
            self._room = _with_room(self._room[:, :, :rows], 2 * position)
            self._view_room()
        self._slots.write()
        # Of all layers in one operation: to make a view takes as long as a small product.
        self._newest = self._live[position].unbind(0)
        self._keys = self._all_keys.narrow(3, 0, position + 1).unbind(0)
        self._values = self._all_values.narrow(2, 0, position + 1).unbind(0)

    def extend(self, layer: int, keys_values: Float[Tensor, "rows width"]) -> Attended:
        """Write a layer's newest position; what it sees of the target; a group is a row.

        Args:
            keys_values: of each head its key, then its value.
        """
        self._newest[layer].copy_(keys_values)
        return Attended(self._keys[layer], self._values[layer])

    @torch.inference_mode()
    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Row i continues what was row rows[i]; there may be fewer rows, or more.

        Args:
            rows: on the CPU.
        """
        # Stale from here on: nothing is written or seen until `advance`.
        self._newest = self._keys = self._values = ()
        continued, before = rows.numpy(), len(self._slots.of_row)
        sentence = self._sentence[self._slots.of_row[continued]]
        if len(continued) > self._slots.count:
            self._widen(continued)
        else:
            self._move(continued)
        if len(continued) != before:
            self._view_room()
        slots = self._slots.of_row
        order = slots.argsort()
        in_order = bool((slots[:-1] < slots[1:]).all())
        self._order = None if in_order else (self._sent(order), self._sent(slots))
        self._group(self._without_memory_of_others(sentence[order]))

    def by_sentence(
        self, queries: Float[Tensor, "rows hd_k"]
    ) -> Float[Tensor, "sentences_heads places d_k"]:
        """The queries of each sentence's rows together, so that they look at one memory."""
        if self._seats is not None:
            room = queries.new_zeros(len(self._mask) * self._places, queries.size(1))
            queries = room.index_copy_(0, self._seats, queries)
        if self._places == 1:
            return queries.view(len(queries) * self._heads, 1, -1)
        grouped = queries.unflatten(0, (-1, self._places)).unflatten(-1, (self._heads, -1))
        return grouped.transpose(1, 2).flatten(0, 1)

    def by_row(
        self, context: Float[Tensor, "sentences_heads places d_v"]
    ) -> Float[Tensor, "rows hd_v"]:
        """What the queries of `by_sentence` found, for each row again."""
        if self._places == 1:
            found = context.view(len(self._mask), -1)
        else:
            heads_last = context.unflatten(0, (-1, self._heads)).transpose(1, 2)
            found = heads_last.flatten(2).flatten(0, 1)
        return found if self._seats is None else found.index_select(0, self._seats)

    def _move(self, rows: Ids) -> None:
        """Let rows continue others where the room is wide enough."""
        positions, sources, targets = self._slots.move(rows)
        if not len(positions):
            return
        _, layers, slots, width = self._room.shape
        # Of each position, that of all layers.
        first = (positions[:, None] * layers + np.arange(layers)) * slots
        read, written = (self._sent((first + each[:, None]).ravel()) for each in (sources, targets))
        pieces = self._room.view(-1, width)
        pieces.index_copy_(0, written, pieces.index_select(0, read))

    def _widen(self, rows: Ids) -> None:
        """Let rows continue others in a room that is wide enough for them."""
        read = self._sent(self._slots.of_row[rows])
        self._room = _widened(self._room, self.length, read)
        self._slots = self._slots.widened(rows)

    def _without_memory_of_others(self, sentence: Ids) -> Ids:
        """Keep the memory of these sentences alone; their new numbers.

        They are numbered in the order of their first slots, so that queries seldom need moving.
        """
        live, firsts, numbers = np.unique(sentence, return_index=True, return_inverse=True)
        if len(live) == len(self._mask):
            return sentence
        order = firsts.argsort()
        kept = self._sent(live[order])
        self._memories = [
            KeysValues(*(part.index_select(0, kept) for part in each)) for each in self._memories
        ]
        self._view_memories()
        self._hide(self._mask.index_select(0, kept))
        return order.argsort()[numbers]

    def _sent(self, ids: Ids) -> Tensor:
        """On the device; nobody need wait for the arrival, since no ids are changed later."""
        return torch.from_numpy(ids).to(self._mask.device, non_blocking=True)

    def _view_room(self) -> None:
        """See the slots of all rows, at every position that there is room for.

        A step has only to cut off what is not written yet.
        """
        rows = len(self._slots.of_row)
        # (position, layer, slot, heads · (d_k + d_v)).
        self._live = self._room[:, :, :rows]
        heads = self._live.view(*self._live.shape[:2], rows * self._heads, sum(self._widths))
        keys, values = heads.split(self._widths, dim=-1)
        # (layer, slot · head, d_k, position) and (layer, slot · head, position, d_v): as products
        # take them.
        self._all_keys, self._all_values = keys.permute(1, 2, 3, 0), values.permute(1, 2, 0, 3)

    def _view_memories(self) -> None:
        """Let each layer see the memory of the live sentences."""
        self._memory_views = [
            Attended(each.keys.flatten(0, 1).transpose(1, 2), each.values.flatten(0, 1))
            for each in self._memories
        ]

    def _group(self, sentence: Ids) -> None:
        """Give each row a place among those of its sentence, which `sentence` numbers by slot."""
        counts = np.bincount(sentence, minlength=len(self._mask))
        self._sentence = sentence
        self._places = int(counts.max(initial=0))
        order = sentence.argsort(kind="stable")
        firsts = counts.cumsum() - counts
        place = np.empty_like(sentence)
        place[order] = np.arange(len(sentence)) - firsts[sentence[order]]
        seats = sentence * self._places + place
        in_order = len(seats) == len(counts) * self._places and bool((np.diff(seats) == 1).all())
        # With as many rows a sentence, in its order, there is nothing to move.
        self._seats = None if in_order else self._sent(seats)

    def _hide(self, mask: Bool[Tensor, "sentences 1 1 source"]) -> None:
        """Hide the padding of the live sentences, whose mask this is."""
        self._mask = mask
        dtype = self._room.dtype
        hidden = (~mask[:, 0]).to(dtype) * torch.finfo(dtype).min
        self.hidden = hidden.repeat_interleave(self._heads, dim=0)


def _with_room(room: Tensor, positions: int) -> Tensor:
    grown = room.new_empty(positions, *room.shape[1:])
    grown[: len(room)] = room
    return grown


def _widened(room: Tensor, length: int, slots: Tensor) -> Tensor:
    widened = room.new_empty(*room.shape[:2], len(slots), room.size(3))
    torch.index_select(room[:length], 2, slots, out=widened[:length])
    return widened
