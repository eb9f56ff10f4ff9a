"""The recipe of a translation.

The row for fewer than 100,000 pairs is for 29,000 pairs (Multi30k); benchmarks/README.md has its
results, and docs/decisions/0014 the reasons. The two rows before it are smaller versions. The rows
of base and big follow Vaswani et al. 2017, including the peak of the learning rate,
1/sqrt(d_model * warmup). Only the row of Multi30k was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from clearhead.data.batch_ranges import expected_batches
from clearhead.data.proposing.settings import (
    VALIDATIONS,
    Brought,
    Proposal,
    Recipe,
    choose_fine_tuning,
    fit_reason,
    round_figure,
    row_for,
)
from clearhead.data.proposing.survey import SideSurvey, pieces_for, survey_pairs
from clearhead.data.reading.pairs import languages_of
from clearhead.settings import SIZES
from clearhead.settings.commented import TRANSLATION, CommentedConfig


@dataclass(frozen=True)
class TranslationRecipe(Recipe):
    """Settings for fewer than `below` training pairs.

    `dropout` is the rate for embeddings and residual branches, `within` for attention weights and
    hidden units. With the schedule `linear` the learning rate falls to zero after all epochs.
    """

    within: float
    schedule: str
    size: str
    vocabulary: int
    sampling: float


RECIPES = tuple(
    TranslationRecipe(*row)
    for row in (
        # below, batch, peak, warm-up, epochs, dropout, within, schedule, size, vocabulary, sampling
        (5_000, 2048, 3e-3, 500, 200, 0.3, 0.1, "linear", "tiny", 2_000, 0.1),
        (20_000, 4096, 5e-3, 1500, 100, 0.3, 0.1, "linear", "tiny", 5_000, 0.0),
        (100_000, 4096, 5e-3, 1500, 47, 0.3, 0.1, "linear", "tiny", 10_000, 0.0),
        (500_000, 8192, 1e-3, 4000, 40, 0.2, 0.2, "inverse_sqrt", "small", 12_000, 0.0),
        (2_000_000, 16_384, 7e-4, 4000, 25, 0.1, 0.1, "inverse_sqrt", "base", 16_000, 0.0),
        (10_000_000, 24_576, 7e-4, 4000, 12, 0.1, 0.1, "inverse_sqrt", "base", 32_000, 0.0),
        (math.inf, 24_576, 5e-4, 4000, 6, 0.1, 0.1, "inverse_sqrt", "big", 32_000, 0.0),
    )
)
RISE = 3  # the warm-up is at most a third of the run
TUNED_BATCH, TUNED_PEAK = 4096, 3e-4  # if the run starts from a trained translator
MOST_SHORT = 0.5  # share of references with fewer than four tokens, if BLEU is to choose
ALIKE = 0.5  # from this share of letters in common scripts, a joint vocabulary is proposed


def propose_translation(
    train: Sequence[str] = (),
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    start_from: str = "",
    brought: Brought | None = None,
) -> CommentedConfig:
    """Survey sentence pairs and propose settings; without training files, the defaults.

    Args:
        train: two parallel files, one .tsv or .jsonl file, or a built-in phrasebook.
        validation: likewise.
        test: likewise; training pairs that occur in it are dropped.
        start_from: a trained translator.
        brought: what it brings, if that is known.

    Raises:
        DataError: a file cannot be used.
    """
    files = train, validation, test
    proposal = Proposal(TRANSLATION, files, lambda part, named: survey_pairs(named, part))
    if train:
        for side, language in zip(("source", "target"), languages_of(train), strict=True):
            proposal.choose(f"data.{side}_language", language)
    proposal.choose("start_from", start_from)
    if start_from and train:
        choose_fine_tuning(proposal, 1.0, TUNED_BATCH, TUNED_PEAK, brought)
        _choose_score(proposal)
        proposal.notes += (f"warning: {line}" for line in _weaknesses(proposal, train, brought))
        if brought:
            proposal.choose("search.beam_size", brought.search.beam_size)
            proposal.choose("search.length_penalty", brought.search.length_penalty)
    elif train:
        recipe = row_for(RECIPES, proposal.train.examples)
        _choose_vocabulary(proposal, recipe)
        _choose_model(proposal, recipe)
        _choose_training(proposal, recipe)
        _choose_score(proposal)
    proposal.limit_length(brought)
    return proposal.config()


def _weaknesses(p: Proposal, train: Sequence[str], brought: Brought | None) -> Iterator[str]:
    """Why a run that starts from a translator may be a weak one."""
    yield (
        "without earlier pairs to mix in, the model forgets what these pairs lack: name some of "
        "its training pairs in data.replay"
    )
    if brought is None:
        return
    sides = zip(("source", "target"), brought.languages, languages_of(train), strict=False)
    others = [(side, was, now) for side, was, now in sides if was and now and was != now]
    if others and brought.languages == languages_of(train)[::-1]:
        source, target = brought.languages
        yield (
            f"the model translates from {source} to {target}, these pairs are the other direction: "
            "exchange the files, or train without --start-from"
        )
    elif others:
        listed = " and ".join(f"the {side} was {was} and is {now}" for side, was, now in others)
        yield f"the model has learned other languages, and hardly knows these: {listed}"
    counted = zip(p.train.sample, p.train.sides, cycle(brought.tokenizers), strict=False)
    for name, (texts, side, tokenizer) in zip(("source", "target"), counted, strict=False):
        words = sum(len(text.split()) if side.spaced else len(text) for text in texts)
        each = sum(map(len, tokenizer.encode_batch(list(texts)))) / max(1, words)
        unit, most = ("word", 3.0) if side.spaced else ("character", 1.5)
        if each > most:
            yield (
                f"the vocabulary of the model cuts the {name} into {each:.1f} tokens a {unit}, so "
                "it was learned from another language or subject"
            )


def _choose_vocabulary(p: Proposal, recipe: TranslationRecipe) -> None:
    source, target = p.train.sides
    scripts = source.scripts.items()
    joint = sum(min(share, target.scripts.get(name, 0.0)) for name, share in scripts) >= ALIKE
    alike = f"Both sides are written in {_script(target)} script, so they share names and roots."
    other = f"{_script(source)} and {_script(target)} script share few pieces."
    p.choose("tokenizer.joint", joint, alike if joint else other)
    one = "One vocabulary, so source, target and output share one embedding matrix."
    two = "Two vocabularies, so only the input and output of the target share embeddings."
    p.choose("model.share_embeddings", "all" if joint else "target", one if joint else two)
    # The setting is for both sides.
    if source.lower_cased and target.lower_cased is not False:
        lower = "The texts are already lower-cased; those to translate will be, too."
        p.choose("tokenizer.lower", True, lower)
    size = recipe.vocabulary
    reason = (
        f"For {p.amount}: each piece should occur often enough to be learned, and rare words "
        "should have few pieces."
    )
    alphabet = (sum if joint else max)((source.alphabet, target.alphabet))
    if pieces_for(alphabet) > size:
        size = pieces_for(alphabet)
        reason = f"There are up to {alphabet:,} different characters, each a piece of its own."
    p.choose("tokenizer.max_vocabulary", size, reason)
    few = "Very few pairs: other segmentations of the same words add variety (BPE-dropout)."
    p.choose("tokenizer.sampling", recipe.sampling, few if recipe.sampling else "")


def _choose_model(p: Proposal, recipe: TranslationRecipe) -> None:
    shape, few = SIZES[recipe.size], recipe.dropout >= 0.2
    layers = f"{shape['encoder_layers']} + {shape['decoder_layers']} layers"
    size = f"{p.amount} suit {layers} of width {shape['d_model']}: {fit_reason(few)}"
    p.choose("model.size", recipe.size, size)
    p.choose("model.norm", "pre")
    reason = f"{p.amount} are {'few: strong' if few else 'many: mild'} regularisation"
    if recipe.within == recipe.dropout:
        p.choose("model.dropout", recipe.dropout, f"{reason}.")
        return
    rates = {
        **dict.fromkeys(("embeddings", "residual"), recipe.dropout),
        **dict.fromkeys(("attention", "hidden"), recipe.within),
    }
    p.choose("model.dropout", rates, f"{reason}, milder on attention and within a layer.")


def _choose_training(p: Proposal, recipe: TranslationRecipe) -> None:
    distinct = p.train.distinct * p.train.examples
    steps = expected_batches(p.lengths(), distinct, recipe.batch_tokens)
    every = round_figure(steps * recipe.epochs / VALIDATIONS)
    p.choose("training.batch_tokens", recipe.batch_tokens)
    p.choose_run(recipe, recipe.schedule, steps, every, RISE)
    width = SIZES[recipe.size]["d_model"]
    peak = f"About 1/sqrt({width} * {recipe.warmup}), the rate of Vaswani et al. 2017."
    if recipe.size == "tiny":
        peak = "Small models learn better at a high rate; lower it if the loss jumps."
    p.choose("training.schedule.peak", recipe.peak, peak)
    p.reasons["training.word_dropout"] = "None: it improved nothing on 29,000 pairs."
    p.reasons["training.r_drop"] = "None: with two passes per step, training takes twice as long."


def _choose_score(p: Proposal) -> None:
    """The score that chooses the weights, and sacreBLEU's tokenizer for the target text."""
    _, target = p.train.sides
    references = p.surveys.get("validation", p.train).sides[1]
    if references.short > MOST_SHORT:
        few = f"{100 * references.short:.0f} % of the references have fewer than four tokens"
        p.choose("evaluation.measure", "chrf", f"{few}, too few for BLEU to show progress.")
    script = f"The target is in {_script(target)} script, which has no spaces between words"
    if target.tokenised:
        lower = " and lower-cased" if target.lower_cased else ""
        reason = (
            f"The target is already tokenised{lower} (' .', not '.'), so it is scored as it is. "
            "Scores are comparable only with those of other work on the same text."
        )
        p.choose("evaluation.tokenize", "none", reason)
    elif target.spaced:
        p.choose("evaluation.tokenize", "13a")
    elif target.script == "CJK" and not {"HIRAGANA", "KATAKANA"} & target.scripts.keys():
        p.choose("evaluation.tokenize", "zh", f"{script}; zh treats each character as a word.")
    else:
        p.choose("evaluation.tokenize", "char", f"{script}; char treats each character as a word.")


def _script(side: SideSurvey) -> str:
    names = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "": "no"}
    return names.get(side.script, side.script.capitalize())
