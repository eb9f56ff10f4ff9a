"""How large a classifier and how long its training suit so many examples: one table an input.

The row of words below 20,000 is that of examples/trec.toml, made for 5,452 questions whose
punctuation stands apart as they are published; that of sequences below 1,000 is that of
examples/japanese-vowels.toml, made for 270. The row of pieces below 20,000 was tried on the same
questions. What was seen of all three is in benchmarks/README.md. The other rows are the same made
smaller or larger; of them only that of words below 1,000 was run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from clearhead.data.labelled_survey import (
    LabelledSurvey,
    SequenceSurvey,
    TextSurvey,
    survey_sequences,
    survey_texts,
)
from clearhead.data.proposal import VALIDATIONS, round_figure
from clearhead.data.report import IMBALANCE
from clearhead.data.survey import Side, pieces_for
from clearhead.errors import DataError
from clearhead.settings import DataConfig
from clearhead.settings.commented import SEQUENCES, TEXTS, CommentedConfig

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


# ---- labelled_proposal.proposed
# A proposal that is being put together.


class Proposed(NamedTuple):
    """What is being put together.

    Attributes:
        parts: what was seen, the training data under `train`.
        recipe: for so many training examples.
        values: of settings by dotted path, so far.
        reasons: for some of them.
    """

    parts: Mapping[str, LabelledSurvey]
    recipe: Recipe
    values: dict[str, Any]
    reasons: dict[str, str]

    @property
    def train(self) -> LabelledSurvey:
        """The training data."""
        return self.parts["train"]

    @property
    def tokens(self) -> float:
        """The tokens or frames of all training examples, roughly; at least 1."""
        if self.recipe.ngrams and isinstance(self.train, TextSurvey):
            return max(1.0, float(self.train.words.sum()))
        return self.train.tokens

    @property
    def most_tokens(self) -> list[np.ndarray]:
        """Of the examples of each part: hardly one has more tokens, or frames."""
        if not self.recipe.ngrams:
            return [found.most_tokens for found in self.parts.values()]
        return [found.words for found in self.parts.values() if isinstance(found, TextSurvey)]

    @property
    def amount(self) -> str:
        """How many training examples there are: `270 sequences`."""
        return f"{self.train.examples:,} {self.train.kind}"

    @property
    def used(self) -> float:
        """The share of the training data that is not held out for validation."""
        return 1.0 if "validation" in self.parts else 1.0 - DataConfig().validation_share

    @property
    def validated(self) -> int:
        """The number of validation examples."""
        found = self.parts.get("validation")
        return round((1.0 - self.used) * self.train.examples) if found is None else found.examples

    def say(self, path: str, value: Any, reason: str = "") -> None:
        """Choose a value, and say why."""
        self.values[path] = value
        if reason:
            self.reasons[path] = reason


# ---- labelled_proposal.classes
# What follows from the classes of the examples and from their sizes.

FEW = 1000  # validation examples, among which the number of right ones tells little


def suit_classes(p: Proposed) -> None:
    """What follows from the classes and their sizes."""
    train = p.train
    lists = [place for found in p.parts.values() if (place := found.several or found.without)]
    if lists:
        p.say(
            "classifier.multi_label",
            True,
            "There are examples with several labels (in a list, or parted by |), or with none: "
            f"{lists[0]}. If what is there is one name: false.",
        )
    if len(train.classes) < 2:
        return
    (largest, most), (smallest, least) = train.classes[0], train.classes[-1]
    sizes = f"The largest class, {largest} ({most:,}), has {train.imbalance:.1f} times the "
    sizes += f"examples of the smallest, {smallest} ({least:,})"
    if train.imbalance <= IMBALANCE:
        p.say("classifier.class_weights", "none", f"{sizes}: no need to weigh them.")
        return
    p.say("classifier.class_weights", "balanced", f"{sizes}, which would else count for little.")


def suit_measure(p: Proposed) -> None:
    """What picks the best model."""
    if p.validated < FEW:
        few = f"About {p.validated:,} validation examples: too few to pick by those that are right."
        p.say("evaluation.measure", "loss", few)
    elif p.values["classifier.class_weights"] == "balanced":
        alike = "All classes count alike here, too. If only the share of right answers matters: "
        p.say("evaluation.measure", "macro_f1", alike + 'class_weights = "none" and "accuracy".')


# ---- labelled_proposal.words
# What texts are read as: whole words and their spelling, or pieces of words.


def suit_words(p: Proposed) -> None:
    """The vocabulary."""
    if not isinstance(p.train, TextSurvey):
        return
    recipe, text = p.recipe, p.train.text
    case = "Enough texts to learn capitals apart."
    if text.lower_cased:
        case = "The texts are lower-cased already; those to be classified will be, too."
    elif recipe.lower:
        case = "Few texts: a word that begins a sentence is to count as the same word."
    elif recipe.ngrams:
        case = "Capitals tell names from words, and how a word is spelt is seen besides."
    p.say("tokenizer.lower", recipe.lower or text.lower_cased, case)
    if recipe.ngrams:
        _suit_whole_words(p)
    else:
        _suit_pieces(p, text.alphabet)
    hides = "Hidden words, others in each epoch: no single one is to decide."
    p.say("training.word_dropout", recipe.word_dropout, hides if recipe.word_dropout else "")


def _suit_whole_words(p: Proposed) -> None:
    """What few texts are read as, and what suits words that are hardly ever met."""
    p.say(
        "tokenizer.kind",
        "words",
        "Few texts: the pieces of rare words would mislead more than not to know such words.",
    )
    p.say("tokenizer.max_vocabulary", 0)
    p.say("tokenizer.split_punctuation", True, "A word before a comma is to be the same word.")
    p.say(
        "model.character_ngrams",
        p.recipe.ngrams,
        "A word that is not known is known by its stem and its ending.",
    )
    p.say(
        "model.scale_embeddings",
        False,
        "Short vectors: a rare word, hardly trained, weighs little.",
    )
    p.say("model.initialisation", "xavier_scaled", "Attention adds little before it has learned.")
    p.say("model.final_norm", False, "How clearly something was found is to count.")
    p.say("model.positions.kind", "none", "The convolutions know what stands beside what.")


def _suit_pieces(p: Proposed, alphabet: int) -> None:
    """A vocabulary of pieces."""
    recipe = p.recipe
    enough = pieces_for(alphabet)
    pieces = f"For {p.amount}: each piece should be met often enough to be learned."
    if enough > recipe.vocabulary:
        pieces = f"There are {alphabet:,} different characters, each a piece of its own."
    p.say("tokenizer.max_vocabulary", max(recipe.vocabulary, enough), pieces)
    more = "The same words in other pieces make more of the texts (BPE-dropout)."
    p.say("tokenizer.sampling", recipe.sampling, more if recipe.sampling else "")


# ---- labelled_proposal.proposing
# A classification that suits the data, each setting with its reason.
#
# Its size is a recipe's; limits, class weights, vocabulary and warm-up follow the data.

LABEL_SMOOTHING = 0.1
AVERAGE = 5  # checkpoints
WARMUP = 5  # the rate rises in a fifth of the run at most
EXAMPLES_A_STEP = 16  # at least, of mean length
SHORT = 25  # steps between validations
STEP = 32  # the limit of the length is a multiple of it
LONG, KEPT = 1024, 0.99  # above so many tokens the limit leaves the longest hundredth out


def propose_classification(
    kind: Kind = "text",
    train: Sequence[str] = (),
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    *,
    text_column: str = "text",
    label_column: str = "label",
) -> CommentedConfig:
    """Look at labelled examples and propose what suits them; without training data, the defaults.

    Args:
        kind: of the input.
        train: the file, or for features perhaps the folder; at most one.
        validation: likewise; without it, training examples are to be held out.
        test: likewise; only so that training examples found in it can be left out.
        text_column: of a file with columns; `label_column` likewise.

    Raises:
        DataError: a file cannot be used, or more than one is named for a part.
    """
    form = SEQUENCES if kind == "features" else TEXTS
    values = {**form.defaults(), "data.label_column": label_column}
    if kind == "text":
        values["data.text_column"] = text_column
    named = {"train": train, "validation": validation, "test": test}
    parts: dict[str, LabelledSurvey] = {}
    for part, files in named.items():
        values[f"data.{part}"] = tuple(files)
        for path in _single(part, files):
            parts[part] = (
                survey_sequences(path, label_column)
                if kind == "features"
                else survey_texts(path, text_column, label_column)
            )
    reasons: dict[str, str] = {}
    if train:
        found = parts["train"]
        words = isinstance(found, TextSurvey) and read_by_words(found.text, found.examples)
        recipe = recipe_for(kind, found.examples, words)
        proposed = Proposed(parts, recipe, values, reasons)
        for suit in (_suit_data, suit_words, _suit_model, suit_classes, suit_measure):
            suit(proposed)
        _suit_training(proposed)
    seen = tuple(line for part, found in parts.items() for line in found.lines(part))
    return CommentedConfig(form, values, reasons, seen)


def _single(part: str, files: Sequence[str]) -> Sequence[str]:
    if len(files) > 1:
        raise DataError(
            f"{len(files)} files were named as {part} data",
            where=files[1],
            why="examples and their labels are in one file, or one folder",
        )
    return files


def _suit_data(p: Proposed) -> None:
    """How long an example may be, and what is done about missing values."""
    lengths = np.concatenate(p.most_tokens)
    most = longest = math.ceil(lengths.max())
    if longest > LONG:
        most = max(LONG, math.ceil(np.quantile(lengths, KEPT, method="higher")))
    limit = STEP * max(1, math.ceil(most / STEP))
    longer = int((lengths > limit).sum())
    if longer:
        reason = (
            f"{longer:,} may be longer, up to {longest:,}. The cost of attention grows with the "
            "square of the length: they are left out of training, and cut when they are classified."
        )
    elif isinstance(p.train, TextSurvey):
        characters = max(int(found.lengths.max()) for found in p.parts.values())
        reason = (
            f"The longest text has {characters:,} characters, hardly more than {longest:,} tokens."
        )
    else:
        reason = f"The longest sequence has {longest:,} frames."
    p.say("data.max_length", limit, reason)
    sequences = [found for found in p.parts.values() if isinstance(found, SequenceSurvey)]
    if missing := sum(found.missing for found in sequences):
        first = next(found.missing_place for found in sequences if found.missing)
        values = sum(int(found.lengths.sum()) * found.width for found in sequences)
        p.say(
            "data.missing",
            "interpolate",
            f"{missing:,} of {values:,} values are missing, the first in {first}: each is put on "
            "the line between the values before and after it.",
        )


def _suit_model(p: Proposed) -> None:
    """The size of the model, and how strongly it is regularised."""
    recipe, few = p.recipe, p.recipe.head >= 0.3
    layers = "1 layer" if recipe.layers == 1 else f"{recipe.layers} layers"
    p.say(
        "model.encoder_layers",
        recipe.layers,
        f"{p.amount} suit {layers} of width {recipe.d_model}: "
        + ("a larger model would learn them by heart." if few else "there is enough to learn."),
    )
    p.say("model.d_model", recipe.d_model)
    p.say("model.d_ff", recipe.d_ff)
    p.say("model.n_heads", recipe.heads)
    p.say("model.norm", "pre", "Learns at a high rate from the first steps.")
    near = "Neighbours are brought together: attention would have to learn from few which they are."
    if not recipe.convolution:
        near = "Attention has enough to learn from which places are neighbours."
    p.say("model.input_convolution", recipe.convolution, near)
    strong = "strong" if recipe.dropout >= 0.2 else "mild"
    p.say("model.dropout", recipe.dropout, f"For {p.amount}: {strong} regularisation.")
    pooling, each = ("mean", "maximum"), "The mean tells what all is like, the maximum what occurs"
    if recipe.ngrams:
        p.say("classifier.pooling", ("maximum",), "A few words decide, wherever they stand.")
    elif isinstance(p.train, TextSurvey):
        p.say("classifier.pooling", (*pooling, "attention"), f"{each}, attention what matters.")
    else:
        p.say("classifier.pooling", pooling, f"{each}.")
    p.say("classifier.dropout", recipe.head, "No few numbers are to decide by themselves.")


def _suit_training(p: Proposed) -> None:
    """How long is trained, and at which rate."""
    recipe, tokens = p.recipe, p.tokens
    each, batch = tokens / p.train.examples, recipe.batch_tokens
    while batch < EXAMPLES_A_STEP * each:
        batch *= 2
    steps = max(1, math.ceil(p.used * tokens / batch))
    in_all = steps * recipe.epochs
    # In a short run a round figure would leave too few checkpoints to take the average of.
    every = max(1, in_all // VALIDATIONS)
    every = every if every < SHORT else round_figure(every)
    p.say("training.max_steps", 0)
    p.say("training.average_last", AVERAGE)
    if recipe.ngrams and p.validated < FEW:
        few = f"About {p.validated:,} validation examples are too few to choose by."
        p.say("training.keep", "average", few)
    p.say("training.label_smoothing", LABEL_SMOOTHING)
    p.say("training.precision", "auto")
    long = f"About {steps:,} steps an epoch, {in_all:,} in all."
    p.say("training.max_epochs", recipe.epochs, long)
    p.say(
        "training.patience", 0, "None: the rate falls until the end, and the last steps gain most."
    )
    often = f"About {max(1, in_all // every)} times in the whole run."
    p.say("training.validate_every", every, often)
    many = min(p.train.examples, max(1, round(batch / each)))
    p.say("training.batch_tokens", batch, f"About {many:,} {p.train.kind}.")
    falls = "Falls to zero at the end of the run: the last steps, at a small rate, gain most."
    p.say("training.schedule.kind", "linear", falls)
    p.say("training.schedule.peak", recipe.peak, "If the loss jumps, lower it.")
    warmup = max(1, min(recipe.warmup, in_all // WARMUP))
    short = "The run is short: a fifth of it." if warmup < recipe.warmup else ""
    p.say("training.schedule.warmup", warmup, short)
