"""The curves that there are, and at which points each is measured."""

from __future__ import annotations

import torch

from clearhead.settings import ModelConfig
from costs.curve import Curve
from costs.work import Decoding, Training

TOKENS = 2048
"""Target tokens of a training batch, whatever the length of its sentences."""

TRAINING_LENGTH = 16
"""Tokens of a sentence where the batch grows."""

OUTPUT_LENGTH = 32
"""Tokens of an output where beam or batch grows."""

SENTENCES = 16
"""Sentences decoded together where beam or length grows."""

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
BEAMS = (1, 2, 4, 8, 16)
BATCHES = (1, 4, 16, 64, 256)
OUTPUT_LENGTHS = (8, 16, 32, 64, 128, 256)

LINEAR = "a + b·n: 1 beyond the fixed cost"


def training_curves(training: Training) -> list[Curve]:
    """A step's cost against the length of sentences, and against their number."""
    return [
        Curve(
            name=f"Training, {TOKENS:,} target tokens a batch",
            x_name="tokens a sentence",
            unit="target token",
            per_unit=True,
            theory="a + b·n: 0 while attention is cheap, then 1",
            points=LENGTHS,
            work=lambda n: training.work(TOKENS // n, n),
        ),
        Curve(
            name=f"Training, sentences of {TRAINING_LENGTH} tokens",
            x_name="sentences a batch",
            unit="target token",
            per_unit=False,
            theory=LINEAR,
            points=BATCHES,
            work=lambda n: training.work(n, TRAINING_LENGTH),
        ),
    ]


def decoding_curves(decoding: Decoding) -> dict[str, Curve]:
    """A translation's cost against beam, batch and length of the output, greedily but for beams."""
    return {
        "beam": Curve(
            name=f"Decoding {OUTPUT_LENGTH} tokens, {SENTENCES} sentences a batch",
            x_name="hypotheses in a beam",
            unit="sentence",
            per_unit=True,
            theory=LINEAR,
            points=BEAMS,
            work=lambda n: decoding.work(SENTENCES, OUTPUT_LENGTH, beam_size=n),
        ),
        "batch": Curve(
            name=f"Decoding {OUTPUT_LENGTH} tokens, greedily",
            x_name="sentences a batch",
            unit="sentence",
            per_unit=False,
            theory=LINEAR,
            points=BATCHES,
            work=lambda n: decoding.work(n, OUTPUT_LENGTH, beam_size=1),
        ),
        "length": Curve(
            name=f"Decoding greedily, {SENTENCES} sentences a batch",
            x_name="tokens of the output",
            unit="sentence",
            per_unit=True,
            theory="a + b·n: about 1; attention to what was said adds a little n²",
            points=OUTPUT_LENGTHS,
            work=lambda n: decoding.work(SENTENCES, n, beam_size=1),
        ),
    }


def chosen_curves(
    what: str, model: ModelConfig, precision: str, device: torch.device
) -> list[Curve]:
    """The curves that are asked for; a model is made only where one of them needs it."""
    curves: list[Curve] = []
    if what in ("training", "all"):
        curves += training_curves(Training(model, precision, device))
    if what != "training":
        found = decoding_curves(Decoding(model, device))
        curves += found.values() if what == "all" else [found[what]]
    return curves
