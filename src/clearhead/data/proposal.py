"""A translation that suits the data, each setting with its reason: what `clearhead init` writes.

The numbers are in one table, `RECIPES`. The row for fewer than 100,000 pairs has the settings that
examples/multi30k-en-de.toml had at first, made for 29,000 pairs: half the steps that it has now,
and a rate that falls to zero; what was seen of it is in benchmarks/README.md and
docs/decisions/0014. The two rows before it are the same cut down. Those of base and big follow
Vaswani et al. 2017, the peak of the learning rate included: 1/sqrt(d_model * warmup). Of all other
rows than that one, none was run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from clearhead.data.readers import Part
from clearhead.data.survey import Side, Survey, pieces_for, survey
from clearhead.settings import SIZES
from clearhead.settings.commented import TRANSLATION, CommentedConfig


class Recipe(NamedTuple):
    """Settings for training data of fewer than `below` pairs.

    `dropout` is that of embeddings and residual branches, `within` that of attention weights and
    hidden units. With the schedule `linear` the rate falls to zero after all epochs.
    """

    below: float
    size: str
    vocabulary: int
    dropout: float
    within: float
    sampling: float
    batch_tokens: int
    schedule: str
    peak: float
    warmup: int
    epochs: int


RECIPES = (
    # below, size, vocabulary, dropout, within, sampling, batch, schedule, peak, warm-up, epochs
    Recipe(5_000, "tiny", 2_000, 0.3, 0.1, 0.1, 2048, "linear", 3e-3, 500, 200),
    Recipe(20_000, "tiny", 5_000, 0.3, 0.1, 0.0, 4096, "linear", 5e-3, 1500, 100),
    Recipe(100_000, "tiny", 10_000, 0.3, 0.1, 0.0, 4096, "linear", 5e-3, 1500, 47),
    Recipe(500_000, "small", 12_000, 0.2, 0.2, 0.0, 8192, "inverse_sqrt", 1e-3, 4000, 40),
    Recipe(2_000_000, "base", 16_000, 0.1, 0.1, 0.0, 16_384, "inverse_sqrt", 7e-4, 4000, 25),
    Recipe(10_000_000, "base", 32_000, 0.1, 0.1, 0.0, 24_576, "inverse_sqrt", 7e-4, 4000, 12),
    Recipe(math.inf, "big", 32_000, 0.1, 0.1, 0.0, 24_576, "inverse_sqrt", 5e-4, 4000, 6),
)
NORM = "pre"
AVERAGE = 5  # checkpoints
VALIDATIONS = 25  # in a run of full length, roughly
PATIENCE = 10  # validations, where the rate does not fall to zero
WARMUP = 3  # the rate rises in a third of the run at most, where it falls to zero in the rest
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
    values = TRANSLATION.defaults()
    reasons: dict[str, str] = {}
    seen = []
    if train:
        found = survey(train, "train")
        seen.append(_seen("training", found))
        _suit_text(found, values, reasons)
        _suit_amount(found, values, reasons)
        _suit_alphabet(found, values, reasons)
    held_out: tuple[tuple[Part, Sequence[str]], ...] = (("validation", validation), ("test", test))
    for part, files in held_out:
        if files:
            seen.append(_seen(part, survey(files, part)))
    named = {"train": train, "validation": validation, "test": test}
    values.update({f"data.{part}": tuple(files) for part, files in named.items()})
    return CommentedConfig(TRANSLATION, values, reasons, tuple(seen))


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
    # The larger side decides how many batches there are.
    tokens = max(found.source.tokens, found.target.tokens)
    steps = max(1, math.ceil(tokens / recipe.batch_tokens))
    in_all = steps * recipe.epochs
    every = round_figure(in_all / VALIDATIONS)
    values |= {
        "tokenizer.max_vocabulary": recipe.vocabulary,
        "tokenizer.sampling": recipe.sampling,
        "model.size": recipe.size,
        "model.norm": NORM,
        "model.dropout": _dropout(recipe),
        "training.batch_tokens": recipe.batch_tokens,
        **{"training.max_steps": 0, "training.max_epochs": recipe.epochs},
        **{"training.validate_every": every, "training.average_last": AVERAGE},
        "training.schedule.peak": recipe.peak,
        "training.schedule.kind": recipe.schedule,
    }
    shape = SIZES[recipe.size]
    few = recipe.dropout >= 0.2
    amount = f"{found.pairs:,} pairs"
    reasons |= {
        "tokenizer.max_vocabulary": f"For {amount}: each piece should be met often enough to be "
        "learned, and rare words be written in few pieces.",
        "model.size": f"{amount} suit {shape['encoder_layers']} + {shape['decoder_layers']} layers "
        f"of width {shape['d_model']}: "
        + ("a larger model would learn them by heart." if few else "there is enough to learn."),
        "model.dropout": f"{amount} are {'few: strong' if few else 'many: mild'} regularisation"
        + (", milder on attention and within a layer." if recipe.within < recipe.dropout else "."),
        "training.max_epochs": f"About {steps:,} steps an epoch, {in_all:,} in all.",
        "training.validate_every": f"About {max(1, in_all // every)} times in the whole run.",
        "training.schedule.peak": _peak_reason(recipe, shape["d_model"]),
        "training.word_dropout": "None: a tenth of the words gained nothing on 29,000 pairs.",
        "training.r_drop": "None: with two passes a step a run makes half as many steps.",
    }
    if recipe.sampling:
        reasons["tokenizer.sampling"] = (
            "Very few pairs: the same words in other pieces make more of them (BPE-dropout)."
        )
    _suit_schedule(recipe, in_all, values, reasons)


def _suit_alphabet(found: Survey, values: dict[str, Any], reasons: dict[str, str]) -> None:
    """Room for all characters, of which some scripts have thousands."""
    alphabets = found.source.alphabet, found.target.alphabet
    alphabet = sum(alphabets) if values["tokenizer.joint"] else max(alphabets)
    if pieces_for(alphabet) > values["tokenizer.max_vocabulary"]:
        values["tokenizer.max_vocabulary"] = pieces_for(alphabet)
        reasons["tokenizer.max_vocabulary"] = (
            f"There are up to {alphabet:,} different characters, each a piece of its own."
        )


def _suit_schedule(
    recipe: Recipe, steps: int, values: dict[str, Any], reasons: dict[str, str]
) -> None:
    """How the rate goes in a run of so many steps, and when the run ends."""
    values["training.schedule.warmup"] = recipe.warmup
    values["training.precision"] = "auto"
    if recipe.schedule != "linear":
        values["training.patience"] = PATIENCE
        reasons["training.patience"] = "The run ends earlier when the score no longer rises."
        return
    values["training.patience"] = 0
    reasons["training.patience"] = (
        "None: the rate falls until the end, and the score rises most when it is small."
    )
    reasons["training.schedule.kind"] = (
        "Falls to zero at the end of the run: the last steps, at a small rate, gain most."
    )
    most = max(1, steps // WARMUP)
    if most < recipe.warmup:
        values["training.schedule.warmup"] = most
        reasons["training.schedule.warmup"] = "The run is short: a third of it."


def _dropout(recipe: Recipe) -> float | dict[str, float]:
    """One rate if it is the same at all four places."""
    if recipe.within == recipe.dropout:
        return recipe.dropout
    return {
        **dict.fromkeys(("embeddings", "residual"), recipe.dropout),
        **dict.fromkeys(("attention", "hidden"), recipe.within),
    }


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
