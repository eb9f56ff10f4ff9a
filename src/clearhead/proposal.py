"""A configuration that suits the data, each setting with its reason: what `clearhead init` writes.

The numbers are in one table, `RECIPES`. Those for few pairs lean on short runs on 29,000
pairs (docs/decisions/0005), but none was run to its end as it stands; those of base and big follow
Vaswani et al. 2017, the peak of the learning rate included: 1/sqrt(d_model * warmup).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from clearhead.commented_config import CommentedConfig, default_values
from clearhead.config import SIZES
from clearhead.data.readers import Part
from clearhead.data.survey import Side, Survey, survey


class Recipe(NamedTuple):
    """Settings for training data of fewer than `below` pairs."""

    below: float
    size: str
    norm: str
    vocabulary: int
    dropout: float
    sampling: float
    batch_tokens: int
    peak: float
    warmup: int
    epochs: int
    average: int


RECIPES = (
    # below, size, norm, vocabulary, dropout, sampling, batch, peak, warm-up, epochs, average
    Recipe(5_000, "tiny", "pre", 2_000, 0.3, 0.1, 2048, 3e-3, 500, 200, 10),
    Recipe(100_000, "tiny", "pre", 8_000, 0.3, 0.0, 4096, 5e-3, 2000, 100, 10),
    Recipe(500_000, "small", "pre", 12_000, 0.2, 0.0, 8192, 1e-3, 4000, 40, 5),
    Recipe(2_000_000, "base", "pre", 16_000, 0.1, 0.0, 16_384, 7e-4, 4000, 25, 5),
    Recipe(10_000_000, "base", "pre", 32_000, 0.1, 0.0, 24_576, 7e-4, 4000, 12, 5),
    Recipe(math.inf, "big", "pre", 32_000, 0.1, 0.0, 24_576, 5e-4, 4000, 6, 5),
)
VALIDATIONS = 25  # in a run of full length, roughly
PATIENCE = 10  # validations
TOKENS_PER_WORD = 1.3  # subwords, roughly
TOKENS_PER_CHARACTER = 0.7  # where no spaces part the words
ALIKE = 0.5  # the share of letters in common from which a joint vocabulary pays


def propose(
    train: Sequence[str] = (), validation: Sequence[str] = (), test: Sequence[str] = ()
) -> CommentedConfig:
    """Look at the files and propose what suits them; without training files, the defaults.

    Args:
        train: two parallel files, one .tsv or .jsonl file, or a built-in phrasebook.
        validation: likewise.
        test: likewise; only so that training pairs found in it can be left out.

    Raises:
        DataError: a file cannot be used.
    """
    values = default_values()
    reasons: dict[str, str] = {}
    seen = []
    if train:
        found = survey(train, "train")
        seen.append(_seen("training", found))
        _suit_text(found, values, reasons)
        _suit_amount(found, values, reasons)
    held_out: tuple[tuple[Part, Sequence[str]], ...] = (("validation", validation), ("test", test))
    for part, files in held_out:
        if files:
            seen.append(_seen(part, survey(files, part)))
    named = {"train": train, "validation": validation, "test": test}
    values.update({f"data.{part}": tuple(files) for part, files in named.items()})
    return CommentedConfig(values, reasons, tuple(seen))


def recipe_for(pairs: int) -> Recipe:
    """The row of the table for so many training pairs."""
    return next(recipe for recipe in RECIPES if pairs < recipe.below)


def _suit_text(found: Survey, values: dict[str, Any], reasons: dict[str, str]) -> None:
    """What depends on the script and on how the text was prepared."""
    source, target = found.source, found.target
    joint = found.shared_script >= ALIKE
    values["tokenizer.joint"] = joint
    values["model.share_embeddings"] = "all" if joint else "target"
    reasons["tokenizer.joint"] = (
        f"Both sides are written in {_script(target)} script, so names and roots are shared."
        if joint
        else f"{_script(source)} and {_script(target)} script share few pieces."
    )
    reasons["model.share_embeddings"] = (
        "One vocabulary, so one table of vectors serves source, target and output."
        if joint
        else "The vocabularies differ, so only the target's input and output share vectors."
    )
    tokenize, reason = _scored_by(target)
    values["evaluation.tokenize"] = tokenize
    if reason:
        reasons["evaluation.tokenize"] = reason


def _suit_amount(found: Survey, values: dict[str, Any], reasons: dict[str, str]) -> None:
    """What depends on the number of pairs and words: the recipe."""
    recipe = recipe_for(found.pairs)
    steps = max(1, math.ceil(_tokens(found) / recipe.batch_tokens))
    every = round_figure(steps * recipe.epochs / VALIDATIONS)
    chosen = {
        "tokenizer.max_vocabulary": recipe.vocabulary,
        "tokenizer.sampling": recipe.sampling,
        "model.size": recipe.size,
        "model.norm": recipe.norm,
        "model.dropout": recipe.dropout,
        "training.batch_tokens": recipe.batch_tokens,
        "training.max_steps": 0,
        "training.max_epochs": recipe.epochs,
        "training.patience": PATIENCE,
        "training.validate_every": every,
        "training.average_last": recipe.average,
        "training.schedule.peak": recipe.peak,
        "training.schedule.warmup": recipe.warmup,
    }
    values.update(chosen)
    shape = SIZES[recipe.size]
    few = recipe.dropout >= 0.2
    amount = f"{found.pairs:,} pairs"
    reasons |= {
        "tokenizer.max_vocabulary": f"For {amount}: each piece should be met often enough to be "
        "learned, and rare words be written in few pieces.",
        "model.size": f"{amount} suit {shape['encoder_layers']} + {shape['decoder_layers']} layers "
        f"of width {shape['d_model']}: "
        + ("a larger model would learn them by heart." if few else "there is enough to learn."),
        "model.dropout": f"{amount} are {'few: strong' if few else 'many: mild'} regularisation.",
        "training.max_epochs": f"About {steps:,} steps an epoch, {steps * recipe.epochs:,} in all; "
        "it ends earlier when the score no longer rises (patience).",
        "training.validate_every": f"About {VALIDATIONS} times in the whole run.",
        "training.schedule.peak": _peak_reason(recipe, shape["d_model"]),
    }
    if recipe.sampling:
        reasons["tokenizer.sampling"] = (
            "Very few pairs: the same words in other pieces make more of them (BPE-dropout)."
        )


def _peak_reason(recipe: Recipe, d_model: int) -> str:
    if recipe.size == "tiny":
        return "Small models bear a high rate and gain by it; lower it if the loss jumps."
    return f"About 1/sqrt({d_model} * {recipe.warmup}), the rate of Vaswani et al. 2017."


def _scored_by(target: Side) -> tuple[str, str]:
    """sacreBLEU's tokenizer for the target text, and why."""
    script = f"The target is in {_script(target)} script, which puts no spaces between words"
    if target.tokenised:
        lower = " and lower-cased" if target.lower_cased else ""
        return "none", (
            f"The target is tokenised{lower} already (' .', not '.'), so it is scored as it is. "
            "Scores compare only with those of other work on the same text."
        )
    if target.spaced:
        return "13a", ""
    if target.script == "CJK" and not {"HIRAGANA", "KATAKANA"} & target.scripts.keys():
        return "zh", f"{script}; zh takes each character for a word."
    return "char", f"{script}; char takes each character for a word."


def _tokens(found: Survey) -> float:
    """The tokens of the larger side, roughly, which decide how many batches there are."""
    return max(
        side.words * TOKENS_PER_WORD if side.spaced else side.characters * TOKENS_PER_CHARACTER
        for side in (found.source, found.target)
    )


def round_figure(value: float) -> int:
    """The nearest of 50, 100, 200, 500, … 5,000 (by ratio)."""
    figures = (50, 100, 200, 500, 1000, 2000, 5000)
    return min(figures, key=lambda figure: abs(math.log(figure / max(value, 1.0))))


def _seen(part: str, found: Survey) -> str:
    """What was seen of a part of the data, in one line."""
    amounts = (
        f"{side.words:,} words" if side.spaced else f"{side.characters:,} characters"
        for side in (found.source, found.target)
    )
    return f"{part}: {found.pairs:,} pairs, {' and '.join(amounts)} ({', '.join(found.files)})"


def _script(side: Side) -> str:
    names = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "": "no"}
    return names.get(side.script, side.script.capitalize())
