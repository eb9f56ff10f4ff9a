"""How pictures are drawn: heat maps side by side, figures of the size of their content, and files.

Cells, names and numbers get the size at which they are legible, in inches; the figure is then
fitted around them. The colours are those of the page (`report/colours.js`, on light paper).
"""

from __future__ import annotations

import functools
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from clearhead.errors import ConfigError
from clearhead.folder.files import Write, write_together
from clearhead.inspect.record import Array

Draw = Callable[[], Figure]

INK, FAINT, MASKED, MARK = "#1f1e1b", "#8b877c", "#dcd8cd", "#c8692a"
AMOUNT = ("#fbfaf7", "#cee5e4", "#7cbbbd", "#268087", "#053a44")
"""Shades from nothing to much, which differ in lightness alone; those of the page."""

CHANGE = ("#8a3a04", "#d68341", "#f7dbbd", "#fbfaf7", "#c4e2e2", "#4a9ca1", "#054e58")
"""Shades from negative (orange) to positive (blue-green); those of the page."""

LINES = (
    *("#0b6a72", "#c8692a", "#6a51a3", "#3f3f3f"),
    *("#a07800", "#2f8fc4", "#b8588f", "#5a7d2a"),
)

POINTS = 72.0  # in an inch

# Sizes in points: of names of rows and columns, of titles of panels and sides, of numbers in cells.
NAME_SIZE, SMALLEST_NAME, SIDE_SIZE, TITLE_SIZE, NOTE_SIZE = 8.0, 5.0, 9.0, 11.0, 8.0
VALUE_SIZE, SMALLEST_VALUE = 8.0, 5.5

LINE = 1.2
"""Height of a line of text, in multiples of the font size."""

EDGE, GAP, BAR_WIDTH, HIGHEST_BAR = 0.15, 0.14, 0.14, 3.0
"""Inches: around a picture, between panels, and of the colour bar."""

LARGEST = 9.5
"""Largest width and height in inches of a matrix that is alone."""

RASTER_CELLS = 4096
"""A figure with more cells has images in SVG and PDF files, which would otherwise be huge."""

HATCH = "////"
"""Over masked cells."""

LUMINANCE = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue


@dataclass(frozen=True)
class Scale:
    """The colours of numbers from `low` to `high`, or of their square roots."""

    name: str
    shades: tuple[str, ...]
    low: float
    high: float
    root: bool = False

    @property
    def palette(self) -> Colormap:
        """The shades between which colours are interpolated; masked cells are grey."""
        found = LinearSegmentedColormap.from_list("clearhead", self.shades)
        return found.with_extremes(bad=MASKED)

    def norm(self, limit: float | None = None) -> Normalize:
        """Maps numbers to colours; a panel may have a limit of its own, on both sides of 0."""
        if limit is not None:
            return Normalize(-limit, limit)
        return PowerNorm(0.5 if self.root else 1.0, self.low, self.high)


@dataclass(frozen=True)
class Names:
    """What the rows or columns of a matrix are, and the name of each of them."""

    title: str
    names: Sequence[str]


@dataclass(frozen=True)
class Panel:
    """A matrix (rows, columns) to draw."""

    title: str
    values: Array  # choose the colours
    down: Names  # written unless the panel to the left has the same
    across: Names  # written unless the panel below has the same
    cells: tuple[float, float]  # width and height in inches
    hidden: Array | None = None  # True: masked, which is hatched
    marked: Collection[tuple[int, int]] = ()  # cells (row, column) with a frame
    limit: float | None = None  # of the colours, on both sides of 0, in place of the scale

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        (rows, columns), (width, height) = self.values.shape, self.cells
        return columns * width, rows * height


def fitting_cells(
    shape: tuple[int, ...], side: float = LARGEST, largest: float = 0.6
) -> tuple[float, float]:
    """The largest cells of a matrix of at most this side, in inches; hardly wider than high."""
    rows, columns = shape
    x, y = min(largest, side / columns), min(largest, side / rows)
    return min(x, 2 * y), min(y, 2 * x)


def heatmaps(
    title: str, panels: Sequence[Panel], scale: Scale, columns: int = 1, note: str = ""
) -> Figure:
    """Panels in rows of so many columns, with one colour bar; numbers in cells that are large."""
    rasterized = sum(panel.values.size for panel in panels) > RASTER_CELLS
    count = len(panels)
    sides = [side for panel in panels for side in (panel.down, panel.across)]
    names = [label_text(name) for side in sides for name in side.names]
    with fixed_settings((title, note, *names)):
        figure = blank()
        for i, panel in enumerate(panels):
            axes = figure.add_axes((0, 0, *panel.size))
            _draw(axes, panel, scale, rasterized)
            if i % columns == 0 or panels[i - 1].down != panel.down:
                _name(axes.yaxis, panel.down, panel.cells[1])
            if i + columns >= count or panels[i + columns].across != panel.across:
                _name(axes.xaxis, panel.across, panel.cells[0])
        grid = [figure.axes[i : i + columns] for i in range(0, count, columns)]
        height = sum(panel.size[1] for panel in panels[::columns])
        bar = figure.add_axes((0, 0, BAR_WIDTH, min(HIGHEST_BAR, max(0.8, height))))
        _draw_bar(bar, scale)
        finish(figure, grid, title, note, bar)
    return figure


def _draw(axes: Axes, panel: Panel, scale: Scale, rasterized: bool) -> None:
    values = np.ma.masked_array(panel.values, False if panel.hidden is None else panel.hidden)
    norm = scale.norm(panel.limit)
    mesh = axes.pcolormesh(values, cmap=scale.palette, norm=norm, rasterized=rasterized)
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    if panel.title:
        axes.set_title(panel.title, fontsize=SIDE_SIZE, pad=4, loc="left")
    form = value_format(panel.values)
    if size := value_size(panel, form):
        light = mesh.to_rgba(values)[..., :3] @ LUMINANCE > 0.5
        for row, column in np.argwhere(~np.ma.getmaskarray(values)):
            axes.text(
                column + 0.5,
                row + 0.5,
                format(panel.values[row, column], form),
                size=size,
                color=INK if light[row, column] else "#ffffff",
                ha="center",
                va="center_baseline",
                in_layout=False,  # it stays inside the panel
            )
    if panel.hidden is not None:
        for row, column in np.argwhere(panel.hidden):
            if column == 0 or not panel.hidden[row, column - 1]:  # the start of a masked run
                width = int(panel.hidden[row, column:].sum())
                axes.add_patch(
                    Rectangle((column, row), width, 1, fill=False, hatch=HATCH, ec=FAINT, lw=0)
                )
    # The frame is inside its cell, and no wider than the cell can have.
    line = min(2.0, 0.25 * min(panel.cells) * POINTS)
    inset_x, inset_y = (line / POINTS / 2 / side for side in panel.cells)
    for row, column in panel.marked:
        corner = column + inset_x, row + inset_y
        frame = Rectangle(corner, 1 - 2 * inset_x, 1 - 2 * inset_y, fill=False)
        frame.set(edgecolor=MARK, linewidth=line, joinstyle="miter")
        axes.add_patch(frame)
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.4, color=FAINT)


def value_format(numbers: Array) -> str:
    """Two decimals, or more for small numbers and fewer for large ones."""
    largest = float(np.abs(numbers).max())
    # z: no minus sign for what is rounded to zero.
    if 0 < largest < 0.095:
        return "z.3f"
    return "z.2f" if largest < 9.995 else "z.1f" if largest < 99.95 else "z.0f"


def value_size(panel: Panel, form: str) -> float:
    """The size in points of the numbers in the cells of a panel, or 0 if they do not fit."""
    numbers, (width, height) = panel.values, panel.cells
    longest = max(len(format(x, form)) for x in (numbers.min(), numbers.max()))
    size = min(VALUE_SIZE, (width * POINTS - 3) / (0.62 * longest), height * POINTS / 1.5)
    return size if size >= SMALLEST_VALUE else 0.0


def _name(axis: Axis, side: Names, pitch: float) -> None:
    """Write the names of rows or columns: all of them, or every nth if they do not fit."""
    across = isinstance(axis, XAxis)
    if side.title:
        axis.set_label_text(side.title, fontsize=SIDE_SIZE)
        axis.label.set(ha="left", x=0) if across else axis.label.set(ha="right", y=1)
    if not side.names:
        return
    size = max(SMALLEST_NAME, min(NAME_SIZE, pitch * POINTS / LINE))
    step = int(np.ceil(LINE * size / (pitch * POINTS) - 1e-6))
    chosen = range(0, len(side.names), step)
    names = [label_text(side.names[i]) for i in chosen]
    axis.set_ticks([i + 0.5 for i in chosen], labels=names)
    widest = max(map(_text_width, names)) * size / POINTS
    rotation = 90 if across and widest > 0.85 * pitch * step else 0
    for text in axis.get_ticklabels():
        text.set(fontsize=size, rotation=rotation)
    axis.set_tick_params(length=0 if step == 1 else 2, pad=3)


def _draw_bar(axes: Axes, scale: Scale) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(ScalarMappable(scale.norm(), scale.palette), cax=axes)
    bar.outline.set(linewidth=0.4, color=FAINT)
    axes.tick_params(labelsize=7, width=0.4, length=2)
    height = axes.get_position(original=True).height
    axes.set_ylabel(_wrapped(scale.name, height, SIDE_SIZE), fontsize=SIDE_SIZE)


# --- Figures of the size of their content, fonts, and files.

FORMATS = ("png", "svg", "pdf")

RESOLUTION = 150
"""Points in an inch of a PNG file."""

FAMILY = "sans-serif"
"""For matplotlib the font that it ships; for a viewer of SVG files any font of this kind."""

LONGEST_LABEL = 23
"""Maximum number of characters of a name; a longer one is cut, with an ellipsis."""

JOINERS = "\u200c\u200d"
"""Invisible, but some scripts, e.g. Persian and Hindi, need them."""


@contextmanager
def fixed_settings(texts: Iterable[str] = ()) -> Iterator[None]:
    """Use matplotlib's defaults, our colours, and fonts for these texts."""
    own: dict[str, Any] = {
        "font.family": [FAMILY, *fallbacks("".join(texts))],
        # Text stays text in an SVG file, and the same figure gives the same bytes.
        **{"svg.fonttype": "none", "svg.hashsalt": "clearhead", "pdf.fonttype": 42},
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), INK),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), FAINT),
        **{"grid.color": FAINT, "grid.alpha": 0.25, "grid.linewidth": 0.6},
        "text.parse_math": False,
    }
    with warnings.catch_warnings(), matplotlib.style.context(["default", own]):
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def blank() -> Figure:
    """A figure of one inch, in which the sizes of axes are inches; `finish` places them."""
    figure = Figure(figsize=(1, 1))
    FigureCanvasAgg(figure)
    return figure


def finish(
    figure: Figure,
    grid: Sequence[Sequence[Axes]],
    title: str,
    note: str = "",
    bar: Axes | None = None,
) -> None:
    """Place axes in rows and columns with space for their names, below a title and a note."""
    figure.draw_without_rendering()  # which puts the names in their places
    sizes, outside = {}, {}
    for axes in figure.axes:
        inner, outer = axes.get_window_extent(), axes.get_tightbbox()
        assert outer is not None
        sizes[axes] = inner.width / figure.dpi, inner.height / figure.dpi
        edges = (inner.x0 - outer.x0, outer.x1 - inner.x1, outer.y1 - inner.y1, inner.y0 - outer.y0)
        outside[axes] = [edge / figure.dpi for edge in edges]  # left, right, above, below
    lefts, tops = {}, {}
    right = EDGE
    for column in (*zip_longest(*grid), (bar,)):
        own = [axes for axes in column if axes is not None]
        if own:
            left = right + max(outside[axes][0] for axes in own)
            lefts |= dict.fromkeys(own, left)
            right = left + max(sizes[axes][0] + outside[axes][1] for axes in own) + GAP
    width = right - GAP - EDGE
    bottom = EDGE
    for text, size in ((title, TITLE_SIZE), (note, NOTE_SIZE)):
        if text:
            artist = figure.text(0, 0, _wrapped(text, max(width, 2.0), size), fontsize=size)
            artist.set(ha="left", va="top", linespacing=1.25)
            box = artist.get_window_extent()
            width = max(width, box.width / figure.dpi)
            tops[artist], bottom = bottom, bottom + box.height / figure.dpi + 0.07
    bottom += 0.06
    lowest = bottom
    for row in grid:
        top = bottom + max(outside[axes][2] for axes in row)
        tops |= dict.fromkeys(row, top)
        lowest = top + max(sizes[axes][1] + outside[axes][3] for axes in row)
        bottom = lowest + GAP
    if bar is not None:
        tops[bar] = tops[grid[0][0]]
        lowest = max(lowest, tops[bar] + sizes[bar][1] + outside[bar][3])
    total = np.array([width + 2 * EDGE, lowest + EDGE])
    figure.set_size_inches(*total)
    for axes, size in sizes.items():
        x, y = lefts[axes], total[1] - tops[axes] - size[1]
        axes.set_position((x / total[0], y / total[1], *(size / total)))
    for artist in figure.texts:
        artist.set_position((EDGE / total[0], 1 - tops[artist] / total[1]))


def _wrapped(text: str, width: float, size: float) -> str:
    """A text with line breaks, about as wide as so many inches."""
    return textwrap.fill(text, max(10, int(width * POINTS / (0.55 * size))))


def write_figures(
    figures: Iterable[tuple[str, Draw]],
    folder: str | Path,
    formats: Sequence[str] = ("png",),
) -> list[Path]:
    """Draw and write figures one by one, as files such as `name.png`."""
    check_formats(formats)

    def files() -> Iterator[tuple[str, Write]]:
        for name, draw in figures:
            figure = draw()
            for form in dict.fromkeys(formats):
                yield f"{name}.{form}", partial(save, figure, form=form)

    return write_together(Path(folder), files())


def save(figure: Figure, path: Path, form: str) -> None:
    """Write a figure, without the time of day."""
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }
    # Cells of an image within a vector file should not blur.
    dpi = RESOLUTION if form == "png" else 2 * RESOLUTION
    with fixed_settings():
        figure.savefig(path, format=form, dpi=dpi, metadata=metadata[form])


def check_formats(formats: Sequence[str]) -> None:
    """Check formats before anything is drawn; a ConfigError names an unknown one."""
    wrong = [form for form in formats if form not in FORMATS]
    if wrong or not formats:
        raise ConfigError(
            f"unknown picture format: {', '.join(map(repr, wrong)) or 'none given'}",
            todo=f"choose from {', '.join(FORMATS)}",
        )


def label_text(name: str, longest: int = LONGEST_LABEL) -> str:
    """A name with control characters escaped, cut if it is long."""
    text = "".join(
        mark if mark.isprintable() or mark in JOINERS else mark.encode("unicode_escape").decode()
        for mark in name
    )
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _text_width(text: str) -> float:
    """The approximate width of a text, in multiples of the font size."""
    return sum(1.0 if unicodedata.east_asian_width(mark) in "WF" else 0.62 for mark in text)


def fallbacks(text: str) -> Sequence[str]:
    """Installed fonts for the characters of a text that the default font lacks."""
    default = font_manager.findfont(font_manager.FontProperties(family=[FAMILY]))
    missing = frozenset(set(text) - _characters(default))
    return _fonts_with(missing) if missing else ()


@functools.lru_cache(maxsize=64)
def _fonts_with(missing: frozenset[str]) -> Sequence[str]:
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
