"""The step protocol, by which a search runs a model, and the rows of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.decoding.engine import Hypothesis, hypothesis_of
from clearhead.tokenizer import BOS

Ids = NDArray[np.int64]
Scores = NDArray[np.float64]


class Stepper(Protocol):
    """A model that extends rows of target tokens by one token at a time.

    A row is one hypothesis. A stepper receives int64 tensors on the CPU and moves them to the
    device of the model.
    """

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        """Read the sources and begin one empty row for each, in their order."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (rows,) to the rows and return the logits of the next tokens.

        Returns:
            Unnormalised logits (rows, vocabulary), float32, on any device. The caller may
            overwrite them.
        """
        ...

    def reorder(self, rows: Tensor) -> None:
        """Let new row i continue old row `rows[i]`; the number of rows may change."""
        ...


class Ensemble:
    """Several models as one stepper, whose log-probabilities are averaged.

    The average is a logit: a search normalises it, so its scores are log-probabilities, too.
    """

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self._steppers = steppers

    def start(self, sources: Sequence[Sequence[int]]) -> None:
        """See `Stepper`."""
        for each in self._steppers:
            each.start(sources)

    def step(self, tokens: Tensor) -> Tensor:
        """The mean of the log-probabilities; see `Stepper`."""
        return averaged([each.step(tokens) for each in self._steppers])

    def reorder(self, rows: Tensor) -> None:
        """See `Stepper`."""
        for each in self._steppers:
            each.reorder(rows)


def averaged(logits: Sequence[Tensor]) -> Tensor:
    """The mean of the log-probabilities of several models, from their logits (rows, vocabulary)."""
    if len(logits) == 1:
        return logits[0]
    return torch.stack([each.log_softmax(dim=-1) for each in logits]).mean(dim=0)


class Rows:
    """The live hypotheses of a search, kept in step with the rows of a stepper.

    All rows have the same number of tokens. Only logits are on the device, so a step waits for the
    device once, when it fetches its results. Forced tokens, forbidden n-grams and random draws
    each add one more wait. Each sentence at first continues one of the `stepper_rows`.

    Attributes:
        sentence: (rows,) the sentence of each row, ascending. At first each has one empty row.
        tokens: (rows, steps) the tokens so far.
        token_scores: (rows, steps) the log-probability of each token.
        score: (rows,) their sum.
        found: the hypotheses of each sentence that are no longer live, in the order found.
    """

    def __init__(self, stepper: Stepper, stepper_rows: Ids, alpha: float) -> None:
        count = len(stepper_rows)
        self.sentence = np.arange(count)
        self.tokens = np.empty((count, 0), dtype=np.int64)
        self.token_scores = np.empty((count, 0))
        self.score = np.zeros(count)
        self.found: list[list[Hypothesis]] = [[] for _ in stepper_rows]
        self._alpha = alpha
        self._stepper = stepper
        self._stepper_rows = stepper_rows
        self._stepper_count = int(stepper_rows.max(initial=-1)) + 1

    def __len__(self) -> int:
        return len(self.sentence)

    @property
    def steps(self) -> int:
        """The number of tokens in each row."""
        return self.tokens.shape[1]

    def logits(self) -> Tensor:
        """(rows, vocabulary) the logits of each row's next token: one step of the stepper."""
        # The selections since the last step are passed to the stepper together, as one move.
        kept = np.arange(len(self))
        if len(kept) != self._stepper_count or (self._stepper_rows != kept).any():
            self._stepper.reorder(torch.from_numpy(self._stepper_rows))
        self._stepper_rows, self._stepper_count = kept, len(kept)
        newest = self.tokens[:, -1] if self.steps else np.full(len(self), BOS, dtype=np.int64)
        return self._stepper.step(torch.from_numpy(np.ascontiguousarray(newest)))

    def select(self, rows: Ids) -> None:
        """Let row i continue the former row `rows[i]`."""
        self.sentence = self.sentence[rows]
        self.tokens = self.tokens[rows]
        self.token_scores = self.token_scores[rows]
        self.score = self.score[rows]
        self._stepper_rows = self._stepper_rows[rows]

    def append(self, tokens: Ids, token_scores: Scores) -> None:
        """Add a token and its log-probability to each row."""
        self.tokens = np.column_stack((self.tokens, tokens))
        self.token_scores = np.column_stack((self.token_scores, token_scores))
        self.score = self.score + token_scores

    def stop(self, row: int, *end_score: float) -> None:
        """Add a row to `found`, finished if the log-probability of the end symbol is given."""
        scores = [*self.token_scores[row].tolist(), *end_score]
        hypothesis = hypothesis_of(self.tokens[row].tolist(), scores, self._alpha)
        self.found[self.sentence[row]].append(hypothesis)

    def stop_at(self, limit: Ids) -> bool:
        """Stop the rows whose sentence has reached its limit of steps; returns if any are left."""
        stopped = self.steps >= limit[self.sentence]
        for row in np.flatnonzero(stopped).tolist():
            self.stop(row)
        self.select(np.flatnonzero(~stopped))
        return len(self) > 0
