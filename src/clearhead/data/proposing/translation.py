"""The recipe of a translation.

The size for fewer than 100,000 pairs is for 29,000 pairs (Multi30k); docs/explanation/benchmarks.md
has its results, and docs/decisions/0014 the reasons. The two sizes before it are smaller versions.
The sizes of base and big follow Vaswani et al. 2017, including the peak of the learning rate,
1/sqrt(d_model * warmup). Only the size for Multi30k was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import get_args

from clearhead.data.proposing.settings import (
    RUN,
    VALIDATIONS,
    Brought,
    Facts,
    Of,
    Proposal,
    Recipe,
    Row,
    round_figure,
    row_for,
)
from clearhead.data.proposing.survey import SideSurvey, Survey, pieces_for, survey_pairs
from clearhead.data.reading.pairs import languages_of, left_out
from clearhead.data.reading.phrasebook import Part
from clearhead.settings import SIZES
from clearhead.settings.commented import TRANSLATION, CommentedConfig
from clearhead.text.accelerators import without_accelerator
from clearhead.text.spans import SOFTWARE, Protection, count_kept, protection
from clearhead.tokenizer.extension import can_have_symbols


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
USUAL = 0.5  # per cent of the pairs with a kind of span on both sides, which is then protected
PROGRAMS = ("shell", "brace", "percent")  # kinds of spans that only programs have
PLACEHOLDERS, WEB = protection(PROGRAMS), protection(("web",))
ALIKE = 0.5  # from this share of letters in common scripts, a joint vocabulary is proposed


def propose_translation(
    train: Sequence[str] = (),
    validation: Sequence[str] = (),
    test: Sequence[str] = (),
    start_from: str = "",
    brought: Brought | None = None,
    languages: tuple[str, str] = ("", ""),
) -> CommentedConfig:
    """Survey sentence pairs and propose settings; without training files, the defaults.

    Each part is two parallel files, one .tsv or .jsonl file, a translated document, or a built-in
    phrasebook. `brought` is what the model to start from brings, if that is known. Without
    `languages`, those of source and target are taken from the files.

    Raises:
        DataError: a file cannot be used.
    """
    files = train, validation, test
    if train and not all(languages):
        found = languages_of(train)
        languages = languages[0] or found[0], languages[1] or found[1]
    parts: dict[Part, Sequence[str]] = dict(zip(get_args(Part), files, strict=True))
    surveys: dict[Part, Survey] = {p: survey_pairs(n, p, languages) for p, n in parts.items() if n}
    proposal = Proposal(TRANSLATION, surveys, files, brought, FACTS, RISE)
    for part, named in parts.items():
        proposal.notes += (f"{part}: {line}" for line in left_out(named, languages))
    for side, language in zip(("source", "target"), languages, strict=True):
        if train:
            proposal.choose(f"data.{side}_language", language)
    proposal.choose("start_from", start_from)
    if start_from and train:
        proposal.fine_tune(TUNED_BATCH, TUNED_PEAK)
        proposal.apply(SCORE)
        if brought and brought.tokenizers and all(map(can_have_symbols, brought.tokenizers)):
            proposal.apply(PROTECTION)
        proposal.notes += (f"warning: {line}" for line in _weaknesses(proposal, train, brought))
        if brought:
            proposal.choose("search.beam_size", brought.search.beam_size)
            proposal.choose("search.length_penalty", brought.search.length_penalty)
    elif train:
        proposal.recipe = row_for(RECIPES, proposal.train.examples)
        proposal.apply(VOCABULARY + PROTECTION + MODEL)
        proposal.make_plan()
        proposal.apply(TRAINING + RUN + SCORE)
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
    if others:
        listed = " and ".join(f"the {side} was {was} and is {now}" for side, was, now in others)
        yield f"the model has learned other languages, or the other direction: {listed}"
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


def _script(side: SideSurvey) -> str:
    names = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "": "no"}
    return names.get(side.script, side.script.capitalize())


def _are_alike(source: SideSurvey, target: SideSurvey) -> bool:
    """Whether both sides have much of their scripts in common."""
    scripts = source.scripts.items()
    return sum(min(share, target.scripts.get(name, 0.0)) for name, share in scripts) >= ALIKE


def _alphabet(p: Proposal) -> int:
    sizes = [side.alphabet for side in p.train.sides]
    return sum(sizes) if _are_alike(*p.train.sides) else max(sizes)


def _is_chinese(side: SideSurvey) -> bool:
    return side.script == "CJK" and not {"HIRAGANA", "KATAKANA"} & side.scripts.keys()


def _kept(p: Proposal, kinds: Protection) -> float:
    """The share of pairs that have spans, the same on both sides, in per cent.

    It is 0 if half of the pairs with spans on a side differ: then they are not placeholders.
    """
    sources, targets = p.train.sample
    kept = count_kept(kinds, sources, targets)
    return 100 * kept.exact / len(sources) if 2 * kept.exact > kept.sentences else 0.0


def _spans(p: Proposal) -> float:
    return _kept(p, PLACEHOLDERS)


def _accelerators(p: Proposal) -> tuple[str, float]:
    """The usual mark of accelerators in the sources, and the share that has it, in per cent."""
    sources = p.train.sample[0]
    masked = [SOFTWARE.mask(text).text for text in sources]
    shares = {
        mark: sum(bool(without_accelerator(text, mark)[1]) for text in masked) / len(masked)
        for mark in "_&~"
    }
    mark = max(shares, key=lambda each: shares[each])
    return mark, 100 * shares[mark]


def _links(p: Proposal) -> float:
    return _kept(p, WEB)


def _rates(p: Proposal) -> dict[str, float]:
    rate, within = p.recipe.dropout, p.recipe.within
    return {"embeddings": rate, "residual": rate, "attention": within, "hidden": within}


def _short(p: Proposal) -> float:
    """The share of references with fewer than four tokens."""
    return p.surveys.get("validation", p.train).sides[1].short


FACTS: Facts = {
    "source": lambda p: p.train.sides[0],
    "target": lambda p: p.train.sides[1],
    "source_script": lambda p: _script(p.train.sides[0]),
    "target_script": lambda p: _script(p.train.sides[1]),
    "are_alike": lambda p: _are_alike(*p.train.sides),
    # The setting is for both sides.
    "are_lower": lambda p: p["source"].lower_cased and p["target"].lower_cased is not False,
    "alphabet": _alphabet,
    "pieces": lambda p: pieces_for(_alphabet(p)),
    "has_many_characters": lambda p: pieces_for(_alphabet(p)) > p.recipe.vocabulary,
    "spans": _spans,
    "has_spans": lambda p: _spans(p) >= USUAL,
    "accelerator": lambda p: _accelerators(p)[0],
    "accelerators": lambda p: _accelerators(p)[1],
    "has_accelerators": lambda p: _accelerators(p)[1] >= USUAL,
    "links": _links,
    "has_links": lambda p: _links(p) >= USUAL,
    "shape": lambda p: SIZES[p.recipe.size],
    "is_tiny": lambda p: p.recipe.size == "tiny",
    "has_one_rate": lambda p: p.recipe.within == p.recipe.dropout,
    "rates": _rates,
    "strength": lambda p: "few: strong" if p["few"] else "many: mild",
    "every": lambda p: round_figure(p.plan.total / VALIDATIONS),
    "is_linear": lambda p: p.recipe.schedule == "linear",
    "short": lambda p: 100 * _short(p),
    "are_short": lambda p: _short(p) > MOST_SHORT,
    "is_tokenised": lambda p: p["target"].tokenised,
    "and_lower": lambda p: " and lower-cased" if p["target"].lower_cased else "",
    "is_spaced": lambda p: p["target"].spaced,
    "is_chinese": lambda p: _is_chinese(p["target"]),
}

# fmt: off
VOCABULARY = (
    Row("tokenizer.joint", True, "are_alike",
        "Both sides are written in {target_script} script, so they share names and roots."),
    Row("tokenizer.joint", False, "",
        "{source_script} and {target_script} script share few pieces."),
    Row("model.share_embeddings", "all", "are_alike",
        "One vocabulary, so source, target and output share one embedding matrix."),
    Row("model.share_embeddings", "target", "",
        "Two vocabularies, so only the input and output of the target share embeddings."),
    Row("tokenizer.lower", True, "are_lower",
        "The texts are already lower-cased; those to translate will be, too."),
    Row("tokenizer.max_vocabulary", Of("pieces"), "has_many_characters",
        "There are up to {alphabet:,} different characters, each a piece of its own."),
    Row("tokenizer.max_vocabulary", Of("recipe.vocabulary"), "",
        "For {amount}: each piece should occur often enough to be learned, and rare words "
        "should have few pieces."),
    Row("tokenizer.sampling", Of("recipe.sampling"), "recipe.sampling",
        "Very few pairs: other segmentations of the same words add variety (BPE-dropout)."),
)
PROTECTION = (
    Row("tokenizer.protect", ("software",), "has_spans",
        "{spans:.1f} % of the pairs have placeholders such as %s or {{name}} on both sides: "
        "translations keep them exactly."),
    Row("tokenizer.protect", ("web",), "has_links",
        "{links:.1f} % of the pairs have links or tags on both sides: translations keep them "
        "exactly."),
    Row("tokenizer.accelerator", Of("accelerator"), "has_accelerators",
        "{accelerators:.1f} % of the sources have a mark for a keyboard accelerator."),
)

MODEL = (
    Row("model.size", Of("recipe.size"), "few",
        "{amount} suit {shape[encoder_layers]} + {shape[decoder_layers]} layers of width "
        "{shape[d_model]}: a larger model would memorise them."),
    Row("model.size", Of("recipe.size"), "",
        "{amount} suit {shape[encoder_layers]} + {shape[decoder_layers]} layers of width "
        "{shape[d_model]}: there is enough to learn."),
    Row("model.dropout", Of("recipe.dropout"), "has_one_rate",
        "{amount} are {strength} regularisation."),
    Row("model.dropout", Of("rates"), "",
        "{amount} are {strength} regularisation, milder on attention and within a layer."),
)

TRAINING = (
    Row("training.schedule.kind", "linear", "is_linear", "Falls to zero at the end of the run."),
    Row("training.schedule.kind", Of("recipe.schedule")),
    Row("training.schedule.peak", Of("recipe.peak"), "is_tiny",
        "Small models learn better at a high rate; lower it if the loss jumps."),
    Row("training.schedule.peak", Of("recipe.peak"), "",
        "About 1/sqrt({shape[d_model]} * {recipe.warmup}), the rate of Vaswani et al. 2017."),
    Row("training.word_dropout", 0.0, "", "None: it improved nothing on 29,000 pairs."),
    Row("training.r_drop", 0.0, "",
        "None: with two passes per step, training takes twice as long."),
)

SCORE = (
    Row("evaluation.measure", "chrf", "are_short",
        "{short:.0f} % of the references have fewer than four tokens, too few for BLEU to show "
        "progress."),
    Row("evaluation.tokenize", "none", "is_tokenised",
        "The target is already tokenised{and_lower} (' .', not '.'), so it is scored as it is. "
        "Scores are comparable only with those of other work on the same text."),
    Row("evaluation.tokenize", "13a", "is_spaced"),
    Row("evaluation.tokenize", "zh", "is_chinese",
        "The target is in {target_script} script, which has no spaces between words; zh treats "
        "each character as a word."),
    Row("evaluation.tokenize", "char", "",
        "The target is in {target_script} script, which has no spaces between words; char treats "
        "each character as a word."),
)
"""The score that chooses the weights, and sacreBLEU's tokenizer for the target text."""
# fmt: on
