"""Pictures show the values of records, studies and logs, and are legible at any length."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

import clearhead
from clearhead import nn
from clearhead.errors import ConfigError, DataError
from clearhead.inspect import drawing
from clearhead.inspect.attention_watch import small
from clearhead.inspect.drawing import (
    AMOUNT,
    CHANGE,
    FAINT,
    FORMATS,
    INK,
    LINES,
    LONGEST_LABEL,
    MARK,
    MASKED,
    fixed_settings,
    label_text,
    save,
    write_figures,
)
from clearhead.inspect.heads import Head
from clearhead.inspect.pictures import (
    CLIPPED,
    MOMENTS,
    RunLog,
    alignment_figure,
    attention_figure,
    faithfulness_figure,
    head_effects_figure,
    heads_figure,
    importance_figure,
    layer_figure,
    learning_figure,
    pictures_of_record,
    read_log,
    strip_figure,
    word_effects_figure,
)
from clearhead.inspect.record import Record
from clearhead.inspect.report.page import FOLDER
from made_records import ROWS, SOURCE, TARGET, draw_all, made_record, words
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
    assert names(axes.get_yticklabels()) == ROWS
    assert names(axes.get_xticklabels()) == SOURCE
    assert (axes.get_ylabel(), axes.get_xlabel()) == (
        "query: reads → predicts",
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
    assert panels(layer_figure(record))[0].get_ylabel() == unit


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


def test_masked_positions_are_hatched_and_named() -> None:
    record = made_record()
    figure = attention_figure(record, "decoder", 0, 1)
    (axes,) = panels(figure)
    ahead = np.triu(np.ones((4, 4), dtype=bool), k=1)
    np.testing.assert_array_equal(drawn(axes).mask, ahead)
    np.testing.assert_array_equal(drawn(axes).filled(0), record.decoder_attentions[0, 1])
    assert len(axes.texts) == 10
    assert to_rgb(MASKED) == pytest.approx(mesh(axes).to_rgba(drawn(axes))[0, 3, :3])
    assert names(axes.get_xticklabels()) == TARGET
    assert names(axes.get_yticklabels()) == ROWS
    hatched = np.zeros_like(ahead)
    for one in axes.patches:
        assert isinstance(one, Rectangle)
        assert one.get_hatch()
        (x, y), width = one.get_xy(), one.get_width()
        hatched[int(y), int(x) : int(x + width)] = True
    np.testing.assert_array_equal(hatched, ahead)
    assert "Hatched: masked" in figure.texts[1].get_text()
    others = attention_figure(record, "cross"), attention_figure(record)
    assert not any("Hatched" in figure.texts[1].get_text() for figure in others)


def test_a_known_prediction_names_the_last_row_and_long_names_keep_both_parts() -> None:
    predicted = ("▁el", "▁gato", "▁negro", "▁" + "x" * 30)
    record = dataclasses.replace(made_record(), predicted=predicted)
    (axes,) = panels(attention_figure(record, "cross"))
    assert names(axes.get_yticklabels()) == (*ROWS[:3], "▁negro → ▁xxxxxxxx…")


@pytest.mark.parametrize("effect", [0.002, 5.0])
def test_a_small_effect_or_weight_has_no_strong_colour(effect: float) -> None:
    figures = (
        word_effects_figure(np.full((2, 2), effect), ["a", "b"], ["c", "d"]),
        head_effects_figure(HEADS[:2], np.full((2, 2), effect), ["a", "b"]),
    )
    for figure in figures:
        assert mesh(figure.axes[0]).get_clim() == (-max(0.1, effect), max(0.1, effect))
    # The label of the colours and the note agree on what is positive.
    assert all("fall of" in figure.axes[-1].get_ylabel() for figure in figures)
    assert all("green: it falls" in note(figure) for figure in figures)
    assert all("do not add up" in note(figure) for figure in figures)


def note(figure: Figure) -> str:
    return figure.texts[1].get_text().replace("\n", " ")


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
    assert names(axes[0].get_yticklabels()) == (SOURCE if stack == "encoder" else ROWS)
    # Without the detail its panel is missing, and so is no other.
    plain = panels(layer_figure(made_record(), 0, stack))
    assert len(plain) == len(axes) - 1


def test_an_input_of_zeros_is_drawn() -> None:
    layer = made_record(layers=1).encoder[0]
    zeros = {field.name: np.zeros_like(layer.input) for field in dataclasses.fields(layer)}
    layer = dataclasses.replace(layer, **zeros | {"attention": layer.attention})
    record = dataclasses.replace(made_record(layers=1), encoder=(layer,))
    assert drawn(panels(layer_figure(record))[0]).max() == 0


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


def effects(outputs: int, inputs: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(outputs, inputs))


PICTURES: dict[str, Callable[[Sequence[str]], Figure]] = {
    **{
        name: lambda tokens, kind=name: heads_figure(
            made_record(tokens, tokens, layers=4, heads=4), kind
        )
        for name in ("encoder", "decoder", "cross")
    },
    "many heads": lambda tokens: heads_figure(
        made_record(tokens, (), layers=6, heads=8), "encoder"
    ),
    "one": lambda tokens: attention_figure(made_record(tokens, tokens, layers=1), "decoder", 0, 0),
    "layer": lambda tokens: layer_figure(
        made_record(tokens, tokens, layers=1, d_model=64), 0, "decoder"
    ),
    "alignment": lambda tokens: alignment_figure(
        effects(len(tokens), len(tokens)), enumerate(range(len(tokens))), tokens, tokens, "x"
    ),
    "words": lambda tokens: word_effects_figure(
        effects(len(tokens), len(tokens)), tokens, tokens, "word"
    ),
    "few heads": lambda tokens: head_effects_figure(HEADS[:2], effects(2, len(tokens)), tokens),
    "heads": lambda tokens: head_effects_figure(HEADS, effects(len(HEADS), len(tokens)), tokens),
}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4, 60])
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_legible_and_have_no_empty_area(name: str, count: int) -> None:
    figure = PICTURES[name](words(count))
    assert_legible(figure)
    texts = [*figure.texts, figure.axes[0].xaxis.label, figure.axes[0].yaxis.label]
    assert {text.get_color() for text in texts} == {INK}
    title = figure.texts[0].get_window_extent()
    assert title.x1 <= figure.bbox.x1
    # The colour bar is hardly longer than the panels beside it with their names.
    with fixed_settings():
        *others, bar = [axes.get_tightbbox() for axes in figure.axes]
    assert bar is not None
    assert bar.y0 > min(box.y0 for box in others if box is not None) - 0.3 * figure.dpi


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
    paths = draw_all(record, tmp_path, FORMATS)
    assert all(path.stat().st_size for path in paths)
    for name in ODD[:10]:  # as a label, a title and a note
        save(alignment_figure(np.ones((1, 1)), [], [name], [name], name), tmp_path / "x.png", "png")


def test_every_layer_and_head_has_a_picture_with_its_name() -> None:
    found = list(pictures_of_record(made_record(layers=2, heads=2)))
    assert found[3:7] == ["encoder.1", "encoder.2", "decoder.1", "decoder.2"]
    assert found[7:10] == ["encoder.1.self", "encoder.1.self.1", "encoder.1.self.2"]
    assert found[-1] == "decoder.2.cross.2"
    record = made_record(layers=2, heads=2)
    figure = pictures_of_record(record)["decoder.2.cross.1"]()
    assert isinstance(figure, Figure)
    (axes,) = panels(figure)
    np.testing.assert_array_equal(drawn(axes), record.cross_attentions[1, 0])
    classifier = list(pictures_of_record(made_record(target=())))
    assert not any(name.startswith(("decoder", "cross")) for name in classifier)


@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_or_head_that_is_not_there_is_named(layer: int) -> None:
    record = made_record(heads=2)
    for draw in (
        partial(attention_figure, record, "cross", layer),
        partial(layer_figure, record, layer),
        partial(attention_figure, record, "decoder", 0, layer),
    ):
        with pytest.raises(DataError) as caught:
            draw()
        assert str(layer) in caught.value.what
    with pytest.raises(DataError):
        heads_figure(made_record(target=()), "decoder")


@given(st.text())
def test_a_label_is_short_and_printable(name: str) -> None:
    text = label_text(name)
    assert text.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert len(text) <= LONGEST_LABEL
    if name.isprintable() and len(name) <= LONGEST_LABEL:
        assert text == name


def test_colours_are_legible_and_those_of_the_page() -> None:
    assert contrast(INK, "white") > 7
    assert all(contrast(line, "white") > 3 for line in (*LINES, FAINT, MARK))
    # Shades differ in lightness, so that they differ for colour-blind readers and in print.
    steps = [contrast(one, "white") for one in AMOUNT]
    assert all(b > 1.25 * a for a, b in pairwise(steps))
    page = (FOLDER / "colours.js").read_text()
    for shades in (AMOUNT, CHANGE):
        parts = [tuple(round(255 * x) for x in to_rgb(shade)) for shade in shades]
        listed = [f"[{red}, {green}, {blue}]" for red, green, blue in parts]
        assert re.search(r",\s*".join(map(re.escape, listed)), page)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "tokens"), [(1, 4), (3, 4), (20, 60)])
def test_a_strip_has_steps_across_and_heads_down(tmp_path: Path, count: int, tokens: int) -> None:
    files = []
    for number in range(1, count + 1):
        record = made_record(words(tokens), ())
        layers = [
            dataclasses.replace(layer, attention=layer.attention ** (1 + number))
            for layer in record.encoder
        ]
        files.append((100 * number, tmp_path / f"step-{100 * number}-1.npz"))
        small(dataclasses.replace(record, encoder=tuple(layers))).save(files[-1][1])
    figure = strip_figure(files)
    assert_legible(figure)
    axes = panels(figure)
    columns = min(count, MOMENTS)
    assert len(axes) == 2 * 3 * columns
    titles = [heading(one).get_text() for one in axes[:columns]]
    assert titles[0] == "step 100"
    assert titles[-1] == f"step {100 * count:,}"
    expected = Record.load(files[-1][1]).encoder_attentions.reshape(6, tokens, tokens)
    for number, weights in enumerate(expected):
        np.testing.assert_array_equal(drawn(axes[columns * (number + 1) - 1]), weights)
    lefts = [one.get_ylabel() for one in axes[::columns]]
    assert lefts == [f"head {layer}.{head}" for layer in (1, 2) for head in (1, 2, 3)]
    assert len({mesh(one).get_clim() for one in axes}) == 1


def points(line: Line2D) -> list[tuple[Any, Any]]:
    """The points of a line."""
    xs, ys = (np.asarray(each) for each in line.get_data())
    return list(zip(xs, ys, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("heads", [3, 48, 144])
@pytest.mark.parametrize("chrf", [False, True])
def test_importance_has_a_row_for_each_head_with_its_interval(heads: int, chrf: bool) -> None:
    kinds = ("encoder.{}.self.{}", "decoder.{}.self.{}", "decoder.{}.cross.{}")
    given: list[dict[str, Any]] = []
    for number in range(heads):
        mean = (heads - number) / heads / 10
        interval = [mean, mean - 0.01, mean + 0.02]
        name = kinds[number % 3].format(number // 12 + 1, number % 12 // 3 + 1)
        row = {"head": name, "loss": interval, "gradient": mean / 3}
        given.append(row | {"chrf": interval if chrf else None})
    figure = importance_figure(given)
    assert_legible(figure)
    assert len(figure.axes) == 2 + chrf
    axes = figure.axes[0]
    assert names(axes.get_yticklabels()) == tuple(row["head"] for row in given)
    assert axes.yaxis_inverted()
    dots = {y: x for line in axes.lines for x, y in points(line)}
    assert [dots[y] for y in range(heads)] == [row["loss"][0] for row in given]
    ends = {}
    for lines in axes.collections:
        assert isinstance(lines, LineCollection)
        for (low, y), (high, _) in lines.get_segments():
            ends[int(y)] = (low, high)
    assert [ends[y] for y in range(heads)] == [tuple(row["loss"][1:]) for row in given]


@pytest.mark.slow
def test_faithfulness_has_a_curve_and_two_numbers_for_each_measure() -> None:
    keys = ["removal", *(f"measure_{n}" for n in range(1, 8)), "random"]
    given: dict[str, Any] = {
        "text": "Believe “Measure 1”: deleting the words that it ranks first lowers the "
        "probability of the output by 0.797 on average (0.813 for exact removal).",
        "believed": ["measure_1"],
        "rows": [
            {
                "measure": key,
                "title": key.replace("_", " of all the layers "),
                "comprehensiveness": [0.8 - n / 50, 0.78 - n / 50, 0.82 - n / 50],
                "sufficiency": [0.6 + n / 50, 0.58 + n / 50, 0.62 + n / 50],
            }
            for n, key in enumerate(keys)
        ],
        "grid": np.linspace(0, 1, 11).tolist(),
        "curves": {key: np.linspace(0.9, 0.01 * n, 11).tolist() for n, key in enumerate(keys)},
    }
    figure = faithfulness_figure(given)
    assert_legible(figure)
    curves, lost, missing = figure.axes
    found = [list(np.asarray(line.get_ydata())) for line in curves.lines]
    assert found == list(given["curves"].values())
    assert len({(line.get_color(), line.get_marker()) for line in curves.lines}) == len(found)
    assert names(lost.get_yticklabels()) == tuple(row["title"] for row in given["rows"])
    for axes, key in ((lost, "comprehensiveness"), (missing, "sufficiency")):
        dots = [np.asarray(line.get_xdata())[0] for line in axes.lines]
        assert dots == [row[key][0] for row in given["rows"]]
        # A row has the colour and the marker of its curve.
        assert [x.get_color() for x in axes.lines] == [x.get_color() for x in curves.lines]
    assert given["text"] in figure.texts[1].get_text().replace("\n", " ")


def test_steps_that_a_run_makes_again_count_once(tmp_path: Path) -> None:
    def progress(step: int, loss: float | None) -> dict[str, Any]:
        return {"event": "Progress", "step": step, "loss": loss, "learning_rate": step / 1e5}

    def validated(step: int, bleu: float, weights: str = "current") -> dict[str, Any]:
        scores = {"loss": 1 / step, "bleu": bleu}
        facts = {"step": step, "scores": scores, "best_step": step, "weights": weights}
        return {"event": "Validated", "measure": "bleu", **facts}

    events = [
        *({"event": "RunStarted", "step": 0}, progress(10, 5.0), validated(10, 1.0)),
        *(progress(20, 4.0), validated(20, 9.0), {"event": "RunStarted", "step": 10}),
        *(progress(15, None), progress(20, 3.0), validated(20, 2.0), progress(30, 9.0)),
        *({"event": "WentBack", "step": 20}, progress(25, 2.0), validated(25, 7.0, "average")),
        {"event": "Note", "text": "a\u2028b\x85c"},
    ]
    lines = [json.dumps(event, ensure_ascii=False) for event in events]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([*lines, '{"event": "Progress", "st']), "utf-8")  # being written
    found = read_log(path)
    assert found.loss == [(10, 5.0), (20, 3.0), (25, 2.0)]
    assert found.scores["bleu"] == [(10, 1.0), (20, 2.0)]
    assert (found.measure, found.best_step) == ("bleu", 20)


@pytest.mark.slow
@pytest.mark.parametrize("validations", [0, 1, 30])
def test_learning_curves_have_the_numbers_of_the_log(validations: int) -> None:
    log = RunLog(measure="bleu", best_step=100 * validations)
    log.loss = [(step, 8 / (1 + step / 100)) for step in range(2, 3200, 7)]
    log.rate = [(step, step / 1e6) for step, _ in log.loss]
    for number in range(1, validations + 1):
        log.scores.setdefault("loss", []).append((100 * number, 5 / number))
        log.scores.setdefault("bleu", []).append((100 * number, 1.5 * number))
    figure = learning_figure(log)
    assert_legible(figure)
    assert len(figure.axes) == (3 if validations else 2)
    losses = figure.axes[0].lines
    assert points(losses[0]) == log.loss
    assert points(figure.axes[-1].lines[0]) == log.rate
    if validations:
        assert points(losses[1]) == log.scores["loss"]
        curve, star = figure.axes[1].lines
        assert points(curve) == log.scores["bleu"]
        assert np.asarray(star.get_xdata())[0] == log.best_step


def test_a_log_that_is_empty_or_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("")
    with pytest.raises(DataError):
        learning_figure(read_log(path))
    for content in (
        "{\n",
        '{"event": "Progress"}\n',
        "[]\n",
        '{"event": "Progress", "step": "x"}\n',
    ):
        path.write_text(content)
        with pytest.raises(DataError) as caught:
            read_log(path)
        assert str(caught.value.where) == str(path)
    with pytest.raises(DataError):
        read_log(tmp_path / "missing")


@pytest.mark.slow
def test_text_stays_text_in_an_svg_file(tmp_path: Path) -> None:
    record = made_record(("$x^2$", "▁猫は", "&lt;<b>", "a\nb", "\x01\x7f\x85", "\ud800"), ())
    (path,) = write_figures([("x", lambda: attention_figure(record))], tmp_path, ("svg",))
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{svg}svg"
    texts = [text for node in root.iter(f"{svg}text") for text in node.itertext()]
    for name in ("$x^2$", "▁猫は", "&lt;<b>", r"a\nb", r"\x01\x7f\x85", r"\ud800"):
        assert name in texts
    assert pyplot.get_fignums() == []


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_failure_leaves_no_new_file_and_every_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = made_record(target=(), layers=1)
    formats = "svg", "png"
    before = {path: path.read_bytes() for path in draw_all(record, tmp_path, formats)}
    written: list[Path] = []

    def failing(figure: Figure, path: Path, form: str) -> None:
        save(figure, path, form)
        written.append(path)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(drawing, "save", failing)
    other = made_record(target=(), layers=1, d_model=7)
    with pytest.raises(DataError) as caught:
        draw_all(other, tmp_path, formats)
    assert "No space left" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    written.clear()
    with pytest.raises(DataError):
        draw_all(other, tmp_path / "new", formats)
    assert not (tmp_path / "new").exists()


def test_an_unknown_format_is_rejected_before_anything_is_drawn(tmp_path: Path) -> None:
    for formats in (("png", "bmp"), ()):
        with pytest.raises(ConfigError):
            draw_all(made_record(), tmp_path / "new", formats)
    assert not (tmp_path / "new").exists()


def test_figures_draws_a_model_of_ones_own(tmp_path: Path) -> None:
    model = nn.Transformer(13, 11, d_model=16, heads=2, layers=1).eval()
    folder = tmp_path / "drawn"
    found = clearhead.figures(model, [3, 4], [5], folder, only="alignment,decoder.1", formats="svg")
    assert [path.name for path in found] == ["alignment.svg", "decoder.1.svg"]
    assert all(path.is_file() for path in found)
    classifier = nn.TransformerClassifier(4, 3, features=True, d_model=16, heads=2, layers=1).eval()
    frames = np.ones((5, 4), dtype=np.float32)
    assert clearhead.figures(classifier, frames, folder=folder)
    with pytest.raises(ConfigError):
        clearhead.figures(model, [3, 4], [5], folder, only="nothing")
    with pytest.raises(ConfigError):
        clearhead.figures(model, [3, 4], [5], folder, formats="gif")
