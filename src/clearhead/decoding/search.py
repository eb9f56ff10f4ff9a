"""The front door of the room: the hypotheses of some sources under a `SearchConfig`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from clearhead.decoding.beam import beam_search
from clearhead.decoding.engine import Hypothesis, longest_output
from clearhead.decoding.greedy import greedy_search
from clearhead.decoding.sampling import sample
from clearhead.decoding.stepper import Stepper
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD


def search(
    stepper: Stepper,
    sources: Sequence[Sequence[int]],
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
    positions: int | None = None,
    scored: bool = True,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, in the order of the sources.

    Beam search gives the `n_best` best, best first; sampling gives `n_best` draws in the order
    drawn. There may be fewer than `n_best` where the vocabulary is tiny. What a sentence gets
    does not depend on its neighbours. It always ends: a hypothesis that reaches the longest
    output, or that nothing may follow, is given as unfinished.

    Args:
        stepper: the model.
        sources: the ids of each source, as the stepper wants them.
        config: how to search.
        prefixes: for each source the ids that its output must begin with; their log-probabilities
            count in the score.
        keys: for each source the number by which its random draws are known, so that they do not
            depend on batches or order; by default its index. Errors number the sentences by
            them, from 1.
        positions: how many the stepper has for an output; None: any number.
        scored: whether scores are wanted; greedy search has none without, the others need them.

    Raises:
        SearchError: a prefix or key does not fit, or the logits hold NaN or plus infinity.
    """
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    keys = range(len(sources)) if keys is None else keys
    _check_keys(keys, len(sources))
    _check_prefixes(prefixes, keys, positions)
    longest = [
        longest_output(len(source), config, len(prefix), positions)
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    if not sources:
        return []
    with torch.inference_mode():
        stepper.start(sources)
        if config.method == "sampling":
            return sample(stepper, longest, prefixes, config, keys)
        if config.beam_size == 1 and not config.no_repeat_ngram and not any(prefixes):
            return greedy_search(stepper, longest, config, scored)
        return beam_search(stepper, longest, prefixes, config)


def _check_prefixes(
    prefixes: Sequence[Sequence[int]], keys: Sequence[int], positions: int | None
) -> None:
    if len(prefixes) != len(keys):
        raise SearchError(f"{len(prefixes)} prefixes were given for {len(keys)} sources")
    for prefix, key in zip(prefixes, keys, strict=True):
        if any(token < 0 or token in (PAD, BOS, EOS) for token in prefix):
            raise SearchError(
                f"the prefix of sentence {key + 1} holds padding, a start or an end symbol",
                todo="give the ids of the words alone",
            )
        if positions is not None and len(prefix) > positions:
            raise SearchError(
                f"the prefix of sentence {key + 1} has {len(prefix)} tokens, and the model has "
                f"{positions} positions",
                todo="shorten the prefix",
            )


def _check_keys(keys: Sequence[int], count: int) -> None:
    if len(keys) != count:
        raise SearchError(f"{len(keys)} keys were given for {count} sources")
    if any(key < 0 for key in keys):
        raise SearchError("a key is negative", todo="number the sources from 0")
