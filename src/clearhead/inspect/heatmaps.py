"""How large the cells of a picture are, and whether their values are written in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from clearhead.inspect.labels import families_for, shown, text_width
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


# ---- inspect.grid
# Where the panels of a picture stand, in inches from its upper left corner.

POINTS = 72.0  # in an inch
SIDE_SIZE = 9.0  # points of what stands beside a panel: its title, the names of its sides
GAP, HEADING, BAR_WIDTH, HIGHEST_BAR = 0.25, 0.3, 0.16, 5.0  # inches


def side_length(text: str) -> float:
    """About how long a text beside a panel is, in inches."""
    return text_width(text) * SIDE_SIZE / POINTS


@dataclass(frozen=True)
class Grid:
    """Panels of one size, and to their right the bar of colours.

    Attributes:
        count: of the panels.
        columns: panels in a row.
        panel: width and height of one.
        titles: stand above the panels.
        across: the name of what runs across, below the panels.
        down: the name of what runs down, beside them.
        bar: the name of what the colours are.
    """

    count: int
    columns: int
    panel: tuple[float, float]
    titles: Sequence[str]
    across: str
    down: str
    bar: str

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return -(-self.count // self.columns)

    @property
    def heading(self) -> float:
        """The room above a panel for its title."""
        return HEADING if any(self.titles) else 0.0

    @property
    def widest(self) -> float:
        """The width of a panel, or of what is written above or below it."""
        return max(self.panel[0], *map(side_length, (*self.titles, self.across)))

    @property
    def beyond(self) -> float:
        """How far what is written above or below a panel reaches beyond it on either side."""
        return (self.widest - self.panel[0]) / 2

    @property
    def pitch(self) -> tuple[float, float]:
        """From one panel to the next, so that nothing written lies over anything else."""
        height = max(self.panel[1] + self.heading, side_length(self.down) + GAP / 2)
        return self.widest + GAP, height

    @property
    def size(self) -> tuple[float, float]:
        """Of the whole; names and titles at its edges reach beyond it."""
        left, _, width, _ = self.bar_box()
        return left + width, (self.rows - 1) * self.pitch[1] + self.heading + self.panel[1]

    def panel_box(self, number: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel."""
        row, column = divmod(number, self.columns)
        return (column * self.pitch[0], row * self.pitch[1] + self.heading, *self.panel)

    def bar_box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of the bar of colours."""
        left = (self.columns - 1) * self.pitch[0] + self.panel[0] + self.beyond + GAP
        panels = (self.rows - 1) * self.pitch[1] + self.panel[1]
        return left, self.heading, BAR_WIDTH, max(min(panels, HIGHEST_BAR), side_length(self.bar))


# ---- inspect.heatmaps
# Heat maps side by side: one picture of several matrices on one scale of colours.
#
# A picture is as large as its content asks for, and everything in it is placed in inches, so that a
# cell has room for its value where values are written, and a row for its name.

NAME_SIZE, SMALLEST_NAME, TITLE_SIZE = 8.0, 5.0, 11.0  # points
EDGE = 0.15  # inches that are left blank around a picture
LUMINANCE = np.array([0.299, 0.587, 0.114])  # how much red, green and blue count
RASTER_CELLS = 4096
"""A panel of more cells is an image in an SVG file, which would else be huge."""

SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "clearhead"}
"""Text stays text in an SVG file, and the same picture gives the same bytes."""


@dataclass(frozen=True)
class Scale:
    """Which numbers have which colours: `low` to `high` on a palette of matplotlib."""

    name: str
    palette: str
    low: float
    high: float


@dataclass(frozen=True)
class Side:
    """What runs down or across a matrix, and the name of each row or column."""

    name: str
    names: Sequence[str]


@dataclass(frozen=True)
class Panel:
    """A matrix (rows, columns) to draw.

    Attributes:
        title: stands above it.
        values: what gives the colours.
        hidden: True where nothing is drawn (None: nowhere).
        written: what is written in the cells, if not the values.
    """

    title: str
    values: Array
    hidden: Array | None = None
    written: Array | None = None


@contextmanager
def own_settings() -> Iterator[None]:
    """Matplotlib as it comes, whatever this machine or program has set; no font need have all.

    A character that no font of this machine has is drawn as a box.
    """
    with warnings.catch_warnings(), matplotlib.style.context(["default", SETTINGS]):
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def heatmap_figure(
    title: str,
    panels: Sequence[Panel],
    scale: Scale,
    down: Side,
    across: Side,
    most_across: int = 4,
    square: bool = True,
) -> Figure:
    """Panels of one shape in a grid, with one bar of colours.

    Args:
        title: of the whole.
        panels: row by row.
        scale: the colours of all of them.
        down: the rows.
        across: the columns.
        most_across: panels in a row of the grid.
        square: whether cells are as high as they are wide.
    """
    columns = min(most_across, len(panels))
    written = [p.values if p.written is None else p.written for p in panels]
    cells = fitting_cells(written, (-(-len(panels) // columns), columns), square)
    size = (len(across.names) * cells.width, len(down.names) * cells.height)
    titles = [panel.title for panel in panels]
    grid = Grid(len(panels), columns, size, titles, across.name, down.name, scale.name)
    with own_settings():
        figure = Figure(figsize=grid.size)
        FigureCanvasAgg(figure)
        for number, panel in enumerate(panels):
            axes = _axes(figure, *grid.panel_box(number))
            _draw(axes, panel, scale, cells)
            axes.set_title(panel.title, fontsize=SIDE_SIZE, pad=4)
            if number % columns == 0:
                _name(axes.yaxis, down, cells.height)
                axes.yaxis.labelpad += grid.beyond * POINTS
            if number + columns >= len(panels):
                _name(axes.xaxis, across, cells.width)
        _draw_bar(_axes(figure, *grid.bar_box()), figure.axes[0], scale)
        _draw_title(figure, title)
    return figure


def save(figure: Figure, path: Path, form: str) -> None:
    """Write a figure with all that stands beyond its edges, and without the time of day."""
    with own_settings():
        # Once, and here: savefig would draw everything one more time to find it.
        everything = figure.get_tightbbox().padded(EDGE)
        metadata = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(path, format=form, dpi=150, bbox_inches=everything, metadata=metadata)


def _axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the figure's upper left corner."""
    whole_width, whole_height = figure.get_size_inches()
    return figure.add_axes(
        (
            left / whole_width,
            1 - (top + height) / whole_height,
            width / whole_width,
            height / whole_height,
        )
    )


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
        written = panel.values if panel.written is None else panel.written
        light = mesh.to_rgba(values)[..., :3] @ LUMINANCE > 0.5
        for row, column in np.argwhere(~np.ma.getmaskarray(values)):
            axes.text(
                column + 0.5,
                row + 0.5,
                format(written[row, column], cells.form),
                size=VALUE_SIZE,
                color="0.15" if light[row, column] else "white",
                ha="center",
                va="center",
            )
    for text in axes.texts:
        text.set_in_layout(False)  # none of them reaches beyond the panel
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.4, color="0.6")


def _name(axis: Axis, side: Side, pitch: float) -> None:
    """Write the names of rows or columns, all of them or every so many as they fit."""
    size = max(SMALLEST_NAME, min(NAME_SIZE, 0.9 * pitch * POINTS))
    step = int(np.ceil(size / (pitch * POINTS)))
    chosen = range(0, len(side.names), step)
    names = [shown(side.names[i]) for i in chosen]
    axis.set_ticks([i + 0.5 for i in chosen], labels=names)
    across = isinstance(axis, XAxis)
    widest = max(map(text_width, names)) * size / POINTS
    rotation = 90 if across and widest > 0.85 * pitch * step else 0
    for text in axis.get_ticklabels():
        text.set(fontsize=size, rotation=rotation, fontfamily=families_for(names), parse_math=False)
    axis.set_tick_params(length=0 if step == 1 else 2, pad=3)
    axis.set_label_text(side.name, fontsize=SIDE_SIZE)


def _draw_bar(axes: Axes, panel: Axes, scale: Scale) -> None:
    """The bar of colours, as a panel has them."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(panel.collections[0], cax=axes)
    bar.outline.set(linewidth=0.4, color="0.6")
    axes.tick_params(labelsize=7, width=0.4, length=2)
    axes.set_ylabel(scale.name, fontsize=SIDE_SIZE)


def _draw_title(figure: Figure, title: str) -> None:
    """Above everything else, at the left."""
    height = figure.get_size_inches()[1]
    text = figure.text(0, 1 + 0.15 / height, title, fontsize=TITLE_SIZE, ha="left", va="bottom")
    text.set_parse_math(False)
