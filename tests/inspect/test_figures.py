"""Pictures of an input show the values and tokens of its record, and are legible at any length."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from clearhead.errors import DataError
from clearhead.inspect.drawing import (
    DARK,
    LIGHT,
    LONGEST_LABEL,
    THEMES,
    Theme,
    fixed_settings,
    label_text,
    save,
)
from clearhead.inspect.figures import (
    CLIPPED,
    alignment_figure,
    attention_figure,
    confusion_figure,
    figures_of,
    head_effects_figure,
    heads_figure,
    layer_figure,
    stack_figure,
    word_effects_figure,
)
from clearhead.inspect.heads import Head
from made_records import SOURCE, TARGET, draw_all, made_record, words
from pictures import assert_legible, contrast, drawn, heading, mesh, names, panels, title_of

HEADS = tuple(
    Head(f"{kind}", number)
    for kind in ("encoder.1.self", "encoder.2.self", "decoder.1.self", "decoder.1.cross")
    for number in (1, 2, 3)
)


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
    assert f"layer {layer + 1} of 2, head {head + 1} of 3" in title_of(figure)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "frame"])
def test_axes_of_a_classifier_are_named_after_its_unit(unit: Literal["token", "frame"]) -> None:
    record = dataclasses.replace(made_record(target=()), unit=unit)
    (axes,) = panels(attention_figure(record))
    assert (axes.get_ylabel(), axes.get_xlabel()) == (f"query: {unit}", f"key: {unit}")
    for figure in (layer_figure(record), stack_figure(record)):
        assert panels(figure)[0].get_ylabel() == unit


def test_the_title_names_a_mean_over_heads() -> None:
    record = made_record()
    figure = attention_figure(record)
    (axes,) = panels(figure)
    np.testing.assert_array_equal(drawn(axes), record.encoder_attentions[-1].mean(axis=0))
    assert "Encoder self-attention, layer 2 of 2, mean over its 3 heads" in title_of(figure)
    assert "mean over its 1 head" in title_of(attention_figure(made_record(heads=1)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("heads", [1, 4, 6])
def test_each_head_of_each_layer_has_a_panel_on_the_same_scale(
    heads: int, kind: Literal["encoder", "decoder", "cross"]
) -> None:
    record = made_record(heads=heads)
    axes = panels(heads_figure(record, kind))
    weights = getattr(record, f"{kind}_attentions")
    assert len(axes) == 2 * heads
    for one, values in zip(axes, weights.reshape(2 * heads, *weights.shape[2:]), strict=True):
        np.testing.assert_array_equal(drawn(one).filled(0), values)
        assert mesh(one).get_clim() == (0, weights.max())
    titles = [f"head {n}" for n in range(1, heads + 1)] + [""] * heads
    assert [heading(one).get_text() for one in axes] == titles
    # The layer and the names of the rows are at the left of each row of panels.
    lefts = [one.get_ylabel() for one in axes]
    assert lefts == ["layer 1", *[""] * (heads - 1), "layer 2", *[""] * (heads - 1)]
    assert [bool(one.get_yticklabels()) for one in axes] == [
        n % heads == 0 for n in range(2 * heads)
    ]
    assert [bool(one.get_xticklabels()) for one in axes] == [n >= heads for n in range(2 * heads)]


def test_masked_positions_are_left_blank() -> None:
    record = made_record()
    (axes,) = panels(attention_figure(record, "decoder", 0, 1))
    ahead = np.triu(np.ones((4, 4), dtype=bool), k=1)
    np.testing.assert_array_equal(drawn(axes).mask, ahead)
    np.testing.assert_array_equal(drawn(axes).filled(0), record.decoder_attentions[0, 1])
    assert len(axes.texts) == 10
    assert names(axes.get_xticklabels()) == names(axes.get_yticklabels()) == TARGET


def test_a_weight_of_zero_differs_from_a_masked_one() -> None:
    for theme in THEMES.values():
        assert np.abs(np.subtract(to_rgb(theme.amount[0]), to_rgb(theme.paper))).max() > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_layer_figure_has_the_values_of_each_step(stack: Literal["encoder", "decoder"]) -> None:
    record = made_record()
    layer = getattr(record, stack)[0]
    hidden = np.random.default_rng(2).random((len(layer.input), 9))
    name = f"{stack}.1.feed_forward.hidden_units"
    record = dataclasses.replace(record, details={name: hidden})
    axes = panels(layer_figure(record, 0, stack))
    parts = {
        "encoder": ("input", "attention_output", "after_attention"),
        "decoder": (
            *("input", "self_attention_output", "after_self_attention"),
            *("cross_attention_output", "after_cross_attention"),
        ),
    }[stack]
    expected = [*(getattr(layer, part) for part in parts), hidden]
    expected += [layer.feed_forward_output, layer.output]
    for one, values in zip(axes, expected, strict=True):
        np.testing.assert_array_equal(drawn(one), values)
        low, high = mesh(one).get_clim()
        assert -low == high == pytest.approx(np.quantile(np.abs(values), CLIPPED))
        assert f"±{high:.2g}" in heading(one).get_text()
    assert names(axes[0].get_yticklabels()) == (SOURCE if stack == "encoder" else TARGET)
    # Without the detail its panel is missing, and so is no other.
    plain = panels(layer_figure(made_record(), 0, stack))
    assert len(plain) == len(axes) - 1


def test_the_stack_figure_has_the_input_and_the_output_of_each_layer_on_one_scale() -> None:
    record = made_record(layers=3)
    axes = panels(stack_figure(record))
    parts = [record.encoder[0].input, *(layer.output for layer in record.encoder)]
    for one, values in zip(axes, parts, strict=True):
        np.testing.assert_array_equal(drawn(one), values)
    assert [heading(one).get_text() for one in axes] == [
        "input",
        *(f"output of layer {n}" for n in (1, 2, 3)),
    ]
    assert len({mesh(one).get_clim() for one in axes}) == 1
    decoder = panels(stack_figure(record, "decoder"))
    np.testing.assert_array_equal(drawn(decoder[3]), record.decoder[2].output)


def test_an_input_of_zeros_is_drawn() -> None:
    layer = made_record(layers=1).encoder[0]
    zeros = {field.name: np.zeros_like(layer.input) for field in dataclasses.fields(layer)}
    layer = dataclasses.replace(layer, **zeros | {"attention": layer.attention})
    record = dataclasses.replace(made_record(layers=1), encoder=(layer,))
    assert drawn(panels(layer_figure(record))[0]).max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.001, 1, 10, 100, 1000])
def test_values_are_written_in_the_cells_while_they_are_legible(scale: float) -> None:
    values = np.random.default_rng(1).normal(size=(4, 5)) * scale
    (axes,) = panels(word_effects_figure(values, TARGET, SOURCE))
    written = np.array([float(text.get_text()) for text in axes.texts]).reshape(4, 5)
    np.testing.assert_allclose(written, values, atol=max(0.0005, scale / 200))
    many = np.ones((60, 60)) / 60
    assert not panels(word_effects_figure(many, words(60), words(60)))[0].texts


def test_an_alignment_shows_shares_and_frames_the_links() -> None:
    matrix = np.array([[3.0, 1.0, -2.0], [0.0, 0.0, 0.0], [-1.0, -0.5, -3.0]])
    links = {(0, 0), (2, 1), (1, 2)}
    figure = alignment_figure(matrix, links, ["a", "b", "c"], ["x", "y", "z"], "decoder.2.cross.1")
    (axes,) = panels(figure)
    np.testing.assert_allclose(drawn(axes), [[0.75, 0.25, 0], [0, 0, 0], [0, 0, 0]])
    frames = [one for one in axes.patches if isinstance(one, Rectangle)]
    centres = [
        (one.get_y() + one.get_height() / 2, one.get_x() + one.get_width() / 2) for one in frames
    ]
    assert {(int(row), int(column)) for row, column in centres} == {(0, 0), (1, 2), (2, 1)}
    assert "decoder.2.cross.1" in figure.texts[1].get_text().replace("\n", " ")
    assert names(axes.get_xticklabels()) == ("a", "b", "c")
    assert names(axes.get_yticklabels()) == ("x", "y", "z")


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [3, 30])
def test_effects_of_heads_are_grouped_by_kind_on_one_scale_around_zero(outputs: int) -> None:
    values = np.random.default_rng(1).normal(size=(len(HEADS), outputs))
    axes = panels(head_effects_figure(HEADS, values, words(outputs)))
    parts = (values[:6], values[6:9], values[9:])
    for one, expected in zip(axes, parts, strict=True):
        np.testing.assert_array_equal(drawn(one), expected)
        assert mesh(one).get_clim() == (-np.abs(values).max(), np.abs(values).max())
    assert names(axes[0].get_yticklabels()) == ("1.1", "1.2", "1.3", "2.1", "2.2", "2.3")
    assert heading(axes[2]).get_text() == "Cross-attention"


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


def effects(outputs: int, inputs: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(outputs, inputs))


PICTURES: dict[str, Callable[[Sequence[str], Theme], Figure]] = {
    **{
        name: lambda tokens, theme, kind=name: heads_figure(
            made_record(tokens, tokens, layers=4, heads=4), kind, theme
        )
        for name in ("encoder", "decoder", "cross")
    },
    "many heads": lambda tokens, theme: heads_figure(
        made_record(tokens, (), layers=6, heads=8), "encoder", theme
    ),
    "one": lambda tokens, theme: attention_figure(
        made_record(tokens, tokens, layers=1), "decoder", 0, 0, theme
    ),
    "layer": lambda tokens, theme: layer_figure(
        made_record(tokens, tokens, layers=1, d_model=64), 0, "decoder", theme
    ),
    "stack": lambda tokens, theme: stack_figure(
        made_record(tokens, (), layers=6, d_model=64), "encoder", theme
    ),
    "alignment": lambda tokens, theme: alignment_figure(
        effects(len(tokens), len(tokens)), enumerate(range(len(tokens))), tokens, tokens, "x", theme
    ),
    "words": lambda tokens, theme: word_effects_figure(
        effects(len(tokens), len(tokens)), tokens, tokens, "word", theme
    ),
    "few heads": lambda tokens, theme: head_effects_figure(
        HEADS[:2], effects(2, len(tokens)), tokens, theme
    ),
    "heads": lambda tokens, theme: head_effects_figure(
        HEADS, effects(len(HEADS), len(tokens)), tokens, theme
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)
@pytest.mark.parametrize("count", [4, 60])
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_legible_and_have_no_empty_area(name: str, count: int, theme: Theme) -> None:
    figure = PICTURES[name](words(count), theme)
    assert_legible(figure)
    assert figure.get_facecolor()[:3] == to_rgb(theme.paper)
    texts = [*figure.texts, figure.axes[0].xaxis.label, figure.axes[0].yaxis.label]
    assert {text.get_color() for text in texts} == {theme.ink}
    title = figure.texts[0].get_window_extent()
    assert title.x1 <= figure.bbox.x1
    # The colour bar is hardly longer than the panels beside it with their names.
    with fixed_settings():
        *others, bar = [axes.get_tightbbox() for axes in figure.axes]
    assert bar is not None
    assert bar.y0 > min(box.y0 for box in others if box is not None) - 0.3 * figure.dpi


@pytest.mark.slow
@settings(max_examples=4)
@given(
    source=st.lists(st.text(st.characters(codec="ascii"), max_size=25), min_size=1, max_size=130),
    heads=st.integers(1, 6),
    d_model=st.integers(1, 300),
)
def test_pictures_of_any_size_are_legible(source: list[str], heads: int, d_model: int) -> None:
    record = made_record(source, TARGET, layers=1, heads=heads, d_model=d_model)
    for figure in (
        heads_figure(record),
        heads_figure(record, "cross"),
        layer_figure(record),
        attention_figure(record, "cross"),
    ):
        assert_legible(figure)


ODD = (
    *("$x^2$", r"\frac{", "▁猫は", "שלום", "ก็", "&lt;<b>", "%", "a\nb", "\x01\x7f\x85", ""),
    *("\ud800", "👩‍👩‍👧", "\U0010ffff", "x" * 40, "\ufffe"),
)


@pytest.mark.slow
def test_tokens_of_any_script_are_drawn_without_a_warning(tmp_path: Path) -> None:
    record = made_record(ODD, (), layers=1)
    figure = attention_figure(record)
    (axes,) = panels(figure)
    assert names(axes.get_xticklabels()) == tuple(label_text(name) for name in ODD)
    paths = draw_all(record, tmp_path, ("png", "svg", "pdf"), DARK)
    assert all(path.stat().st_size for path in paths)
    for number, name in enumerate(ODD[:10]):  # as a label, a title and a note
        confusion_figure(np.array([[number]]), [name])
        save(alignment_figure(np.ones((1, 1)), [], [name], [name], name), tmp_path / "x.png", "png")


@pytest.mark.slow
def test_all_heads_and_all_layers_are_drawn_into_whole_files(tmp_path: Path) -> None:
    paths = draw_all(made_record(), tmp_path / "new" / "pictures")
    pictures = (
        *("encoder-heads", "decoder-heads", "cross-heads"),
        *("encoder-layers", "decoder-layers"),
    )
    assert [path.name for path in paths] == [f"{name}.png" for name in pictures]
    assert set((tmp_path / "new" / "pictures").iterdir()) == set(paths)
    for path in paths:
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG"
            assert min(image.size) > 200
            assert max(image.size) < 3000
            colours = image.convert("RGB").getcolors(2**24)
            assert colours is not None
            assert len(colours) > 20


def test_every_layer_and_head_has_a_picture_with_its_name() -> None:
    found = [name for name, _ in figures_of(made_record(layers=2, heads=2))]
    assert found[5:9] == ["encoder.1", "encoder.2", "decoder.1", "decoder.2"]
    assert found[9:12] == ["encoder.1.self", "encoder.1.self.1", "encoder.1.self.2"]
    assert found[-1] == "decoder.2.cross.2"
    record = made_record(layers=2, heads=2)
    figure = dict(figures_of(record))["decoder.2.cross.1"]()
    assert isinstance(figure, Figure)
    (axes,) = panels(figure)
    np.testing.assert_array_equal(drawn(axes), record.cross_attentions[1, 0])
    classifier = [name for name, _ in figures_of(made_record(target=()))]
    assert not any(name.startswith(("decoder", "cross")) for name in classifier)


@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_or_head_that_is_not_there_is_named(layer: int) -> None:
    record = made_record(heads=2)
    with pytest.raises(DataError, match=f"no layer {layer}"):
        attention_figure(record, "cross", layer)
    with pytest.raises(DataError, match=f"no encoder layer {layer}"):
        layer_figure(record, layer)
    with pytest.raises(DataError, match=f"no head {layer}"):
        attention_figure(record, "decoder", 0, layer)
    with pytest.raises(DataError, match="classifier has no decoder"):
        heads_figure(made_record(target=()), "decoder")


def test_panels_are_side_by_side() -> None:
    axes = panels(layer_figure(made_record(), 0))[:3]
    assert len({round(one.get_position().y1, 9) for one in axes}) == 1
    assert all(a.get_position().x1 < b.get_position().x0 for a, b in pairwise(axes))


@pytest.mark.slow
def test_pictures_of_one_token_are_legible() -> None:
    for draw in PICTURES.values():
        assert_legible(draw(words(1), LIGHT))


@given(st.text())
def test_a_label_is_short_and_printable(name: str) -> None:
    text = label_text(name)
    assert text.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert len(text) <= LONGEST_LABEL
    if name.isprintable() and len(name) <= LONGEST_LABEL:
        assert text == name


def test_themes_have_legible_text_and_lines() -> None:
    for theme in (LIGHT, DARK):
        assert contrast(theme.ink, theme.paper) > 7
        assert all(
            contrast(line, theme.paper) > 3 for line in (*theme.lines, theme.faint, theme.mark)
        )
        # Shades differ in lightness, so that they differ for colour-blind readers and in print.
        steps = [contrast(one, theme.paper) for one in theme.amount]
        assert all(b > 1.25 * a for a, b in pairwise(steps))
