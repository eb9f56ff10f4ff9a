"""The Engine protocol, hypotheses, and functions that all engines share. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from clearhead.decoding.terms import Terms
from clearhead.errors import ClearheadError, Remark, SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

LONGEST_SOURCE = 1024
"""Maximum number of tokens of a source, because the cost of attention grows with the square."""

PADDED_TOKENS = 16_384
"""Maximum number of source tokens of a batch, padding included: bounds memory for long inputs."""

SCORED_LOGITS = 2**24
"""Maximum number of logits of a batch when outputs are scored: 64 MB."""

ONE_THREAD = 128
"""The largest d_model for which one thread is as fast as several, if there are few rows.

Beside other programs it is much faster, because threads wait for each other (docs/experiments.md).
"""

Result = TypeVar("Result")


COMMON_SETTINGS = (
    "method beam_size n_best length_penalty min_length max_length max_length_ratio "
    "max_length_offset temperature top_k top_p seed"
).split()
"""Settings that every beam search supports; the last four have no effect on it. A search that does
not support another setting rejects it, or leaves it to a search that does (see `beyond`)."""


@dataclass(frozen=True)
class Hypothesis:
    """One output for one source, with its log-probabilities (natural logarithm).

        best = translator.translate(["A man sleeps."])[0][0]
        best.text, best.score, best.confidence

    Attributes:
        tokens: the target ids, without the start and end symbols.
        score: the log-probability of the whole output, the end symbol included.
        token_scores: the log-probability of each token given the tokens before it, and last that
            of the end symbol if the hypothesis is finished; they sum to `score`. Empty if the
            engine was created without scores; `score` may then be NaN.
        normalised_score: `score` divided by the length penalty.
        finished: whether it ended with the end symbol, not at the length limit.
        text: the tokens as text, if the caller that has the tokenizer sets it.
        warnings: about the source or this output.
        error: why there is no output. The text is then empty, and the scores are NaN.
        confidence: the chrF that the translation is expected to have, from 0 to 1. None without
            scores, for an empty text, for a translation from a memory, and if the model folder has
            no fitted estimate: with less than 50 validation sentences, for checkpoints, ensembles
            and imported models.
        match: how similar the source is to the text in the memory whose translation this is, from
            0 to 1. It is 0 for translations of the model. Those of the memory have scores of NaN.
    """

    tokens: tuple[int, ...]
    score: float
    token_scores: tuple[float, ...]
    normalised_score: float
    finished: bool
    text: str = ""
    warnings: tuple[Remark, ...] = ()
    error: ClearheadError | None = None
    confidence: float | None = None
    match: float = 0.0

    def __str__(self) -> str:
        return self.text


class Sentence(NamedTuple):
    """A source to translate.

    Attributes:
        ids: without start and end symbols; not empty, and no more than the engine reads.
        prefix: the ids that the output must begin with.
        key: the number, at least 0, that random draws depend on. Errors count sentences by it,
            from 1.
        copies: how often the output must have each of these ids. Not every engine can do this:
            `is_kept` shows it.
        terms: the terms of a glossary that the output must have, likewise.
    """

    ids: Sequence[int]
    prefix: Sequence[int] = ()
    key: int = 0
    copies: Mapping[int, int] = {}
    terms: Terms | None = None

    @property
    def least_output(self) -> int:
        """The number of tokens that the output must have; if it is not 0, with the end symbol."""
        needed = sum(self.copies.values()) + (self.terms.least if self.terms else 0)
        return len(self.prefix) + (needed + 1 if needed else 0)

    def is_kept(self, tokens: Sequence[int]) -> bool:
        """Whether an output has the ids of `copies` as often as it must, and all terms."""
        if any(tokens.count(token) != count for token, count in self.copies.items()):
            return False
        return self.terms is None or self.terms.are_in(tokens)


def numbered(
    sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]] | None = None
) -> list[Sentence]:
    """Sentences whose keys are their indices."""
    begun = [()] * len(sources) if prefixes is None else prefixes
    return list(map(Sentence, sources, begun, range(len(sources))))


class Engine(Protocol):
    """Translates token ids, and scores given translations."""

    @property
    def longest_source(self) -> int:
        """The maximum number of tokens of a source."""
        ...

    def translate(
        self,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, in their order.

        Args:
            sentences: the sources.
            search: the settings of the search.
            batch_size: maximum number of sentences of a batch.
            progress: called after each batch with the number of sentences that are done.

        Raises:
            SearchError: the engine does not support a setting of `search`, or a prefix does not
                fit.
        """
        ...

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[tuple[float, ...]]:
        """The log-probability of each token of each target, and last that of the end symbol.

        Args:
            sources: ids, without start and end symbols; not empty, and no more than
                `longest_source`.
            targets: the ids of their translations, without start and end symbols; fewer than
                `longest_source`.
            batch_size: maximum number of pairs of a batch.
            progress: called after each batch with the number of pairs that are done.
        """
        ...


def hypothesis_of(tokens: Sequence[int], token_scores: Sequence[float], alpha: float) -> Hypothesis:
    """The hypothesis of these tokens; one more score than tokens means that it is finished."""
    # Added one by one, as a search does it: `sum` rounds differently.
    total = 0.0
    for score in token_scores:
        total += score
    return Hypothesis(
        tokens=tuple(tokens),
        score=total,
        token_scores=tuple(token_scores),
        normalised_score=total / length_penalty(len(token_scores), alpha),
        finished=len(token_scores) > len(tokens),
    )


def length_penalty(length: int, alpha: float) -> float:
    """The divisor of a log-probability: ((5 + |Y|) / 6) ** alpha.

    Wu et al. 2016, section 7, equation 14. `length` counts the end symbol. An alpha of 0 gives 1.
    """
    return ((5 + length) / 6) ** alpha


def longest_output(
    source_length: int, config: SearchConfig, least: int = 0, positions: int | None = None
) -> int:
    """The maximum number of tokens of an output, the end symbol included.

    This is `max_length_ratio * source_length + max_length_offset`, rounded up. It is at least
    `least + max_length_offset`, and at least `min_length` and the end symbol. It is at most
    `max_length`, if that is set, but not less than `least`, such as the length of a prefix. The
    model may have a limit, too: its `positions` for an output.
    """
    # Without the small number 1.1 * 50 gives 56, because in floats it is 55.00000000000001.
    longest = math.ceil(config.max_length_ratio * source_length + config.max_length_offset - 1e-9)
    longest = max(longest, least + config.max_length_offset)
    if config.min_length:
        longest = max(longest, config.min_length + 1)
    if config.max_length:
        longest = min(longest, config.max_length)
    longest = max(longest, least)
    return longest if positions is None else min(longest, positions)


def batches_by_length(
    lengths: Sequence[int], batch_size: int, padded_tokens: int
) -> Iterator[list[int]]:
    """Batches of indices of inputs of similar length, the longest inputs first.

    With the longest first, a lack of memory shows at once, and estimates of the remaining time
    are on the safe side. A batch has at most `padded_tokens` tokens, padding included; a longer
    input is a batch of its own.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if batch and (len(batch) == batch_size or (len(batch) + 1) * longest > padded_tokens):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def in_batches(
    lengths: Sequence[int],
    batch_size: int,
    padded_tokens: int,
    compute: Callable[[list[int]], Iterable[Result]],
    progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """The results for all inputs, in their order, computed in the batches of `batches_by_length`.

    `progress` is called after each batch with the number of inputs that are done.
    """
    results: dict[int, Result] = {}
    for batch in batches_by_length(lengths, batch_size, padded_tokens):
        results.update(zip(batch, compute(batch), strict=True))
        if progress is not None:
            progress(len(results))
    return [results[i] for i in range(len(lengths))]


def check_prefixes(
    sentences: Iterable[Sentence], vocabulary: int, positions: int | None = None
) -> None:
    """Raise a `SearchError` for a prefix that cannot be an output.

    The model has so many target tokens and `positions` for an output.
    """
    for _, prefix, key, *_ in sentences:
        if any(token in (PAD, BOS, EOS) or not 0 <= token < vocabulary for token in prefix):
            raise SearchError(
                f"the prefix of sentence {key + 1} contains padding, a start or an end symbol, or "
                f"an id outside the vocabulary of {vocabulary} tokens",
                todo="give the ids of the words only, by the model's own target tokenizer",
            )
        if positions is not None and len(prefix) > positions:
            raise SearchError(
                f"the prefix of sentence {key + 1} has {len(prefix)} tokens, but the model has "
                f"{positions} positions",
                todo="shorten the prefix",
            )


def scored_in_batches(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    vocabulary: int,
    compute: Callable[[list[int]], Iterable[Result]],
    batch_size: int,
    progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """The results for all pairs, computed in batches of at most `SCORED_LOGITS` logits."""
    lengths = [
        max(len(target) + 1, len(source)) for source, target in zip(sources, targets, strict=True)
    ]
    padded_tokens = max(1, SCORED_LOGITS // vocabulary)
    return in_batches(lengths, batch_size, padded_tokens, compute, progress)


def lacking(sentences: Sequence[Sentence], found: Sequence[Sequence[Hypothesis]]) -> list[int]:
    """The indices of the sentences that have a hypothesis without their symbols or terms."""
    return [
        i
        for i, (sentence, hypotheses) in enumerate(zip(sentences, found, strict=True))
        if not all(sentence.is_kept(each.tokens) for each in hypotheses)
    ]


def longest_source(positions: int | None) -> int:
    """The maximum number of tokens of a source of a model with so many positions."""
    return min(LONGEST_SOURCE, positions or LONGEST_SOURCE)


def ranked(hypotheses: Sequence[Hypothesis], n_best: int) -> list[Hypothesis]:
    """The best hypotheses, best first; unfinished ones rank after all finished ones."""
    best_first = sorted(hypotheses, key=lambda h: (not h.finished, -h.normalised_score))
    return best_first[:n_best]


def check_batch_size(batch_size: Any, unit: str, where: str, error: type[ClearheadError]) -> None:
    """Raise an error of this class unless a batch size is a whole number of at least 1."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise error(
            f"batch_size = {batch_size!r} is not a number of {unit}",
            where=where,
            todo="give a whole number of at least 1",
        )
