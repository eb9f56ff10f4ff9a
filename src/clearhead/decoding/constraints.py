"""What an output must begin with and may not contain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.stepper import Ids, Rows
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

FREE = -1


class Constraints:
    """Forbids tokens by setting their logits to minus infinity.

    Padding and the start symbol never come; the end symbol not before `min_length` tokens; no
    n-gram twice where `no_repeat_ngram` = n (Paulus et al. 2018, section 2.5). A forced prefix
    overrules all of these.
    """

    def __init__(self, config: SearchConfig, prefixes: Sequence[Sequence[int]]) -> None:
        self._min_length = config.min_length
        self._ngram = config.no_repeat_ngram
        longest = max(map(len, prefixes), default=0)
        self._forced = np.full((len(prefixes), longest), FREE, dtype=np.int64)
        for sentence, prefix in enumerate(prefixes):
            self._forced[sentence, : len(prefix)] = prefix

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """Forbid what may not follow each row, in place; logits are (rows, vocabulary).

        Raises:
            SearchError: a forced token is not in the vocabulary.
        """
        if rows.steps >= self._forced.shape[1]:
            self._forbid(logits, rows)
            return
        forced_rows, forced_tokens = self._forced_now(rows, logits.shape[1])
        forced_logits = logits[forced_rows, forced_tokens]
        self._forbid(logits, rows)
        logits[forced_rows] = -torch.inf
        logits[forced_rows, forced_tokens] = forced_logits

    def _forbid(self, logits: Tensor, rows: Rows) -> None:
        """What holds whether or not a prefix is forced."""
        logits[:, PAD] = -torch.inf
        logits[:, BOS] = -torch.inf
        if rows.steps < self._min_length:
            logits[:, EOS] = -torch.inf
        if 0 < self._ngram <= rows.steps:
            repeated_rows, repeated_tokens = _repeating(rows.tokens, self._ngram)
            logits[repeated_rows, repeated_tokens] = -torch.inf

    def _forced_now(self, rows: Rows, vocabulary: int) -> tuple[Tensor, Tensor]:
        """The rows whose next token is forced, and that token.

        Raises:
            SearchError: a forced token is not in the vocabulary.
        """
        forced = self._forced[rows.sentence, rows.steps]
        if (forced >= vocabulary).any():
            raise SearchError(
                f"a prefix holds the id {forced.max()}, and the vocabulary has {vocabulary} tokens",
                todo="encode the prefix with the model's own target tokenizer",
            )
        (where,) = np.nonzero(forced != FREE)
        return torch.from_numpy(where), torch.from_numpy(forced[where])


def _repeating(tokens: Ids, n: int) -> tuple[Tensor, Tensor]:
    """Each row and token (two equally long lists) with which an n-gram would come again."""
    steps = tokens.shape[1]
    # (rows, steps - n + 1, n): all n-grams so far. The last n - 1 tokens begin the next one.
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=1)
    begun = tokens[:, steps - n + 1 :]
    row, place = np.nonzero((ngrams[:, :, :-1] == begun[:, None, :]).all(axis=2))
    return torch.from_numpy(row), torch.from_numpy(ngrams[row, place, -1])
