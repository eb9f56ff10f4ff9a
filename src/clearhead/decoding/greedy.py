"""Greedy search: the likeliest token, again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from clearhead.decoding.engine import Hypothesis, hypothesis_of, without_scores
from clearhead.decoding.logits import check_scores, likeliest_token
from clearhead.decoding.stepper import Stepper
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS


def greedy_search(
    stepper: Stepper, longest: Sequence[int], config: SearchConfig, scored: bool = True
) -> list[list[Hypothesis]]:
    """The hypothesis of each sentence of a stepper that was started.

    What beam search gives with a beam of 1, without what only several hypotheses need: of a small
    model's token that would be a fifth (docs/decisions/0010). Nothing is forced or forbidden here
    but an early end.

    Args:
        stepper: the model; it has one row a sentence.
        longest: (sentences,) the most steps for each.
        config: how to search.
        scored: whether the scores of the hypotheses are wanted, which take a pass over all logits.

    Raises:
        SearchError: the logits hold NaN or plus infinity; without scores those of the tokens that
            may not follow are not looked at.
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
            logits, EOS if steps >= config.min_length else EOS + 1, scored
        )
        check_scores(score)
        # Where nothing may follow, the sentence stops where it is.
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
    return [[hypothesis if scored else without_scores(hypothesis)] for hypothesis in found]
