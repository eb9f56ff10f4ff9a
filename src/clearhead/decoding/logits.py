"""The best of many logits, and what no search can rank."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import SearchError

BLOCK = 16

CHUNK_ELEMENTS = 1_000_000
"""Logits normalised at a time on a CPU: 4 MB in float32, which its cache can hold."""


def log_normaliser(logits: Tensor) -> Tensor:
    """(rows, 1) what makes log-probabilities of logits when it is taken off them.

    The whole log-softmax would be as large as the logits, and only the best few are looked at.
    NaN where a logit is NaN or plus infinity.
    """
    # A GPU has no use for parts: each would be a kernel of its own.
    chunk = logits.numel() if logits.is_cuda else CHUNK_ELEMENTS
    rows = max(1, chunk // logits.shape[1])
    parts = [part.logsumexp(dim=1, keepdim=True) for part in logits.split(rows)]
    # One part needs no copy: of a few rows each operation counts.
    found = parts[0] if len(parts) == 1 else torch.cat(parts)
    return found.masked_fill_(found == torch.inf, torch.nan)


def log_probabilities(logits: Tensor, normaliser: Tensor) -> Tensor:
    """Of some logits (rows, some); minus infinity where a logit is that, whatever the others."""
    return (logits - normaliser).masked_fill_(logits == -torch.inf, -torch.inf)


def best_tokens(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(rows, k) the k highest of each row's logits, highest first, and their token ids.

    The same as `logits.topk(k)`, a few times faster on a CPU: the k highest lie in the k blocks
    with the highest maxima, and finding maxima is cheap.
    """
    blocks = logits.shape[1] // BLOCK
    if k >= blocks:
        return logits.topk(k, dim=1)
    # Token t stands in block t mod `blocks`; the last few tokens stand in none.
    maxima = logits[:, : blocks * BLOCK].unflatten(1, (BLOCK, blocks)).amax(dim=1)
    within = torch.arange(0, blocks * BLOCK, blocks, device=logits.device)
    inside = (maxima.topk(k, dim=1).indices[:, :, None] + within).flatten(1)
    outside = torch.arange(blocks * BLOCK, logits.shape[1], device=logits.device)
    candidates = torch.cat((inside, outside.expand(len(logits), -1)), dim=1)
    values, places = logits.gather(1, candidates).topk(k, dim=1)
    return values, candidates.gather(1, places)


def likeliest_token(
    logits: Tensor, first: int, scored: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Of each row (rows, vocabulary) the likeliest token from id `first` on, and how likely it is.

    Returns:
        Ids (rows,), int64, and log-probabilities (rows,), float64: minus infinity where no token
        is possible, NaN or plus infinity where a logit is NaN or plus infinity. If not `scored`,
        the logits of these tokens instead; those before `first` are then not looked at. On a CPU
        the logits are overwritten.
    """
    # Over all tokens, those before `first` too: the score is that of the model.
    normaliser = log_normaliser(logits) if scored else None
    if logits.device.type != "cpu":
        best, tokens = logits[:, first:].max(dim=1, keepdim=True)
        scores = best if normaliser is None else log_probabilities(best, normaliser)
        # One transfer a step: float64 holds float32 and any vocabulary's ids exactly.
        packed = torch.cat((scores.double(), tokens.double() + first), dim=1).cpu().numpy()
        return packed[:, 1].astype(np.int64), packed[:, 0]
    # numpy finds where a maximum is many times faster than PyTorch.
    table = logits.numpy()
    table[:, :first] = -np.inf
    ids = table.argmax(axis=1)
    best = table[np.arange(len(table)), ids]
    if normaliser is not None:
        np.subtract(best, normaliser.numpy()[:, 0], out=best, where=best != -np.inf)
    return ids, best.astype(np.float64)


def check_scores(scores: np.ndarray) -> None:
    """Refuse the scores of a model that gave no probabilities.

    Raises:
        SearchError: a score is NaN or plus infinity, because a logit was.
    """
    # Every comparison with NaN is false, so that this one finds both.
    if not (scores < np.inf).all():
        raise SearchError(
            "the model gave a logit that is infinite or not a number",
            why="its weights are damaged, or its training diverged",
            todo="take an earlier model, or train again with a smaller learning rate",
        )
