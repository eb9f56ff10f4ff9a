"""The recipes of a classification: a table of sizes for each kind of input, and the rows for all.

The size of words below 20,000 is used by examples/trec.toml (5,452 questions), the size of
sequences below 1,000 by examples/japanese-vowels.toml (270 sequences).
docs/explanation/benchmark-log.md has the results of both, and of the size of pieces below 20,000.
The size of words below 1,000 was measured, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from clearhead.data.judging.report import IMBALANCE, imbalance
from clearhead.data.proposing.settings import (
    RUN,
    Brought,
    Facts,
    Of,
    Proposal,
    Recipe,
    Row,
    round_figure,
    row_for,
    validations_in,
)
from clearhead.data.proposing.survey import (
    SideSurvey,
    Survey,
    pieces_for,
    survey_sequences,
    survey_texts,
)
from clearhead.data.reading.columns import other_columns
from clearhead.data.reading.phrasebook import Part
from clearhead.data.reading.tables import Column
from clearhead.settings.commented import SEQUENCES, TEXTS, CommentedConfig
from clearhead.settings.data import language_of
from clearhead.settings.run import KERNEL_WIDTH

InputKind = Literal["text", "features"]

WORD_NGRAMS = (3, 4, 5)  # characters: stems and endings
FEW_TEXTS = 20_000
MOST_WORDS = 2_000_000  # in all: the n-grams of every word of a text are kept in memory
SHORT_TEXT = 100  # words on average: longer texts teach more in an epoch
FEWEST_EPOCHS = 3  # of long texts
FEW = 1000  # with fewer validation examples, accuracy is too coarse to choose a model
RISE = 5  # the warm-up is at most a fifth of the run
EXAMPLES_A_STEP = 16  # at least, of mean length
SHORT = 25  # steps between validations
STEP = 32  # the maximum length is a multiple of it
TUNED_MOST = 256  # tokens at most, if the run starts from a trained model
TUNED_BATCH, TUNED_PEAK, TUNED_HEAD = 320, 5e-5, 10.0
LONG, KEPT = 1024, 0.99  # of longer sequences the limit keeps 99 %; longer texts are cut


@dataclass(frozen=True)
class ClassificationRecipe(Recipe):
    """Settings for fewer than `below` training examples.

    `dropout` is the rate in the encoder, `head` before the output. With `ngrams`, texts are whole
    words with the n-grams of their characters; otherwise they are pieces. `linear` is the number of
    n-grams of the linear model beside the encoder.
    """

    head: float
    layers: int
    d_model: int
    d_ff: int
    heads: int
    convolution: int | tuple[int, ...]
    vocabulary: int = 0
    lower: bool = False
    sampling: float = 0.0
    word_dropout: float = 0.0
    ngrams: tuple[int, ...] = ()
    kernels: int = 0
    linear: int = 0


_row = ClassificationRecipe
LINEAR: dict[str, Any] = {"linear": 100_000}
WORDS: dict[str, Any] = {"convolution": (3, 4, 5), "lower": True, "ngrams": WORD_NGRAMS, **LINEAR}
# below, batch, peak, warm-up, epochs, dropout, head, layers, d_model, d_ff, heads
WORD_RECIPES = (
    _row(1_000, 512, 2e-3, 100, 40, 0.1, 0.5, 1, 300, 256, 4, **WORDS),
    _row(math.inf, 1024, 2e-3, 300, 20, 0.1, 0.5, 1, 300, 256, 4, **WORDS),
)
# the same and convolution, vocabulary, lower, sampling, word dropout
PIECE_RECIPES = (
    _row(1_000, 512, 2e-3, 100, 80, 0.3, 0.5, 2, 64, 128, 4, 3, 2_000, True, 0.1, 0.1, **LINEAR),
    _row(20_000, 1024, 2e-3, 300, 40, 0.3, 0.5, 2, 128, 256, 4, 3, 4_000, True, 0.1, 0.1, **LINEAR),
    _row(200_000, 4096, 1e-3, 1000, 12, 0.2, 0.3, 4, 256, 512, 4, 3, 8_000, False, 0.1, 0.1),
    _row(math.inf, 16_384, 5e-4, 2000, 5, 0.1, 0.1, 6, 512, 2048, 8, 0, 16_000),
)
# the same without a vocabulary
SEQUENCE_RECIPES = (
    _row(1_000, 512, 2e-3, 100, 150, 0.2, 0.5, 2, 128, 256, 4, 3, kernels=2_000),
    _row(20_000, 2048, 1e-3, 300, 60, 0.2, 0.3, 3, 128, 256, 4, 3),
    _row(math.inf, 8192, 5e-4, 1000, 20, 0.1, 0.2, 4, 256, 512, 4, 3),
)


def read_by_words(text: SideSurvey, texts: int) -> bool:
    """Whether whole words suit so many texts better than pieces: few texts, with spaces."""
    return text.spaced and texts < FEW_TEXTS and text.words <= MOST_WORDS


def recipe_for(found: Survey, words: bool | None = None) -> ClassificationRecipe:
    """The size for the training data; `words`: whether texts are read by words, None: as fits."""
    if found.unit == "sequences":
        return row_for(SEQUENCE_RECIPES, found.examples)
    text = found.sides[0]
    if words is None:
        words = read_by_words(text, found.examples)
    recipe = row_for(WORD_RECIPES if words else PIECE_RECIPES, found.examples)
    # The run reads as many words as with texts of `SHORT_TEXT` words.
    longer = text.words / (SHORT_TEXT * found.examples) if text.spaced else 1.0
    epochs = max(FEWEST_EPOCHS, math.ceil(recipe.epochs / max(1.0, longer)))
    return replace(recipe, epochs=min(recipe.epochs, epochs))


def propose_classification(
    kind: InputKind = "text",
    train: Sequence[str] = (),
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    *,
    text_column: Column | None = None,
    label_column: Column | None = None,
    multi_label: bool | None = None,
    start_from: str = "",
    brought: Brought | None = None,
) -> CommentedConfig:
    """Survey labelled examples and propose settings; without training data, the defaults.

    Without both columns, they are `text` and `label`, or the columns that are likely by their
    cells. `multi_label` is whether a text may have several labels; None: as the labels look.
    `brought` is what the model to start from brings, if that is known.

    Raises:
        ConfigError: texts and labels are in the same column.
        DataError: a file cannot be used.
    """
    likely = None
    if kind == "text" and train and text_column is None and label_column is None:
        likely = other_columns(train[0])
    text, label = likely or (text_column or "text", label_column or "label")

    def survey(named: Sequence[str]) -> Survey:
        if kind == "features":
            return survey_sequences(named, label)
        return survey_texts(named, text, label, multi_label)

    form = SEQUENCES if kind == "features" else TEXTS
    parts: tuple[Part, ...] = get_args(Part)
    files = train, validation, test
    surveys: dict[Part, Survey] = {
        part: survey(named) for part, named in zip(parts, files, strict=True) if named
    }
    proposal = Proposal(form, surveys, files, brought, FACTS, RISE)
    proposal.choose("data.label_column", label)
    if kind == "text":
        proposal.choose("data.text_column", text)
        proposal.choose("data.source_language", language_of(train[0]) if train else "")
    if likely:
        proposal.notes.append(f"columns: {likely.described}")
        proposal.reasons["data.text_column"] = "Recognised by their cells."
    if multi_label:
        proposal.choose("classifier.multi_label", True)
    proposal.choose("start_from", start_from)
    if train:
        _choose(proposal, None, {})
    return proposal.config()


def propose_for_examples(
    survey: Survey,
    validation: Survey | None = None,
    *,
    multi_label: bool = False,
    start_from: str = "",
    brought: Brought | None = None,
    validation_share: float = 0.1,
    class_weights: str = "",
    words: bool | None = None,
    max_length: int = 0,
    **changes: Any,
) -> CommentedConfig:
    """Propose settings for labelled examples in memory, of which these are the surveys.

    Without validation examples, a share of the others is held out. `words` is whether texts are
    read by words; None: as fits. `max_length` is that of the run; 0: as fits. `class_weights` are
    those of the run; "": as fits. `changes` replace fields of the recipe.
    """
    form = SEQUENCES if survey.unit == "sequences" else TEXTS
    surveys: dict[Part, Survey] = {"train": survey}
    if validation is not None:
        surveys["validation"] = validation
    proposal = Proposal(form, surveys, ((), (), ()), brought, FACTS, RISE)
    proposal.validation_share, proposal.class_weights = validation_share, class_weights
    if multi_label:
        proposal.choose("classifier.multi_label", True)
    proposal.choose("start_from", start_from)
    _choose(proposal, words, changes, max_length)
    return proposal.config()


def _choose(
    p: Proposal, words: bool | None, changes: Mapping[str, Any], max_length: int = 0
) -> None:
    """Choose the settings that depend on the training data."""
    if p.values["start_from"]:
        p.apply(TUNED_LENGTH + CLASSES)
        _note_labels(p)
        tuned = {"batch_tokens": TUNED_BATCH, "peak": TUNED_PEAK}
        if "batch_tokens" in changes:
            tuned["least"] = 0
        p.fine_tune(**tuned | {k: v for k, v in changes.items() if k in (*tuned, "epochs")})
        p.apply(TUNED_OUTPUT)
        return
    recipe = replace(recipe_for(p.train, words), **changes)
    if "heads" not in changes:
        recipe = replace(recipe, heads=math.gcd(recipe.heads, recipe.d_model))
    p.recipe = recipe
    p.choose("data.max_length", *((max_length, "") if max_length else _max_length(p)))
    p.apply(MISSING)
    if p.train.unit == "texts":
        p.apply(TEXT + (WHOLE_WORDS if recipe.ngrams else PIECES))
    p.apply(MODEL + CLASSES)
    _note_labels(p)
    p.make_plan(0 if "batch_tokens" in changes else EXAMPLES_A_STEP)
    p.apply(TRAINING + RUN)


def _max_length(p: Proposal) -> tuple[int, str]:
    """The maximum length of an example, and the reason."""
    surveys = list(p.surveys.values())
    lengths = np.concatenate([s.words if p.recipe.ngrams else s.most_tokens for s in surveys])
    most = longest = math.ceil(lengths.max())
    if longest > LONG:
        kept = math.ceil(np.quantile(lengths, KEPT, method="higher"))
        most = LONG if p.train.unit == "texts" else max(LONG, kept)
    limit = STEP * max(1, math.ceil(most / STEP))
    if longer := int((lengths > limit).sum()):
        return limit, (
            f"{longer:,} may be longer, up to {longest:,}. The cost of attention grows with the "
            "square of the length, so the rest of them is cut off."
        )
    if p.train.unit == "sequences":
        return limit, f"The longest sequence has {longest:,} frames."
    return limit, (
        f"The longest text has {_longest(p):,} characters, about {longest:,} tokens at most."
    )


def _longest(p: Proposal) -> int:
    return max(int(found.lengths.max()) for found in p.surveys.values())


def _tuned_length(p: Proposal) -> int:
    longest = max(found.most_tokens.max() for found in p.surveys.values())
    return min(TUNED_MOST, STEP * math.ceil((longest + 2) / STEP))


def _listed(p: Proposal) -> str:
    """The place of an example with several labels, or with none; "" without one."""
    return next((place for s in p.surveys.values() if (place := s.several or s.without)), "")


def _sizes(p: Proposal) -> str:
    (largest, most), (smallest, least) = p.train.classes[0], p.train.classes[-1]
    return (
        f"The largest class, {largest} ({most:,}), has {imbalance(p.train.classes):.1f} times the "
        f"examples of the smallest, {smallest} ({least:,})"
    )


def _validated(p: Proposal) -> int:
    """The number of validation examples."""
    found = p.surveys.get("validation")
    return found.examples if found else round((1.0 - p.used) * p.train.examples)


def _every(p: Proposal) -> int:
    # In a short run, rounding would leave too few checkpoints to average.
    every = max(1, p.plan.total // validations_in(p.plan.total)[0])
    return every if every < SHORT else round_figure(every)


def _has_labels_of_model(p: Proposal) -> bool:
    """Whether the model to start from is a classifier with the same labels."""
    names = {name for name, _ in p.train.classes}
    several, found = p.values.get("classifier.multi_label", False), p.brought
    return bool(found and set(found.labels) == names and found.head.multi_label == several)


def _note_labels(p: Proposal) -> None:
    if place := _listed(p):
        p.notes.append(
            f"texts may have several labels or none, such as {place}; if each has one label: "
            "--no-multi-label"
        )
    for found in p.surveys.values():
        if found.barred:
            p.notes.append(
                f"{found.barred:,} of {found.examples:,} labels have a |, such as "
                f"{found.barred_place}, which counts as part of the name; if it separates labels: "
                "--multi-label"
            )


FACTS: Facts = {
    "missing": lambda p: sum(s.missing for s in p.surveys.values()),
    "missing_place": lambda p: next(s.missing_place for s in p.surveys.values() if s.missing),
    "cells": lambda p: sum(int(s.lengths.sum()) * s.width for s in p.surveys.values()),
    "is_lower": lambda p: p.train.sides[0].lower_cased,
    "alphabet": lambda p: p.train.sides[0].alphabet,
    "pieces": lambda p: pieces_for(p["alphabet"]),
    "has_many_characters": lambda p: p["pieces"] > p.recipe.vocabulary,
    "layers": lambda p: "1 layer" if p.recipe.layers == 1 else f"{p.recipe.layers} layers",
    "reach": lambda p: max(KERNEL_WIDTH, min(p.values["data.max_length"], _longest(p))),
    "is_small": lambda p: p.recipe.head >= 0.3,
    "strength": lambda p: "strong" if p["few"] else "mild",
    "are_texts": lambda p: p.train.unit == "texts",
    "listed": _listed,
    "has_rare_label": lambda p: (
        p.values.get("classifier.multi_label") and any(n < 2 for _, n in p.train.classes)
    ),
    "has_one_class": lambda p: len(p.train.classes) < 2,
    "sizes": _sizes,
    "is_balanced": lambda p: imbalance(p.train.classes) <= IMBALANCE,
    "starts": lambda p: p.values["start_from"],
    "is_weighted": lambda p: p.values["classifier.class_weights"] == "balanced",
    "validated": _validated,
    "has_few": lambda p: _validated(p) < FEW,
    "averages": lambda p: p.recipe.ngrams and _validated(p) < FEW,
    "batch": lambda p: min(p.train.examples, p.plan.batch),
    "every": _every,
    "tuned_length": _tuned_length,
    "is_cut": lambda p: _tuned_length(p) == TUNED_MOST,
    "default_rate": lambda p: p.values["training.fine_tuning.head_rate"],
    "has_labels": _has_labels_of_model,
    "has_kernels": lambda p: _has_labels_of_model(p) and p.brought.head.kernels,
    "has_ngrams": lambda p: _has_labels_of_model(p) and p.brought.head.ngrams,
}

# fmt: off
MISSING = (
    Row("data.missing", "interpolate", "missing",
        "{missing:,} of {cells:,} values are missing, the first in {missing_place}: each is "
        "interpolated between the values before and after it."),
)

TEXT = (
    Row("tokenizer.lower", True, "is_lower",
        "The texts are already lower-cased; those to classify will be, too."),
    Row("tokenizer.lower", True, "recipe.lower",
        "Few texts: a word at the start of a sentence should be the same word."),
    Row("tokenizer.lower", False, "", "Enough texts to learn capitalised words separately."),
    Row("training.word_dropout", Of("recipe.word_dropout"), "recipe.word_dropout",
        "Hides other words in each epoch, so that no single word decides."),
)

PIECES = (
    Row("tokenizer.max_vocabulary", Of("pieces"), "has_many_characters",
        "There are {alphabet:,} different characters, each a piece of its own."),
    Row("tokenizer.max_vocabulary", Of("recipe.vocabulary"), "",
        "For {amount}: each piece should occur often enough to be learned."),
    Row("tokenizer.sampling", Of("recipe.sampling"), "recipe.sampling",
        "Other segmentations of the same words add variety (BPE-dropout)."),
)

WHOLE_WORDS = (
    Row("tokenizer.kind", "words", "",
        "Few texts: pieces of rare words would mislead more than unknown words."),
    Row("tokenizer.max_vocabulary", 0),
    Row("tokenizer.split_punctuation", True, "",
        "A word before a comma or a hyphen should be the same word."),
    Row("model.character_ngrams", Of("recipe.ngrams"), "",
        "An unknown word is represented by its n-grams: stem and ending."),
    Row("model.scale_embeddings", False, "", "Rare, hardly trained words get small vectors."),
    Row("model.initialisation", "xavier_scaled", "",
        "Reduces the influence of attention before it is trained."),
    Row("model.final_norm", False, "", "The norm of a vector shows how clearly something occurs."),
    Row("model.positions.kind", "none", "recipe.convolution",
        "The convolutions know which words are neighbours."),
)

MODEL = (
    Row("model.encoder_layers", Of("recipe.layers"), "is_small",
        "{amount} suit {layers} of width {recipe.d_model}: a larger model would memorise them."),
    Row("model.encoder_layers", Of("recipe.layers"), "",
        "{amount} suit {layers} of width {recipe.d_model}: there is enough to learn."),
    Row("model.d_model", Of("recipe.d_model")),
    Row("model.d_ff", Of("recipe.d_ff")),
    Row("model.n_heads", Of("recipe.heads")),
    Row("model.norm", "pre", "", "Learns at a high rate from the first steps."),
    Row("model.input_convolution", Of("recipe.convolution"), "recipe.convolution",
        "Combines neighbours, which attention cannot learn to find from few examples."),
    Row("model.input_convolution", 0, "",
        "There are enough examples for attention to learn which positions are neighbours."),
    Row("model.dropout", Of("recipe.dropout"), "", "For {amount}: {strength} regularisation."),
    Row("classifier.pooling", ("maximum",), "recipe.ngrams",
        "A few words decide, wherever they are."),
    Row("classifier.pooling", ("mean", "maximum", "attention"), "are_texts",
        "The mean describes the whole, the maximum what occurs, attention what matters."),
    Row("classifier.pooling", ("mean", "maximum"), "",
        "The mean describes the whole, the maximum what occurs."),
    Row("classifier.kernels", Of("recipe.kernels"), "recipe.kernels",
        "Few sequences: a linear model of random convolutions needs fewer of them."),
    Row("classifier.kernel_reach", Of("reach"), "recipe.kernels", "The longest sequence."),
    Row("classifier.ngrams", Of("recipe.linear"), "recipe.linear",
        "Few texts: a linear model of n-grams needs fewer of them than the encoder."),
    Row("classifier.dropout", Of("recipe.head"), "",
        "The label should not depend on a few components of the vector."),
)

CLASSES = (
    Row("classifier.multi_label", True, "listed",
        "There are examples with several labels (in a list, or separated by |), or with none: "
        "{listed}. If that is one name: false."),
    Row("data.smallest_class", 1, "has_rare_label",
        "A label of several may be rare; it is hardly learned from one example."),
    Row("classifier.class_weights", Of("class_weights"), "class_weights"),
    Row("classifier.class_weights", "none", "has_one_class"),
    Row("classifier.class_weights", "none", "is_balanced", "{sizes}: no need for weights."),
    Row("classifier.class_weights", "none", "starts",
        "{sizes}. A pretrained encoder learns it from few."),
    Row("classifier.class_weights", "balanced", "",
        "{sizes}, which would otherwise count for little."),
    Row("evaluation.measure", "loss", "has_few",
        "About {validated:,} validation examples: too few to choose by accuracy."),
    Row("evaluation.measure", "macro_f1", "is_weighted",
        "All classes count equally here, too. If only the accuracy matters: "
        'class_weights = "none" and "accuracy".'),
)
"""The settings that depend on the classes, and the score that decides which model is kept."""

TRAINING = (
    Row("training.schedule.kind", "linear", "", "Falls to zero at the end of the run."),
    Row("training.batch_tokens", Of("plan.batch_tokens"), "",
        "About {batch:,} {train.unit}."),
    Row("training.schedule.peak", Of("recipe.peak"), "", "If the loss jumps, lower it."),
    Row("training.keep", "average", "averages",
        "About {validated:,} validation examples are too few to choose by."),
)

TUNED_LENGTH = (
    Row("data.max_length", TUNED_MOST, "is_cut",
        f"Most pretrained models have {2 * TUNED_MOST} positions; the cost grows with them."),
    Row("data.max_length", Of("tuned_length")),
)

TUNED_OUTPUT = (
    Row("training.label_smoothing", 0.0),
    Row("training.keep", "average", "has_few",
        f"The last weights: scores of fewer than {FEW:,} examples are too noisy to choose by."),
    Row("classifier.pooling", Of("brought.head.pooling"), "has_labels",
        "That of the model, which has the same labels: its output layer is used."),
    Row("classifier.hidden", Of("brought.head.hidden"), "has_labels"),
    Row("classifier.kernels", Of("brought.head.kernels"), "has_kernels"),
    Row("classifier.kernel_reach", Of("brought.head.kernel_reach"), "has_kernels"),
    Row("classifier.ngrams", Of("brought.head.ngrams"), "has_ngrams",
        "As many as in the model; they are fitted to the new texts."),
    Row("training.fine_tuning.head_rate", Of("default_rate"), "has_labels"),
    Row("training.fine_tuning.head_rate", TUNED_HEAD, "",
        "The output layer is new, and learns with a higher rate than the encoder."),
)
# fmt: on
