"""Whether an exported model says what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clearhead.ctranslate2.engine import CTranslate2Engine
from clearhead.decoding.engine import Engine
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ExportError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

TOLERANCE = 1e-3
"""How far log-probabilities of a token may lie apart."""

LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
GREEDY = SearchConfig(beam_size=1, max_length=48)


@dataclass(frozen=True)
class Equality:
    """What was compared, and what was found.

    Attributes:
        sources: random ones, translated by greedy search.
        tokens: of their outputs, whose log-probabilities were compared.
        largest_difference: between two log-probabilities of a token.
        ties: outputs that part where two tokens are equally likely.
    """

    sources: int
    tokens: int
    largest_difference: float
    ties: int

    def __str__(self) -> str:
        ties = f" ({self.ties} after a tie)" if self.ties else ""
        return (
            f"greedy outputs of {self.sources} random sources are the same{ties}; the "
            f"log-probabilities of their {self.tokens} tokens differ by "
            f"{self.largest_difference:.1e} at most"
        )


def check_equal(
    model: TorchEngine, exported: CTranslate2Engine, source_vocabulary: int
) -> Equality:
    """Compare the two on random sources of several lengths, always the same ones.

    Args:
        model: runs the model, in float32.
        exported: runs the export, in float32.
        source_vocabulary: number of source tokens.

    Raises:
        ExportError: they differ by more than rounding does.
    """
    sources = _random_sources(source_vocabulary, model.longest_source)
    ours, theirs = _greedy_outputs(model, sources), _greedy_outputs(exported, sources)
    words = [tuple(step for step in output.steps if step != EOS) for output in ours]
    largest = 0.0
    for output, found in zip(ours, exported.token_scores(sources, words), strict=True):
        differences = np.abs(np.subtract(output.scores, found[: len(output.scores)]))
        largest = max(largest, float(differences.max(initial=0.0)))
        # NaN is no difference below a tolerance either.
        if not (differences <= TOLERANCE).all():
            raise _unequal(f"log-probabilities of a token lie {differences.max():.2g} apart")
    ties = sum(_part_at_a_tie(*pair) for pair in zip(ours, theirs, strict=True))
    tokens = sum(len(output.steps) for output in ours)
    return Equality(len(sources), tokens, largest, ties)


class _Output(NamedTuple):
    """The tokens of an output, the end symbol too if it came, and the log-probability of each."""

    steps: tuple[int, ...]
    scores: tuple[float, ...]


def _greedy_outputs(engine: Engine, sources: Sequence[Sequence[int]]) -> list[_Output]:
    best = [hypotheses[0] for hypotheses in engine.translate(sources, GREEDY)]
    return [_Output((*h.tokens, EOS) if h.finished else h.tokens, h.token_scores) for h in best]


def _random_sources(vocabulary: int, longest: int | None) -> list[list[int]]:
    """Ids without padding, start and end symbols."""
    draw = np.random.default_rng(1)
    first = max(PAD, BOS, EOS) + 1
    lengths = [min(length, longest or length) for length in LENGTHS]
    return [draw.integers(first, vocabulary, length).tolist() for length in lengths]


def _part_at_a_tie(ours: _Output, theirs: _Output) -> bool:
    """Whether two outputs differ, and by no more than which of two equal tokens came first.

    Raises:
        ExportError: they differ otherwise.
    """
    if ours.steps == theirs.steps:
        return False
    pairs = zip(ours.steps, theirs.steps, strict=False)
    at = next(i for i, (a, b) in enumerate(pairs) if a != b)
    apart = abs(ours.scores[at] - theirs.scores[at])
    if not apart <= TOLERANCE:
        raise _unequal(
            f"greedy outputs part at token {at + 1}, whose log-probabilities lie {apart:.2g} apart"
        )
    return True


def _unequal(why: str) -> ExportError:
    return ExportError(
        "the exported model does not say what the model says, so it was thrown away",
        why=why,
        todo="use the model as it is: --engine torch",
    )
