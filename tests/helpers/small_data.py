"""Lengths and labelled rows for tests of the data pipeline."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import strategies as st

from clearhead.data.reading.labelled import LabelledText
from clearhead.data.reading.phrasebook import AlignedPair, phrasebook

Row = tuple[str, tuple[str, ...]]
labels = st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True).map(tuple)


def numbered(rows: list[Row]) -> list[LabelledText]:
    places = (f"/data/train.csv:{line}" for line in range(2, len(rows) + 2))
    return [LabelledText(*row, place) for row, place in zip(rows, places, strict=True)]


def typical_lengths(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like those of real sentence pairs: skewed, similar on both sides."""
    rng = np.random.default_rng(0)
    sources = np.clip(rng.lognormal(2.6, 0.4, rows), 2, 80).astype(np.int32)
    targets = np.clip(sources * rng.normal(1.05, 0.15, rows), 2, 90).astype(np.int32)
    return sources, targets


def batch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "clearhead-batches"]


def every_pair(pair: str) -> tuple[AlignedPair, ...]:
    """Train, validation and test."""
    book = phrasebook(pair)
    return (*book.train, *book.validation, *book.test)
