"""Tests how the convolutions of an input share the dimensions of the model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clearhead.model.build import build_classifier
from clearhead.model.inputs import ConvolvedInput
from small_models import labelled_run, small_config


@pytest.mark.slow
@given(st.integers(1, 12), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_convolutions_share_the_dimensions_as_evenly_as_can_be(d: int, widths: list[int]) -> None:
    widths = widths[:d]
    config = small_config(d_model=2 * d, n_heads=1, input_convolution=tuple(widths))
    whole = build_classifier(labelled_run(config, features=True), 3, 2).input
    assert isinstance(whole, ConvolvedInput)
    convolutions = [each for each in whole.convolutions if isinstance(each, nn.Conv1d)]
    shares = [len(share) for share in torch.arange(2 * d).tensor_split(len(widths))]
    assert [each.out_channels for each in convolutions] == shares
    assert [each.kernel_size for each in convolutions] == [(width,) for width in widths]
