"""What all pictures share: colours, fonts, titles that fit, and files.

The size of a picture follows from its content. Positions are in inches while a picture is made;
`finish` then makes it as large as what is in it.
"""

from __future__ import annotations

import functools
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import matplotlib.style
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from clearhead.errors import ConfigError
from clearhead.folder.files import Write, write_together

POINTS = 72.0  # in an inch

# Sizes of text in points: names of rows and columns, titles of panels and sides, the title.
NAME_SIZE, SMALLEST_NAME, SIDE_SIZE, TITLE_SIZE, NOTE_SIZE = 8.0, 5.0, 9.0, 11.0, 8.0

EDGE = 0.15
"""Inches between the content of a picture and its edges."""

FORMATS = ("png", "svg", "pdf")

RESOLUTION = 150
"""Points in an inch of a PNG file."""

FRAME_MS = 300
"""Milliseconds that a frame of an animation is shown."""

FAMILY = "sans-serif"
"""For matplotlib the font that it ships; for a viewer of SVG files any font of this kind."""

LONGEST_LABEL = 18
"""Maximum number of characters of a name; a longer one is cut, with an ellipsis."""

JOINERS = "\u200c\u200d"
"""Invisible, but some scripts, e.g. Persian and Hindi, need them."""


@dataclass(frozen=True)
class Theme:
    """The colours of pictures. All pairs differ for colour-blind readers too.

    Attributes:
        name: `light` or `dark`.
        paper: the background.
        ink: text.
        faint: lines, and text of less weight.
        amount: shades from nothing to much, which differ in lightness alone.
        change: shades from negative (orange) to positive (blue); 0 is close to the background.
        lines: colours of lines (Okabe and Ito 2008), without those too close to the background.
        mark: a colour that is visible on all shades.
    """

    name: str
    paper: str
    ink: str
    faint: str
    amount: tuple[str, ...]
    change: tuple[str, ...]
    lines: tuple[str, ...]
    mark: str

    def palette(self, kind: Literal["amount", "change"]) -> LinearSegmentedColormap:
        """One of the two scales of shades."""
        return LinearSegmentedColormap.from_list(f"{self.name}-{kind}", getattr(self, kind))


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1b1f24",
    faint="#858d96",
    amount=("#f2f5f9", "#c3dbef", "#6aaed6", "#2070b4", "#08306b"),
    change=("#8f3b00", "#e08214", "#fdc98a", "#f3f3f3", "#a6cbe8", "#3182bd", "#084081"),
    lines=("#0072b2", "#d55e00", "#009e73", "#b8588f", "#3f3f3f", "#a07800", "#2f8fc4", "#6a51a3"),
    mark="#d55e00",
)
DARK = Theme(
    name="dark",
    paper="#14181e",
    ink="#e6e9ed",
    faint="#7d8793",
    amount=("#232b35", "#214a6e", "#3a86c2", "#8cc5ef", "#f2f9ff"),
    change=("#ffd9ae", "#ff9f43", "#8a5a26", "#22282f", "#2c5d87", "#5aa9e6", "#d3ebff"),
    lines=("#56b4e9", "#e69f00", "#2bc49a", "#e08fc0", "#f0f0f0", "#f0e442", "#ff7f50", "#a99be8"),
    mark="#ff9f43",
)
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


@contextmanager
def fixed_settings(theme: Theme = LIGHT) -> Iterator[None]:
    """Use matplotlib's defaults in the colours of a theme, whatever this program has set.

    A character that no font has is drawn as a box, without a warning.
    """
    own: dict[str, Any] = {
        # Text stays text in an SVG file, and the same figure gives the same bytes.
        **{"svg.fonttype": "none", "svg.hashsalt": "clearhead", "pdf.fonttype": 42},
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), theme.paper),
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor"), theme.ink
        ),
        "ytick.labelcolor": theme.ink,
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), theme.faint),
        **{"grid.color": theme.faint, "grid.alpha": 0.25, "grid.linewidth": 0.6},
    }
    with warnings.catch_warnings(), matplotlib.style.context(["default", own]):
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def blank(width: float, height: float) -> Figure:
    """A figure of a size in inches."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a position in inches, from the upper left corner of the figure."""
    total_width, total_height = figure.get_size_inches()
    x, y = left / total_width, 1 - (top + height) / total_height
    return figure.add_axes((x, y, width / total_width, height / total_height))


def finish(figure: Figure, title: str, note: str = "", theme: Theme = LIGHT) -> None:
    """Write the title and a note above the content, and fit the figure around everything.

    The texts have as many lines as they need to be no wider than the content.

    Args:
        figure: its axes are drawn and keep their size.
        title: of the picture.
        note: what a reader has to know to read it.
        theme: of the figure.
    """
    figure.draw_without_rendering()  # which puts the names in their places
    content = figure.get_tightbbox()
    placed = []
    for text, size, colour in ((title, TITLE_SIZE, theme.ink), (note, NOTE_SIZE, theme.ink)):
        if text:
            families = [FAMILY, *fallbacks(text)]
            artist = figure.text(0, 0, "", fontsize=size, color=colour, fontfamily=families)
            artist.set(ha="left", va="top", linespacing=1.25, parse_math=False)
            artist.set_text(wrapped(artist, text, content.width))
            placed.append((artist, artist.get_window_extent().height / figure.dpi))
    heading = sum(height + 0.07 for _, height in placed) + (0.06 if placed else 0)
    width, height = content.width + 2 * EDGE, content.height + heading + 2 * EDGE
    old_width, old_height = figure.get_size_inches()
    left, bottom = EDGE - content.x0, EDGE - content.y0
    boxes = [(axes, axes.get_position(original=True)) for axes in figure.axes]
    figure.set_size_inches(width, height)
    for axes, box in boxes:
        axes.set_position(
            (
                (box.x0 * old_width + left) / width,
                (box.y0 * old_height + bottom) / height,
                box.width * old_width / width,
                box.height * old_height / height,
            )
        )
    top = height - EDGE
    for artist, text_height in placed:
        artist.set_position((EDGE / width, top / height))
        top -= text_height + 0.07


def wrapped(artist: Text, text: str, width: float) -> str:
    """A text with line breaks, so that no line is wider than `width` in inches."""
    figure = cast(Figure, artist.get_figure(root=True))

    def fits(line: str) -> bool:
        artist.set_text(line)
        return artist.get_window_extent().width <= width * figure.dpi

    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if fits(longer):
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for mark in word:  # a word that fits on no line is broken
            if lines[-1] and not fits(lines[-1] + mark):
                lines.append("")
            lines[-1] += mark
    return "\n".join(lines)


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


@dataclass(frozen=True)
class Animation:
    """A figure that changes.

    Attributes:
        figure: what is drawn.
        show: changes it to a frame, by number from 0.
        frames: their number.
    """

    figure: Figure
    show: Callable[[int], None]
    frames: int

    def save(self, path: Path) -> None:
        """Write a GIF file that repeats; its last frame stays for two seconds."""
        canvas = FigureCanvasAgg(self.figure)
        images = []
        with fixed_settings():
            for frame in range(self.frames):
                self.show(frame)
                canvas.draw()
                image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
                images.append(image.quantize(128, dither=Image.Dither.NONE))
        times = [FRAME_MS] * (self.frames - 1) + [2000]
        first, *others = images
        first.save(path, "GIF", save_all=True, append_images=others, duration=times, loop=0)


Draw = Callable[[], Figure | Animation]


def write_figures(
    figures: Iterable[tuple[str, Draw]],
    folder: str | Path,
    formats: Sequence[str] = ("png",),
) -> list[Path]:
    """Draw and write figures one by one, as files such as `name.png`; animations as `name.gif`.

    Raises:
        ConfigError: a format is not one of `FORMATS`.
        DataError: the files cannot be written; then none is.
    """
    check_formats(formats)

    def files() -> Iterator[tuple[str, Write]]:
        for name, draw in figures:
            figure = draw()
            if isinstance(figure, Animation):
                yield f"{name}.gif", figure.save
                continue
            for form in dict.fromkeys(formats):
                yield f"{name}.{form}", partial(save, figure, form=form)

    return write_together(Path(folder), files())


def check_formats(formats: Sequence[str]) -> None:
    """Check formats before anything is drawn.

    Raises:
        ConfigError: a format is not one of `FORMATS`.
    """
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


def text_width(text: str) -> float:
    """The approximate width of a text, in multiples of the font size."""
    return sum(1.0 if unicodedata.east_asian_width(mark) in "WF" else 0.62 for mark in text)


def font_families(names: Iterable[str]) -> list[str]:
    """The default font, then installed fonts for the characters that it lacks."""
    return [FAMILY, *fallbacks("".join(map(label_text, names)))]


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
