"""Heat maps side by side: one figure of several matrices on one colour scale."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from clearhead.inspect.drawing import (
    LIGHT,
    NAME_SIZE,
    POINTS,
    SIDE_SIZE,
    SMALLEST_NAME,
    Theme,
    axes_at,
    blank,
    finish,
    fixed_settings,
    font_families,
    label_text,
    text_width,
)
from clearhead.inspect.record import Array

VALUE_SIZE, SMALLEST_VALUE = 8.0, 5.5
"""Sizes in points of the numbers in cells."""

LINE = 1.2
"""Height of a line of text, in multiples of the font size."""

GAP, HEADING, BAR_WIDTH, HIGHEST_BAR = 0.14, 0.24, 0.14, 3.0
"""Inches: between panels, above a panel for its title, and of the colour bar."""

RASTER_CELLS = 4096
"""A figure with more cells has images in SVG and PDF files, which would otherwise be huge."""

LUMINANCE = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue


@dataclass(frozen=True)
class Scale:
    """The colours of numbers from `low` to `high`, in one of the palettes of a theme.

    With `root` the colour follows the square root, so that small numbers differ from 0.
    """

    name: str
    palette: Literal["amount", "change"]
    low: float
    high: float
    root: bool = False

    def norm(self, limit: float | None = None) -> Normalize:
        """Maps numbers to colours; a panel may have a limit of its own, on both sides of 0."""
        if limit is not None:
            return Normalize(-limit, limit)
        return PowerNorm(0.5 if self.root else 1.0, self.low, self.high)


@dataclass(frozen=True)
class AxisNames:
    """The name of the rows or columns of a matrix, and the name of each of them."""

    name: str
    names: Sequence[str]


@dataclass(frozen=True)
class Cells:
    """Width and height of a cell in inches."""

    width: float
    height: float


@dataclass(frozen=True)
class Panel:
    """A matrix (rows, columns) to draw.

    Attributes:
        title: written above it.
        values: choose the colours.
        down: the rows; their names are written unless the panel to the left has the same.
        across: the columns; their names are written unless the panel below has the same.
        cells: their size.
        hidden: True for cells that are left blank (None: no cell).
        written: numbers written in the cells (None: the values).
        marked: cells (row, column) with a frame.
        limit: the colours are from minus this to this, in place of the common scale.
    """

    title: str
    values: Array
    down: AxisNames
    across: AxisNames
    cells: Cells
    hidden: Array | None = None
    written: Array | None = None
    marked: Collection[tuple[int, int]] = ()
    limit: float | None = None

    @property
    def numbers(self) -> Array:
        """The numbers written in the cells."""
        return self.values if self.written is None else self.written

    @property
    def width(self) -> float:
        """In inches."""
        return self.values.shape[1] * self.cells.width

    @property
    def height(self) -> float:
        """In inches."""
        return self.values.shape[0] * self.cells.height


def fitting_cells(
    shape: tuple[int, int], width: float, height: float, largest: float, square: bool = True
) -> Cells:
    """The largest cells of a matrix that is at most so wide and high, in inches.

    Args:
        shape: rows and columns.
        width: of the matrix.
        height: of the matrix.
        largest: side of a cell.
        square: whether no side of a cell is more than twice the other.
    """
    rows, columns = shape
    x, y = min(largest, width / columns), min(largest, height / rows)
    return Cells(min(x, 2 * y), min(y, 2 * x)) if square else Cells(x, y)


def heatmap_figure(
    title: str,
    panels: Sequence[Panel],
    scale: Scale,
    columns: int = 1,
    note: str = "",
    theme: Theme = LIGHT,
) -> Figure:
    """Panels in a grid, with one colour bar. Numbers are written in cells that are large enough.

    Args:
        title: of the figure.
        panels: row by row.
        scale: the colours of all panels.
        columns: panels in a row of the grid.
        note: what a reader has to know, in a sentence.
        theme: the colours.
    """
    grid = Grid(panels, columns)
    rasterized = sum(panel.values.size for panel in panels) > RASTER_CELLS
    with fixed_settings(theme):
        figure = blank(*grid.size)
        for panel, place in zip(panels, grid.places, strict=True):
            axes = axes_at(figure, place.left, place.top, panel.width, panel.height)
            _draw(axes, panel, scale, theme, rasterized)
            if panel.title:
                families = font_families([panel.title])
                heading = axes.set_title(
                    panel.title, fontsize=SIDE_SIZE, pad=4, loc="left", fontfamily=families
                )
                heading.set_parse_math(False)
            if place.named_left:
                _name(axes.yaxis, panel.down, panel.cells.height)
            if place.named_below:
                _name(axes.xaxis, panel.across, panel.cells.width)
        top = grid.places[0].top
        height, name = _fitting_bar(min(grid.size[1] - top, HIGHEST_BAR), scale.name)
        _draw_bar(axes_at(figure, grid.size[0], top, BAR_WIDTH, height), name, scale, theme)
        finish(figure, title, note, theme)
    return figure


@dataclass(frozen=True)
class Place:
    """Where a panel is, in inches from the upper left corner, and which names are beside it."""

    left: float
    top: float
    named_left: bool
    named_below: bool


class Grid:
    """Positions of panels in rows and columns, with enough space for their names.

    Attributes:
        places: of each panel.
        size: width and height in inches, the names below the last panels excepted.
    """

    def __init__(self, panels: Sequence[Panel], columns: int) -> None:
        count = len(panels)
        rows = [range(first, min(first + columns, count)) for first in range(0, count, columns)]
        named_left = [
            i % columns == 0 or panels[i - 1].down != panels[i].down for i in range(count)
        ]
        named_below = [
            i + columns >= count or panels[i + columns].across != panels[i].across
            for i in range(count)
        ]
        lefts, right = [], 0.0
        for column in range(min(columns, count)):
            own = range(column, count, columns)
            names = max(_name_width(panels[i]) if named_left[i] else 0.0 for i in own)
            lefts.append(right + names)
            widths = [panels[i].width for i in own]
            widths += [side_length(panels[i].title) for i in own]
            widths += [side_length(panels[i].across.name) for i in own if named_below[i]]
            right = lefts[-1] + max(widths) + GAP
        tops, bottom, last = [], 0.0, 0.0
        for row in rows:
            heading = HEADING if any(panels[i].title for i in row) else 0.0
            tops.append(bottom + heading)
            heights = [panels[i].height for i in row]
            heights += [side_length(panels[i].down.name) for i in row if named_left[i]]
            names = max(_name_height(panels[i]) if named_below[i] else 0.0 for i in row)
            bottom = tops[-1] + max(heights) + GAP
            last = bottom - GAP
            bottom += names
        self.places = [
            Place(lefts[i % columns], tops[i // columns], named_left[i], named_below[i])
            for i in range(count)
        ]
        self.size = right, last


def side_length(text: str) -> float:
    """The approximate length in inches of a text beside a panel."""
    return text_width(text) * SIDE_SIZE / POINTS


def name_size(pitch: float) -> float:
    """The size in points of names at a distance in inches."""
    return max(SMALLEST_NAME, min(NAME_SIZE, pitch * POINTS / LINE))


def name_step(pitch: float) -> int:
    """1 if there is space for all names at a distance in inches, n for every nth of them."""
    return int(np.ceil(LINE * name_size(pitch) / (pitch * POINTS) - 1e-6))


def _name_width(panel: Panel) -> float:
    """The space to the left of a panel for its names."""
    size = name_size(panel.cells.height) / POINTS
    widest = max((text_width(label_text(name)) for name in panel.down.names), default=0.0)
    return widest * size + 0.08 + (0.2 if panel.down.name else 0.0)


def _name_height(panel: Panel) -> float:
    """The space below a panel for its names."""
    if not panel.across.names:
        return 0.2 if panel.across.name else 0.0
    size = name_size(panel.cells.width) / POINTS
    widest = max((text_width(label_text(name)) for name in panel.across.names), default=0.0)
    step = name_step(panel.cells.width)
    height = widest * size if widest * size > 0.85 * panel.cells.width * step else size
    return height + 0.1 + (0.2 if panel.across.name else 0.0)


def _draw(axes: Axes, panel: Panel, scale: Scale, theme: Theme, rasterized: bool) -> None:
    values = np.ma.masked_array(panel.values, False if panel.hidden is None else panel.hidden)
    palette = theme.palette(scale.palette)
    norm = scale.norm(panel.limit)
    mesh = axes.pcolormesh(values, cmap=palette, norm=norm, rasterized=rasterized)
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    form = value_format(panel.numbers)
    if size := value_size(panel, form):
        light = mesh.to_rgba(values)[..., :3] @ LUMINANCE > 0.5
        for row, column in np.argwhere(~np.ma.getmaskarray(values)):
            axes.text(
                column + 0.5,
                row + 0.5,
                format(panel.numbers[row, column], form),
                size=size,
                color="#1b1f24" if light[row, column] else "#ffffff",
                ha="center",
                va="center_baseline",
                in_layout=False,  # it stays inside the panel
            )
    # The frame is inside its cell, and no wider than the cell can have.
    line = min(2.0, 0.25 * min(panel.cells.width, panel.cells.height) * POINTS)
    inset_x, inset_y = (
        line / POINTS / 2 / side for side in (panel.cells.width, panel.cells.height)
    )
    for row, column in panel.marked:
        corner = column + inset_x, row + inset_y
        frame = Rectangle(corner, 1 - 2 * inset_x, 1 - 2 * inset_y, fill=False)
        frame.set(edgecolor=theme.mark, linewidth=line, joinstyle="miter")
        axes.add_patch(frame)
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.4, color=theme.faint)


def value_format(numbers: Array) -> str:
    """No decimals for whole numbers; otherwise two, or more for small and fewer for large ones."""
    if np.issubdtype(numbers.dtype, np.integer):
        return "d"
    largest = float(np.abs(numbers).max())
    # z: no minus sign for what is rounded to zero.
    if 0 < largest < 0.095:
        return "z.3f"
    return "z.2f" if largest < 9.995 else "z.1f" if largest < 99.95 else "z.0f"


def value_size(panel: Panel, form: str) -> float:
    """The size in points of the numbers in the cells of a panel, or 0 if they do not fit."""
    numbers = panel.numbers
    longest = max(len(format(x, form)) for x in (numbers.min(), numbers.max()))
    across = (panel.cells.width * POINTS - 3) / (0.62 * longest)
    size = min(VALUE_SIZE, across, panel.cells.height * POINTS / 1.5)
    return size if size >= SMALLEST_VALUE else 0.0


def _name(axis: Axis, side: AxisNames, pitch: float) -> None:
    """Write the names of rows or columns: all of them, or every nth if they do not fit."""
    across = isinstance(axis, XAxis)
    if side.name:
        if across:
            axis.axes.set_xlabel(side.name, fontsize=SIDE_SIZE, loc="left")
        else:
            axis.axes.set_ylabel(side.name, fontsize=SIDE_SIZE, loc="top")
        axis.label.set_parse_math(False)
    if not side.names:
        return
    size = name_size(pitch)
    step = name_step(pitch)
    chosen = range(0, len(side.names), step)
    names = [label_text(side.names[i]) for i in chosen]
    axis.set_ticks([i + 0.5 for i in chosen], labels=names)
    widest = max(map(text_width, names)) * size / POINTS
    rotation = 90 if across and widest > 0.85 * pitch * step else 0
    for text in axis.get_ticklabels():
        text.set(
            fontsize=size, rotation=rotation, fontfamily=font_families(names), parse_math=False
        )
    axis.set_tick_params(length=0 if step == 1 else 2, pad=3)


def _fitting_bar(height: float, name: str) -> tuple[float, str]:
    """The height of a colour bar in inches, and its name in two lines if one is too long."""
    if side_length(name) > height and " " in name:
        breaks = [i for i, mark in enumerate(name) if mark == " "]
        middle = min(breaks, key=lambda i: abs(2 * i - len(name)))
        name = f"{name[:middle]}\n{name[middle + 1 :]}"
    return max(height, *map(side_length, name.split("\n")), 0.0), name


def _draw_bar(axes: Axes, name: str, scale: Scale, theme: Theme) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    colours = ScalarMappable(scale.norm(), theme.palette(scale.palette))
    bar = figure.colorbar(colours, cax=axes)
    bar.outline.set(linewidth=0.4, color=theme.faint)
    axes.tick_params(labelsize=7, width=0.4, length=2)
    axes.set_ylabel(name, fontsize=SIDE_SIZE)
