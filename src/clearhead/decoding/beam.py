"""Beam search: extend the best few hypotheses of each sentence in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from clearhead.decoding.constraints import Constraints
from clearhead.decoding.engine import Hypothesis, ranked
from clearhead.decoding.logits import (
    best_tokens,
    check_scores,
    fetch,
    log_normaliser,
    log_probabilities,
)
from clearhead.decoding.stepper import Ids, Rows, Scores, Stepper
from clearhead.settings import SearchConfig
from clearhead.tokenizer import EOS


@dataclass(frozen=True)
class Node:
    """A hypothesis of a traced search: one more token than its parent.

    Attributes:
        parent: the index of the hypothesis that it extends; None: the empty one.
        step: the number of tokens before it.
        token: the id of its last token.
        score: the log-probability of that token.
        total: the log-probability of the whole hypothesis.
        state: kept for the next step, pruned, or finished by the end symbol.
    """

    parent: int | None
    step: int
    token: int
    score: float
    total: float
    state: Literal["kept", "pruned", "finished"]


class Trace:
    """The tree of a beam search over one sentence; its nodes are in the order found."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._live: list[int | None] = [None]

    def extend(self, rows: Rows, tokens: Ids, scores: Scores, parent: Ids, rank: Ids) -> None:
        """Add the extensions of a step: (rows, k) tokens and scores, and which were taken."""
        taken = set(zip(parent.tolist(), rank.tolist(), strict=True))
        found: dict[tuple[int, int], int] = {}
        for row, place in zip(*np.nonzero(scores > -np.inf), strict=True):
            token, score = int(tokens[row, place]), float(scores[row, place])
            key = int(row), int(place)
            ended: Literal["kept", "finished"] = "finished" if token == EOS else "kept"
            state = ended if key in taken else "pruned"
            found[key] = len(self.nodes)
            total = float(rows.score[row]) + score
            self.nodes.append(Node(self._live[row], rows.steps, token, score, total, state))
        chosen = [found[key] for key in zip(parent.tolist(), rank.tolist(), strict=True)]
        self._live = [node for node in chosen if self.nodes[node].state == "kept"]


def beam_search(
    stepper: Stepper,
    longest: Sequence[int],
    constraints: Constraints,
    config: SearchConfig,
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence of a started stepper, best first.

    A beam has `beam_size` hypotheses, and more if terms are to be placed. At every step each
    sentence takes the best extensions of its live hypotheses by summed log-probability. A
    hypothesis that takes the end symbol is finished and leaves one less for live ones. The sentence
    ends when none is left, or at its length limit. Hypotheses that are then live are unfinished and
    rank after all finished ones. The rank is the score divided by the length penalty; among equals,
    the one found first is better. A beam of 1
    is greedy search. `longest` has the maximum number of steps of each sentence.
    """
    limit = np.asarray(longest, dtype=np.int64)
    widths = np.full(len(longest), config.beam_size)
    if constraints.placing is not None:
        widths += [constraints.placing.width(sentence) for sentence in range(len(longest))]
    rows = Rows(stepper, np.arange(len(longest)), config.length_penalty)
    while rows.stop_at(limit):
        _extend(rows, constraints, widths, config.beam_size, trace)
    return [ranked(hypotheses, config.n_best) for hypotheses in rows.found]


def _extend(
    rows: Rows, constraints: Constraints, widths: Ids, beam_size: int, trace: Trace | None
) -> None:
    """Extend every sentence, which has at most `widths` live hypotheses; changes both."""
    tokens, scores = _extensions(rows, constraints, beam_size)
    placing = constraints.placing
    banks = np.zeros_like(tokens) if placing is None else placing.banks(rows, tokens)
    parent, rank = _choose(rows, scores, banks, widths)
    if trace is not None:
        trace.extend(rows, tokens, scores, parent, rank)
    # A sentence stops as it is if no token may follow any of its hypotheses.
    stuck = ~np.isin(rows.sentence, rows.sentence[parent])
    for row in np.flatnonzero(stuck).tolist():
        rows.stop(row)
    taken, taken_scores = tokens[parent, rank], scores[parent, rank]
    ends = taken == EOS
    for row, end_score in zip(parent[ends].tolist(), taken_scores[ends].tolist(), strict=True):
        rows.stop(row, end_score)
        widths[rows.sentence[row]] -= 1
    rows.select(parent[~ends])
    rows.append(taken[~ends], taken_scores[~ends])


def _extensions(rows: Rows, constraints: Constraints, beam_size: int) -> tuple[Ids, Scores]:
    """(rows, k) the best next tokens of each row, best first, and their log-probabilities.

    Tokens that may not follow have minus infinity. k is always the whole beam, so the order among
    equals does not depend on how many hypotheses are live. Further columns have the tokens that
    begin or continue a term.
    """
    logits = rows.logits()
    # Over all tokens, forbidden ones included: scores are the model's own.
    normaliser = log_normaliser(logits)
    constraints.apply(logits, rows)
    best, tokens = best_tokens(logits, min(beam_size, logits.shape[1]))
    if constraints.placing is not None:
        wanted = torch.from_numpy(constraints.placing.wanted(len(rows))).to(logits.device)
        found = (wanted[:, :, None] == tokens[:, None]).any(dim=2)
        more = logits.gather(1, wanted).masked_fill(found, -torch.inf)
        best, tokens = torch.cat((best, more), dim=1), torch.cat((tokens, wanted), dim=1)
    ids, scores = fetch(tokens, log_probabilities(best, normaliser))
    check_scores(scores)
    return ids, scores


def _choose(rows: Rows, scores: Scores, banks: Ids, widths: Ids) -> tuple[Ids, Ids]:
    """The extensions that each sentence takes, as rows and columns of `scores`, best first.

    The banks of a sentence take turns, the one with the most tokens of terms first.
    """
    parent, rank = np.nonzero(scores > -np.inf)
    total, bank = rows.score[parent] + scores[parent, rank], banks[parent, rank]
    # A stable sort: among equals the earlier row is first, whatever else is in the batch.
    order = np.lexsort((-total, -bank, rows.sentence[parent]))
    parent, rank, bank = parent[order], rank[order], bank[order]
    if bank.any():
        place = _places(rows.sentence[parent] * (bank.max() + 1) + bank.max() - bank)
        order = np.lexsort((-bank, place, rows.sentence[parent]))
        parent, rank = parent[order], rank[order]
    sentence = rows.sentence[parent]
    taken = _places(sentence) < widths[sentence]
    return parent[taken], rank[taken]


def _places(groups: Ids) -> Ids:
    """The place of each element within its group, from 0; `groups` ascend."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)
