"""The measures of sacreBLEU as they are used here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from clearhead.errors import ConfigError, DataError
from clearhead.settings import EvaluationConfig

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


def metrics_of(tokenize: str, lowercase: bool) -> dict[str, Metric]:
    """BLEU, chrF2 and TER by the names "bleu", "chrf" and "ter".

    Args:
        tokenize: sacreBLEU's tokenizer for BLEU.
        lowercase: BLEU and chrF without regard to case. TER never minds it, as sacreBLEU has it
            and its signature says.

    Raises:
        ConfigError: the tokenizer is not one of those offered.
    """
    # Imported here: loading it takes long, and few runs of the command do.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    offered = get_args(get_type_hints(EvaluationConfig)["tokenize"])
    if tokenize not in offered:
        raise ConfigError(
            f"evaluation.tokenize: {tokenize!r} is not a tokenizer of sacreBLEU that is offered",
            todo=f"choose one of {', '.join(offered)}",
        )
    return {
        # Forced: tokenised text is scored as it is, without a warning, since it was asked for.
        "bleu": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(case_sensitive=False),
    }


# ---- tasks.scores
# How good translations are: BLEU, chrF and TER by sacreBLEU (Post 2018).
#
# BLEU: Papineni et al. 2002. chrF: Popović 2015. TER (lower is better): Snover et al. 2006. Each
# score has sacreBLEU's signature, which is all that another person needs to get the same number.
# It names the seed of the random draws: 12345, or the environment variable SACREBLEU_SEED.

WORD_COUNTS = (5, 10, 15, 20, 30, 40)
"""Where the classes of `scores_by_length` end."""


@dataclass(frozen=True)
class Measure:
    """One score of one system, in percent.

    Attributes:
        name: "BLEU", "chrF2" or "TER".
        score: the score of the whole text.
        signature: how it was computed, as sacreBLEU writes it.
        low, high: the 95 % confidence interval by bootstrap (Koehn 2004), None if not asked for.
        p_value: how likely a difference from the baseline as large as this one is by chance; None
            where nothing was compared.
    """

    name: str
    score: float
    signature: str
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Scores:
    """The three measures of one system."""

    bleu: Measure
    chrf: Measure
    ter: Measure

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class LengthScores:
    """The scores, in percent, of the sentences whose sources have "6-10" words, or "41+"."""

    words: str
    sentences: int
    bleu: float
    chrf: float


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    bootstrap: int = 1000,
    *,
    lowercase: bool = False,
) -> Scores:
    """BLEU, chrF and TER of a system's output, one reference a sentence.

    Args:
        hypotheses: the output, a sentence each.
        references: what it should be.
        tokenize: sacreBLEU's tokenizer for BLEU; "none" for text that is tokenised already.
        bootstrap: the number of resamples for the confidence interval, at least 2.
        lowercase: BLEU and chrF without regard to case; TER, as sacreBLEU has it, never minds it.

    Raises:
        DataError: the counts differ, or there is nothing to score.
        ConfigError: the tokenizer is not one of those offered.
    """
    metrics = metrics_of(tokenize, lowercase)
    return _tested({"": hypotheses}, references, metrics, bootstrap)[""]


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    tokenize: str = "13a",
    bootstrap: int = 1000,
    *,
    lowercase: bool = False,
) -> dict[str, Scores]:
    """The scores of two or more systems; each but the first has p-values against the first.

    The test is paired bootstrap resampling (Koehn 2004). sacreBLEU's other test, approximate
    randomisation, is not offered: it counts only shuffles that differ by more than the systems
    do, not those that differ as much, and so finds one changed sentence significant.

    Args:
        systems: the output of each by name; the first is the baseline.
        references: what they should be.
        tokenize: sacreBLEU's tokenizer for BLEU.
        bootstrap: the number of resamples for intervals and p-values, at least 2.
        lowercase: BLEU and chrF without regard to case.

    Raises:
        DataError: the counts differ, nothing is to be scored, or there are fewer than two systems.
        ConfigError: the tokenizer is not one of those offered.
    """
    if len(systems) < 2:
        raise DataError(
            f"a comparison needs two systems, and there is {len(systems)}",
            todo="name the baseline first, then the others",
        )
    return _tested(systems, references, metrics_of(tokenize, lowercase), bootstrap)


def bleu_and_chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> tuple[Measure, Measure]:
    """BLEU and chrF without intervals: quick, for validation while training.

    Raises:
        DataError: the counts differ, or there is nothing to score.
        ConfigError: the tokenizer is not one of those offered.
    """
    _check_counts(len(hypotheses), len(references))
    metrics = metrics_of(tokenize, lowercase)
    bleu, chrf = (_corpus(metrics[name], hypotheses, references) for name in ("bleu", "chrf"))
    return bleu, chrf


def exact_match(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool) -> float:
    """The percentage of outputs that are their references, letter by letter.

    Raises:
        DataError: the counts differ, or there is nothing to score.
    """
    _check_counts(len(hypotheses), len(references))
    ours, theirs = (map(str.lower, x) if lowercase else x for x in (hypotheses, references))
    return 100 * sum(map(str.__eq__, ours, theirs)) / len(references)


def scores_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    word_counts: Sequence[int] = WORD_COUNTS,
    *,
    lowercase: bool = False,
) -> list[LengthScores]:
    """BLEU and chrF by the number of words (parts between white space) of the source.

    Args:
        sources: what was translated.
        hypotheses: the output.
        references: what it should be.
        tokenize: sacreBLEU's tokenizer for BLEU.
        word_counts: the highest number of words of each class but the last, ascending. Classes
            without a sentence are left out.
        lowercase: without regard to case.

    Raises:
        DataError: the counts differ, or there is nothing to score.
        ConfigError: the tokenizer is not one of those offered.
    """
    _check_counts(len(hypotheses), len(references), len(sources))
    members: list[list[int]] = [[] for _ in (*word_counts, None)]
    for number, source in enumerate(sources):
        words = len(source.split())
        members[sum(words > limit for limit in word_counts)].append(number)
    lowest = [0, *(limit + 1 for limit in word_counts)]
    labels = [f"{low}-{high}" for low, high in zip(lowest, word_counts, strict=False)]
    table = []
    for label, numbers in zip([*labels, f"{lowest[-1]}+"], members, strict=True):
        if numbers:
            theirs, ours = ([lines[n] for n in numbers] for lines in (references, hypotheses))
            bleu, chrf = bleu_and_chrf(ours, theirs, tokenize, lowercase=lowercase)
            table.append(LengthScores(label, len(numbers), bleu.score, chrf.score))
    return table


def _tested(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    metrics: dict[str, Metric],
    bootstrap: int,
) -> dict[str, Scores]:
    """The scores of each system with intervals, and p-values for each but the first."""
    from sacrebleu.significance import PairedTest

    for hypotheses in systems.values():
        _check_counts(len(hypotheses), len(references))
    if bootstrap < 2:
        raise ConfigError(f"{bootstrap} resamples give no interval", todo="take 1000")
    named = list(systems.items())
    test = PairedTest(named, metrics, [references], test_type="bs", n_samples=bootstrap)
    signatures, results = test()
    names = [name for name in results if name != "System"]
    return {
        system: Scores(
            *(_measure(name, results[name], i, signatures[name].format()) for name in names)
        )
        for i, system in enumerate(systems)
    }


def _measure(name: str, results: Sequence[Any], system: int, signature: str) -> Measure:
    """A system's result of sacreBLEU's test; `ci` there is half of the interval's width."""
    result = results[system]
    p_value = None if result.p_value is None else float(result.p_value)
    if p_value is not None and result.score == results[0].score:
        # Any difference is as large as none; sacreBLEU gives its smallest p-value here.
        p_value = 1.0
    low, high = float(result.mean - result.ci), float(result.mean + result.ci)
    return Measure(name, float(result.score), signature, low, high, p_value)


def _corpus(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Measure:
    score = metric.corpus_score(hypotheses, [references])
    return Measure(score.name, float(score.score), metric.get_signature().format())


def _check_counts(hypotheses: int, references: int, sources: int | None = None) -> None:
    if hypotheses != references:
        raise DataError(
            f"there are {hypotheses} translations and {references} references",
            why="they are compared line by line",
        )
    if sources is not None and sources != references:
        raise DataError(f"there are {sources} sources and {references} references")
    if references == 0:
        raise DataError("there is nothing to score")
