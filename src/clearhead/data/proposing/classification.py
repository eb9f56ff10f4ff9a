"""The recipes of a classification: one table for each kind of input.

The row of words below 20,000 is used by examples/trec.toml (5,452 questions), the row of sequences
below 1,000 by examples/japanese-vowels.toml (270 sequences). benchmarks/README.md has the results
of both, and of the row of pieces below 20,000. The row of words below 1,000 was measured, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from clearhead.data.batch_ranges import expected_batches
from clearhead.data.judging.report import IMBALANCE, imbalance
from clearhead.data.proposing.settings import (
    Brought,
    Proposal,
    Recipe,
    choose_fine_tuning,
    fit_reason,
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
from clearhead.data.reading.tables import Column
from clearhead.settings import DataConfig
from clearhead.settings.commented import SEQUENCES, TEXTS, CommentedConfig
from clearhead.settings.data import language_of

InputKind = Literal["text", "features"]

WORD_NGRAMS = (3, 4, 5)  # characters: stems and endings
FEW_TEXTS = 20_000
SHORT_TEXT = 100  # words on average: all n-grams of all words of a text are kept in memory
FEW = 1000  # with fewer validation examples, accuracy is too coarse to choose a model
RISE = 5  # the warm-up is at most a fifth of the run
EXAMPLES_A_STEP = 16  # at least, of mean length
SHORT = 25  # steps between validations
STEP = 32  # the maximum length is a multiple of it
TUNED_LENGTH = 256  # at most, if the run starts from a trained model
TUNED_BATCH, TUNED_PEAK, TUNED_HEAD = 320, 5e-5, 10.0
LONG, KEPT = 1024, 0.99  # if there are longer examples, the limit keeps 99 % of the examples


@dataclass(frozen=True)
class ClassificationRecipe(Recipe):
    """Settings for fewer than `below` training examples.

    `dropout` is the rate in the encoder, `head` before the output. With `ngrams`, texts are whole
    words with the n-grams of their characters; otherwise they are pieces.
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


_row = ClassificationRecipe
WORDS: dict[str, Any] = {"convolution": (3, 4, 5), "ngrams": WORD_NGRAMS}
# below, batch, peak, warm-up, epochs, dropout, head, layers, d_model, d_ff, heads
WORD_RECIPES = (
    _row(1_000, 512, 2e-3, 100, 40, 0.1, 0.5, 1, 300, 256, 4, **WORDS),
    _row(FEW_TEXTS, 1024, 2e-3, 300, 20, 0.1, 0.5, 1, 300, 256, 4, **WORDS),
)
# the same and convolution, vocabulary, lower, sampling, word dropout
PIECE_RECIPES = (
    _row(1_000, 512, 2e-3, 100, 80, 0.3, 0.5, 2, 64, 128, 4, 3, 2_000, True, 0.1, 0.1),
    _row(20_000, 1024, 2e-3, 300, 40, 0.3, 0.5, 2, 128, 256, 4, 3, 4_000, True, 0.1, 0.1),
    _row(200_000, 4096, 1e-3, 1000, 12, 0.2, 0.3, 4, 256, 512, 4, 3, 8_000, False, 0.1, 0.1),
    _row(math.inf, 16_384, 5e-4, 2000, 5, 0.1, 0.1, 6, 512, 2048, 8, 0, 16_000),
)
# the same without a vocabulary
SEQUENCE_RECIPES = (
    _row(1_000, 512, 2e-3, 100, 150, 0.2, 0.3, 2, 128, 256, 4, 3),
    _row(20_000, 2048, 1e-3, 300, 60, 0.2, 0.3, 3, 128, 256, 4, 3),
    _row(math.inf, 8192, 5e-4, 1000, 20, 0.1, 0.2, 4, 256, 512, 4, 3),
)


def read_by_words(text: SideSurvey, texts: int) -> bool:
    """Whether whole words suit so many texts better than pieces: few short texts, with spaces."""
    return text.spaced and texts < FEW_TEXTS and text.words <= SHORT_TEXT * texts


def recipe_for(found: Survey) -> ClassificationRecipe:
    """The row of the tables for the training data."""
    if found.unit == "sequences":
        return row_for(SEQUENCE_RECIPES, found.examples)
    words = read_by_words(found.sides[0], found.examples)
    return row_for(WORD_RECIPES if words else PIECE_RECIPES, found.examples)


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

    Args:
        kind: of the input.
        train: files, or folders of feature sequences, of the same form.
        validation: likewise; without it, training examples are held out.
        test: likewise; training examples that occur in it are dropped.
        text_column: name or position of the column; `label_column` likewise. Without both, they
            are `text` and `label`, or the columns that are likely by their cells.
        multi_label: whether a text may have several labels; None: as the labels look.
        start_from: a trained model.
        brought: what it brings, if that is known.

    Raises:
        ConfigError: texts and labels are in the same column.
        DataError: a file cannot be used.
    """
    likely = None
    if kind == "text" and train and text_column is None and label_column is None:
        likely = other_columns(train[0])
    text, label = likely or (text_column or "text", label_column or "label")

    def survey(part: str, files: Sequence[str]) -> Survey:
        if kind == "features":
            return survey_sequences(files, str(label))
        return survey_texts(files, text, label, multi_label)

    form = SEQUENCES if kind == "features" else TEXTS
    proposal = Proposal(form, (train, validation, test), survey)
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
    if start_from and train:
        _choose_tuned_length(proposal)
        _choose_classes(proposal)
        _choose_fine_tuning(proposal, brought)
    elif train:
        recipe = recipe_for(proposal.train)
        _choose_length(proposal, recipe)
        if kind == "text":
            _choose_vocabulary(proposal, recipe)
        _choose_model(proposal, recipe)
        _choose_classes(proposal)
        _choose_training(proposal, recipe)
    proposal.limit_length(brought)
    return proposal.config()


def _choose_length(p: Proposal, recipe: ClassificationRecipe) -> None:
    """The maximum length of an example, and the rule for missing values."""
    surveys = list(p.surveys.values())
    lengths = np.concatenate([s.words if recipe.ngrams else s.most_tokens for s in surveys])
    most = longest = math.ceil(lengths.max())
    if longest > LONG:
        most = max(LONG, math.ceil(np.quantile(lengths, KEPT, method="higher")))
    limit = STEP * max(1, math.ceil(most / STEP))
    longer = int((lengths > limit).sum())
    if longer:
        reason = (
            f"{longer:,} may be longer, up to {longest:,}. The cost of attention grows with the "
            "square of the length, so the rest of them is cut off."
        )
    elif p.train.unit == "texts":
        characters = max(int(found.lengths.max()) for found in surveys)
        reason = (
            f"The longest text has {characters:,} characters, about {longest:,} tokens at most."
        )
    else:
        reason = f"The longest sequence has {longest:,} frames."
    p.choose("data.max_length", limit, reason)
    if missing := sum(found.missing for found in surveys):
        first = next(found.missing_place for found in surveys if found.missing)
        values = sum(int(found.lengths.sum()) * found.width for found in surveys)
        p.choose(
            "data.missing",
            "interpolate",
            f"{missing:,} of {values:,} values are missing, the first in {first}: each is "
            "interpolated between the values before and after it.",
        )


def _choose_tuned_length(p: Proposal) -> None:
    """The maximum length of an example, if it is not limited by the model."""
    lengths = np.concatenate([found.most_tokens for found in p.surveys.values()])
    limit = min(TUNED_LENGTH, STEP * math.ceil((lengths.max() + 2) / STEP))
    reason = f"Most pretrained models have {2 * TUNED_LENGTH} positions; the cost grows with them."
    p.choose("data.max_length", limit, reason if limit == TUNED_LENGTH else "")


def _choose_fine_tuning(p: Proposal, brought: Brought | None) -> None:
    choose_fine_tuning(p, _used(p), TUNED_BATCH, TUNED_PEAK, brought)
    p.choose("training.label_smoothing", 0.0)
    if _validated(p) < FEW:
        last = (
            f"The last weights: scores of fewer than {FEW:,} examples are too noisy to choose by."
        )
        p.choose("training.keep", "average", last)
    several = p.values.get("classifier.multi_label", False)
    names = {name for name, _ in p.train.classes}
    if brought and set(brought.labels) == names and brought.head.multi_label == several:
        same = "That of the model, which has the same labels: its output layer is used."
        p.choose("classifier.pooling", brought.head.pooling, same)
        p.choose("classifier.hidden", brought.head.hidden)
        return
    new = "The output layer is new, and learns with a higher rate than the encoder."
    p.choose("training.fine_tuning.head_rate", TUNED_HEAD, new)


def _choose_vocabulary(p: Proposal, recipe: ClassificationRecipe) -> None:
    (text,) = p.train.sides
    case = "Enough texts to learn capitalised words separately."
    if text.lower_cased:
        case = "The texts are already lower-cased; those to classify will be, too."
    elif recipe.lower:
        case = "Few texts: a word at the start of a sentence should be the same word."
    elif recipe.ngrams:
        case = "Capitals distinguish names from words, and n-grams still relate both spellings."
    p.choose("tokenizer.lower", recipe.lower or text.lower_cased is True, case)
    hides = "Hides other words in each epoch, so that no single word decides."
    p.choose("training.word_dropout", recipe.word_dropout, hides if recipe.word_dropout else "")
    if not recipe.ngrams:
        enough = pieces_for(text.alphabet)
        pieces = f"For {p.amount}: each piece should occur often enough to be learned."
        if enough > recipe.vocabulary:
            pieces = f"There are {text.alphabet:,} different characters, each a piece of its own."
        p.choose("tokenizer.max_vocabulary", max(recipe.vocabulary, enough), pieces)
        more = "Other segmentations of the same words add variety (BPE-dropout)."
        p.choose("tokenizer.sampling", recipe.sampling, more if recipe.sampling else "")
        return
    kind = "Few texts: pieces of rare words would mislead more than unknown words."
    p.choose("tokenizer.kind", "words", kind)
    p.choose("tokenizer.max_vocabulary", 0)
    p.choose("tokenizer.split_punctuation", True, "A word before a comma should be the same word.")
    known = "An unknown word is represented by its n-grams: stem and ending."
    p.choose("model.character_ngrams", recipe.ngrams, known)
    p.choose("model.scale_embeddings", False, "Rare, hardly trained words get small vectors.")
    scaled = "Reduces the influence of attention before it is trained."
    p.choose("model.initialisation", "xavier_scaled", scaled)
    p.choose("model.final_norm", False, "The norm of a vector shows how clearly something occurs.")
    p.choose("model.positions.kind", "none", "The convolutions know which words are neighbours.")


def _choose_model(p: Proposal, recipe: ClassificationRecipe) -> None:
    """The size of the model, and its regularisation."""
    layers = "1 layer" if recipe.layers == 1 else f"{recipe.layers} layers"
    size = f"{p.amount} suit {layers} of width {recipe.d_model}: {fit_reason(recipe.head >= 0.3)}"
    p.choose("model.encoder_layers", recipe.layers, size)
    p.choose("model.d_model", recipe.d_model)
    p.choose("model.d_ff", recipe.d_ff)
    p.choose("model.n_heads", recipe.heads)
    p.choose("model.norm", "pre", "Learns at a high rate from the first steps.")
    near = "Combines neighbours, which attention cannot learn to find from few examples."
    if not recipe.convolution:
        near = "There are enough examples for attention to learn which positions are neighbours."
    p.choose("model.input_convolution", recipe.convolution, near)
    strong = "strong" if recipe.dropout >= 0.2 else "mild"
    p.choose("model.dropout", recipe.dropout, f"For {p.amount}: {strong} regularisation.")
    both = "The mean describes the whole, the maximum what occurs"
    if recipe.ngrams:
        p.choose("classifier.pooling", ("maximum",), "A few words decide, wherever they are.")
    elif p.train.unit == "texts":
        pooling = ("mean", "maximum", "attention")
        p.choose("classifier.pooling", pooling, f"{both}, attention what matters.")
    else:
        p.choose("classifier.pooling", ("mean", "maximum"), f"{both}.")
    p.choose(
        "classifier.dropout",
        recipe.head,
        "The label should not depend on a few components of the vector.",
    )


def _choose_classes(p: Proposal) -> None:
    """The settings that depend on the classes, and the score that decides which model is kept."""
    lists = [place for found in p.surveys.values() if (place := found.several or found.without)]
    if lists:
        several = (
            "There are examples with several labels (in a list, or separated by |), or with none: "
            f"{lists[0]}. If that is one name: false."
        )
        p.choose("classifier.multi_label", True, several)
        p.notes.append(
            f"texts may have several labels or none, such as {lists[0]}; if each has one label: "
            "--no-multi-label"
        )
    for found in p.surveys.values():
        if found.barred:
            p.notes.append(
                f"{found.barred:,} of {found.examples:,} labels have a |, such as "
                f"{found.barred_place}, which counts as part of the name; if it separates labels: "
                "--multi-label"
            )
    classes = p.train.classes
    if len(classes) >= 2:
        (largest, most), (smallest, least) = classes[0], classes[-1]
        sizes = f"The largest class, {largest} ({most:,}), has {imbalance(classes):.1f} times the "
        sizes += f"examples of the smallest, {smallest} ({least:,})"
        if imbalance(classes) <= IMBALANCE:
            p.choose("classifier.class_weights", "none", f"{sizes}: no need for weights.")
        elif p.values["start_from"]:
            known = f"{sizes}. A pretrained encoder learns it from few."
            p.choose("classifier.class_weights", "none", known)
        else:
            rare = f"{sizes}, which would otherwise count for little."
            p.choose("classifier.class_weights", "balanced", rare)
    if _validated(p) < FEW:
        few = f"About {_validated(p):,} validation examples: too few to choose by accuracy."
        p.choose("evaluation.measure", "loss", few)
    elif p.values["classifier.class_weights"] == "balanced":
        equal = "All classes count equally here, too. If only the accuracy matters: "
        p.choose("evaluation.measure", "macro_f1", equal + 'class_weights = "none" and "accuracy".')


def _choose_training(p: Proposal, recipe: ClassificationRecipe) -> None:
    """The batches, the length of the run and the learning rate."""
    train = p.train
    lengths, batch = p.lengths(), recipe.batch_tokens
    each = max(1.0, float(lengths.mean()))
    while batch < EXAMPLES_A_STEP * each:
        batch *= 2
    many = min(train.examples, max(1, round(batch / each)))
    p.choose("training.batch_tokens", batch, f"About {many:,} {train.unit}.")
    steps = expected_batches(lengths, _used(p) * train.distinct * train.examples, batch)
    # In a short run, rounding would leave too few checkpoints to average.
    total = steps * recipe.epochs
    every = max(1, total // validations_in(total)[0])
    every = every if every < SHORT else round_figure(every)
    p.choose_run(recipe, "linear", steps, every, RISE)
    p.choose("training.schedule.peak", recipe.peak, "If the loss jumps, lower it.")
    p.choose("training.label_smoothing", 0.1)
    if recipe.ngrams and _validated(p) < FEW:
        few = f"About {_validated(p):,} validation examples are too few to choose by."
        p.choose("training.keep", "average", few)


def _used(p: Proposal) -> float:
    """The share of the training data that is not held out for validation."""
    return 1.0 if "validation" in p.surveys else 1.0 - DataConfig().validation_share


def _validated(p: Proposal) -> int:
    """The number of validation examples."""
    found = p.surveys.get("validation")
    return round((1.0 - _used(p)) * p.train.examples) if found is None else found.examples
