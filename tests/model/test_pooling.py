"""Tests of the parts that only a classifier has: poolings, feature input, input convolution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from clearhead.model.build import build_classifier
from clearhead.model.inputs import ConvolvedInput, FeatureProjection
from clearhead.model.pooling import AttentionPooling, FirstPooling, MaximumPooling, MeanPooling
from clearhead.model.transformer import EncoderClassifier
from clearhead.settings import ClassifierConfig, ModelConfig
from small_models import labelled_run, padded, small_config

POOLINGS = ("mean", "first", "maximum", "attention")
WIDTH, LABELS, VOCABULARY = 5, 3, 13
lengths = st.lists(st.integers(0, 6), min_size=1, max_size=4)


def classifier(
    features: bool = False,
    convolution: tuple[int, ...] = (),
    pooling: tuple[str, ...] = POOLINGS,
) -> EncoderClassifier:
    """A classifier in float64 with every parameter drawn."""
    torch.manual_seed(1)
    config: ModelConfig = small_config(input_convolution=convolution)
    head = ClassifierConfig(pooling=pooling, dropout=0.0)  # type: ignore[arg-type]
    inputs = WIDTH if features else VOCABULARY
    model = build_classifier(labelled_run(config, head, features), inputs, LABELS).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def sequences(rows: int, longest: int) -> list[Tensor]:
    """Features of several lengths (length, WIDTH)."""
    rng = np.random.default_rng(rows)
    sizes = [longest, *rng.integers(1, longest + 1, rows - 1)]
    return [torch.from_numpy(rng.normal(size=(size, WIDTH)).astype("f4")) for size in sizes]


def with_padding(rows: list[Tensor], length: int) -> Tensor:
    batch = torch.full((len(rows), length, WIDTH), float("nan"))
    for place, row in zip(batch, rows, strict=True):
        place[: len(row)] = row
    return batch


@given(lengths, st.integers(0, 3))
def test_each_pooling_is_what_a_loop_over_the_real_places_gives(
    sizes: list[int], more: int
) -> None:
    torch.manual_seed(len(sizes))
    longest = max(sizes) + more
    if longest == 0:
        longest = 1
    x = torch.randn(len(sizes), longest, 4, dtype=torch.float64)
    mask = (torch.arange(longest) < torch.tensor(sizes)[:, None])[:, None, None, :]
    attention = AttentionPooling(4).double()
    w = attention.query.weight.detach()[0].numpy()
    found = [
        pooling(x, mask).detach().numpy()
        for pooling in (MeanPooling(), FirstPooling(), MaximumPooling(), attention)
    ]
    for row, size in enumerate(sizes):
        real = x[row, :size].numpy()
        expected = np.zeros((4, 4))
        if size:
            weights = np.exp(real @ w)
            weighted = (weights[:, None] * real).sum(axis=0) / weights.sum()
            expected = np.array([real.mean(axis=0), real[0], real.max(axis=0), weighted])
        np.testing.assert_allclose([each[row] for each in found], expected, atol=1e-12)


@pytest.mark.parametrize(
    "pooling", [MeanPooling(), FirstPooling(), MaximumPooling(), AttentionPooling(4)]
)
def test_each_pooling_works_under_autocast(pooling: torch.nn.Module) -> None:
    torch.manual_seed(1)
    x, mask = torch.randn(2, 3, 4), torch.tensor([[[[True, True, False]]], [[[False] * 3]]])
    expected = pooling(x, mask)
    with torch.autocast("cpu", torch.bfloat16):
        found = pooling(x, mask)
    # Three bits less than bfloat16 has, for a few roundings.
    torch.testing.assert_close(found.float(), expected, rtol=2**-5, atol=2**-5)


@pytest.mark.parametrize("convolution", [(), (1,), (2,), (3,), (4,), (2, 5, 3)])
def test_padding_changes_no_logits_of_features(convolution: tuple[int, ...]) -> None:
    model = classifier(features=True, convolution=convolution)
    rows = sequences(4, 7)
    together = model(with_padding(rows, 10))
    alone = torch.cat([model(row[None]) for row in rows])
    torch.testing.assert_close(together, alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize("convolution", [(), (3,), (4,), (2, 5, 3)])
def test_padding_changes_no_logits_of_texts(convolution: tuple[int, ...]) -> None:
    model = classifier(convolution=convolution)
    texts = [[5, 7, 2, 9], [3], [4, 4, 11]]
    together = model(padded(texts, 7))
    alone = torch.cat([model(torch.tensor([text])) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-10, rtol=0)


def test_what_is_all_padding_has_finite_logits() -> None:
    for model, batch in (
        (classifier(), torch.zeros(2, 3, dtype=torch.long)),
        (classifier(features=True, convolution=(3,)), torch.full((2, 3, WIDTH), float("nan"))),
    ):
        assert model(batch).isfinite().all()


@pytest.mark.parametrize("widths", [(1,), (2,), (3,), (4,), (2, 3), (5, 1, 2)])
def test_convolutions_add_what_a_loop_over_the_neighbours_gives(widths: tuple[int, ...]) -> None:
    model = classifier(convolution=widths)
    ids = torch.tensor([[5, 7, 2, 9, 12]])
    whole = model.input
    assert isinstance(whole, ConvolvedInput)
    plain = whole.input(ids)[0].detach()
    convolutions = [each for each in whole.convolutions if isinstance(each, nn.Conv1d)]
    assert [each.kernel_size[0] for each in convolutions] == list(widths)
    shares = torch.arange(8).tensor_split(len(widths))  # as even as can be
    assert [each.out_channels for each in convolutions] == list(map(len, shares))
    found = whole(ids)[0]
    for place in range(5):
        seen = torch.cat([_seen(plain, place, each) for each in convolutions])
        torch.testing.assert_close(found[place], plain[place] + seen.relu())


def _seen(vectors: Tensor, place: int, convolution: nn.Conv1d) -> Tensor:
    """The output of a convolution at a position, computed neighbour by neighbour."""
    weight, bias = convolution.weight, convolution.bias
    assert bias is not None
    width = weight.size(2)
    seen = bias.clone()
    for tap in range(width):
        neighbour = place + tap - width // 2
        if 0 <= neighbour < len(vectors):
            seen = seen + weight[:, :, tap] @ vectors[neighbour]
    return seen


def test_a_frame_is_projected_and_given_its_position() -> None:
    model = classifier(features=True)
    row = sequences(1, 4)[0]
    whole = model.input
    assert isinstance(whole, FeatureProjection)
    projection = whole.projection
    without = row.double() @ projection.weight.T + projection.bias
    zeros = model.input(torch.zeros(1, 4, WIDTH))[0] - projection.bias
    torch.testing.assert_close(model.input(row[None])[0], without + zeros)
