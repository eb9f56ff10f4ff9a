"""A classification that suits the data, each setting with its reason.

Its size is a recipe's; limits, class weights, vocabulary and warm-up follow the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from clearhead.commented_config import SEQUENCES, TEXTS, CommentedConfig
from clearhead.data.labelled_survey import (
    LabelledSurvey,
    SequenceSurvey,
    TextSurvey,
    survey_sequences,
    survey_texts,
)
from clearhead.errors import DataError
from clearhead.labelled_proposal.classes import FEW, suit_classes, suit_measure
from clearhead.labelled_proposal.proposed import Proposed
from clearhead.labelled_proposal.recipes import Kind, read_by_words, recipe_for
from clearhead.labelled_proposal.words import suit_words
from clearhead.proposal import VALIDATIONS, round_figure

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
