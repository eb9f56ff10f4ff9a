"""Heat maps side by side: one figure of several matrices on one colour scale.

The size of a figure follows from its content. Positions are in inches, so that a cell has enough
space for its value, and a row or column for its name.
"""

from __future__ import annotations

import functools
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from clearhead.inspect.record import Array

POINTS = 72.0  # in an inch

# Sizes of text in points: values, names of rows and columns, titles of panels and sides, the title.
VALUE_SIZE, NAME_SIZE, SMALLEST_NAME, SIDE_SIZE, TITLE_SIZE = 6.5, 8.0, 5.0, 9.0, 11.0

# Lengths in inches. Values are written in cells of at least this width, as long as neither a panel
# nor the figure exceeds its limit; without values a panel is at most PANEL wide and high.
SMALLEST_CELL, HIGHEST_PANEL, LARGEST_FIGURE, PANEL = 0.3, 14.0, 36.0, 7.0
GAP, HEADING, BAR_WIDTH, HIGHEST_BAR, EDGE = 0.25, 0.3, 0.16, 5.0, 0.15

RASTER_CELLS = 4096
"""A panel with more cells is an image in an SVG file, which would otherwise be huge."""

LUMINANCE = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue

SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "clearhead"}
"""Text stays text in an SVG file, and the same figure gives the same bytes."""


FAMILY = "sans-serif"
"""For matplotlib the font that it ships; for a viewer of SVG files any font of this kind."""

LONGEST_LABEL = 18
"""Maximum number of characters of a name; a longer one is cut, with an ellipsis."""

JOINERS = "\u200c\u200d"
"""Invisible, but some scripts, e.g. Persian and Hindi, need them."""


@dataclass(frozen=True)
class Scale:
    """The colours of numbers from `low` to `high`; the palette is a colour map of matplotlib."""

    name: str
    palette: str
    low: float
    high: float


@dataclass(frozen=True)
class AxisNames:
    """The name of the rows or columns of a matrix, and the name of each of them."""

    name: str
    names: Sequence[str]


@dataclass(frozen=True)
class Panel:
    """A matrix (rows, columns) to draw.

    Attributes:
        title: written above it.
        values: choose the colours.
        hidden: True for cells that are left blank (None: no cell).
        written: numbers written in the cells (None: the values).
    """

    title: str
    values: Array
    hidden: Array | None = None
    written: Array | None = None

    @property
    def numbers(self) -> Array:
        """The numbers written in the cells."""
        return self.values if self.written is None else self.written


def heatmap_figure(
    title: str,
    panels: Sequence[Panel],
    scale: Scale,
    down: AxisNames,
    across: AxisNames,
    max_columns: int = 4,
    square: bool = True,
) -> Figure:
    """Panels of one shape in a grid, with one colour bar.

    Args:
        title: of the figure.
        panels: row by row.
        scale: the colours of all panels.
        down: the rows.
        across: the columns.
        max_columns: largest number of panels in a row of the grid.
        square: whether cells are as high as they are wide.
    """
    columns = min(max_columns, len(panels))
    grid_shape = -(-len(panels) // columns), columns
    cells = fitting_cells([panel.numbers for panel in panels], grid_shape, square)
    grid = Grid(panels, columns, cells, scale, down, across)
    with fixed_settings():
        figure = Figure(figsize=grid.size)
        FigureCanvasAgg(figure)
        for number, panel in enumerate(panels):
            axes = _axes(figure, *grid.panel_box(number))
            _draw(axes, panel, scale, cells)
            axes.set_title(panel.title, fontsize=SIDE_SIZE, pad=4)
            if number % columns == 0:
                _name(axes.yaxis, down, cells.height)
                axes.yaxis.labelpad += grid.overhang * POINTS
            if number + columns >= len(panels):
                _name(axes.xaxis, across, cells.width)
        _draw_bar(_axes(figure, *grid.bar_box), figure.axes[0], scale)
        _draw_title(figure, title)
    return figure


@contextmanager
def fixed_settings() -> Iterator[None]:
    """Use matplotlib's defaults, whatever this machine or program has set.

    A character that no font has is drawn as a box, without a warning.
    """
    with warnings.catch_warnings(), matplotlib.style.context(["default", SETTINGS]):
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def save(figure: Figure, path: Path, form: str) -> None:
    """Write a figure, with text that exceeds its edges, and without the time of day."""
    with fixed_settings():
        # Otherwise savefig would draw the figure once more to find its extent.
        everything = figure.get_tightbbox().padded(EDGE)
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(path, format=form, dpi=150, bbox_inches=everything, metadata=metadata)


@dataclass(frozen=True)
class Cells:
    """Width and height of a cell in inches, and the format of its value (None: not written)."""

    width: float
    height: float
    form: str | None


def fitting_cells(matrices: Sequence[Array], grid: tuple[int, int], square: bool) -> Cells:
    """The cells of matrices of one shape; values are written if they are legible.

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
        and rows * height * grid[0] <= LARGEST_FIGURE
        and columns * width * grid[1] <= LARGEST_FIGURE
    )
    if legible:
        return Cells(width, height, form)
    width = min(0.3, PANEL / columns, LARGEST_FIGURE / (grid[1] * columns))
    height = min(0.2, PANEL / rows, LARGEST_FIGURE / (grid[0] * rows))
    if square:
        width = height = min(width, height)
    return Cells(width, height, None)


def value_format(matrices: Sequence[Array]) -> str:
    """No decimals for whole numbers; otherwise two, or fewer for large numbers."""
    if all(np.issubdtype(matrix.dtype, np.integer) for matrix in matrices):
        return "d"
    largest = max(float(np.abs(matrix).max()) for matrix in matrices)
    # z: no minus sign for what is rounded to zero.
    return "z.2f" if largest < 9.995 else "z.1f" if largest < 99.95 else "z.0f"


class Grid:
    """Positions of panels of one size, and of the colour bar to their right, in inches.

    A position is left, top, width and height, from the upper left corner of the figure.

    Attributes:
        overhang: how far a title, or the name of the columns, exceeds a panel on either side.
        bar_box: the position of the colour bar.
        size: width and height of the figure; texts at its edges exceed it.
    """

    def __init__(
        self,
        panels: Sequence[Panel],
        columns: int,
        cells: Cells,
        scale: Scale,
        down: AxisNames,
        across: AxisNames,
    ) -> None:
        width, height = len(across.names) * cells.width, len(down.names) * cells.height
        titles = [panel.title for panel in panels]
        self._panel = width, height
        self._columns = columns
        self._heading = HEADING if any(titles) else 0.0
        widest = max(map(_side_length, (*titles, across.name)))
        self.overhang = max(0.0, (widest - width) / 2)
        # From one panel to the next, so that no texts overlap.
        self._step_across = width + 2 * self.overhang + GAP
        self._step_down = max(height + self._heading, _side_length(down.name) + GAP / 2)
        panels_height = (-(-len(panels) // columns) - 1) * self._step_down + height
        left = (columns - 1) * self._step_across + width + self.overhang + GAP
        bar_height = max(min(panels_height, HIGHEST_BAR), _side_length(scale.name))
        self.bar_box = left, self._heading, BAR_WIDTH, bar_height
        self.size = left + BAR_WIDTH, self._heading + panels_height

    def panel_box(self, number: int) -> tuple[float, float, float, float]:
        """The position of a panel."""
        row, column = divmod(number, self._columns)
        left, top = column * self._step_across, row * self._step_down + self._heading
        return left, top, *self._panel


def _side_length(text: str) -> float:
    """The approximate length in inches of a text beside a panel."""
    return text_width(text) * SIDE_SIZE / POINTS


def _axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a position in inches, from the upper left corner of the figure."""
    total_width, total_height = figure.get_size_inches()
    x, y = left / total_width, 1 - (top + height) / total_height
    return figure.add_axes((x, y, width / total_width, height / total_height))


def _draw(axes: Axes, panel: Panel, scale: Scale, cells: Cells) -> None:
    values = np.ma.masked_array(panel.values, False if panel.hidden is None else panel.hidden)
    mesh = axes.pcolormesh(
        values,
        cmap=scale.palette,
        vmin=scale.low,
        vmax=scale.high,
        rasterized=values.size > RASTER_CELLS,
    )
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    if cells.form is not None:
        light = mesh.to_rgba(values)[..., :3] @ LUMINANCE > 0.5
        for row, column in np.argwhere(~np.ma.getmaskarray(values)):
            axes.text(
                column + 0.5,
                row + 0.5,
                format(panel.numbers[row, column], cells.form),
                size=VALUE_SIZE,
                color="0.15" if light[row, column] else "white",
                ha="center",
                va="center",
                in_layout=False,  # it stays inside the panel
            )
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.4, color="0.6")


def _name(axis: Axis, side: AxisNames, pitch: float) -> None:
    """Write the names of rows or columns: all of them, or every nth if they do not fit."""
    size = max(SMALLEST_NAME, min(NAME_SIZE, 0.9 * pitch * POINTS))
    step = int(np.ceil(size / (pitch * POINTS)))
    chosen = range(0, len(side.names), step)
    names = [label_text(side.names[i]) for i in chosen]
    axis.set_ticks([i + 0.5 for i in chosen], labels=names)
    across = isinstance(axis, XAxis)
    widest = max(map(text_width, names)) * size / POINTS
    rotation = 90 if across and widest > 0.85 * pitch * step else 0
    for text in axis.get_ticklabels():
        text.set(
            fontsize=size, rotation=rotation, fontfamily=font_families(names), parse_math=False
        )
    axis.set_tick_params(length=0 if step == 1 else 2, pad=3)
    axis.set_label_text(side.name, fontsize=SIDE_SIZE)


def _draw_bar(axes: Axes, panel: Axes, scale: Scale) -> None:
    """Draw the colour bar of a panel."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(panel.collections[0], cax=axes)
    bar.outline.set(linewidth=0.4, color="0.6")
    axes.tick_params(labelsize=7, width=0.4, length=2)
    axes.set_ylabel(scale.name, fontsize=SIDE_SIZE)


def _draw_title(figure: Figure, title: str) -> None:
    """Write the title above everything else, at the left."""
    height = figure.get_size_inches()[1]
    text = figure.text(0, 1 + 0.15 / height, title, fontsize=TITLE_SIZE, ha="left", va="bottom")
    text.set_parse_math(False)


def label_text(name: str) -> str:
    """A name with control characters escaped, cut if it is long."""
    text = "".join(
        mark if mark.isprintable() or mark in JOINERS else mark.encode("unicode_escape").decode()
        for mark in name
    )
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def text_width(text: str) -> float:
    """The approximate width of a text, in multiples of the font size."""
    return sum(1.0 if unicodedata.east_asian_width(mark) in "WF" else 0.62 for mark in text)


def font_families(names: Iterable[str]) -> list[str]:
    """The default font, then installed fonts for the characters that it lacks."""
    marks = {mark for name in names for mark in label_text(name)}
    default = font_manager.findfont(font_manager.FontProperties(family=[FAMILY]))
    missing = frozenset(marks - _characters(default))
    return [FAMILY, *(_fallbacks(missing) if missing else ())]


@functools.lru_cache(maxsize=64)
def _fallbacks(missing: frozenset[str]) -> Sequence[str]:
    """Installed fonts that together have as many of the characters as possible."""
    left, families = set(missing), []
    for entry in font_manager.fontManager.ttflist:
        # The "last resort" font draws a box for every character.
        if "LastResort" in entry.fname or entry.style != "normal" or entry.weight != 400:
            continue
        try:
            covered = left & _characters(entry.fname)
        except (OSError, RuntimeError, ValueError):
            continue  # the font file is damaged or missing
        if covered:
            left -= covered
            families.append(entry.name)
        if not left:
            break
    return tuple(families)


@functools.lru_cache(maxsize=1024)
def _characters(path: str) -> frozenset[str]:
    return frozenset(chr(code) for code in font_manager.get_font(path).get_charmap())
