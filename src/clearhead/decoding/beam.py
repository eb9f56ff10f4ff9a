"""Beam search: the best few hypotheses of each sentence grow side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from clearhead.decoding.constraints import Constraints
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.logits import best_tokens, check_scores, log_normaliser, log_probabilities
from clearhead.decoding.stepper import Ids, Rows, Scores, Stepper
from clearhead.settings import SearchConfig
from clearhead.tokenizer import EOS


def beam_search(
    stepper: Stepper,
    longest: Sequence[int],
    prefixes: Sequence[Sequence[int]],
    config: SearchConfig,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence of a stepper that was started, best first.

    At every step a sentence takes the best extensions of its live hypotheses by summed
    log-probability, as many as it has places. One that takes the end symbol is set aside and
    keeps its place. The sentence ends when no place is left, or at its longest output: what then
    lives is unfinished, and ranks after all that is finished. Ranks go by score over length
    penalty; of equals, the one found first is better. A beam of 1 is greedy search.

    Args:
        stepper: the model; it has one row a sentence.
        longest: (sentences,) the most steps for each.
        prefixes: the tokens with which each output must begin.
        config: how to search.

    Raises:
        SearchError: a forced token is not in the vocabulary, or the logits hold NaN or plus
            infinity.
    """
    constraints = Constraints(config, prefixes)
    found: list[list[Hypothesis]] = [[] for _ in longest]
    limit = np.asarray(longest, dtype=np.int64)
    places = np.full(len(longest), config.beam_size)
    sentences = np.arange(len(longest))
    rows = Rows(sentences, stepper, sentences)
    while True:
        stopped = rows.steps >= limit[rows.sentence]
        _set_aside(rows, stopped, found, config.length_penalty)
        rows.select(np.flatnonzero(~stopped))
        if not len(rows):
            break
        _extend(rows, constraints, places, found, config)
    for hypotheses in found:
        hypotheses.sort(key=lambda h: (not h.finished, -h.normalised_score))
    return [hypotheses[: config.n_best] for hypotheses in found]


def _extend(
    rows: Rows,
    constraints: Constraints,
    places: Ids,
    found: list[list[Hypothesis]],
    config: SearchConfig,
) -> None:
    """Let every sentence take its best extensions; changes `rows`, `places` and `found`."""
    scores, tokens = _extensions(rows, constraints, config.beam_size)
    parent, rank = _chosen(rows, scores, places)
    # A sentence in which nothing may follow any hypothesis stops where it is.
    going = np.zeros(len(places), dtype=bool)
    going[rows.sentence[parent]] = True
    stuck = ~going[rows.sentence]
    _set_aside(rows, stuck, found, config.length_penalty)
    taken, taken_scores = tokens[parent, rank], scores[parent, rank]
    ends = taken == EOS
    for row, end_score in zip(parent[ends].tolist(), taken_scores[ends].tolist(), strict=True):
        hypothesis = rows.finished(row, end_score, config.length_penalty)
        found[rows.sentence[row]].append(hypothesis)
        places[rows.sentence[row]] -= 1
    rows.select(parent[~ends])
    rows.append(taken[~ends], taken_scores[~ends])


def _extensions(rows: Rows, constraints: Constraints, beam_size: int) -> tuple[Scores, Ids]:
    """(rows, k) the best tokens to follow each row, best first: log-probabilities and ids.

    Minus infinity marks what may not follow. k does not depend on how many places are left, so
    that neither does the order among equals.
    """
    logits = rows.logits()
    # Over all tokens, forbidden ones too: the score is that of the model.
    normaliser = log_normaliser(logits)
    constraints.apply(logits, rows)
    best, tokens = best_tokens(logits, min(beam_size, logits.shape[1]))
    scores = log_probabilities(best, normaliser)
    # One transfer a step: float64 holds float32 and any vocabulary's ids exactly.
    packed = torch.stack((scores.double(), tokens.double())).cpu().numpy()
    check_scores(packed[0])
    return packed[0], packed[1].astype(np.int64)


def _chosen(rows: Rows, scores: Scores, places: Ids) -> tuple[Ids, Ids]:
    """The extensions that each sentence takes, as (row, column) of `scores`, best first."""
    parent, rank = np.nonzero(scores > -np.inf)
    total = rows.score[parent] + scores[parent, rank]
    # A stable sort: of equals the earlier row comes first, whatever else is in the batch.
    order = np.lexsort((-total, rows.sentence[parent]))
    parent, rank = parent[order], rank[order]
    sentence = rows.sentence[parent]
    position = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)
    taken = position < places[sentence]
    return parent[taken], rank[taken]


def _set_aside(
    rows: Rows, stopped: np.ndarray, found: list[list[Hypothesis]], alpha: float
) -> None:
    """Keep the rows that stop as unfinished hypotheses."""
    for row in np.flatnonzero(stopped).tolist():
        found[rows.sentence[row]].append(rows.unfinished(row, alpha))
