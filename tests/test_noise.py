"""What is hidden from a model while it trains: how much of it, and what never is."""

from __future__ import annotations

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.data.inputs import hide_frames, hide_words
from clearhead.tokenizer import BOS, PAD

ROWS, LENGTH, WIDTH, UNK = 3, 5000, 4, 99

RARE = 1e-9
"""How often a share may be found wrong though nothing is."""

rates = st.floats(0.01, 0.99)
seeds = st.integers(0, 2**32 - 1)


def some_ids(seed: int) -> Tensor:
    """Ids (ROWS, LENGTH), each row with a BOS, tokens, and padding; none of them is UNK."""
    ids = torch.randint(3, UNK, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))
    ids[:, 0] = BOS
    for row in range(ROWS):
        ids[row, LENGTH - 100 * row :] = PAD
    return ids


def some_features(seed: int) -> Tensor:
    """Features (ROWS, LENGTH, WIDTH), none of them 0, with padding of NaN."""
    generator = torch.Generator().manual_seed(seed)
    features = 1 + torch.rand(ROWS, LENGTH, WIDTH, generator=generator)
    for row in range(ROWS):
        features[row, LENGTH - 100 * row :] = float("nan")
    return features


def assert_share(hidden: Tensor, rate: float) -> None:
    """Of N places that can be hidden, as many are as N throws of a coin give, in each half of them.

    Of N throws the share is q or further off with a chance of at most exp(-N · KL(q‖rate)) (the
    Chernoff bound).
    """
    for half in hidden.chunk(2):
        found = float(half.double().mean())
        pairs = ((found, rate), (1 - found, 1 - rate))
        divergence = sum(q * log(q / p) for q, p in pairs if q > 0)
        assert len(half) * divergence < -log(RARE), f"{found} hidden, not {rate}"


def assert_same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


@settings(max_examples=30)
@given(rates, seeds)
def test_a_share_of_the_tokens_of_each_row_becomes_unknown(rate: float, seed: int) -> None:
    ids = some_ids(seed)
    torch.manual_seed(seed)
    found = hide_words(ids, UNK, rate)
    hidden = found == UNK
    assert_same(found[~hidden], ids[~hidden])
    for row in range(ROWS):
        assert_share(hidden[row, 1 : LENGTH - 100 * row], rate)


@settings(max_examples=30)
@given(rates, seeds)
def test_a_share_of_the_frames_of_each_row_becomes_the_mean_as_a_whole(
    rate: float, seed: int
) -> None:
    features = some_features(seed)
    torch.manual_seed(seed)
    found = hide_frames(features, rate)
    hidden = (found == 0).all(dim=-1)
    assert_same(found[~hidden], features[~hidden])
    for row in range(ROWS):
        assert_share(hidden[row, : LENGTH - 100 * row], rate)


def test_where_all_is_hidden_the_start_and_the_padding_stay() -> None:
    ids, features = some_ids(1), some_features(1)
    real = (ids != PAD) & (ids != BOS)
    assert_same(hide_words(ids, UNK, 1.0), torch.where(real, UNK, ids))
    zero_but_for_padding = torch.where(features.isnan(), features, 0.0)
    assert_same(hide_frames(features, 1.0), zero_but_for_padding)


@given(seeds)
def test_a_rate_of_nothing_hides_nothing(seed: int) -> None:
    ids, features = some_ids(seed), some_features(seed)
    assert_same(hide_words(ids, UNK, 0.0), ids)
    assert_same(hide_frames(features, 0.0), features)


@pytest.mark.parametrize("kind", ["words", "frames"])
def test_what_is_hidden_is_drawn_from_torchs_generator_and_the_input_is_left_alone(
    kind: str,
) -> None:
    given = some_ids(2) if kind == "words" else some_features(2)
    before = given.clone()

    def hide(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return hide_words(given, UNK, 0.5) if kind == "words" else hide_frames(given, 0.5)

    assert_same(hide(5), hide(5))
    assert not torch.equal(hide(5).nan_to_num(-1.0), hide(6).nan_to_num(-1.0))
    assert_same(given, before)
