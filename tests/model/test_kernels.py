"""Random kernels of sequences: against a loop over kernels and frames, and what they never see."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.model.build import build_classifier
from clearhead.model.kernels import RandomKernels, dilations
from clearhead.settings import ClassifierConfig
from clearhead.settings.run import KERNEL_WIDTH
from small_models import labelled_run, small_config

WIDTH, COUNT, REACH = 3, 12, 40


@pytest.fixture(scope="module")
def kernels() -> RandomKernels:
    torch.manual_seed(1)
    return RandomKernels(WIDTH, COUNT, KERNEL_WIDTH, REACH).double()


def batch(sizes: list[int], longest: int) -> tuple[Tensor, Tensor]:
    """Sequences of several lengths, padded with NaN, and their mask."""
    rng = np.random.default_rng(len(sizes))
    x = torch.full((len(sizes), longest, WIDTH), float("nan"), dtype=torch.float64)
    for row, size in zip(x, sizes, strict=True):
        row[:size] = torch.from_numpy(rng.normal(size=(size, WIDTH)))
    return x, ~x[..., 0].isnan()[:, None, None, :]


def by_loops(kernels: RandomKernels, sequence: np.ndarray) -> list[float]:
    """The numbers of a sequence (length, WIDTH) by their definition."""
    shares, maxima, apart = [], [], [*kernels.dilations.elements()]
    for weight, bias, dilation in zip(
        kernels.weight.numpy(), kernels.bias.numpy(), apart, strict=True
    ):
        outputs = []
        for middle in range(len(sequence)):
            total = bias
            for place in range(KERNEL_WIDTH):
                frame = middle + (place - KERNEL_WIDTH // 2) * dilation
                if 0 <= frame < len(sequence):
                    total += weight[:, place] @ sequence[frame]
            outputs.append(total)
        shares.append(float(np.mean(np.array(outputs) > 0)) if outputs else 0.0)
        maxima.append(max(outputs, default=0.0))
    return shares + maxima


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 5))
def test_the_numbers_are_those_of_loops_whatever_the_padding(
    kernels: RandomKernels, sizes: list[int], more: int
) -> None:
    x, mask = batch(sizes, max(1, max(sizes) + more))
    found = kernels.numbers(x, mask)
    for row, size, numbers in zip(x, sizes, found, strict=True):
        np.testing.assert_allclose(numbers.numpy(), by_loops(kernels, row[:size].numpy()))


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


def test_fitted_numbers_have_mean_0_and_deviation_1(kernels: RandomKernels) -> None:
    parts = [batch([9, 20, 30], 30), batch([12, 14, 25, 8], 25)]
    kernels.fit(parts)
    found = torch.cat([kernels(*part) for part in parts])
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(2 * COUNT).double())
    deviation = found.std(dim=0, correction=0)
    assert ((deviation - 1).abs().lt(1e-6) | deviation.eq(0)).all()


def test_a_classifier_has_them_beside_the_pooled_vector_and_does_not_train_them() -> None:
    head = ClassifierConfig(kernels=COUNT, kernel_reach=REACH, hidden="tanh", dropout=0.0)
    run = labelled_run(small_config(), head, features=True)
    torch.manual_seed(1)
    model = build_classifier(run, WIDTH, 2).double()
    x, mask = batch([20, 13], 20)
    assert model.kernels is not None
    # A new output layer ignores them.
    without = model.hidden(model.pooling(*model.encode(x)))
    width = without.size(1)
    expected = without @ model.output.weight[:, :width].T + model.output.bias
    torch.testing.assert_close(model(x), expected)
    # Then it learns what counts of them, and they stay.
    before = {name: values.clone() for name, values in model.kernels.state_dict().items()}
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1)
    model(x).square().sum().backward()
    optimizer.step()
    added = model(x) - (
        model.hidden(model.pooling(*model.encode(x))) @ model.output.weight[:, :width].T
        + model.output.bias
    )
    expected = model.kernels(x, mask) @ model.output.weight[:, width:].T
    torch.testing.assert_close(added, expected)
    assert added.abs().max() > 0
    for name, values in model.kernels.state_dict().items():
        torch.testing.assert_close(values, before[name])


def test_no_kernels_no_parameters() -> None:
    model = build_classifier(labelled_run(small_config(), ClassifierConfig(), True), WIDTH, 2)
    assert not [name for name, _ in model.named_parameters() if "kernels" in name]
    assert math.prod(model.output.weight.shape) == 2 * small_config().d_model
