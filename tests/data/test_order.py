"""The order of batches: every row once, within the limit, the same for the same seed."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clearhead.data import order as module
from clearhead.data.order import batch_order, chunk_order, divide
from small_data import typical_lengths

lengths, few_lengths = (
    st.integers(*rows).flatmap(
        lambda n: st.tuples(*[arrays(np.int32, n, elements=st.integers(1, 40))] * 2)
    )
    for rows in ((0, 60), (1, 9))
)


@given(lengths, st.integers(1, 200), st.integers(0, 9), st.integers(0, 9))
def test_every_row_comes_once_and_batches_stay_within_the_limit(
    sides: tuple[np.ndarray, np.ndarray], batch_tokens: int, seed: int, epoch: int
) -> None:
    sources, targets = sides
    order = batch_order(sources, targets, batch_tokens, seed, epoch)
    assert sorted(row for rows in order for row in rows.tolist()) == list(range(len(sources)))
    for rows in order:
        assert len(rows) > 0
        if len(rows) > 1:
            assert len(rows) * sources[rows].max() <= batch_tokens
            assert len(rows) * (targets[rows].max() + 1) <= batch_tokens


def test_the_order_is_a_function_of_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in batch_order(*typical_lengths(500), 300, seed, epoch)]

    first = order(1, 0)
    np.random.seed(0)
    assert order(1, 0) == first
    others = [order(1, 1), order(2, 0), order(0, 1)]
    for n, other in enumerate(others):
        assert other != first
        assert other not in others[:n]
        # Not only the batches' order changes: so does a pair's company.
        assert {frozenset(rows) for rows in other} != {frozenset(rows) for rows in first}


@given(st.integers(1, 3000), st.integers(50, 3000), st.integers(0, 9))
def test_batches_have_few_sizes(rows: int, batch_tokens: int, epoch: int) -> None:
    sizes = [len(batch) for batch in batch_order(*typical_lengths(rows), batch_tokens, 1, epoch)]
    # Only the first four binary digits of a size may be other than 0; a chunk's last
    # batch has what is left.
    others = [size for size in sizes if size % 2 ** max(0, size.bit_length() - 4)]
    assert len(others) <= len(
        chunk_order(*typical_lengths(rows), batch_tokens, np.random.default_rng((1, epoch)))
    )


@pytest.mark.parametrize("batch_tokens", [2048, 4096])
def test_padding_is_rare_and_batches_are_full_on_typical_data(batch_tokens: int) -> None:
    sources, targets = typical_lengths(30_000)
    order = batch_order(sources, targets, batch_tokens, seed=1, epoch=0)
    places = sum(len(rows) * (sources[rows].max() + targets[rows].max() + 1) for rows in order)
    tokens = sources.sum() + targets.sum() + len(targets)
    assert 1 - tokens / places < 0.05
    # Rows of one length could be packed into this many batches at best.
    best = np.maximum(sources, targets + 1).sum() / batch_tokens
    assert len(order) < 1.1 * best


@given(lengths, st.integers(1, 200), st.integers(0, 9))
def test_chunks_have_the_batches_of_the_order(
    sides: tuple[np.ndarray, np.ndarray], batch_tokens: int, epoch: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.data.order.CHUNK_BATCHES", 3)
        chunks = chunk_order(*sides, batch_tokens, np.random.default_rng((1, epoch)))
        order = batch_order(*sides, batch_tokens, 1, epoch)
    batches = [sorted(rows.tolist()) for chunk in chunks for rows in chunk]
    assert sorted(batches) == sorted(sorted(rows.tolist()) for rows in order)
    assert len(chunks) > 1 or len(order) <= 10  # each of these more than half full


def test_chunks_deal_out_the_permutation_of_seed_and_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run depends on this order, whatever the integer type of the rows."""
    monkeypatch.setattr(module, "BLOCK", 7)
    sources = np.random.default_rng(5).integers(1, 30, 4000).astype(np.int32)
    chunks = chunk_order(sources, sources, 64, np.random.default_rng((1, 2)))
    assert len(chunks) > 3
    dealt = np.array_split(np.random.default_rng((1, 2)).permutation(4000), len(chunks))
    for chunk, rows in zip(chunks, dealt, strict=True):
        assert sorted(np.concatenate(chunk)) == sorted(rows)
    places = (sources + 1).sum()
    assert len(chunks) == round(places / (module.CHUNK_BATCHES * 64))


@given(few_lengths, st.data())
def test_dividing_gives_so_many_batches_the_largest_as_small_as_can_be(
    sides: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    batches = data.draw(st.integers(1, len(sides[0])))
    parts = divide(*sides, batches)
    assert len(parts) == batches
    assert all(len(part) > 0 for part in parts)
    assert sorted(row for part in parts for row in part.tolist()) == list(range(len(sides[0])))
    longest = np.maximum(sides[0], sides[1] + 1)
    ordered = sorted(longest.tolist())
    brute = min(
        max((end - start) * ordered[end - 1] for start, end in pairwise((0, *ends, len(ordered))))
        for ends in combinations(range(1, len(ordered)), batches - 1)
    )
    assert max(len(part) * longest[part].max() for part in parts) == brute
