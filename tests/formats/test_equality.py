"""The one comparer: what is equal, what is a tie, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clearhead.errors import ExportError, ModelFolderError
from clearhead.formats.equality import UNEQUAL_EXPORT, UNEQUAL_IMPORT, Comparison, random_sources


def test_numbers_may_differ_by_rounding() -> None:
    comparison = Comparison(UNEQUAL_EXPORT, tolerance=0.1)
    comparison.near("logits", [1.0, 2.0], [1.05, 2.0])
    comparison.near("logits", [1.0], [1.01])
    comparison.near("logits", [], [])
    assert comparison.largest == pytest.approx(0.05)
    for other in (1.2, math.nan, math.inf):
        with pytest.raises(ExportError) as caught:
            comparison.near("logits", np.array([1.0, 2.0]), np.array([other, 2.0]))
        assert "logits" in str(caught.value.why)


@pytest.mark.parametrize("apart", [0.1, -0.1, math.nan])
def test_outputs_may_differ_after_a_tie_alone(apart: float) -> None:
    comparison = Comparison(UNEQUAL_IMPORT, tolerance=0.1)
    comparison.outputs([5, 6], [5, 6], [])
    assert comparison.same_outputs == "are the same"
    comparison.outputs([5, 6, 7], [5, 8], [math.nan, 0.0004, math.nan])
    assert (comparison.ties, comparison.same_outputs) == (1, "are the same (1 after a tie)")
    with pytest.raises(ModelFolderError) as caught:
        comparison.outputs([5, 6, 7], [5, 8], [0.0, apart])
    assert "token 2" in str(caught.value.why)


def test_tokens_must_be_the_same() -> None:
    comparison = Comparison(UNEQUAL_IMPORT, tolerance=0.1)
    comparison.same("the tokens", [1, 2], [1, 2])
    with pytest.raises(ModelFolderError):
        comparison.same("the tokens", [1, 2], [1, 3])


def test_random_sources_fit_the_model_and_are_always_the_same() -> None:
    sources = random_sources(9, longest=4)
    assert sources == random_sources(9, longest=4)
    assert {len(source) for source in sources} == {1, 2, 3, 4}
    assert all(3 <= token < 9 for source in sources for token in source)
