"""Tests of the sinusoids against the paper, of offsets, and of the end of a learned table."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.errors import DataError
from clearhead.model.dropout import Dropout
from clearhead.model.inputs import TokenEmbedding
from clearhead.model.positions import (
    LearnedPositions,
    Positions,
    SinusoidalPositions,
    sinusoids,
)


def formula(position: int, column: int, d_model: int) -> float:
    """The formula of section 3.5 for one number."""
    i = column // 2
    angle = position / math.pow(10000.0, 2 * i / d_model)
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)


def exact_sinusoids(length: int, d_model: int) -> Tensor:
    torch.set_default_dtype(torch.float64)
    try:
        return sinusoids(length, d_model)
    finally:
        torch.set_default_dtype(torch.float32)


@given(st.integers(1, 9), st.integers(1, 40))
def test_sinusoids_are_the_formula_of_the_paper(d_model: int, length: int) -> None:
    expected = [[formula(pos, i, d_model) for i in range(d_model)] for pos in range(length)]
    exact = torch.tensor(expected, dtype=torch.float64)
    assert exact_sinusoids(length, d_model).shape == (length, d_model)
    torch.testing.assert_close(exact_sinusoids(length, d_model), exact, rtol=0, atol=1e-12)
    torch.testing.assert_close(sinusoids(length, d_model), exact.float(), rtol=0, atol=1e-7)


def test_late_positions_are_exact_in_float32_too() -> None:
    row = sinusoids(100_001, 8)[100_000]
    expected = torch.tensor([formula(100_000, i, 8) for i in range(8)])
    torch.testing.assert_close(row, expected, rtol=0, atol=1e-7)


def all_kinds(d_model: int, longest: int) -> list[Positions]:
    return [
        SinusoidalPositions(d_model, longest),
        LearnedPositions(d_model, longest),
        Positions(),
    ]


@pytest.mark.parametrize("kind", range(3))
@given(split=st.integers(0, 7))
def test_a_sequence_in_two_parts_gets_the_positions_of_the_whole(kind: int, split: int) -> None:
    positions = all_kinds(6, 7)[kind]
    x = torch.randn(2, 7, 6)
    parts = [positions(x[:, :split], 0), positions(x[:, split:], split)]
    torch.testing.assert_close(torch.cat(parts, dim=1), positions(x, 0), rtol=0, atol=0)


def test_each_kind_adds_its_own_table() -> None:
    x = torch.randn(2, 3, 6)
    sinusoidal, learned, none = all_kinds(6, 10)
    torch.testing.assert_close(sinusoidal(x, 2), x + sinusoids(10, 6)[2:5])
    assert isinstance(learned, LearnedPositions)
    torch.testing.assert_close(learned(x, 2), x + learned.table[2:5])
    assert none(x, 2) is x


def test_the_sinusoidal_table_grows_with_the_input_and_keeps_its_type() -> None:
    positions = SinusoidalPositions(4, length=2).double()
    x = torch.zeros(1, 3, 4, dtype=torch.float64)
    got = positions(x, 4)
    assert got.dtype == torch.float64
    torch.testing.assert_close(got[0], sinusoids(7, 4)[4:].double(), rtol=0, atol=0)
    torch.testing.assert_close(positions(x, 0)[0], sinusoids(3, 4).double(), rtol=0, atol=0)
    # Twice as many as were asked for, so that it seldom grows.
    assert positions.table.shape == (14, 4)
    assert not positions.state_dict()


@pytest.mark.parametrize(("start", "length"), [(0, 6), (5, 1), (3, 3)])
def test_beyond_the_learned_table_is_an_error_of_the_data(start: int, length: int) -> None:
    positions = LearnedPositions(4, 5)
    positions(torch.zeros(1, 5, 4))
    with pytest.raises(DataError, match="6 tokens exceeds the model's 5 positions"):
        positions(torch.zeros(1, length, 4), start)


def test_each_kind_has_its_number_of_positions() -> None:
    assert [kind.max_length for kind in all_kinds(6, 7)] == [None, 7, None]
    for positions in all_kinds(6, 7):
        embedding = TokenEmbedding(
            nn.Embedding(5, 6), positions, nn.Identity(), Dropout(0.0), True, 0
        )
        assert embedding.max_length == positions.max_length


def test_learned_positions_are_trained() -> None:
    positions = LearnedPositions(4, 5)
    positions(torch.zeros(2, 3, 4)).sum().backward()
    expected = torch.tensor([2.0, 2, 2, 0, 0])[:, None].expand(5, 4)
    torch.testing.assert_close(positions.table.grad, expected)
