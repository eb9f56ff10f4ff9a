"""Hashes of texts, and the set that finds repeated ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.judging.hashes import HashSet, text_hash


def test_text_does_not_move_from_one_text_to_the_next_unnoticed() -> None:
    assert text_hash("a b", "c") != text_hash("a", "b c")
    assert text_hash(" a", "b ") == text_hash("a", "b")


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 30))))
def test_a_hash_set_knows_what_came_before(blocks: list[list[int]]) -> None:
    hashes, expected = HashSet(), list[int]()
    for block in blocks:
        asked = np.array(block, dtype=np.uint64)
        assert hashes.contains(asked).tolist() == [value in expected for value in block]
        for value, before in zip(block, hashes.add(asked).tolist(), strict=True):
            assert before == (value in expected)
            expected.append(value)
    assert len(hashes) == len(set(expected))
    assert hashes.sorted.tolist() == sorted(set(expected))


def test_the_runs_of_a_hash_set_stay_few() -> None:
    hashes = HashSet()
    for start in range(0, 3000, 3):
        hashes.add(np.arange(start, start + 3, dtype=np.uint64))
    assert len(hashes._runs) <= np.log2(3000)
    assert hashes.contains(np.arange(3001, dtype=np.uint64)).tolist() == [True] * 3000 + [False]
