"""Scores of translations: BLEU, chrF and TER by sacreBLEU (Post 2018), and exact matches.

BLEU: Papineni et al. 2002. chrF: Popović 2015. TER (lower is better): Snover et al. 2006. Each
score has sacreBLEU's signature, which is all that is needed to reproduce it. The signature contains
the seed of the bootstrap: 12345, or the environment variable SACREBLEU_SEED.

All functions take N > 0 `hypotheses` (outputs) with one correct translation each in `references`,
and sacreBLEU's tokenizer for BLEU, `tokenize`; "none" is for text that is tokenised already. They
raise a ConfigError if the tokenizer is not one of those offered.

BLEU counts n-grams of up to four tokens. If no reference has four, the order is the number of
tokens of the longest reference, so that perfect outputs score 100; the signature then ends with
`order:`, which is sacreBLEU's argument `max_ngram_order`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from clearhead.errors import ConfigError
from clearhead.settings import EvaluationConfig, RunConfig
from clearhead.text.glossary import Placed
from clearhead.text.spans import Kept
from clearhead.tokenizer.normal_form import NormalForm

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

WORD_COUNTS = (5, 10, 15, 20, 30, 40)
"""The upper ends of the length classes of `scores_by_length`, in words."""

ORDER = 4
"""The tokens of the longest n-grams of BLEU, and of references that suit it."""


@dataclass(frozen=True)
class Measure:
    """One score of one system, in percent.

    Attributes:
        name: "BLEU", "chrF2" or "TER".
        score: the score of the whole text.
        signature: how it was computed, in sacreBLEU's notation.
        low, high: the 95 % confidence interval by bootstrap (Koehn 2004); None if not computed.
        p_value: the probability of a difference from the baseline at least this large by chance;
            None if nothing was compared.
        order: of BLEU, the tokens of the longest n-grams if these are not 4; otherwise None.
    """

    name: str
    score: float
    signature: str
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    order: int | None = None


@dataclass(frozen=True)
class Scores:
    """BLEU, chrF and TER of one system."""

    bleu: Measure
    chrf: Measure
    ter: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        """All scores, in the order of the fields."""
        return tuple(vars(self).values())


def p_text(p_value: float) -> str:
    """A p-value for a line of text: `p = 0.0123`, or `p < 0.0001`."""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.4f}"


@dataclass(frozen=True)
class LengthScores:
    """The scores in percent of the sentences whose sources have "6-10" words, or "41+".

    `order` is that of BLEU, as in `Measure`.
    """

    words: str
    sentences: int
    bleu: float
    chrf: float
    order: int | None = None


@dataclass(frozen=True)
class TranslatorScores:
    """All scores of one translator.

    `exact` is the percentage of outputs that equal their references, `exact_interval` its 95 %
    confidence interval (Wilson 1927). `spans` are placeholders, links and tags; `terms` are those
    of a glossary.
    """

    scores: Scores
    exact: float
    exact_interval: tuple[float, float]
    by_length: tuple[LengthScores, ...]
    spans: Kept
    terms: Placed | None = None

    @property
    def summary(self) -> dict[str, float]:
        """The most important scores by name."""
        measures = {name: measure.score for name, measure in vars(self.scores).items()}
        return {**measures, "exact": self.exact}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        terms = None if self.terms is None else self.terms._asdict()
        return {**asdict(self), "spans": self.spans._asdict(), "terms": terms}

    def lines(self, baseline: str) -> Iterator[str]:
        """The scores as lines of text."""
        for measure in self.scores.measures:
            line = f"  {measure.name:<5} {measure.score:6.2f}"
            if measure.low is not None and measure.high is not None:
                line += f"  [{measure.low:.2f}, {measure.high:.2f}]"
            if measure.p_value is not None:
                line += f"  {p_text(measure.p_value)}"
            yield line + _order_text(measure.order)
        low, high = self.exact_interval
        yield f"  exact {self.exact:6.2f}  [{low:.2f}, {high:.2f}]  % of the sentences"
        if self.spans.sentences:
            share = 100 * self.spans.exact / self.spans.sentences
            yield (
                f"  spans {share:6.2f}  % of the {self.spans.sentences:,} sentences with "
                "placeholders, links or tags keep all of them"
            )
        if self.terms is not None and self.terms.terms:
            share = 100 * self.terms.placed / self.terms.terms
            yield (
                f"  terms {share:6.2f}  % of the {self.terms.terms:,} terms of the glossary in the "
                "sources are translated by it"
            )
        yield ""
        yield "  words in the source  sentences    BLEU   chrF2"
        for row in self.by_length:
            line = f"  {row.words:>19}  {row.sentences:>9,}  {row.bleu:6.2f}  {row.chrf:6.2f}"
            yield line + _order_text(row.order)


def _order_text(order: int | None) -> str:
    return "" if order is None else f"  (n-grams of up to {order})"


def wilson_interval(hits: int, number: int) -> tuple[float, float]:
    """The 95 % confidence interval, in percent, of a share of `number` > 0 cases (Wilson 1927).

    It has a width even if all cases are hits, or none is, where the bootstrap has none.
    """
    z2 = 1.959964**2
    share = hits / number
    half = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * number)) / number)
    low, high = ((share + z2 / (2 * number) + side) / (1 + z2 / number) for side in (-half, half))
    return 100 * max(0.0, min(share, low)), 100 * min(1.0, max(share, high))


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    tokenize: str = "13a",
    bootstrap: int = 1000,
    *,
    lowercase: bool = False,
) -> dict[str, Scores]:
    """BLEU, chrF and TER of systems; each but the first has p-values against the first.

    The test is paired bootstrap resampling (Koehn 2004) with `bootstrap` resamples, at least 2.
    sacreBLEU's other test, approximate randomisation, counts only shuffles that differ by more than
    the systems do, not those that differ as much: it finds a single changed sentence significant.

    With `lowercase`, BLEU and chrF ignore case. TER always does, which is sacreBLEU's default.
    """
    from sacrebleu.significance import PairedTest

    metrics, order = _metrics(tokenize, lowercase, references)
    named = list(systems.items())
    signatures, results = PairedTest(
        named, metrics, [references], test_type="bs", n_samples=bootstrap
    )()
    names = [name for name in results if name != "System"]
    return {
        system: Scores(
            *(_measure(name, results[name], i, signatures[name].format(), order) for name in names)
        )
        for i, system in enumerate(systems)
    }


def _measure(
    name: str, results: Sequence[Any], system: int, signature: str, order: int | None
) -> Measure:
    """A system's result of sacreBLEU's test, whose `ci` is half of the interval's width."""
    result = results[system]
    p_value = None if result.p_value is None else float(result.p_value)
    if p_value is not None and result.score == results[0].score:
        # Every difference is at least as large as none, but sacreBLEU gives its smallest p-value.
        p_value = 1.0
    low, high = float(result.mean - result.ci), float(result.mean + result.ci)
    return _with_order(Measure(name, float(result.score), signature, low, high, p_value), order)


def _with_order(measure: Measure, order: int | None) -> Measure:
    """The measure with the order of its n-grams, if it is a BLEU of another order than 4."""
    if order is None or measure.name != "BLEU":
        return measure
    return replace(measure, signature=f"{measure.signature}|order:{order}", order=order)


def bleu_and_chrf(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> tuple[Measure, Measure]:
    """BLEU and chrF without intervals: fast enough for validation during training."""
    metrics, order = _metrics(tokenize, lowercase, references)

    def measure(metric: Metric) -> Measure:
        score = metric.corpus_score(hypotheses, [references])
        found = Measure(score.name, float(score.score), metric.get_signature().format())
        return _with_order(found, order)

    return measure(metrics["bleu"]), measure(metrics["chrf"])


def sentence_chrf(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> list[float]:
    """The chrF of each sentence, N numbers in percent."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF(lowercase=lowercase)
    return [
        float(chrf.sentence_score(hypothesis, [reference]).score)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def exact_match(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool) -> float:
    """The percentage of outputs that equal their references, character by character."""
    outputs, correct = (map(str.lower, x) if lowercase else x for x in (hypotheses, references))
    return 100 * sum(map(str.__eq__, outputs, correct)) / len(references)


def scored_form(configs: Iterable[RunConfig], lowercase: bool) -> NormalForm:
    """The form in which outputs are compared with references: NFC, if a model has a normal form.

    With `lowercase` also small letters, by the rules of the target language of the first model.
    """
    configs = list(configs)
    has_form = any(config.tokenizer.normal_form != "none" for config in configs)
    language = configs[0].data.languages[1]
    return NormalForm("NFC" if has_form else "", lower=lowercase, language=language)


def signed(measure: Measure, form: NormalForm) -> Measure:
    """The score of texts in a form, with the form in its signature."""
    note = f"|form:{form.unicode.lower()}" if form.unicode else ""
    return replace(measure, signature=measure.signature + note)


def scores_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    word_counts: Sequence[int] = WORD_COUNTS,
    *,
    lowercase: bool = False,
) -> list[LengthScores]:
    """BLEU and chrF by the number of words (separated by white space) of the N sources.

    `word_counts` has the highest number of words of each class but the last, ascending. Classes
    without a sentence are left out.
    """
    classes = [bisect_left(word_counts, len(source.split())) for source in sources]
    table = []
    for k, low in enumerate([0, *(highest + 1 for highest in word_counts)]):
        label = f"{low}-{word_counts[k]}" if k < len(word_counts) else f"{low}+"
        members = [number for number, its_class in enumerate(classes) if its_class == k]
        if members:
            outputs, correct = ([lines[n] for n in members] for lines in (hypotheses, references))
            bleu, chrf = bleu_and_chrf(outputs, correct, tokenize, lowercase=lowercase)
            scores = bleu.score, chrf.score, bleu.order
            table.append(LengthScores(label, len(members), *scores))
    return table


def _metrics(
    tokenize: str, lowercase: bool, references: Sequence[str]
) -> tuple[dict[str, Metric], int | None]:
    """sacreBLEU's metrics, in the order of the fields of `Scores`, and BLEU's order if not 4."""
    # Imported here because loading sacreBLEU is slow and most commands do not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    offered = get_args(get_type_hints(EvaluationConfig)["tokenize"])
    if tokenize not in offered:
        raise ConfigError(
            f"{tokenize!r} is not one of the sacreBLEU tokenizers offered",
            where="evaluation.tokenize",
            todo=f"choose one of {', '.join(offered)}",
        )

    def bleu(order: int) -> BLEU:
        # `force` suppresses the warning about tokenised text, which the user chose to score.
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True, max_ngram_order=order)

    tokenizer, order = bleu(ORDER).tokenizer, 1
    for text in references:
        order = max(order, len(tokenizer(text).split()))
        if order >= ORDER:
            break
    metrics = {
        "bleu": bleu(min(order, ORDER)),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(case_sensitive=False),
    }
    return metrics, order if order < ORDER else None
