"""Reference system D: an encoder classifies feature sequences; three pictures show its attention.

    .venv/bin/python examples/reference/d_features.py

Each generated sequence has five frames of eight random features. To one frame the pattern of one of
four events is added; the event is the label. The script trains on 1,000 sequences, validates on 100
and classifies 200 unseen ones. Then it draws the attention of the model for one of these.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import clearhead
from clearhead import api
from clearhead.device import keep_freed_memory
from clearhead.inspect.drawing import write_figures
from clearhead.inspect.pictures import attention_figure, heads_figure, layer_figure
from clearhead.settings import read_config
from clearhead.training.display import choose_display

TRAINED, VALIDATION, HELD_OUT = 1000, 100, 200
FRAMES, FEATURES = 5, 8
EVENTS = ("rise", "fall", "jump", "rest")


def main(words: Sequence[str] | None = None) -> int:
    """Train, classify the unseen sequences, draw; return 1 if fewer than half are right."""
    parser = argparse.ArgumentParser(description="Reference system D, from the repository's root.")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    config = read_config(Path(__file__).with_suffix(".toml"), parser.parse_args(words).set)
    data = config.data
    files = data.train[0], data.validation[0], data.test[0]
    x, y = (np.split(whole, (TRAINED, TRAINED + VALIDATION)) for whole in sequences())
    for file, part_x, part_y in zip(files, x, y, strict=True):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, x=part_x, y=part_y)
    if not clearhead.train(config, restart=True, observers=[choose_display(sys.stderr)]).finished:
        return 130  # interrupted
    classifier = api.load_classifier(config.folder, device=config.training.device)
    found = [str(best) for best, *_ in classifier.classify(list(x[-1]))]
    right = int((np.array(found) == y[-1]).sum())
    print(f"accuracy: {right} of {HELD_OUT} unseen sequences, {100 * right / HELD_OUT:.1f} %")
    for path in draw(clearhead.record(classifier, x[-1][0]), Path(config.folder) / "figures"):
        print(path)
    return int(right < HELD_OUT / 2)


def draw(record: clearhead.Record, folder: Path) -> list[Path]:
    """Draw the attention of the last layer, all heads, and the steps of the last layer."""
    pictures = {
        "encoder-attention": partial(attention_figure, record),
        "encoder-heads": partial(heads_figure, record),
        "encoder-layer-2": partial(layer_figure, record),
    }
    return write_figures(pictures.items(), folder, ("png", "svg"))


def sequences() -> tuple[np.ndarray, np.ndarray]:
    """Features (sequences, frames, features), float32, and the label of each sequence."""
    rng = np.random.default_rng(1)
    count = TRAINED + VALIDATION + HELD_OUT
    shapes = rng.normal(size=(len(EVENTS), FEATURES)) * 2.5
    labels = rng.integers(len(EVENTS), size=count)
    x = rng.normal(size=(count, FRAMES, FEATURES))
    x[np.arange(count), rng.integers(FRAMES, size=count)] += shapes[labels]
    return x.astype(np.float32), np.array(EVENTS)[labels]


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
