"""The key/value cache of the fast decoder, and how the rows of a beam move in it.

A row is one hypothesis. After every step a search drops some rows and continues others, possibly
more than once: new row i continues old row `rows[i]`. Copying all keys and values at each such move
would take up to a fifth of the time of a search. So as little as possible is copied:

- The cache consists of numbered slots, and each row owns one: `Slots.of_row[row]`. A slot holds
  the keys and values of a row at all its positions, for all layers.
- The first row that continues the row in slot s keeps slot s. Nothing is copied.
- A second row that continues it gets a free slot t. The hypotheses of a sentence share their
  beginnings, so slot t often holds the same keys and values as slot s at early positions. `Slots`
  knows at which positions they differ, and only those are copied from s to t.
- If there are fewer rows than before, rows in the last slots move to free ones below, so that the
  rows always fill slots 0 to rows − 1. If there are more rows than slots, the cache is rebuilt.
- A step computes its rows in the order of their slots (`into_slots`, `out_of_slots`), so it writes
  the newest keys and values of a layer as one block.

Example: rows 0, 1, 2 are in slots 0, 1, 2, and a beam continues rows 1, 1, 2. New row 0 keeps
slot 1 and new row 2 keeps slot 2. New row 1 gets slot 0, which is free, and copies from slot 1 the
positions since old rows 0 and 1 separated.

`Rows.logits` (stepper.py) and greedy search (search.py) call `ModelStepper.reorder`
(torch_engine.py), which calls `DecodingState.reorder`. There `Slots.move` decides what to copy.

The keys and values of the source are stored once for each sentence and do not move with rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from clearhead.decoding.stepper import Ids
from clearhead.model.attention import KeysValues

INITIAL_POSITIONS = 32
"""Target positions allocated at first; the number doubles when they are full."""


class Slots:
    """Assigns a slot to each row, and knows which slots have the same content.

    Content is identified by its origin: the slot in which it was written first. At one position
    two slots with the same origin have the same content. `length` is the number of positions
    written, and `of_row` (rows,) the slot of each row: a permutation of 0 … rows − 1.
    """

    def __init__(self, positions: int, count: int) -> None:
        self.length = 0
        self.of_row = np.arange(count)
        # (position, slot): the origin of the content.
        self._origin = np.empty((positions, count), dtype=np.int64)

    @property
    def count(self) -> int:
        """The number of slots, whether a row owns them or not."""
        return self._origin.shape[1]

    def write(self) -> None:
        """Begin a new position, which each row writes in its slot.

        If the positions are full, their number doubles and slots without a row are dropped.
        """
        if self.length == len(self._origin):
            kept = self._origin[:, : len(self.of_row)]
            self._origin = np.concatenate((kept, np.empty_like(kept)))
        self._origin[self.length] = np.arange(self.count)
        self.length += 1

    def move(self, rows: Ids) -> tuple[Ids, Ids, Ids]:
        """Let row i continue former row `rows[i]`; there are at most as many rows as slots.

        Returns:
            Positions, sources and targets: at each position, the content of the source slot is to
            be copied to the target slot. All sources must be read before any target is written.
        """
        old = self.of_row[rows]
        new = _assign_slots(old, self.count)
        (moving,) = np.nonzero(old != new)
        sources, targets = old[moving], new[moving]
        written = self._origin[: self.length]
        wanted = written[:, sources]
        positions, which = np.nonzero(written[:, targets] != wanted)
        written[:, targets] = wanted
        # A new array, because the old one may still be on its way to the device.
        self.of_row = new
        return positions, sources[which], targets[which]

    def widened(self, rows: Ids) -> Slots:
        """New slots, one for each row in order; row i continues row `rows[i]`."""
        wider = Slots(len(self._origin), len(rows))
        wider.length = self.length
        wider._origin[: self.length] = self._origin[: self.length, self.of_row[rows]]
        return wider


def _assign_slots(old: Ids, count: int) -> Ids:
    """(rows,) the new slot of row i, which comes from slot `old[i]`.

    The first row from a slot keeps it, if its number is less than the number of rows. The other
    rows get the free slots, in order.
    """
    keeps = np.full(count, -1)
    # Written backwards, so that the first row from a slot is the one that remains.
    keeps[old[::-1]] = np.arange(len(old))[::-1]
    keeps = keeps[: len(old)]
    free = keeps < 0
    new = np.full(len(old), -1)
    new[keeps[~free]] = np.flatnonzero(~free)
    new[new < 0] = np.flatnonzero(free)
    return new


class Attended(NamedTuple):
    """The keys (groups · heads, d_k, length) and values (groups · heads, length, d_v) of attention.

    A group is a row in self-attention and a sentence in cross-attention.
    """

    keys: Tensor
    values: Tensor


class DecodingState:
    """The keys and values of the sources and of each row's target so far.

    Each step calls `advance` once and then `extend` for each layer. The results of `extend` are
    invalid after `reorder`. `memories` are of each layer the keys and values of the encoder's
    output. `hidden` (sentences · heads, 1, source) is added to attention scores to hide the padding
    of the sources.
    """

    def __init__(
        self, memories: Sequence[KeysValues], mask: Bool[Tensor, "sentences 1 1 source"]
    ) -> None:
        keys, values = memories[0]
        self._heads = keys.size(1)
        # A source that is only padding has uniform attention, over zeros.
        empty = ~mask.any(dim=-1, keepdim=True)
        self._set_memories(
            KeysValues(each.keys.contiguous(), each.values.masked_fill(empty, 0.0).contiguous())
            for each in memories
        )
        # The row of each slot and the slot of each row, unless they are the same.
        self._order: tuple[Tensor, Tensor] | None = None
        self._slots = Slots(INITIAL_POSITIONS, len(mask))
        self._widths = keys.size(-1), values.size(-1)
        # (position, layer, slot, heads · (d_k + d_v)). Positions come first, and the key of a head
        # is next to its value, so that a layer writes its newest position as one block.
        self._cache = keys.new_empty(
            INITIAL_POSITIONS, len(memories), len(keys), self._heads * sum(self._widths)
        )
        self._view_cache()
        self._newest = self._keys = self._values = ()
        self._hide(mask)
        self._group(np.arange(len(mask)))

    @property
    def length(self) -> int:
        """The number of target positions in the cache, the newest included."""
        return self._slots.length

    def into_slots(self, rows: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "rows *shape"]:
        """From the order of the search's rows to the order of the slots."""
        return rows if self._order is None else rows.index_select(0, self._order[0])

    def out_of_slots(self, slots: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "rows *shape"]:
        """From the order of the slots to the order of the search's rows."""
        return slots if self._order is None else slots.index_select(0, self._order[1])

    def advance(self) -> None:
        """Begin a new position, which each layer then writes."""
        position = self.length
        if position == len(self._cache):
            # Slots without a row are dropped, as in `Slots.write`.
            used = self._cache[:, :, : len(self._slots.of_row)]
            self._cache = used.new_empty(2 * position, *used.shape[1:])
            self._cache[:position] = used
            self._view_cache()
        self._slots.write()
        # One view for all layers: making a view takes as long as a small product.
        self._newest = self._live[position].unbind(0)
        self._keys = self._all_keys.narrow(3, 0, position + 1).unbind(0)
        self._values = self._all_values.narrow(2, 0, position + 1).unbind(0)

    def extend(self, layer: int, keys_values: Float[Tensor, "rows width"]) -> Attended:
        """Write the newest position of a layer, of each head its key, then its value.

        Returns the target so far, a group for each row.
        """
        self._newest[layer].copy_(keys_values)
        return Attended(self._keys[layer], self._values[layer])

    def memory(self, layer: int) -> Attended:
        """The sources as a layer attends to them, a group for each sentence."""
        return self._memory_views[layer]

    def by_sentence(
        self, queries: Float[Tensor, "rows hd_k"]
    ) -> Float[Tensor, "sentences_heads rows_per_sentence d_k"]:
        """Group the queries by sentence; sentences with fewer rows are padded with zeros."""
        if self._grouped is not None:
            filled = queries.new_zeros(len(self._mask) * self._rows_per_sentence, queries.size(1))
            queries = filled.index_copy_(0, self._grouped, queries)
        if self._rows_per_sentence == 1:
            return queries.view(len(queries) * self._heads, 1, -1)
        grouped = queries.unflatten(0, (-1, self._rows_per_sentence))
        return grouped.unflatten(-1, (self._heads, -1)).transpose(1, 2).flatten(0, 1)

    def by_row(
        self, context: Float[Tensor, "sentences_heads rows_per_sentence d_v"]
    ) -> Float[Tensor, "rows hd_v"]:
        """The inverse of `by_sentence`, for the results of attention."""
        if self._rows_per_sentence == 1:
            found = context.view(len(self._mask), -1)
        else:
            heads_last = context.unflatten(0, (-1, self._heads)).transpose(1, 2)
            found = heads_last.flatten(2).flatten(0, 1)
        return found if self._grouped is None else found.index_select(0, self._grouped)

    @torch.inference_mode()
    def reorder(self, rows: Int[Tensor, " new_rows"]) -> None:
        """Let row i continue former row `rows[i]`; the number of rows may change."""
        # Invalid from here on; `advance` makes new views.
        self._newest = self._keys = self._values = ()
        continued, before = rows.numpy(), self._slots.of_row
        sentence = self._sentence[before[continued]]
        if len(continued) > self._slots.count:
            self._widen(continued)
        else:
            self._copy(*self._slots.move(continued))
        slots = self._slots.of_row
        if len(slots) != len(before):
            self._view_cache()
        order = slots.argsort()
        in_order = bool((slots[:-1] < slots[1:]).all())
        self._order = None if in_order else (self._send(order), self._send(slots))
        self._group(self._keep_memories(sentence[order]))

    def _copy(self, positions: Ids, sources: Ids, targets: Ids) -> None:
        if not len(positions):
            return
        _, layers, slots, width = self._cache.shape
        # A piece is one layer of one position of one slot. A copy copies those of all layers.
        first = (positions[:, None] * layers + np.arange(layers)) * slots
        read, written = (self._send((first + each[:, None]).ravel()) for each in (sources, targets))
        pieces = self._cache.view(-1, width)
        pieces.index_copy_(0, written, pieces.index_select(0, read))

    def _widen(self, rows: Ids) -> None:
        """Rebuild the cache with a slot for each row, because there are more rows than slots."""
        read = self._send(self._slots.of_row[rows])
        wider = self._cache.new_empty(*self._cache.shape[:2], len(rows), self._cache.size(3))
        torch.index_select(self._cache[: self.length], 2, read, out=wider[: self.length])
        self._cache, self._slots = wider, self._slots.widened(rows)

    def _keep_memories(self, sentence: Ids) -> Ids:
        """Keep only the memories of these sentences, and return the new sentence numbers.

        Sentences are numbered in the order of their first slots, so that queries rarely need to
        be moved in `by_sentence`.
        """
        live, firsts, numbers = np.unique(sentence, return_index=True, return_inverse=True)
        if len(live) == len(self._mask):
            return sentence
        order = firsts.argsort()
        kept = self._send(live[order])
        self._set_memories(
            KeysValues(*(part.index_select(0, kept) for part in each)) for each in self._memories
        )
        self._hide(self._mask.index_select(0, kept))
        return order.argsort()[numbers]

    def _send(self, ids: Ids) -> Tensor:
        """The ids on the device. Nothing waits for the transfer: ids are never changed later."""
        return torch.from_numpy(ids).to(self._mask.device, non_blocking=True)

    def _view_cache(self) -> None:
        """Make views of the slots that rows own, at all positions; `advance` narrows them."""
        rows = len(self._slots.of_row)
        # (position, layer, slot, heads · (d_k + d_v)).
        self._live = self._cache[:, :, :rows]
        heads = self._live.view(*self._live.shape[:2], rows * self._heads, sum(self._widths))
        keys, values = heads.split(self._widths, dim=-1)
        # (layer, slot · head, d_k, position) and (layer, slot · head, position, d_v), as in
        # `Attended`.
        self._all_keys, self._all_values = keys.permute(1, 2, 3, 0), values.permute(1, 2, 0, 3)

    def _set_memories(self, memories: Iterable[KeysValues]) -> None:
        self._memories = list(memories)
        self._memory_views = [
            Attended(each.keys.flatten(0, 1).transpose(1, 2), each.values.flatten(0, 1))
            for each in self._memories
        ]

    def _group(self, sentence: Ids) -> None:
        """Set where `by_sentence` puts each row; `sentence` has the sentence of each slot."""
        counts = np.bincount(sentence, minlength=len(self._mask))
        self._sentence = sentence
        self._rows_per_sentence = int(counts.max(initial=0))
        order = sentence.argsort(kind="stable")
        firsts = counts.cumsum() - counts
        number = np.empty_like(sentence)  # of each row among the rows of its sentence
        number[order] = np.arange(len(sentence)) - firsts[sentence[order]]
        grouped = sentence * self._rows_per_sentence + number
        full = len(grouped) == len(counts) * self._rows_per_sentence
        in_order = full and bool((np.diff(grouped) == 1).all())
        # Nothing to move if all sentences have as many rows and these are in order.
        self._grouped = None if in_order else self._send(grouped)

    def _hide(self, mask: Bool[Tensor, "sentences 1 1 source"]) -> None:
        self._mask = mask
        dtype = self._cache.dtype
        hidden = (~mask[:, 0]).to(dtype) * torch.finfo(dtype).min
        self.hidden = hidden.repeat_interleave(self._heads, dim=0)
