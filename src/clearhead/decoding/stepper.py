"""The step protocol, which is all that a search knows of a model, and the rows of a search."""

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

    A row is one hypothesis. The tensors given to a stepper are int64 and on the CPU; the stepper
    moves them to the device of the model.
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


class Rows:
    """The live hypotheses of a search, kept in step with the rows of a stepper.

    All rows have the same number of tokens. Their data is in the memory of the CPU and only
    logits are on the device, so a step waits for the device once, when it fetches its results.
    Forced tokens, forbidden n-grams and random draws each add one more wait.

    Attributes:
        sentence: (rows,) the sentence of each row, ascending.
        tokens: (rows, steps) the tokens so far.
        token_scores: (rows, steps) the log-probability of each token.
        score: (rows,) their sum.
    """

    def __init__(self, sentence: Ids, stepper: Stepper, stepper_rows: Ids) -> None:
        """One empty row for each number in `sentence`; row i continues row `stepper_rows[i]`."""
        self.sentence = sentence
        self.tokens = np.empty((len(sentence), 0), dtype=np.int64)
        self.token_scores = np.empty((len(sentence), 0))
        self.score = np.zeros(len(sentence))
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

    def unfinished(self, row: int, alpha: float) -> Hypothesis:
        """The hypothesis of a row that stops without an end symbol."""
        return hypothesis_of(self.tokens[row].tolist(), self.token_scores[row].tolist(), alpha)

    def finished(self, row: int, end_score: float, alpha: float) -> Hypothesis:
        """The hypothesis of a row that takes the end symbol with log-probability `end_score`."""
        scores = [*self.token_scores[row].tolist(), end_score]
        return hypothesis_of(self.tokens[row].tolist(), scores, alpha)
