"""Pictures show the values and tokens of a record, are legible, and are written completely."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from clearhead.errors import ConfigError, DataError
from clearhead.inspect import figures
from clearhead.inspect.figures import (
    attention_figure,
    confusion_figure,
    draw_all,
    heads_figure,
    layer_figure,
    stack_figure,
    write_figures,
)
from clearhead.inspect.heatmaps import LONGEST_LABEL, fixed_settings, label_text
from clearhead.inspect.record import DecoderLayerRecord, EncoderLayerRecord, Record

SOURCE = ("▁the", "▁cat", "▁is", "▁black", ".")
TARGET = ("<s>", "▁el", "▁gato", "▁negro")


def made_record(
    source: Sequence[str] = SOURCE,
    target: Sequence[str] = TARGET,
    layers: int = 2,
    heads: int = 3,
    d_model: int = 6,
) -> Record:
    """A record of random numbers; without a target it is that of a classifier."""
    rng = np.random.default_rng(1)
    s, t = len(source), len(target)

    def x(length: int) -> np.ndarray:
        return rng.normal(size=(length, d_model))

    def weights(queries: int, keys: int, causal: bool = False) -> np.ndarray:
        drawn = rng.random((heads, queries, keys))
        drawn = np.tril(drawn) if causal else drawn
        return drawn / drawn.sum(axis=-1, keepdims=True)

    encoder = [
        EncoderLayerRecord(x(s), weights(s, s), x(s), x(s), x(s), x(s)) for _ in range(layers)
    ]
    decoder = [
        DecoderLayerRecord(
            x(t), weights(t, t, True), x(t), x(t), weights(t, s), x(t), x(t), x(t), x(t)
        )
        for _ in range(layers if target else 0)
    ]
    return Record(
        tuple(source),
        tuple(target),
        np.arange(s),
        tuple(encoder),
        tuple(decoder),
        x(s),
        x(t or 1),
        x(t or 1),
    )


def panels(figure: Figure) -> list[Axes]:
    """The axes of the heat maps; the last axes are those of the colour bar."""
    return figure.axes[:-1]


def drawn(axes: Axes) -> np.ma.MaskedArray:
    (mesh,) = axes.collections
    values = mesh.get_array()
    assert values is not None
    return np.ma.asarray(values)


def names(texts: Sequence[Text]) -> tuple[str, ...]:
    return tuple(text.get_text() for text in texts)


def title_of(figure: Figure) -> str:
    (title,) = figure.texts
    return title.get_text()


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 2])
def test_the_weights_of_a_head_are_drawn_with_queries_down_and_keys_across(
    layer: int, head: int
) -> None:
    record = made_record()
    figure = attention_figure(record, "cross", layer, head)
    (axes,) = panels(figure)
    np.testing.assert_array_equal(drawn(axes), record.cross_attentions[layer, head])
    assert names(axes.get_yticklabels()) == TARGET
    assert names(axes.get_xticklabels()) == SOURCE
    assert (axes.get_ylabel(), axes.get_xlabel()) == (
        "query: target position",
        "key: source position",
    )
    # The first query is above the others.
    assert axes.yaxis_inverted()
    assert f"layer {layer + 1} of 2: head {head + 1} of 3" in title_of(figure)


@pytest.mark.parametrize("unit", ["token", "frame"])
def test_axes_of_a_classifier_are_named_after_its_unit(unit: Literal["token", "frame"]) -> None:
    record = dataclasses.replace(made_record(target=()), unit=unit)
    (axes,) = panels(attention_figure(record))
    assert (axes.get_ylabel(), axes.get_xlabel()) == (f"query: {unit}", f"key: {unit}")
    for figure in (layer_figure(record), stack_figure(record)):
        assert {axes.get_xlabel() for axes in panels(figure)} == {unit}


def test_the_title_names_a_mean_over_heads() -> None:
    record = made_record()
    figure = attention_figure(record)
    (axes,) = panels(figure)
    np.testing.assert_array_equal(drawn(axes), record.encoder_attentions[-1].mean(axis=0))
    assert "Encoder self-attention, layer 2 of 2: mean over its 3 heads" in title_of(figure)
    assert "mean over its 1 head" in title_of(attention_figure(made_record(heads=1)))


@pytest.mark.parametrize("heads", [1, 4, 6])
def test_each_head_has_a_panel_on_the_same_scale(heads: int) -> None:
    record = made_record(heads=heads)
    axes = panels(heads_figure(record, "encoder", 0))
    assert [one.get_title() for one in axes] == [f"head {n}" for n in range(1, heads + 1)]
    for one, weights in zip(axes, record.encoder[0].attention, strict=True):
        np.testing.assert_array_equal(drawn(one), weights)
        assert one.collections[0].get_clim() == (0, record.encoder[0].attention.max())
    # Names are at the left of each row of panels and below each column.
    assert [bool(one.get_yticklabels()) for one in axes] == [n % 4 == 0 for n in range(heads)]
    assert [bool(one.get_xticklabels()) for one in axes] == [n + 4 >= heads for n in range(heads)]


def test_masked_positions_are_left_blank() -> None:
    record = made_record()
    (axes,) = panels(attention_figure(record, "decoder", 0, 1))
    ahead = np.triu(np.ones((4, 4), dtype=bool), k=1)
    np.testing.assert_array_equal(drawn(axes).mask, ahead)
    np.testing.assert_array_equal(drawn(axes).filled(0), record.decoder_attentions[0, 1])
    assert len(axes.texts) == 10
    assert names(axes.get_xticklabels()) == names(axes.get_yticklabels()) == TARGET


def test_a_layer_figure_has_the_input_and_the_outputs_of_the_sub_layers() -> None:
    record = made_record()
    figure = layer_figure(record, 0)
    inside = record.encoder[0]
    axes = panels(figure)
    parts = [inside.input, inside.attention_output, inside.feed_forward_output]
    for one, values in zip(axes, parts, strict=True):
        np.testing.assert_array_equal(drawn(one), values.T)
        low, high = one.collections[0].get_clim()
        assert -low == high == max(np.abs(part).max() for part in parts)
        assert names(one.get_xticklabels()) == SOURCE
    assert names(axes[0].get_yticklabels()) == ("1", "2", "3", "4", "5", "6")
    assert [one.get_title().split()[-1] for one in axes] == ["input", "attention", "network"]
    # Side by side: on one height, each to the right of the one before.
    assert len({one.get_position().y0 for one in axes}) == 1
    assert all(a.get_position().x1 < b.get_position().x0 for a, b in pairwise(axes))


def test_the_stack_figure_has_the_input_and_the_output_of_each_layer() -> None:
    record = made_record(layers=3)
    axes = panels(stack_figure(record))
    parts = [record.encoder[0].input, *(layer.output for layer in record.encoder)]
    for one, values in zip(axes, parts, strict=True):
        np.testing.assert_array_equal(drawn(one), values.T)
    assert [one.get_title() for one in axes] == [
        "input",
        *(f"output of layer {n}" for n in (1, 2, 3)),
    ]


def test_an_input_of_zeros_is_drawn() -> None:
    layer = made_record(layers=1).encoder[0]
    zeros = np.zeros_like(layer.input)
    layer = dataclasses.replace(
        layer, input=zeros, attention_output=zeros, feed_forward_output=zeros
    )
    record = dataclasses.replace(made_record(layers=1), encoder=(layer,))
    assert drawn(panels(layer_figure(record))[0]).max() == 0


@pytest.mark.parametrize("scale", [1, 10, 100, 1000])
def test_values_are_written_in_the_cells_while_they_are_legible(scale: int) -> None:
    record = made_record()
    layer = dataclasses.replace(record.encoder[0], input=record.encoder[0].input * scale)
    record = dataclasses.replace(record, encoder=(layer,))
    axes = panels(layer_figure(record))[0]
    written = np.array([float(text.get_text()) for text in axes.texts]).reshape(6, 5)
    np.testing.assert_allclose(written, layer.input.T, atol=max(0.005, scale / 200))
    wide = made_record(d_model=512, layers=1)
    assert not any(one.texts for one in panels(layer_figure(wide)))


def test_a_confusion_shows_numbers_coloured_by_their_share_of_the_true_label() -> None:
    confusion = np.array([[90, 10, 0], [1, 3, 0], [0, 0, 0]])
    figure = confusion_figure(confusion, ["DESC", "ABBR", "never seen"])
    (axes,) = panels(figure)
    np.testing.assert_allclose(drawn(axes), [[0.9, 0.1, 0], [0.25, 0.75, 0], [0, 0, 0]])
    assert [int(text.get_text()) for text in axes.texts] == confusion.flatten().tolist()
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("true label", "predicted label")
    assert names(axes.get_yticklabels()) == ("DESC", "ABBR", "never seen")
    with pytest.raises(ValueError, match="2 labels"):
        confusion_figure(confusion, ["DESC", "ABBR"])


def boxes(figure: Figure, texts: Sequence[Text]) -> list[Bbox]:
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    with fixed_settings():
        return [text.get_window_extent(canvas.get_renderer()) for text in texts]


def assert_legible(figure: Figure) -> None:
    """Check that no texts overlap, that values fit their cells, and that no font is tiny."""
    beside = [
        text
        for axes in panels(figure)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label)
        if text.get_text()
    ]
    with fixed_settings():
        figure.draw_without_rendering()  # which puts everything in its place
        bar = figure.axes[-1].get_tightbbox()
    assert bar is not None
    for one, other in combinations([*boxes(figure, [*beside, *figure.texts]), bar], 2):
        assert not one.overlaps(other)
    for axes in panels(figure):
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            assert all(float(label.get_fontsize()) >= 5 for label in labels)
            found = boxes(figure, labels)
            assert not any(a.overlaps(b) and a.width and b.width for a, b in pairwise(found))
        values = drawn(axes)
        width = axes.get_window_extent().width / values.shape[1]
        height = axes.get_window_extent().height / values.shape[0]
        for box in boxes(figure, axes.texts[:20]):
            assert box.width < width
            assert box.height < height
    assert figure.get_size_inches().max() < 45


@settings(max_examples=6)
@given(
    source=st.lists(st.text(st.characters(codec="ascii"), max_size=25), min_size=1, max_size=130),
    heads=st.integers(1, 6),
    d_model=st.integers(1, 300),
)
def test_pictures_of_any_size_are_legible(source: list[str], heads: int, d_model: int) -> None:
    record = made_record(source, TARGET, layers=1, heads=heads, d_model=d_model)
    for figure in (heads_figure(record), heads_figure(record, "cross"), layer_figure(record)):
        assert_legible(figure)


ODD = (
    *("$x^2$", r"\frac{", "▁猫は", "שלום", "ก็", "&lt;<b>", "%", "a\nb", "\x01\x7f\x85", ""),
    *("\ud800", "👩‍👩‍👧", "\U0010ffff", "x" * 40, "\ufffe"),
)


def test_tokens_of_any_script_are_drawn_without_a_warning(tmp_path: Path) -> None:
    record = made_record(ODD, (), layers=1)
    figure = attention_figure(record)
    (axes,) = panels(figure)
    assert names(axes.get_xticklabels()) == tuple(label_text(name) for name in ODD)
    paths = draw_all(record, tmp_path)
    texts = "\n".join(text for path in paths if path.suffix == ".svg" for text in svg_texts(path))
    for name in ("$x^2$", "▁猫は", "&lt;<b>", r"a\nb", r"\x01\x7f\x85", r"\ud800"):
        assert name in texts


@given(st.text())
def test_a_label_is_short_and_printable(name: str) -> None:
    text = label_text(name)
    assert text.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert len(text) <= LONGEST_LABEL
    if name.isprintable() and len(name) <= LONGEST_LABEL:
        assert text == name


def svg_texts(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return [
        text for node in root.iter("{http://www.w3.org/2000/svg}text") for text in node.itertext()
    ]


def test_every_head_of_every_layer_is_drawn_into_whole_files(tmp_path: Path) -> None:
    paths = draw_all(made_record(), tmp_path / "new" / "pictures", ("svg",))
    pictures = [
        *("encoder-attention", "decoder-attention", "cross-attention"),
        *("encoder-heads-1", "encoder-heads-2", "decoder-heads-1", "decoder-heads-2"),
        *("cross-heads-1", "cross-heads-2", "encoder-layer-1", "encoder-layer-2", "encoder-stack"),
    ]
    assert [path.name for path in paths] == [f"{name}.svg" for name in pictures]
    assert set((tmp_path / "new" / "pictures").iterdir()) == set(paths)
    for path in paths:
        assert ("▁gato" if path.name.startswith("decoder") else "▁cat") in svg_texts(path)
    assert pyplot.get_fignums() == []


def test_a_picture_of_points_has_a_sensible_size_and_shows_something(tmp_path: Path) -> None:
    for path in draw_all(made_record(target=(), layers=1), tmp_path, ("png",)):
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG"
            assert min(image.size) > 200
            assert max(image.size) < 3000
            colours = image.convert("RGB").getcolors(2**24)
            assert colours is not None
            assert len(colours) > 20


def test_a_classifier_has_pictures_of_its_encoder_alone(tmp_path: Path) -> None:
    paths = draw_all(made_record(target=(), layers=1), tmp_path, ("svg",))
    assert [path.name for path in paths] == [
        *("encoder-attention.svg", "encoder-heads-1.svg"),
        *("encoder-layer-1.svg", "encoder-stack.svg"),
    ]


def test_the_same_record_gives_the_same_bytes_whatever_matplotlib_is_set_to(
    tmp_path: Path,
) -> None:
    pictures = [("heads", lambda: heads_figure(made_record()))]
    first = write_figures(pictures, tmp_path / "first")
    odd_settings: dict[Any, Any] = {"axes.grid": True, "font.size": 20, "image.cmap": "jet"}
    with matplotlib.rc_context(odd_settings):
        again = write_figures(pictures, tmp_path / "again")
        assert matplotlib.rcParams["font.size"] == 20
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_failure_leaves_no_new_file_and_every_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = made_record(target=(), layers=1)
    before = {path: path.read_bytes() for path in draw_all(record, tmp_path, ("svg",))}
    save, written = figures.save, []

    def failing(figure: Figure, path: Path, form: str) -> None:
        save(figure, path, form)
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(figures, "save", failing)
    other = made_record(target=(), layers=1, d_model=7)
    with pytest.raises(DataError, match="cannot be written") as caught:
        draw_all(other, tmp_path, ("svg",))
    assert "No space left" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    written.clear()
    with pytest.raises(DataError, match="cannot be written"):
        draw_all(other, tmp_path / "new", ("svg",))
    assert not (tmp_path / "new").exists()


def test_an_unknown_format_is_rejected_before_anything_is_drawn(tmp_path: Path) -> None:
    for formats in (("png", "bmp"), ()):
        with pytest.raises(ConfigError, match="format"):
            draw_all(made_record(), tmp_path / "new", formats)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_or_head_that_is_not_there_is_named(layer: int) -> None:
    record = made_record(heads=2)
    with pytest.raises(DataError, match=f"no layer {layer}"):
        heads_figure(record, "cross", layer)
    with pytest.raises(DataError, match=f"no encoder layer {layer}"):
        layer_figure(record, layer)
    with pytest.raises(DataError, match=f"no head {layer}"):
        attention_figure(record, "decoder", 0, layer)
    with pytest.raises(DataError, match="classifier has no decoder"):
        heads_figure(made_record(target=()), "decoder")
