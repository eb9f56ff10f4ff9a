"""Figures are written completely and reproducibly, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from clearhead.errors import ConfigError, DataError
from clearhead.inspect import drawing
from clearhead.inspect.drawing import (
    FORMATS,
    axes_at,
    blank,
    finish,
    fixed_settings,
    write_figures,
)
from clearhead.inspect.figures import attention_figure, heads_figure
from made_records import draw_all, made_record

pytestmark = pytest.mark.slow


def svg_texts(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return [
        text for node in root.iter("{http://www.w3.org/2000/svg}text") for text in node.itertext()
    ]


@pytest.mark.parametrize("width", [0.3, 1.5, 6])
def test_titles_are_never_wider_than_the_picture(width: float) -> None:
    with fixed_settings():
        figure = blank(width, 1)
        axes_at(figure, 0, 0, width, 1).set(xticks=[], yticks=[])
        title = "A rather long title with averyveryverylongwordwithoutanyspace in it"
        finish(figure, title, "And a note that explains what is to be seen here.")
        figure.draw_without_rendering()
    assert figure.texts[0].get_text().replace("\n", "").replace(" ", "") == title.replace(" ", "")
    (axes,) = figure.axes
    assert axes.get_window_extent().width / figure.dpi == pytest.approx(width, abs=0.01)
    assert axes.get_window_extent().height / figure.dpi == pytest.approx(1, abs=0.01)
    title_box, note_box = (text.get_window_extent() for text in figure.texts)
    assert not title_box.overlaps(note_box)
    assert not note_box.overlaps(axes.get_window_extent())
    for box in (title_box, note_box):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= axes.get_window_extent().x1 + 5
        assert box.y1 <= figure.bbox.y1


def test_text_stays_text_in_an_svg_file(tmp_path: Path) -> None:
    record = made_record(("$x^2$", "▁猫は", "&lt;<b>", "a\nb", "\x01\x7f\x85", "\ud800"), ())
    (path,) = write_figures([("x", lambda: attention_figure(record))], tmp_path, ("svg",))
    texts = svg_texts(path)
    for name in ("$x^2$", "▁猫は", "&lt;<b>", r"a\nb", r"\x01\x7f\x85", r"\ud800"):
        assert name in texts
    assert pyplot.get_fignums() == []


def test_the_same_record_gives_the_same_bytes_whatever_matplotlib_is_set_to(
    tmp_path: Path,
) -> None:
    pictures = [("heads", lambda: heads_figure(made_record()))]
    first = write_figures(pictures, tmp_path / "first", FORMATS)
    odd_settings: dict[Any, Any] = {"axes.grid": True, "font.size": 20, "image.cmap": "jet"}
    with matplotlib.rc_context(odd_settings):
        again = write_figures(pictures, tmp_path / "again", FORMATS)
        assert matplotlib.rcParams["font.size"] == 20
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_failure_leaves_no_new_file_and_every_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = made_record(target=(), layers=1)
    formats = "svg", "png"
    before = {path: path.read_bytes() for path in draw_all(record, tmp_path, formats)}
    save, written = drawing.save, []

    def failing(figure: Figure, path: Path, form: str) -> None:
        save(figure, path, form)
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(drawing, "save", failing)
    other = made_record(target=(), layers=1, d_model=7)
    with pytest.raises(DataError, match="cannot be written") as caught:
        draw_all(other, tmp_path, formats)
    assert "No space left" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    written.clear()
    with pytest.raises(DataError, match="cannot be written"):
        draw_all(other, tmp_path / "new", formats)
    assert not (tmp_path / "new").exists()


def test_an_unknown_format_is_rejected_before_anything_is_drawn(tmp_path: Path) -> None:
    for formats in (("png", "bmp"), ()):
        with pytest.raises(ConfigError, match="format"):
            draw_all(made_record(), tmp_path / "new", formats)
    assert not (tmp_path / "new").exists()
