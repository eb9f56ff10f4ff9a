"""How large a classifier and how long its training suit so many examples: one table an input.

The row of sequences below 1,000 is that of examples/japanese-vowels.toml, made for 270. The row of
texts below 20,000 was tried on the 5,452 questions of TREC; examples/trec.toml has since found
settings that suit such short texts better. What was seen of all three is in benchmarks/README.md.
The other rows are the same made smaller or larger, and none of them was run.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

Kind = Literal["text", "features"]


class Recipe(NamedTuple):
    """Settings for fewer than `below` training examples.

    `dropout` is that of the encoder, `head` that before the labels. Sequences have no words.
    """

    below: float
    layers: int
    d_model: int
    d_ff: int
    heads: int
    convolution: int
    dropout: float
    head: float
    batch_tokens: int
    peak: float
    warmup: int
    epochs: int
    vocabulary: int = 0
    lower: bool = False
    sampling: float = 0.0
    word_dropout: float = 0.0


TEXT_RECIPES = (
    # below, layers, d_model, d_ff, heads, convolution, dropout, head, batch, peak, warm-up, epochs,
    # vocabulary, lower, sampling, word dropout
    Recipe(1_000, 2, 64, 128, 4, 3, 0.3, 0.5, 512, 2e-3, 100, 80, 2_000, True, 0.1, 0.1),
    Recipe(20_000, 2, 128, 256, 4, 3, 0.3, 0.5, 1024, 2e-3, 300, 40, 4_000, True, 0.1, 0.1),
    Recipe(200_000, 4, 256, 512, 4, 3, 0.2, 0.3, 4096, 1e-3, 1000, 12, 8_000, False, 0.1, 0.1),
    Recipe(math.inf, 6, 512, 2048, 8, 0, 0.1, 0.1, 16_384, 5e-4, 2000, 5, 16_000, False, 0.0, 0.0),
)
SEQUENCE_RECIPES = (
    Recipe(1_000, 2, 128, 256, 4, 3, 0.2, 0.3, 512, 2e-3, 100, 150),
    Recipe(20_000, 3, 128, 256, 4, 3, 0.2, 0.3, 2048, 1e-3, 300, 60),
    Recipe(math.inf, 4, 256, 512, 4, 3, 0.1, 0.2, 8192, 5e-4, 1000, 20),
)


def recipe_for(kind: Kind, examples: int) -> Recipe:
    """The row of the table for so many training examples."""
    recipes = SEQUENCE_RECIPES if kind == "features" else TEXT_RECIPES
    return next(recipe for recipe in recipes if examples < recipe.below)
