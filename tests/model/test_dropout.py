"""Tests that dropout drops independently and at its rate, and uses one mask in both passes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clearhead.model.dropout import Dropout, DroppedReLU, random_bytes

WORDS = 100_000


@pytest.fixture(scope="module")
def words() -> torch.Tensor:
    """Many 64-bit draws as their bytes, (WORDS, 8)."""
    torch.manual_seed(11)
    return random_bytes(torch.Size((WORDS, 8)))


@pytest.mark.parametrize("place", range(8))
def test_each_byte_of_a_word_is_uniform(words: torch.Tensor, place: int) -> None:
    counts = words[:, place].long().bincount(minlength=256).double()
    expected = WORDS / 256
    chi_squared = ((counts - expected) ** 2 / expected).sum().item()
    # 255 degrees of freedom: mean 255, standard deviation √510; six of them either way.
    assert abs(chi_squared - 255) < 6 * math.sqrt(510)


def test_the_bytes_of_a_word_and_of_its_neighbour_do_not_follow_each_other(
    words: torch.Tensor,
) -> None:
    columns = torch.cat((words[:-1], words[1:]), dim=1).double().T
    correlations = torch.corrcoef(columns)
    pairs = itertools.combinations(range(16), 2)
    assert max(abs(correlations[a, b].item()) for a, b in pairs) < 5 / math.sqrt(WORDS)
    for bit in (0, 7):
        bits = torch.corrcoef((words >> bit & 1).double().T) - torch.eye(8)
        assert bits.abs().max().item() < 5 / math.sqrt(WORDS)


@given(st.lists(st.integers(0, 5), max_size=4))
def test_bytes_come_in_any_shape(shape: list[int]) -> None:
    drawn = random_bytes(torch.Size(shape))
    assert drawn.shape == torch.Size(shape)
    assert drawn.dtype == torch.uint8


def test_a_seed_settles_the_draw_and_a_second_draw_differs() -> None:
    torch.manual_seed(5)
    first, second = random_bytes(torch.Size((9,))), random_bytes(torch.Size((9,)))
    torch.manual_seed(5)
    assert random_bytes(torch.Size((9,))).equal(first)
    assert not first.equal(second)


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.1, 0.25, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_share_is_the_rate_in_256ths_and_the_expectation_stays(
    rate: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(3)
    count = 200_000
    x = torch.full((count // 8, 8), 3.0, dtype=dtype)
    y = Dropout(rate)(x)
    share = min(max(round(rate * 256), 1), 255) / 256
    assert y.dtype == dtype
    assert abs(share - rate) <= 1 / 256
    dropped = (y == 0).sum().item()
    assert abs(dropped - share * count) < 5 * math.sqrt(share * (1 - share) * count)
    # What remains is scaled so that the expectation, (1 − share) · scale, is 1.
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 3 / (1 - share)))


@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_the_gradient_passes_the_same_mask(rate: float) -> None:
    torch.manual_seed(1)
    x = torch.randn(50, 40, dtype=torch.float64, requires_grad=True)
    y = Dropout(rate)(x)
    slope = torch.randn_like(y)
    y.backward(slope)
    torch.testing.assert_close(x.grad, slope * y.detach() / x.detach())


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_evaluation_and_a_rate_of_zero_leave_the_input_as_it_is(rate: float) -> None:
    x = torch.randn(3, 4)
    dropout = Dropout(rate)
    assert dropout.eval()(x) is x
    assert (dropout.train()(x) is x) == (rate == 0.0)


def test_no_number_of_a_strided_input_is_mistaken_for_another() -> None:
    x = torch.arange(1.0, 13.0).view(3, 4).T
    y = Dropout(0.5)(x)
    assert ((y == 0) | (y == 2 * x)).all()


def test_the_rate_is_shown() -> None:
    assert repr(nn.Sequential(Dropout(0.25))) == "Sequential(\n  (0): Dropout(rate=0.25)\n)"
    assert repr(DroppedReLU(0.25)) == "DroppedReLU(rate=0.25)"


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dropped_relu_is_the_one_after_the_other_to_the_bit(
    rate: float, dtype: torch.dtype
) -> None:
    apart = nn.Sequential(nn.ReLU(), Dropout(rate))
    found: list[tuple[torch.Tensor, torch.Tensor | None]] = []
    for module in (apart, DroppedReLU(rate)):
        torch.manual_seed(2)
        x = torch.randn(4, 10, 30).to(dtype).requires_grad_()
        # As in a model: a view of what a product gave.
        y = module((x * 2).flatten(0, 1).view(4, 10, 30))
        y.backward(torch.randn(4, 10, 30).to(dtype))
        found.append((y, x.grad))
        assert module.eval()(x).equal(x.relu())
    (expected, expected_slope), (y, slope) = found
    assert expected_slope is not None
    assert slope is not None
    assert y.equal(expected)
    assert slope.equal(expected_slope)
    assert 0 < (slope == 0).double().mean() < 1


def remembered(module: nn.Module) -> int:
    """The bytes that are kept for the backward pass, without those of weights."""
    kept: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    network = nn.Sequential(nn.Linear(16, 64), module, nn.Linear(64, 16))
    x = torch.randn(10, 10, 16)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        y = network(x)
    own = {p.untyped_storage().data_ptr() for p in (*network.parameters(), x)}
    del y
    return sum(size for place, size in kept.items() if place not in own)


def test_a_dropped_relu_remembers_what_the_next_product_does_and_nothing_else() -> None:
    hidden = 100 * 64 * 4
    assert remembered(DroppedReLU(0.3)) == hidden
    assert remembered(nn.Sequential(nn.ReLU(), Dropout(0.3))) > 2 * hidden
