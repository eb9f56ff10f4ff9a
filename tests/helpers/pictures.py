"""What a figure shows, and whether it is legible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from clearhead.inspect.drawing import fixed_settings


def panels(figure: Figure) -> list[Axes]:
    """The axes of the heat maps; the last axes are those of the colour bar."""
    return figure.axes[:-1]


def mesh(axes: Axes) -> QuadMesh:
    (found,) = [each for each in axes.collections if isinstance(each, QuadMesh)]
    return found


def drawn(axes: Axes) -> np.ma.MaskedArray:
    """The values of a heat map."""
    values = mesh(axes).get_array()
    assert values is not None
    return np.ma.asarray(values)


def names(texts: Sequence[Text]) -> tuple[str, ...]:
    return tuple(text.get_text() for text in texts)


def title_of(figure: Figure) -> str:
    """The title, without its line breaks."""
    return figure.texts[0].get_text().replace("\n", " ")


def boxes(figure: Figure, texts: Sequence[Text]) -> list[Bbox]:
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    with fixed_settings():
        return [text.get_window_extent(canvas.get_renderer()) for text in texts]


def assert_legible(figure: Figure) -> None:
    """Check that no texts overlap, are tiny or cut off, and that values fit their cells.

    Nothing is outside the picture, and its edges are close to the content on each side.
    """
    with fixed_settings():
        figure.draw_without_rendering()  # which puts everything in its place
        content = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    for distance in (content.x0, content.y0, width - content.x1, height - content.y1):
        assert 0 <= distance < 0.3
    assert max(width, height) < 45
    beside = [
        text
        for axes in figure.axes
        for text in (heading(axes), axes.xaxis.label, axes.yaxis.label)
        if text.get_text()
    ]
    labels = [label for axes in figure.axes for label in tick_labels(axes)]
    found = [box for box in boxes(figure, [*beside, *labels, *figure.texts]) if box.width]
    left, bottom, right, top = np.array([box.extents for box in found]).T
    over = (left[:, None] < right) & (left < right[:, None])
    over &= (bottom[:, None] < top) & (bottom < top[:, None])
    assert over.sum() == len(found)  # each with itself
    assert all(float(text.get_fontsize()) >= 5 for text in (*beside, *labels))
    for axes in figure.axes:
        if axes.texts:
            rows, columns = drawn(axes).shape
            box = axes.get_window_extent()
            for number in boxes(figure, axes.texts[:20]):
                assert number.width < box.width / columns
                assert number.height < box.height / rows


def heading(axes: Axes) -> Text:
    """The title of an axes, which is at its left."""
    return axes._left_title  # pyright: ignore[reportAttributeAccessIssue]


def tick_labels(axes: Axes) -> list[Text]:
    """The names and numbers beside an axes that are drawn."""
    found = []
    for number, axis in enumerate((axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for label in axis.get_ticklabels():
            if label.get_text() and low <= label.get_position()[number] <= high:
                found.append(label)
    return found


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours (WCAG 2.2)."""
    from matplotlib.colors import to_rgb

    def luminance(colour: str) -> float:
        parts = np.array(to_rgb(colour))
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
