"""From logits to the best tokens and their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import SearchError

BLOCK = 16
"""Logits of a block in `best_tokens`."""

CHUNK = 1_000_000
"""Logits normalised at a time on a CPU: 4 MB in float32, which fit into its cache."""


def log_normaliser(logits: Tensor) -> Tensor:
    """(rows, 1) log Σ exp(logits): a logit minus this is a log-probability.

    A whole log-softmax would be as large as the logits, but a search needs only the best few. The
    result is NaN if a logit is NaN or plus infinity.
    """
    # A GPU computes all at once: each part would be a kernel of its own.
    chunk = logits.numel() if logits.is_cuda else CHUNK
    rows = max(1, chunk // logits.shape[1])
    parts = [part.logsumexp(dim=1, keepdim=True) for part in logits.split(rows)]
    # One part needs no copy: with few rows every operation counts.
    found = parts[0] if len(parts) == 1 else torch.cat(parts)
    return found.masked_fill_(found == torch.inf, torch.nan)


def log_probabilities(logits: Tensor, normaliser: Tensor) -> Tensor:
    """(rows, n) from logits of n tokens; a logit of minus infinity always gives minus infinity."""
    return (logits - normaliser).masked_fill_(logits == -torch.inf, -torch.inf)


def best_tokens(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(rows, k) the k highest logits of each row, highest first, and their token ids.

    Same as `logits.topk(k)`, but a few times faster on a CPU: the k highest are in the k blocks
    with the highest maxima, and maxima are cheap.
    """
    blocks = logits.shape[1] // BLOCK
    if k >= blocks:
        return logits.topk(k, dim=1)
    # Token t is in block t mod `blocks`; the last few tokens are in no block.
    maxima = logits[:, : blocks * BLOCK].unflatten(1, (BLOCK, blocks)).amax(dim=1)
    within = torch.arange(0, blocks * BLOCK, blocks, device=logits.device)
    inside = (maxima.topk(k, dim=1).indices[:, :, None] + within).flatten(1)
    outside = torch.arange(blocks * BLOCK, logits.shape[1], device=logits.device)
    candidates = torch.cat((inside, outside.expand(len(logits), -1)), dim=1)
    values, indices = logits.gather(1, candidates).topk(k, dim=1)
    return values, candidates.gather(1, indices)


def likeliest_token(
    logits: Tensor, first: int, scored: bool = True, forbidden: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest token of each row of logits (rows, vocabulary), and its log-probability.

    Ids before `first` and `forbidden` ones may not be chosen. If not `scored`, logits are returned
    instead of log-probabilities, and those of such ids are ignored. They are minus infinity if no
    token is possible, and NaN or plus infinity if a logit is. On a CPU the logits are overwritten.
    """
    # Over all tokens, those before `first` included: scores are the model's own.
    normaliser = log_normaliser(logits) if scored else None
    if forbidden:
        logits[:, forbidden] = -torch.inf
    if logits.device.type != "cpu":
        best, tokens = logits[:, first:].max(dim=1, keepdim=True)
        scores = best if normaliser is None else log_probabilities(best, normaliser)
        return fetch(tokens[:, 0] + first, scores[:, 0])
    # The argmax of numpy is many times faster than that of PyTorch.
    table = logits.numpy()
    table[:, :first] = -np.inf
    ids = table.argmax(axis=1)
    best = table[np.arange(len(table)), ids]
    if normaliser is not None:
        np.subtract(best, normaliser.numpy()[:, 0], out=best, where=best != -np.inf)
    return ids, best.astype(np.float64)


def fetch(tokens: Tensor, scores: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Ids, int64, and their scores, float64, in the memory of the CPU."""
    # One transfer per step: float64 represents float32 and all ids exactly.
    packed = torch.stack((tokens.double(), scores.double())).cpu().numpy()
    return packed[0].astype(np.int64), packed[1]


def check_scores(scores: np.ndarray) -> None:
    """Check that scores come from finite logits.

    Raises:
        SearchError: a score is NaN or plus infinity, because a logit is.
    """
    # Comparisons with NaN are false, so this one finds both.
    if not (scores < np.inf).all():
        raise SearchError(
            "the model computed a logit that is infinite or not a number",
            why="its weights are damaged, or its training diverged",
            todo="use an earlier model, or train again with a smaller learning rate",
        )
