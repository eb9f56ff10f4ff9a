"""Prefetching gives the same items, and leaves no thread behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from clearhead.data.batches import prefetch
from small_data import batch_threads


def test_prefetching_gives_the_same_items() -> None:
    assert list(prefetch(iter(range(50)), ahead=3)) == list(range(50))
    assert list(prefetch(iter(()), ahead=3)) == []


def test_prefetching_runs_ahead_by_no_more_than_the_limit() -> None:
    made: list[int] = []
    filled = threading.Event()

    def items() -> Iterator[int]:
        for n in range(100):
            made.append(n)
            if len(made) == 6:  # one taken, four waiting, one in the thread's hand
                filled.set()
            yield n

    ahead = prefetch(items(), ahead=4)
    next(ahead)
    assert filled.wait(timeout=10)
    assert len(made) == 6
    ahead.close()  # pyright: ignore[reportAttributeAccessIssue]


def test_an_error_comes_through_after_the_items_before_it() -> None:
    others = set(batch_threads())  # of earlier tests

    def items() -> Iterator[int]:
        yield 1
        raise KeyError("lost")

    ahead = prefetch(items(), ahead=4)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="lost"):
        next(ahead)
    assert not set(batch_threads()) - others


def test_a_consumer_that_stops_ends_the_thread() -> None:
    others = set(batch_threads())  # of earlier tests
    ahead = prefetch(iter(range(1000)), ahead=2)
    assert next(ahead) == 0
    assert set(batch_threads()) - others
    ahead.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not set(batch_threads()) - others
    dropped = prefetch(iter(range(1000)), ahead=2)
    next(dropped)
    del dropped
    assert not set(batch_threads()) - others
