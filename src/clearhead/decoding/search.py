"""The entry point of the searches, and greedy search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from clearhead.decoding.beam import Trace, beam_search
from clearhead.decoding.constraints import constraints_of
from clearhead.decoding.engine import (
    COMMON_SETTINGS,
    Hypothesis,
    Sentence,
    hypothesis_of,
    longest_output,
)
from clearhead.decoding.logits import check_scores, likeliest_token
from clearhead.decoding.sampling import sample
from clearhead.decoding.stepper import Stepper
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.settings.search import beyond
from clearhead.tokenizer import BOS, EOS


def search(
    stepper: Stepper,
    sentences: Sequence[Sentence],
    config: SearchConfig,
    positions: int | None = None,
    scored: bool = True,
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, in their order.

    Beam search gives the `n_best` best, best first. Sampling gives `n_best` draws in the order
    drawn. A tiny vocabulary may give fewer. The result for a sentence does not depend on the
    other sentences. Every search ends: a hypothesis that reaches the length limit, or that no
    token may follow, is returned as unfinished. The log-probabilities of a prefix count.

    Args:
        stepper: the model.
        sentences: whose prefixes were checked.
        config: the settings of the search.
        positions: the stepper's positions for an output; None: no limit.
        scored: whether scores are needed. Only greedy search is faster without.
        trace: records the tree of a beam search, if there is one sentence only.

    Raises:
        SearchError: the logits contain NaN or plus infinity, or outputs with terms are sampled.
    """
    longest = [
        longest_output(len(sentence.ids), config, sentence.least_output, positions)
        for sentence in sentences
    ]
    if not sentences:
        return []
    # Each draw is a sentence of its own.
    draws = config.n_best if config.method == "sampling" else 1
    rows = [i for i in range(len(sentences)) for _ in range(draws)]
    constraints = constraints_of(config, [sentences[i] for i in rows], [longest[i] for i in rows])
    with torch.inference_mode():
        stepper.start([sentence.ids for sentence in sentences])
        if config.method == "sampling":
            if constraints.placing is not None:
                what, todo = "sampling does not place the terms of a glossary", "use a beam search"
                raise SearchError(what, todo=todo)
            return sample(stepper, longest, constraints, config, [each.key for each in sentences])
        is_free = not any(each.least_output for each in sentences)
        plain = is_free and not beyond(config, COMMON_SETTINGS) and trace is None
        if config.beam_size == 1 and plain:
            forbidden = sorted({token for each in sentences for token in each.copies})
            return greedy_search(stepper, longest, config, scored, forbidden)
        return beam_search(stepper, longest, constraints, config, trace)


def greedy_search(
    stepper: Stepper,
    longest: Sequence[int],
    config: SearchConfig,
    scored: bool = True,
    forbidden: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The hypothesis of each sentence of a started stepper: the likeliest token at every step.

    The result is that of beam search with a beam of 1. This loop leaves out what only several
    hypotheses need, a fifth of the time of a small model (docs/decisions/0010). The only
    constraints that it supports are `min_length` and `forbidden` tokens. Scores take a pass over
    all logits; without, the logits of tokens that may not follow are not checked.
    """
    tokens: list[list[int]] = [[] for _ in longest]
    scores: list[list[float]] = [[] for _ in longest]
    limit = np.asarray(longest, dtype=np.int64)
    newest, going = np.full(len(limit), BOS), limit > 0
    live = np.arange(len(limit))
    steps = 0
    while going.any():
        if not going.all():
            stepper.reorder(torch.from_numpy(np.flatnonzero(going)))
            live, newest = live[going], newest[going]
        logits = stepper.step(torch.from_numpy(newest))
        newest, score = likeliest_token(
            logits, EOS if steps >= config.min_length else EOS + 1, scored, forbidden
        )
        check_scores(score)
        # Where no token may follow, the sentence stops as it is.
        possible, steps = score > -np.inf, steps + 1
        for sentence, token, found in zip(
            live[possible].tolist(),
            newest[possible].tolist(),
            score[possible].tolist(),
            strict=True,
        ):
            scores[sentence].append(found)
            if token != EOS:
                tokens[sentence].append(token)
        going = possible & (newest != EOS) & (limit[live] > steps)
    found = [
        hypothesis_of(*each, config.length_penalty) for each in zip(tokens, scores, strict=True)
    ]
    if not scored:
        unknown = {"score": math.nan, "token_scores": (), "normalised_score": math.nan}
        found = [replace(hypothesis, **unknown) for hypothesis in found]
    return [[hypothesis] for hypothesis in found]
