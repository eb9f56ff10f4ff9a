"""Beam search: extend the best few hypotheses of each sentence in parallel."""

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
    """The `n_best` hypotheses of each sentence of a started stepper, best first.

    A sentence begins with `beam_size` places. At every step it takes the best extensions of its
    live hypotheses by summed log-probability, one for each place. A hypothesis that takes the end
    symbol is finished and keeps its place. The sentence ends when no place is left, or at its
    length limit. Hypotheses that are then live are unfinished and rank after all finished ones.
    The rank is the score divided by the length penalty; among equals, the one found first is
    better. A beam of 1 is greedy search.

    Args:
        stepper: the model; it has one row for each sentence.
        longest: (sentences,) the most steps of each.
        prefixes: the tokens that each output must begin with.
        config: the settings of the search.

    Raises:
        SearchError: a forced token is not in the vocabulary, or the logits contain NaN or plus
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
    """Extend every sentence by its best tokens; changes `rows`, `places` and `found`."""
    scores, tokens = _extensions(rows, constraints, config.beam_size)
    parent, rank = _chosen(rows, scores, places)
    # A sentence stops as it is if no token may follow any of its hypotheses.
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
    """(rows, k) the best next tokens of each row, best first: log-probabilities and ids.

    Tokens that may not follow have minus infinity. k does not depend on how many places are left,
    so neither does the order among equals.
    """
    logits = rows.logits()
    # Over all tokens, forbidden ones included: scores are the model's own.
    normaliser = log_normaliser(logits)
    constraints.apply(logits, rows)
    best, tokens = best_tokens(logits, min(beam_size, logits.shape[1]))
    scores = log_probabilities(best, normaliser)
    # One transfer per step: float64 represents float32 and all ids exactly.
    packed = torch.stack((scores.double(), tokens.double())).cpu().numpy()
    check_scores(packed[0])
    return packed[0], packed[1].astype(np.int64)


def _chosen(rows: Rows, scores: Scores, places: Ids) -> tuple[Ids, Ids]:
    """The extensions that each sentence takes, as rows and columns of `scores`, best first."""
    parent, rank = np.nonzero(scores > -np.inf)
    total = rows.score[parent] + scores[parent, rank]
    # A stable sort: among equals the earlier row is first, whatever else is in the batch.
    order = np.lexsort((-total, rows.sentence[parent]))
    parent, rank = parent[order], rank[order]
    sentence = rows.sentence[parent]
    position = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)
    taken = position < places[sentence]
    return parent[taken], rank[taken]


def _set_aside(
    rows: Rows, stopped: np.ndarray, found: list[list[Hypothesis]], alpha: float
) -> None:
    """Add the rows that stop to `found`, as unfinished hypotheses."""
    for row in np.flatnonzero(stopped).tolist():
        found[rows.sentence[row]].append(rows.unfinished(row, alpha))
