"""How large a classifier and how long its training suit so many examples: one table an input.

The row of words below 20,000 is that of examples/trec.toml, made for 5,452 questions whose
punctuation stands apart as they are published; that of sequences below 1,000 is that of
examples/japanese-vowels.toml, made for 270. The row of pieces below 20,000 was tried on the same
questions. What was seen of all three is in benchmarks/README.md. The other rows are the same made
smaller or larger; of them only that of words below 1,000 was run.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from clearhead.data.survey import Side

Kind = Literal["text", "features"]

WORD_NGRAMS = (3, 4, 5)  # characters: stems and endings
FEW_TEXTS = 20_000
SHORT_TEXT = 100  # words, in the mean: of all words of a text, all n-grams are kept in memory


class Recipe(NamedTuple):
    """Settings for fewer than `below` training examples.

    `dropout` is that of the encoder, `head` that before the labels. With `ngrams` a text is whole
    words, each known by the runs of so many of its characters too; without, pieces.
    """

    below: float
    layers: int
    d_model: int
    d_ff: int
    heads: int
    convolution: int | tuple[int, ...]
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
    ngrams: tuple[int, ...] = ()


WORD_RECIPES = (
    # below, layers, d_model, d_ff, heads, convolution, dropout, head, batch, peak, warm-up, epochs
    Recipe(1_000, 1, 300, 256, 4, (3, 4, 5), 0.1, 0.5, 512, 2e-3, 100, 40, ngrams=WORD_NGRAMS),
    Recipe(FEW_TEXTS, 1, 300, 256, 4, (3, 4, 5), 0.1, 0.5, 1024, 2e-3, 300, 20, ngrams=WORD_NGRAMS),
)
PIECE_RECIPES = (
    # the same and vocabulary, lower, sampling, word dropout
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


def recipe_for(kind: Kind, examples: int, words: bool = False) -> Recipe:
    """The row of the tables for so many training examples.

    Args:
        kind: of the input.
        examples: for training.
        words: whether texts are read word by word; at most some `FEW_TEXTS` of them can be.
    """
    of_texts = WORD_RECIPES if words else PIECE_RECIPES
    recipes = SEQUENCE_RECIPES if kind == "features" else of_texts
    return next(recipe for recipe in recipes if examples < recipe.below)


def read_by_words(text: Side, texts: int) -> bool:
    """Whether texts are better read word by word: few, short, their words parted by spaces.

    Args:
        text: what they look like together.
        texts: how many there are.
    """
    return text.spaced and texts < FEW_TEXTS and text.words <= SHORT_TEXT * texts
