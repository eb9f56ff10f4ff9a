"""The seam between a search and a model: all that beam search and sampling know of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Stepper(Protocol):
    """A model that continues rows of target tokens, one token at a time.

    A row is one hypothesis. The tensors given to a stepper are int64 and on the CPU: moving them
    to where the model is, is the stepper's part.
    """

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        """Read the sources and begin one empty row for each, in their order."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (rows,) to the rows, and give the logits of what comes next.

        Returns:
            Unnormalised logits (rows, vocabulary), float32, on any device. The caller may
            overwrite them.
        """
        ...

    def reorder(self, rows: Tensor) -> None:
        """Let new row i continue old row `rows[i]`; there may be fewer or more rows than before."""
        ...
