"""Features as callers from Python give them: brought into one form, or refused with their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead.data.inputs import FeatureInputs
from clearhead.data.labelled import Labelled
from clearhead.data.normaliser import Normaliser
from clearhead.errors import DataError

NAMES = ("height", "width")
INPUTS = FeatureInputs(Normaliser(np.zeros(2), np.ones(2), names=NAMES), "refuse", 8)


@pytest.mark.parametrize(
    "wrong",
    [
        [[1.0, 2.0], [3.0]],
        [[1.0, 2.0], 3.0],
        [np.zeros(2), np.zeros(3)],
        [[[1.0], [2.0, 3.0]]],
        torch.zeros(3, 2, requires_grad=True),
        torch.zeros(3, 2, dtype=torch.bfloat16),
    ],
)
@pytest.mark.parametrize("columns", [(), NAMES])
def test_what_is_no_array_is_refused_with_its_place(wrong: Any, columns: tuple[str, ...]) -> None:
    right = Labelled([[1.0, 2.0]], (), "input 1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="not an array of numbers") as raised:
        INPUTS.rows([right, Labelled(wrong, (), "input 2", columns)])
    assert raised.value.where == "input 2"
    assert raised.value.why
    assert raised.value.todo


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor])
def test_numbers_of_any_form_go_by_the_names_of_their_columns(form: Any) -> None:
    frames = [[1, 2], [3, 4], [5, 6]]
    (row,) = INPUTS.rows([Labelled(form(frames), (), "input 1", NAMES[::-1])])
    np.testing.assert_array_equal(row, np.array(frames)[:, ::-1])


def test_what_fills_a_gap_may_lie_far_from_the_training_data_and_a_value_may_not() -> None:
    normaliser = Normaliser(np.array([1.7e9]), np.array([128.0]))  # of seconds since 1970
    inputs = FeatureInputs(normaliser, "zero", 8)
    (row,) = inputs.rows([Labelled(np.array([[np.nan], [1.7e9]]), (), "input 1")])
    np.testing.assert_allclose(row[:, 0], [-1.7e9 / 128.0, 0.0])
    with pytest.raises(DataError, match="too far"):
        inputs.rows([Labelled(np.array([[0.0], [1.7e9]]), (), "input 1")])
