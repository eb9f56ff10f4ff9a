"""A strip and an animation show the attention that a run has kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clearhead.inspect.attention_over_training import FRAMES, MOMENTS, animation, strip_figure
from clearhead.inspect.attention_watch import small
from clearhead.inspect.drawing import THEMES, Theme, write_figures
from clearhead.inspect.record import Record
from made_records import TARGET, made_record, words
from pictures import assert_legible, drawn, heading, mesh, panels

pytestmark = pytest.mark.slow

themes = pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)


def kept(folder: Path, count: int, tokens: int = 5, target: tuple[str, ...] = TARGET) -> list:
    """Records of a run whose encoder weights differ from step to step."""
    files = []
    for number in range(1, count + 1):
        record = made_record(words(tokens), target)
        layers = [
            dataclasses.replace(layer, attention=layer.attention ** (1 + number))
            for layer in record.encoder
        ]
        record = small(dataclasses.replace(record, encoder=tuple(layers)))
        path = folder / f"step-{100 * number}-1.npz"
        record.save(path)
        files.append((100 * number, path))
    return files


@themes
@pytest.mark.parametrize(("count", "tokens"), [(1, 4), (3, 4), (20, 60)])
def test_a_strip_has_steps_across_and_layers_down(
    tmp_path: Path, count: int, tokens: int, theme: Theme
) -> None:
    files = kept(tmp_path, count, tokens, ())
    figure = strip_figure(files, theme)
    assert_legible(figure)
    axes = panels(figure)
    columns = min(count, MOMENTS)
    assert len(axes) == 2 * columns
    titles = [heading(one).get_text() for one in axes[:columns]]
    assert titles[0] == "step 100"
    assert titles[-1] == f"step {100 * count:,}"
    last = Record.load(files[-1][1])
    expected = last.encoder_attentions.astype(float).mean(axis=1)
    for layer in (0, 1):
        np.testing.assert_array_equal(drawn(axes[columns * (layer + 1) - 1]), expected[layer])
    assert len({mesh(one).get_clim() for one in axes}) == 1


@themes
def test_an_animation_has_a_frame_for_each_record(tmp_path: Path, theme: Theme) -> None:
    files = kept(tmp_path, 3, target=())
    moving = animation(files, theme)
    for frame, (step, path) in enumerate(files):
        moving.show(frame)
        weights = Record.load(path).encoder_attentions
        shown = [drawn(axes) for axes in panels(moving.figure)]
        for one, values in zip(shown, weights.reshape(-1, *weights.shape[2:]), strict=True):
            np.testing.assert_array_equal(one, values.astype(float))
        assert f"step {step:,}" in moving.figure.texts[0].get_text().replace("\n", " ")
        assert_legible(moving.figure)
    (path,) = write_figures([("x", lambda: moving)], tmp_path / "p", ("png", "svg"))
    assert path.name == "x.gif"
    with Image.open(path) as image:
        assert (image.format, getattr(image, "n_frames", 0), image.info["loop"]) == ("GIF", 3, 0)
        first = np.asarray(image.convert("RGB"))
        image.seek(2)
        assert (first != np.asarray(image.convert("RGB"))).any()
        corner = first[2, 2] / 255
    np.testing.assert_allclose(
        corner, [int(theme.paper[i : i + 2], 16) / 255 for i in (1, 3, 5)], atol=0.02
    )


def test_a_long_run_is_shown_in_part(tmp_path: Path) -> None:
    files = [(step, path) for step, path in kept(tmp_path, 2) for _ in range(80)]
    assert animation(files).frames == FRAMES
