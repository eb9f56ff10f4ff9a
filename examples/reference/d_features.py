"""Reference system D: an encoder learns from features, and four pictures show what it does.

    python examples/reference/d_features.py

Each of 1,000 generated sequences has five frames of eight features, all noise but for one frame,
somewhere among them, that shows one of four events: the label. 800 sequences are learned from,
200 classified; then the pictures are drawn from the trained model and one of the 200.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import clearhead
from clearhead import api
from clearhead.config import read_config
from clearhead.inspect.figures import draw_all
from clearhead.inspect.recording import record
from clearhead.training.display import choose_display

SEQUENCES, TRAINED, FRAMES, FEATURES = 1000, 800, 5, 8
EVENTS = ("rise", "fall", "jump", "rest")


def main(words: Sequence[str] | None = None) -> int:
    """Train, classify what was held out, draw; 1 if it is no better than guessing."""
    parser = argparse.ArgumentParser(description="Reference system D, from the repository's root.")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    config = read_config(Path(__file__).with_suffix(".toml"), parser.parse_args(words).set)
    x, y = sequences()
    for file, part in (
        (config.data.train[0], slice(0, TRAINED)),
        (config.data.test[0], slice(TRAINED, SEQUENCES)),
    ):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, x=x[part], y=y[part])
    clearhead.train(config, restart=True, observers=[choose_display(sys.stderr)])
    classifier = api.load_classifier(config.folder, device=config.training.device)
    found = [str(best) for best, *_ in classifier.classify(list(x[TRAINED:]))]
    right = int((np.array(found) == y[TRAINED:]).sum())
    of = SEQUENCES - TRAINED
    print(f"accuracy: {right} of {of} unseen sequences, {100 * right / of:.1f} %")
    for path in draw_all(record(classifier, x[TRAINED]), Path(config.folder) / "figures"):
        print(path)
    return int(right < of / 2)


def sequences() -> tuple[np.ndarray, np.ndarray]:
    """Features (sequences, frames, features), float32, and the label of each sequence."""
    rng = np.random.default_rng(1)
    shapes = rng.normal(size=(len(EVENTS), FEATURES)) * 2.5
    labels = rng.integers(len(EVENTS), size=SEQUENCES)
    x = rng.normal(size=(SEQUENCES, FRAMES, FEATURES))
    x[np.arange(SEQUENCES), rng.integers(FRAMES, size=SEQUENCES)] += shapes[labels]
    return x.astype(np.float32), np.array(EVENTS)[labels]


if __name__ == "__main__":
    sys.exit(main())
