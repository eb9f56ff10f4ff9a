"""The result of an evaluation, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clearhead.evaluation.scores import (
    LengthScores,
    Measure,
    Scores,
    compare,
    exact_match,
    score_translations,
    scores_by_length,
)


@dataclass(frozen=True)
class SystemReport:
    """What one model reached; `exact` is the percentage of outputs equal to their references."""

    scores: Scores
    exact: float
    by_length: tuple[LengthScores, ...]


@dataclass(frozen=True)
class Evaluation:
    """What each model reached on a test set; the first is what the others are compared with."""

    source: str
    reference: str
    sentences: int
    tokenize: str
    lowercase: bool
    systems: Mapping[str, SystemReport]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def to_text(self) -> str:
        """A report of a few short tables."""
        baseline = next(iter(self.systems))
        lines = [f"{self.sentences:,} sentences of {self.source}, scored against {self.reference}"]
        for name, system in self.systems.items():
            lines += ["", name, *_score_lines(system), "", *_length_lines(system.by_length)]
        lines += [
            "",
            "In brackets: the 95 % confidence interval by bootstrap. TER: lower is better.",
        ]
        if self.lowercase:
            lines.append("All without regard to case, exact matches too.")
        if len(self.systems) > 1:
            lines.append(
                f"p: how often a difference from {baseline} as large as this comes by chance "
                "(paired bootstrap)."
            )
        scores = self.systems[baseline].scores
        lines += [
            "Signatures:",
            *(f"  {m.name:<6}{m.signature}" for m in (scores.bleu, scores.chrf, scores.ter)),
        ]
        return "\n".join(lines)


def evaluation_of(
    files: tuple[str, str],
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Mapping[str, Sequence[str]],
    tokenize: str,
    lowercase: bool,
) -> Evaluation:
    """Score the output of one or more models.

    Args:
        files: what the sources and references are called.
        sources: (N,) what was translated.
        references: (N,) what it should be.
        outputs: for each model by name (N,) what it is.
        tokenize: sacreBLEU's tokenizer for BLEU.
        lowercase: without regard to case.

    Raises:
        DataError: there is nothing to score.
    """
    if len(outputs) > 1:
        scores = compare(outputs, references, tokenize, lowercase=lowercase)
    else:
        scores = {
            name: score_translations(texts, references, tokenize, lowercase=lowercase)
            for name, texts in outputs.items()
        }
    systems = {
        name: SystemReport(
            scores[name],
            exact_match(texts, references, lowercase=lowercase),
            tuple(scores_by_length(sources, texts, references, tokenize, lowercase=lowercase)),
        )
        for name, texts in outputs.items()
    }
    return Evaluation(*files, len(sources), tokenize, lowercase, systems)


def _score_lines(system: SystemReport) -> list[str]:
    measures = (system.scores.bleu, system.scores.chrf, system.scores.ter)
    return [*map(_measure_line, measures), f"  exact {system.exact:6.2f} % of the sentences"]


def _measure_line(measure: Measure) -> str:
    line = f"  {measure.name:<6}{measure.score:6.2f}"
    if measure.low is not None and measure.high is not None:
        line += f"  [{measure.low:.2f}, {measure.high:.2f}]"
    if measure.p_value is not None:
        line += f"  p = {measure.p_value:.4f}"
    return line


def _length_lines(rows: Sequence[LengthScores]) -> list[str]:
    return [
        "  words in the source  sentences    BLEU   chrF2",
        *(
            f"  {row.words:>19}  {row.sentences:>9,}  {row.bleu:6.2f}  {row.chrf:6.2f}"
            for row in rows
        ),
    ]
