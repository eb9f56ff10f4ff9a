"""Positions in a sequence: sinusoidal, learned, or none."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.errors import DataError


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos/10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same) (section 3.5)."""
    # In float64, because in float32 the angle of a late position has few digits.
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = position / 10000.0 ** (even / d_model)
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
    return table[:, :d_model].to(torch.get_default_dtype())


class Positions(nn.Module):
    """Adds the vector of each position; this base class adds none: the model sees a set.

    There are `max_length` positions; None: no limit.
    """

    max_length: int | None = None

    def vectors(self, start: int, end: int) -> Float[Tensor, "length d_model"] | None:
        """The vectors of the positions start … end - 1; None if nothing is added."""
        return None

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        vectors = self.vectors(start, start + x.size(1))
        return x if vectors is None else x + vectors


class SinusoidalPositions(Positions):
    """PE(start), PE(start + 1), …; the table grows with the longest input seen."""

    table: Tensor

    def __init__(self, d_model: int, length: int = 512) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, d_model), persistent=False)

    def vectors(self, start: int, end: int) -> Float[Tensor, "length d_model"]:
        """PE(start) … PE(end - 1); a table that is too short is replaced by one of twice `end`."""
        if end > self.table.size(0):
            self.table = sinusoids(2 * end, self.table.size(1)).to(self.table)
        return self.table[start:end]


class LearnedPositions(Positions):
    """A trained vector for each of `max_length` positions."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.table = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def vectors(self, start: int, end: int) -> Float[Tensor, "length d_model"]:
        """The trained vectors of the positions start … end - 1.

        Raises:
            DataError: the model has fewer positions.
        """
        if end > self.table.size(0):
            raise DataError(
                f"a sequence of {end} tokens exceeds the model's {self.table.size(0)} positions",
                why="its positions are learned, so there are none beyond those trained",
                todo="shorten the input, or train with a larger model.positions.max_length",
            )
        return self.table[start:end]
