"""Lengths, batches and hypotheses, which all engines share."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from clearhead.decoding.engine import (
    PADDED_TOKENS,
    batches_by_length,
    length_penalty,
    longest_output,
)
from clearhead.settings import SearchConfig


def test_the_length_penalty_is_that_of_the_paper() -> None:
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(100, 0.0) == 1.0


def test_the_longest_output_is_the_ratio_rounded_up() -> None:
    for hundredths, offset, limit in itertools.product((0, 50, 107, 110, 200), (0, 9), (0, 60)):
        config = SearchConfig(
            max_length_ratio=hundredths / 100, max_length_offset=offset, max_length=limit
        )
        for length in range(200):
            exact = math.ceil(Fraction(hundredths, 100) * length + offset)
            assert longest_output(length, config) == (min(exact, limit) if limit else exact)


@given(
    length=st.integers(0, 60),
    shortest=st.integers(1, 90),
    limit=st.sampled_from([0, 95]),
    positions=st.one_of(st.none(), st.integers(1, 100)),
)
def test_the_limit_allows_the_shortest_output_and_its_end(
    length: int, shortest: int, limit: int, positions: int | None
) -> None:
    config = SearchConfig(min_length=shortest, max_length=limit)
    free = longest_output(length, SearchConfig(max_length=limit), 0, positions)
    found = longest_output(length, config, 0, positions)
    assert found == max(free, min(shortest + 1, positions or shortest + 1))


def test_batches_keep_to_their_tokens_and_cover_everything() -> None:
    lengths = [1, 900, 3, 3, 400, 2, 16_000, 20_000]
    batches = list(batches_by_length(lengths, 4, PADDED_TOKENS))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= 4
        padded = len(batch) * max(lengths[index] for index in batch)
        assert len(batch) == 1 or padded <= PADDED_TOKENS
