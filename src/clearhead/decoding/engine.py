"""How long an output may be, and how its length weighs on its score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from clearhead.errors import ClearheadError, ConfigError
from clearhead.settings import SearchConfig


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + |Y|) / 6) ** alpha.

    Wu et al. 2016, section 7, equation 14. `length` counts the end symbol. With an alpha of 0
    nothing is changed.
    """
    return ((5 + length) / 6) ** alpha


def longest_output(
    source_length: int,
    config: SearchConfig,
    prefix_length: int = 0,
    positions: int | None = None,
) -> int:
    """The most tokens that an output may have, the end symbol counted as one.

    That is `max_length_ratio * source_length + max_length_offset`, rounded up, or
    `prefix_length + max_length_offset` where a forced prefix makes that more, or `min_length` and
    the end symbol where that is more; and `max_length` at most where that is set. A prefix that is
    longer than `max_length` still stands whole, and is then the output.

    Args:
        source_length: tokens of the source.
        config: names the limits.
        prefix_length: tokens that the output must begin with.
        positions: how many a model has for its output, which nothing can exceed; None: any number.
    """
    # Without the small number 1.1 * 50 gave 56, because floats make it 55.00000000000001.
    longest = math.ceil(config.max_length_ratio * source_length + config.max_length_offset - 1e-9)
    longest = max(longest, prefix_length + config.max_length_offset)
    if config.min_length:
        longest = max(longest, config.min_length + 1)
    if config.max_length:
        longest = min(longest, config.max_length)
    longest = max(longest, prefix_length)
    return longest if positions is None else min(longest, positions)


# ---- decoding.hypothesis
# What a search gives for a sentence; free of torch, so that every engine can speak it.


@dataclass(frozen=True)
class Hypothesis:
    """One output for one source, with its log-probabilities (natural logarithm).

    Attributes:
        tokens: the target ids, without the start and end symbols.
        score: the log-probability of the whole output, that of the end symbol included.
        token_scores: the log-probability of each token given those before it, and last that of
            the end symbol if the hypothesis is finished; they sum to `score`. Empty where an
            engine was told that scores are not wanted; `score` may then be NaN.
        normalised_score: `score` divided by the length penalty.
        finished: whether it ended with the end symbol, and not at the longest output.
        text: the tokens as text, filled in by whoever owns a tokenizer.
    """

    tokens: tuple[int, ...]
    score: float
    token_scores: tuple[float, ...]
    normalised_score: float
    finished: bool
    text: str = ""

    def __str__(self) -> str:
        return self.text


def hypothesis_of(tokens: Sequence[int], token_scores: Sequence[float], alpha: float) -> Hypothesis:
    """The hypothesis of these tokens, which ended if there is a score more: that of the end symbol.

    Args:
        tokens: without the start and end symbols.
        token_scores: the log-probability of each.
        alpha: as for `length_penalty`.
    """
    # Added up one by one, as a search does it: `sum` would round otherwise.
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


def without_scores(hypothesis: Hypothesis) -> Hypothesis:
    """The same output, of which nothing is said but whether it ended."""
    return replace(hypothesis, score=math.nan, token_scores=(), normalised_score=math.nan)


# ---- engines.engine
# The seam between those who want translations and whatever computes them.


class Engine(Protocol):
    """Translates token ids; batching and its order are the engine's own business."""

    @property
    def longest_source(self) -> int | None:
        """The most tokens of a source that it can take; None: any number."""
        ...

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in the order of the sources.

        Args:
            sources: ids without start and end symbols; none is empty, nor longer than
                `longest_source`.
            search: how to search.
            prefixes: for each source the ids that its output must begin with.
            keys: for each source the number by which its random draws are known.
            batch_size: sentences at a time, at most.
            progress: told how many sentences are done, after each batch.

        Raises:
            SearchError: this engine lacks an option that `search` asks for, or a prefix does not
                fit.
        """
        ...


# ---- engines.device_names
# The names of devices; free of torch, for those who check a name before an engine is chosen.

DEVICES = ("cpu", "cuda", "auto")


def check_device(name: str) -> None:
    """Refuse what is not the name of a device.

    Raises:
        ConfigError: the name is none of `DEVICES`.
    """
    if name not in DEVICES:
        raise ConfigError(
            f"device = {name!r} is not the name of a device",
            todo=f"choose one of {', '.join(DEVICES)}",
        )


# ---- engines.batching
# Which inputs are computed together: those of like length, the longest first.

PADDED_TOKENS = 16_384
"""Source tokens of a batch, padding included, at most: what bounds memory for long inputs."""


def batches_by_length(
    lengths: Sequence[int], batch_size: int, padded_places: int
) -> Iterator[list[int]]:
    """Indices, longest first: what would not fit in memory fails at once, and time left is fair.

    Args:
        lengths: of the inputs.
        batch_size: inputs of a batch, at most.
        padded_places: places of a batch, padding included, at most; a longer input is alone.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if batch and (len(batch) == batch_size or (len(batch) + 1) * longest > padded_places):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


# ---- tasks.batch_size
# How many inputs are computed together, as a user may choose it.


def check_batch_size(batch_size: Any, unit: str, where: str, error: type[ClearheadError]) -> None:
    """Refuse what is no whole number of at least 1.

    Args:
        batch_size: as it was given.
        unit: what it counts: "sentences".
        where: the name of the method it was given to.
        error: the error of that method's arguments.

    Raises:
        ClearheadError: of the type that was asked for.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise error(
            f"batch_size = {batch_size!r} is not a number of {unit}",
            where=where,
            todo="give a whole number of at least 1",
        )
