"""Sampling: draw outputs from the distribution of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.constraints import Constraints
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.logits import check_scores, fetch, log_normaliser, log_probabilities
from clearhead.decoding.stepper import Ids, Rows, Scores, Stepper
from clearhead.settings import SearchConfig
from clearhead.tokenizer import EOS


def sample(
    stepper: Stepper,
    longest: Sequence[int],
    constraints: Constraints,
    config: SearchConfig,
    keys: Sequence[int],
) -> list[list[Hypothesis]]:
    """`n_best` independent draws for each sentence of a started stepper.

    Draws are in the order drawn, not ranked, so the first few are as fair a sample as all. A draw
    depends only on `config.seed`, the key of the sentence and the number of the draw. The
    distribution is changed by temperature, `top_k` and `top_p`, in this order (Holtzman et al.
    2020, section 3). The scores are those of the unchanged distribution of the model. `longest`
    has the maximum number of steps of each sentence. To the `constraints` each draw is a sentence.
    """
    count = config.n_best
    # From here on each draw is a sentence of its own.
    source = np.repeat(np.arange(len(longest)), count)
    limit = np.asarray(longest, dtype=np.int64)[source]
    # (draws, steps) numbers in [0, 1): one stream for each draw of each sentence.
    uniform = np.stack(
        [
            np.random.default_rng((config.seed, key, draw)).random(max(longest))
            for key in keys
            for draw in range(count)
        ]
    )
    rows = Rows(stepper, source, config.length_penalty)
    while rows.stop_at(limit):
        tokens, scores = _draw(rows, constraints, config, uniform[rows.sentence, rows.steps])
        stuck = scores == -np.inf
        ends = ~stuck & (tokens == EOS)
        for row in np.flatnonzero(stuck).tolist():
            rows.stop(row)
        for row in np.flatnonzero(ends).tolist():
            rows.stop(row, float(scores[row]))
        going = np.flatnonzero(~stuck & ~ends)
        rows.select(going)
        rows.append(tokens[going], scores[going])
    hypotheses = [hypothesis for (hypothesis,) in rows.found]
    return [hypotheses[first : first + count] for first in range(0, len(source), count)]


def _draw(
    rows: Rows, constraints: Constraints, config: SearchConfig, uniform: np.ndarray
) -> tuple[Ids, Scores]:
    """(rows,) a drawn token and its log-probability; minus infinity if no token may follow."""
    logits = rows.logits()
    normaliser = log_normaliser(logits)
    constraints.apply(logits, rows)
    weights, ids = _weights(logits, config)
    cumulative = weights.cumsum(dim=1)
    threshold = torch.from_numpy(uniform).to(logits.device)[:, None] * cumulative[:, -1:]
    # The first index whose sum exceeds the threshold, so its weight is more than 0. There is none
    # if all weights are 0 or NaN.
    index = torch.searchsorted(cumulative, threshold, right=True).clamp(max=weights.shape[1] - 1)
    tokens = ids.gather(1, index)
    drawn = log_probabilities(logits.gather(1, tokens), normaliser)
    ids, scores = fetch(tokens[:, 0], drawn[:, 0])
    check_scores(scores)
    return ids, scores


def _weights(logits: Tensor, config: SearchConfig) -> tuple[Tensor, Tensor]:
    """(rows, kept) weight (float64, not normalised) and id of each token that may be drawn."""
    if config.top_k:
        values, ids = logits.topk(min(config.top_k, logits.shape[1]), dim=1)
    elif config.top_p < 1.0:
        values, ids = logits.sort(dim=1, descending=True, stable=True)
    else:
        values = logits
        ids = torch.arange(logits.shape[1], device=logits.device).expand_as(logits)
    values = values.double()
    # Subtracted before dividing: a tiny temperature then gives 0 and minus infinity, never NaN.
    highest = values.amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    weights = ((values - highest) / config.temperature).exp()
    if config.top_p < 1.0:
        before = weights.cumsum(dim=1) - weights
        cut = before >= config.top_p * weights.sum(dim=1, keepdim=True)
        weights = weights.masked_fill(cut, 0.0)
    return weights, ids
