"""Whether two programs compute the same: a model and its export, or an original and its import.

Equal means the same tokens, outputs and labels, except where two are tied, and numbers that differ
by rounding only. Whatever is not equal is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from clearhead.errors import ClearheadError, ExportError, ModelFolderError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import EOS

TIE = 1e-3
"""Greedy search may choose either of two tokens whose log-probabilities differ by no more."""

GREEDY = SearchConfig(beam_size=1, max_length=48)
"""The search whose outputs are compared."""

SENTENCES = (
    "Two dogs play in the snow.",
    "How many people lived in Madrid in 1987?",
    "  The quick brown fox, 23,481 others and a \u2581 look on; none of them moves. ",
    "Das hätte ich nicht gedacht: Straßen, Brücken, überall Wasser!",
    "¿Qué hora es? — No lo sé; pregúntale a Íñigo.",
    "中文句子也可以。 Ещё одно предложение. 🙂 x² + y² ≠ z²",
    "a",
)
"""Texts whose tokens are compared."""

LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)

UNEQUAL_EXPORT = partial(
    ExportError,
    "the exported model differs from the model, so it was discarded",
    todo="use the model as it is",
)
UNEQUAL_IMPORT = partial(ModelFolderError, "clearhead computes something else than the original")


def random_sources(vocabulary: int, longest: int | None = None) -> list[list[int]]:
    """Random sources of several lengths, the same at every call."""
    draw = np.random.default_rng(1)
    lengths = [min(length, longest or length) for length in LENGTHS]
    return [draw.integers(EOS + 1, vocabulary, length).tolist() for length in lengths]


@dataclass
class Comparison:
    """A comparison of two programs, which raises an error if they differ.

    Attributes:
        unequal: makes the error from its reason.
        tolerance: the largest difference of two numbers that is rounding.
        largest: the largest difference so far.
        ties: the number of outputs that differ from a token on for which there was a tie.
    """

    unequal: Callable[..., ClearheadError]
    tolerance: float
    largest: float = 0.0
    ties: int = 0

    def same(self, what: str, expected: object, found: object) -> None:
        """Compare tokens, texts or names."""
        if expected != found:
            raise self.unequal(why=f"{what} differ")

    def near(self, what: str, expected: ArrayLike, found: ArrayLike) -> float:
        """Compare numbers; returns the largest difference."""
        difference = float(np.abs(np.subtract(expected, found)).max(initial=0.0))
        # Written so that NaN is an error too.
        if not difference <= self.tolerance:
            raise self.unequal(why=f"{what} differ by {difference:.2g}")
        self.largest = max(self.largest, difference)
        return difference

    def outputs(
        self, expected: Sequence[int], found: Sequence[int], apart: Sequence[float]
    ) -> None:
        """Compare two greedy outputs; `apart`: how much likelier one token is than the other."""
        if expected == found:
            return
        at = next(i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b)
        if not abs(apart[at]) <= TIE:
            raise self.unequal(why=f"greedy outputs differ at token {at + 1}")
        self.ties += 1

    @property
    def same_outputs(self) -> str:
        """How a sentence about the outputs ends."""
        return f"are the same ({self.ties} after a tie)" if self.ties else "are the same"
