"""How large the cells of a picture are, and whether their values are written in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.inspect.grid import POINTS
from clearhead.inspect.labels import text_width
from clearhead.inspect.record import Array

VALUE_SIZE = 6.5  # points
SMALLEST_CELL = 0.3  # inches across, in which a value is written
LARGEST_PICTURE = 36.0  # inches, in which values are written
HIGHEST_PANEL = 14.0  # inches, in which values are written
PANEL = 7.0  # inches of a panel without values, at most


@dataclass(frozen=True)
class Cells:
    """Width and height of a cell in inches, and the format of its value (None: not written)."""

    width: float
    height: float
    form: str | None


def fitting_cells(matrices: Sequence[Array], grid: tuple[int, int], square: bool) -> Cells:
    """The cells of matrices of one shape, in which values are written if they stay legible.

    Args:
        matrices: the numbers to write.
        grid: panels down and across.
        square: whether cells are as high as they are wide.
    """
    rows, columns = matrices[0].shape
    form = value_format(matrices)
    longest = max(len(format(x, form)) for matrix in matrices for x in (matrix.min(), matrix.max()))
    width = max(text_width("0" * longest) * VALUE_SIZE / POINTS + 0.08, SMALLEST_CELL)
    height = width if square else 0.2
    legible = (
        rows * height <= HIGHEST_PANEL
        and rows * height * grid[0] <= LARGEST_PICTURE
        and columns * width * grid[1] <= LARGEST_PICTURE
    )
    if legible:
        return Cells(width, height, form)
    width = min(0.3, PANEL / columns, LARGEST_PICTURE / (grid[1] * columns))
    height = min(0.2, PANEL / rows, LARGEST_PICTURE / (grid[0] * rows))
    if square:
        width = height = min(width, height)
    return Cells(width, height, None)


def value_format(matrices: Sequence[Array]) -> str:
    """Two decimals, fewer where the numbers are large; none for whole numbers."""
    if all(np.issubdtype(matrix.dtype, np.integer) for matrix in matrices):
        return "d"
    largest = max(float(np.abs(matrix).max()) for matrix in matrices)
    # The z writes what is rounded to zero without a minus.
    return "z.2f" if largest < 9.995 else "z.1f" if largest < 99.95 else "z.0f"
