"""The constraints of a search: forced prefixes and forbidden tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.stepper import Ids, Rows
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

FREE = -1
"""Marks a position that no prefix forces."""


class Constraints:
    """Forbids tokens by setting their logits to minus infinity.

    Forbidden are padding and the start symbol, the end symbol before `min_length` tokens, and with
    `no_repeat_ngram` = n a second occurrence of any n-gram (Paulus et al. 2018, section 2.5). A
    forced prefix of a sentence overrides all of these.
    """

    def __init__(self, config: SearchConfig, prefixes: Sequence[Sequence[int]]) -> None:
        self._config = config
        longest = max(map(len, prefixes), default=0)
        self._forced = np.full((len(prefixes), longest), FREE, dtype=np.int64)
        for sentence, prefix in enumerate(prefixes):
            self._forced[sentence, : len(prefix)] = prefix

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """Forbid, in place, the tokens that may not follow each row; logits (rows, vocabulary)."""
        if rows.steps >= self._forced.shape[1]:
            self._forbid(logits, rows)
            return
        forced = self._forced[rows.sentence, rows.steps]
        (row,) = np.nonzero(forced != FREE)
        forced_rows, forced_tokens = torch.from_numpy(row), torch.from_numpy(forced[row])
        forced_logits = logits[forced_rows, forced_tokens]
        self._forbid(logits, rows)
        logits[forced_rows] = -torch.inf
        logits[forced_rows, forced_tokens] = forced_logits

    def _forbid(self, logits: Tensor, rows: Rows) -> None:
        """Apply the constraints other than forced prefixes."""
        logits[:, PAD] = -torch.inf
        logits[:, BOS] = -torch.inf
        if rows.steps < self._config.min_length:
            logits[:, EOS] = -torch.inf
        if 0 < self._config.no_repeat_ngram <= rows.steps:
            logits[_repeating(rows.tokens, self._config.no_repeat_ngram)] = -torch.inf


def _repeating(tokens: Ids, n: int) -> tuple[Tensor, Tensor]:
    """Rows and tokens, in pairs, for which the token would repeat an n-gram of the row."""
    steps = tokens.shape[1]
    # (rows, steps - n + 1, n): all n-grams so far. The last n - 1 tokens begin the next n-gram.
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=1)
    begun = tokens[:, steps - n + 1 :]
    row, position = np.nonzero((ngrams[:, :, :-1] == begun[:, None, :]).all(axis=2))
    return torch.from_numpy(row), torch.from_numpy(ngrams[row, position, -1])
