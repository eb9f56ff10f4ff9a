"""Checks that an export gives the same outputs and scores as the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ExportError
from clearhead.formats.ctranslate2.engine import CTranslate2Engine
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

TOLERANCE = 1e-3
"""The largest allowed difference between log-probabilities of a token."""

LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
GREEDY = SearchConfig(beam_size=1, max_length=48)


@dataclass(frozen=True)
class Equality:
    """The result of a comparison.

    Attributes:
        sources: the number of random sources that were translated by greedy search.
        tokens: the number of tokens whose log-probabilities were compared.
        largest_difference: of two log-probabilities of a token.
        ties: the number of outputs that differ from a token on for which two are equally likely.
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
    """Compare the two on random sources of several lengths, the same at every call.

    Args:
        model: the engine of the model, in float32.
        exported: the engine of the export, in float32.
        source_vocabulary: the number of source tokens.

    Raises:
        ExportError: they differ by more than rounding.
    """
    draw = np.random.default_rng(1)
    first = max(PAD, BOS, EOS) + 1
    lengths = [min(length, model.longest_source or length) for length in LENGTHS]
    sources = [draw.integers(first, source_vocabulary, length).tolist() for length in lengths]
    ours = [best for (best,) in model.translate(sources, GREEDY)]
    theirs = [best for (best,) in exported.translate(sources, GREEDY)]
    scores = exported.token_scores(sources, [output.tokens for output in ours])
    largest = 0.0
    for output, found in zip(ours, scores, strict=True):
        expected = output.token_scores
        differences = np.abs(np.subtract(expected, found[: len(expected)]))
        largest = max(largest, float(differences.max(initial=0.0)))
        # Written so that NaN is an error too.
        if not (differences <= TOLERANCE).all():
            raise _unequal(f"log-probabilities of a token differ by {differences.max():.2g}")
    ties = sum(_differ_by_tie(*pair) for pair in zip(ours, theirs, strict=True))
    tokens = sum(len(output.token_scores) for output in ours)
    return Equality(len(sources), tokens, largest, ties)


def _differ_by_tie(ours: Hypothesis, theirs: Hypothesis) -> bool:
    """Whether two outputs differ, from a token on for which two tokens are equally likely.

    Raises:
        ExportError: they differ for another reason.
    """
    steps = [(*h.tokens, EOS) if h.finished else h.tokens for h in (ours, theirs)]
    if steps[0] == steps[1]:
        return False
    at = next(i for i, (a, b) in enumerate(zip(*steps, strict=False)) if a != b)
    apart = abs(ours.token_scores[at] - theirs.token_scores[at])
    if not apart <= TOLERANCE:
        raise _unequal(
            f"greedy outputs differ at token {at + 1}: log-probabilities differ by {apart:.2g}"
        )
    return True


def _unequal(why: str) -> ExportError:
    return ExportError(
        "the exported model differs from the model, so it was discarded",
        why=why,
        todo="use the model as it is: --engine torch",
    )
