"""Models of a few lines behind the step protocol, and a search that runs them.

Logits of `TableStepper` are a fixed function of the source and of the whole prefix, so a row that
is moved wrongly gives other logits.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from clearhead.decoding.engine import Hypothesis, check_prefixes, numbered
from clearhead.decoding.search import search as search_checked
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS

Tokens = tuple[int, ...]


@functools.cache
def table(vocabulary: int, end_bonus: float, ties: bool, source: Tokens, prefix: Tokens) -> Tensor:
    """(vocabulary,) the logits after a prefix; rounded if ties are needed."""
    seed = zlib.crc32(repr((source, prefix)).encode())
    logits = 1.5 * torch.randn(vocabulary, generator=torch.Generator().manual_seed(seed))
    logits[EOS] += end_bonus
    return logits.round() if ties else logits


class TableStepper:
    """A stepper whose rows are (source, prefix); it records every step."""

    def __init__(self, vocabulary: int = 7, end_bonus: float = 0.0, ties: bool = False) -> None:
        self.vocabulary = vocabulary
        self.logits = functools.partial(table, vocabulary, end_bonus, ties)
        self.rows: list[tuple[Tokens, Tokens]] = []
        self.stepped: list[list[tuple[Tokens, Tokens]]] = []

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        self.rows = [(tuple(source), ()) for source in sources]

    def step(self, tokens: Tensor) -> Tensor:
        moved = zip(self.rows, tokens.tolist(), strict=True)
        self.rows = [(source, (*prefix, token)) for (source, prefix), token in moved]
        self.stepped.append(self.rows)
        assert all(prefix[0] == BOS for _, prefix in self.rows)
        return torch.stack([self.logits(source, prefix[1:]) for source, prefix in self.rows])

    def reorder(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]

    def log_probability(self, source: Tokens, prefix: Tokens, token: int) -> float:
        """The formula in double precision."""
        weights = [math.exp(logit) for logit in self.logits(source, prefix).tolist()]
        return math.log(weights[token] / sum(weights))


class ConstantStepper:
    """A stepper that always returns the same logits."""

    def __init__(self, logits: Sequence[float]) -> None:
        self.logits = torch.tensor(logits)
        self.vocabulary = len(logits)
        self.count = 0

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        self.count = len(sources)

    def step(self, tokens: Tensor) -> Tensor:
        assert len(tokens) == self.count
        return self.logits.repeat(self.count, 1)

    def reorder(self, rows: Tensor) -> None:
        self.count = len(rows)


SOURCES: list[Tokens] = [(4, 5), (6,), (3, 3, 3, 4), (5, 4), (9,)]


def search(
    stepper: TableStepper | ConstantStepper,
    sources: Sequence[Sequence[int]],
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
    positions: int | None = None,
    scored: bool = True,
    symbols: Mapping[int, int] = {},
) -> list[list[Hypothesis]]:
    """Search as an engine does, which checks prefixes first."""
    sentences = numbered(sources, prefixes)
    if keys is not None:
        sentences = [s._replace(key=key) for s, key in zip(sentences, keys, strict=True)]
    every = dict.fromkeys(symbols.values(), 0)
    sentences = [
        s._replace(copies=every | {o: [*s.ids].count(i) for i, o in symbols.items()})
        for s in sentences
    ]
    check_prefixes(sentences, stepper.vocabulary, positions)
    return search_checked(stepper, sentences, config, positions, scored)


def exactly(length: int, **choices) -> SearchConfig:
    """A config whose longest output is `length` for every source."""
    return SearchConfig(
        max_length=length, max_length_ratio=0.0, max_length_offset=length, **choices
    )


def total_score(stepper: TableStepper, source: Tokens, symbols: Tokens) -> float:
    return sum(
        stepper.log_probability(source, symbols[:i], symbol) for i, symbol in enumerate(symbols)
    )


def symbols_of(hypothesis: Hypothesis) -> Tokens:
    return (*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens
