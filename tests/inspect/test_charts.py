"""Charts show the data of a study and of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from clearhead.errors import DataError
from clearhead.inspect.charts import (
    RunLog,
    faithfulness_figure,
    importance_figure,
    learning_figure,
    read_log,
)
from clearhead.inspect.drawing import THEMES, Theme
from pictures import assert_legible, names

pytestmark = pytest.mark.slow

themes = pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)


def points(line: Line2D) -> list[tuple[Any, Any]]:
    """The points of a line."""
    xs, ys = (np.asarray(each) for each in line.get_data())
    return list(zip(xs, ys, strict=True))


def rows(heads: int, chrf: bool = False) -> list[dict[str, Any]]:
    kinds = ("encoder.{}.self.{}", "decoder.{}.self.{}", "decoder.{}.cross.{}")
    found = []
    for number in range(heads):
        name = kinds[number % 3].format(number // 12 + 1, number % 12 // 3 + 1)
        mean = (heads - number) / heads / 10
        interval = [mean, mean - 0.01, mean + 0.02]
        found.append(
            {
                "head": name,
                "loss": interval,
                "gradient": mean / 3,
                "chrf": interval if chrf else None,
            }
        )
    return found


@themes
@pytest.mark.parametrize("heads", [3, 48, 144])
@pytest.mark.parametrize("chrf", [False, True])
def test_importance_has_a_row_for_each_head_with_its_interval(
    heads: int, chrf: bool, theme: Theme
) -> None:
    given = rows(heads, chrf)
    figure = importance_figure(given, theme)
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


def belief(measures: int = 8) -> dict[str, Any]:
    keys = ["removal", *(f"measure_{n}" for n in range(1, measures)), "random"]
    return {
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


@themes
def test_faithfulness_has_a_curve_and_two_numbers_for_each_measure(theme: Theme) -> None:
    given = belief()
    figure = faithfulness_figure(given, theme)
    assert_legible(figure)
    curves, lost, missing = figure.axes
    found = [list(np.asarray(line.get_ydata())) for line in curves.lines]
    assert found == list(given["curves"].values())
    styles = {(line.get_color(), line.get_marker()) for line in curves.lines}
    assert len(styles) == len(found)
    assert names(lost.get_yticklabels()) == tuple(row["title"] for row in given["rows"])
    for axes, key in ((lost, "comprehensiveness"), (missing, "sufficiency")):
        assert [np.asarray(line.get_xdata())[0] for line in axes.lines] == [
            r[key][0] for r in given["rows"]
        ]
        # A row has the colour and the marker of its curve.
        colours = {
            row["measure"]: line.get_color()
            for row, line in zip(given["rows"], axes.lines, strict=True)
        }
        assert [colours[name] for name in given["curves"]] == [x.get_color() for x in curves.lines]
    assert given["text"] in figure.texts[1].get_text().replace("\n", " ")


def log_file(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps({"time": 0.0, **event}) + "\n" for event in events))
    return path


def started(step: int) -> dict[str, Any]:
    return {"event": "RunStarted", "step": step}


def progress(step: int, loss: float | None) -> dict[str, Any]:
    return {"event": "Progress", "step": step, "loss": loss, "learning_rate": step / 1e5}


def validated(step: int, bleu: float, best: int, weights: str = "current") -> dict[str, Any]:
    scores = {"loss": 1 / step, "bleu": bleu}
    return {
        **{"event": "Validated", "step": step, "scores": scores, "measure": "bleu"},
        **{"best_step": best, "weights": weights},
    }


def test_steps_that_a_run_makes_again_count_once(tmp_path: Path) -> None:
    events = [
        *(started(0), progress(10, 5.0), validated(10, 1.0, 10), progress(20, 4.0)),
        *(validated(20, 9.0, 20), started(10), progress(15, None), progress(20, 3.0)),
        *(validated(20, 2.0, 20), progress(30, 9.0)),
        *({"event": "WentBack", "step": 20, "from_step": 30}, progress(25, 2.0)),
        *(validated(25, 7.0, 25, "average"), {"event": "Note", "text": "x"}),
    ]
    found = read_log(log_file(tmp_path / "log.jsonl", events))
    assert found.loss == [(10, 5.0), (20, 3.0), (25, 2.0)]
    assert found.scores["bleu"] == [(10, 1.0), (20, 2.0)]
    assert (found.measure, found.best_step) == ("bleu", 20)


@themes
@pytest.mark.parametrize("validations", [0, 1, 30])
def test_learning_curves_have_the_numbers_of_the_log(validations: int, theme: Theme) -> None:
    log = RunLog(measure="bleu", best_step=100 * validations)
    log.loss = [(step, 8 / (1 + step / 100)) for step in range(2, 3200, 7)]
    log.rate = [(step, step / 1e6) for step, _ in log.loss]
    for number in range(1, validations + 1):
        log.scores.setdefault("loss", []).append((100 * number, 5 / number))
        log.scores.setdefault("bleu", []).append((100 * number, 1.5 * number))
    figure = learning_figure(log, theme)
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


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = log_file(tmp_path / "log.jsonl", [started(0), progress(10, 5.0)])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"event": "Note", "text": "a\u2028b\x85c"}\n')
        file.write('{"event": "Progress", "st')
    assert read_log(path).loss == [(10, 5.0)]


def test_a_log_that_is_empty_or_damaged_is_named(tmp_path: Path) -> None:
    path = log_file(tmp_path / "log.jsonl", [])
    with pytest.raises(DataError, match="no steps"):
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
        assert caught.value.where == str(path) or caught.value.where == path
    with pytest.raises(DataError):
        read_log(tmp_path / "missing")
