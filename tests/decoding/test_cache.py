"""Tests that moving rows in the key/value cache copies exactly what differs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clearhead.decoding.cache import Slots

FIRST = 4
"""Number of rows, and of slots, at the beginning."""

walks = st.lists(
    st.one_of(
        st.none(),  # a position is written
        st.lists(st.integers(0, 99), min_size=1, max_size=FIRST),  # rows are moved
    ),
    max_size=20,
)


@given(walks, st.integers(1, 3))
def test_a_moved_row_finds_all_that_it_continues_and_nothing_is_copied_in_vain(
    walk: list[list[int] | None], positions: int
) -> None:
    slots = Slots(positions, FIRST)
    cache = np.zeros((len(walk), FIRST), dtype=int)  # each write has its own number
    rows = [[] for _ in range(FIRST)]
    written = 0
    for move in walk:
        if move is None:
            slots.write()
            for row, slot in zip(rows, slots.of_row, strict=True):
                written += 1
                row.append(written)
                cache[slots.length - 1, slot] = written
        else:
            chosen = np.array(move[: slots.count]) % len(rows)
            rows = [list(rows[row]) for row in chosen]
            where, sources, targets = slots.move(chosen)
            found = cache[where, sources]
            assert (cache[where, targets] != found).all()
            cache[where, targets] = found
        assert sorted(slots.of_row) == list(range(len(rows)))
        assert cache[: slots.length, slots.of_row].T.tolist() == rows


def test_a_row_keeps_its_slot_and_its_twin_copies_only_what_was_written_since() -> None:
    slots = Slots(8, 3)
    slots.write()
    slots.move(np.array([0, 0, 0]))  # three hypotheses of one beam
    slots.write()
    copies = slots.move(np.array([1, 1, 2]))
    assert slots.of_row.tolist() == [1, 0, 2]
    assert [part.tolist() for part in copies] == [[1], [1], [0]]


def test_when_rows_leave_the_last_ones_fill_their_slots() -> None:
    slots = Slots(8, 4)
    slots.write()
    copies = slots.move(np.array([0, 2, 3]))
    assert slots.of_row.tolist() == [0, 2, 1]
    assert [part.tolist() for part in copies] == [[0], [3], [1]]


def test_slots_without_rows_are_dropped_when_the_positions_double() -> None:
    slots = Slots(1, 3)
    slots.write()
    slots.move(np.array([2, 0]))
    assert slots.count == 3
    slots.write()
    assert (slots.count, slots.length) == (2, 2)
    positions, _, _ = slots.move(np.array([1, 0]))
    assert positions.size == 0


def test_wider_slots_hold_what_each_row_continues() -> None:
    slots = Slots(8, 2)
    slots.write()
    slots.move(np.array([1, 1]))
    slots.write()
    wider = slots.widened(np.array([0, 1, 1]))
    assert (wider.count, wider.length, wider.of_row.tolist()) == (3, 2, [0, 1, 2])
    # The second and the third hold the same; the first parted from them at the newest position.
    positions, _, _ = wider.move(np.array([1, 2, 0]))
    assert set(positions.tolist()) <= {1}
    positions, _, _ = wider.move(np.arange(3))
    assert positions.size == 0
