"""Random kernels of sequences: against a loop over kernels and frames, and their thresholds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.model.kernels import ABOVE, RandomKernels, dilations
from clearhead.settings.run import KERNEL_WIDTH

WIDTH, COUNT, REACH = 3, 12, 40


@pytest.fixture(scope="module")
def kernels() -> RandomKernels:
    torch.manual_seed(1)
    return RandomKernels(WIDTH, COUNT, KERNEL_WIDTH, REACH).double()


def batch(sizes: list[int], longest: int) -> Tensor:
    """Sequences of several lengths, padded with NaN."""
    rng = np.random.default_rng(len(sizes))
    x = torch.full((len(sizes), longest, WIDTH), float("nan"), dtype=torch.float64)
    for row, size in zip(x, sizes, strict=True):
        row[:size] = torch.from_numpy(rng.normal(size=(size, WIDTH)))
    return x


def by_loops(kernels: RandomKernels, sequence: np.ndarray) -> list[float]:
    """The shares of a sequence (length, WIDTH) by their definition."""
    shares, apart = [], [*kernels.dilations.elements()]
    for weight, threshold, dilation in zip(
        kernels.weight.numpy(), kernels.threshold.numpy(), apart, strict=True
    ):
        outputs = outputs_by_loops(weight, dilation, sequence)
        shares.append(float(np.mean(outputs > threshold)) if len(sequence) else 0.0)
    return shares


def outputs_by_loops(weight: np.ndarray, dilation: int, sequence: np.ndarray) -> np.ndarray:
    outputs = np.zeros(len(sequence))
    for middle in range(len(sequence)):
        for place in range(KERNEL_WIDTH):
            frame = middle + (place - KERNEL_WIDTH // 2) * dilation
            if 0 <= frame < len(sequence):
                outputs[middle] += weight[:, place] @ sequence[frame]
    return outputs


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 5))
def test_the_shares_are_those_of_loops_whatever_the_padding(
    kernels: RandomKernels, sizes: list[int], more: int
) -> None:
    x = batch(sizes, max(1, max(sizes) + more))
    found = kernels.shares(x)
    for row, size, shares in zip(x, sizes, found, strict=True):
        np.testing.assert_allclose(shares.numpy(), by_loops(kernels, row[:size].numpy()))


@given(st.integers(1, 600), st.floats(1, 300))
def test_the_dilations_begin_with_neighbours(count: int, largest: float) -> None:
    found = dilations(count, largest)
    assert found.total() == count
    assert min(found) == 1
    assert max(found) <= largest


def test_each_kernel_has_mean_zero_and_reads_at_most_as_many_features_as_frames() -> None:
    torch.manual_seed(1)
    weight = RandomKernels(50, 300, KERNEL_WIDTH, REACH).weight
    torch.testing.assert_close(weight.mean(dim=-1), torch.zeros(300, 50), atol=1e-6, rtol=0)
    read = (weight != 0).any(dim=-1).sum(dim=-1)
    assert int(read.min()) == 1
    assert KERNEL_WIDTH // 2 < int(read.max()) <= KERNEL_WIDTH


def fitted_kernels(parts: list[Tensor]) -> RandomKernels:
    torch.manual_seed(2)
    kernels = RandomKernels(WIDTH, COUNT, KERNEL_WIDTH, REACH).double()
    kernels.fit(parts)
    return kernels


def test_fitted_features_have_mean_0_and_together_the_variance_1() -> None:
    parts = [batch([9, 20, 30], 30), batch([12, 14, 25, 8], 25)]
    found = torch.cat([*map(fitted_kernels(parts), parts)])
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(COUNT).double())
    variance = found.var(dim=0, correction=0)
    assert ((variance * COUNT - 1).abs().lt(1e-6) | variance.eq(0)).all()
    assert variance.gt(0).sum() > COUNT / 2


def test_each_threshold_is_an_output_for_a_training_sequence() -> None:
    parts = [batch([9, 20, 30], 30), batch([12, 14], 25), batch([0], 4)]
    kernels = fitted_kernels(parts)
    sequences = [row[~row[:, 0].isnan()].numpy() for part in parts for row in part]
    apart = [*kernels.dilations.elements()]
    for weight, threshold, dilation in zip(
        kernels.weight.numpy(), kernels.threshold.numpy(), apart, strict=True
    ):
        outputs = [outputs_by_loops(weight, dilation, sequence) for sequence in sequences]
        above = [each + ABOVE * np.abs(each).max(initial=0) for each in outputs]
        assert np.abs(np.concatenate(above) - threshold).min() < 1e-9


def test_the_unit_of_the_features_does_not_matter() -> None:
    part = batch([9, 20, 30], 30)
    for unit in (1e-6, 1e6):
        kernels = fitted_kernels([unit * part])
        torch.testing.assert_close(kernels.shares(unit * part), fitted_kernels([part]).shares(part))


def test_rounding_does_not_decide_where_a_sequence_is_constant() -> None:
    constant = torch.full((1, 60, WIDTH), 0.7)
    torch.manual_seed(2)
    kernels = RandomKernels(WIDTH, COUNT, KERNEL_WIDTH, KERNEL_WIDTH)
    kernels.fit([constant])
    inner = kernels.shares(constant.double()).float()
    torch.testing.assert_close(kernels.shares(constant), inner)
