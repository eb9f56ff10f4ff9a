"""Missing values of features are filled by the rule, or raise an error with their place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.reading.features import MissingRule, fill_missing
from clearhead.errors import DataError

features_with_gaps = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(
            st.floats(-100, 100, width=32) | st.just(math.nan), min_size=width, max_size=width
        ),
        min_size=1,
        max_size=8,
    )
)


def filled_plainly(frames: np.ndarray, rule: str, means: np.ndarray) -> np.ndarray:
    """A simple implementation that fills one value at a time."""
    filled = frames.astype(np.float64)
    for time, feature in np.argwhere(np.isnan(frames)):
        known = [at for at in range(len(frames)) if not np.isnan(frames[at, feature])]
        before = max((at for at in known if at < time), default=None)
        after = min((at for at in known if at > time), default=None)
        if rule == "zero":
            value = 0.0
        elif rule == "mean" or not known:
            value = means[feature]
        elif before is None or after is None:
            value = frames[after if before is None else before, feature]
        else:
            share = (time - before) / (after - before)
            value = (1 - share) * frames[before, feature] + share * frames[after, feature]
        filled[time, feature] = value
    return filled


@pytest.mark.slow
@given(features_with_gaps, st.sampled_from(["zero", "mean", "interpolate"]))
def test_missing_values_are_filled_as_the_rule_says(
    rows: list[list[float]], rule: MissingRule
) -> None:
    frames = np.array(rows, dtype=np.float32)
    means = np.array([5.0, -7.0, 11.0])[: frames.shape[1]]
    before = frames.copy()
    filled = fill_missing(frames, rule, "a", means)
    np.testing.assert_array_equal(frames, before)
    assert filled.dtype == np.float32
    np.testing.assert_allclose(filled, filled_plainly(frames, rule, means), rtol=1e-5, atol=1e-4)
    there = ~np.isnan(frames)
    np.testing.assert_array_equal(filled[there], frames[there])


def test_frames_count_as_equally_spaced() -> None:
    frames = np.array([[0], [np.nan], [100]], dtype=np.float32)
    filled = fill_missing(frames, "interpolate", "a.csv:2", np.zeros(1))
    assert filled.tolist() == [[0], [50], [100]]


def test_a_missing_value_is_rejected_by_its_place_frame_and_feature() -> None:
    frames = np.ones((5, 3), dtype=np.float32)
    frames[3, 1] = frames[4, 0] = np.nan
    with pytest.raises(DataError) as raised:
        fill_missing(frames, "refuse", "train.ts:20")
    assert raised.value.where == "train.ts:20"
    assert raised.value.why == "frame 4, feature 2 has no value; 2 of the 15 values are missing"


def test_whole_features_are_given_back_as_they_are_under_every_rule() -> None:
    frames = np.ones((5, 3), dtype=np.float32)
    rules: tuple[MissingRule, ...] = ("refuse", "zero", "mean", "interpolate")
    for rule in rules:
        assert fill_missing(frames, rule, "a") is frames


def test_a_rule_that_needs_means_reports_it() -> None:
    with pytest.raises(ValueError, match="needs the means"):
        fill_missing(np.full((1, 1), np.nan), "mean", "a")
