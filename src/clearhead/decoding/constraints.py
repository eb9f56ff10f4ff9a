"""The constraints of a search: what may not follow, what an output must have, forced prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.engine import Sentence
from clearhead.decoding.stepper import Ids, Rows
from clearhead.decoding.terms import Progress, Terms
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

FREE = -1
"""Marks a position that no prefix forces."""


class Constraint(Protocol):
    """Forbids tokens by setting their logits to minus infinity."""

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """Forbid, in place, tokens that may not follow each row; logits (rows, vocabulary)."""
        ...


class Forbidden:
    """Forbids what the settings of a search forbid, padding and the start symbol.

    The end symbol is forbidden before `min_length` tokens. With `no_repeat_ngram` = n a second
    occurrence of any n-gram is (Paulus et al. 2018, section 2.5), but not of `repeatable` tokens.
    """

    def __init__(self, config: SearchConfig, repeatable: Sequence[int] = ()) -> None:
        self._config = config
        self._repeatable = list(repeatable)

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """See `Constraint`."""
        logits[:, PAD] = -torch.inf
        logits[:, BOS] = -torch.inf
        if rows.steps < self._config.min_length:
            logits[:, EOS] = -torch.inf
        if 0 < self._config.no_repeat_ngram <= rows.steps:
            copied = logits[:, self._repeatable]
            logits[_repeating(rows.tokens, self._config.no_repeat_ngram)] = -torch.inf
            logits[:, self._repeatable] = copied


class Copies:
    """Lets each output have the symbols of its source, and each as often.

    An output ends only after it has all of them. The last positions before its maximum length are
    for those that are missing.

    Args:
        symbols: the target id of each symbol, (K,).
        counts: how often each output must have each symbol, (sentences, K).
        longest: the maximum length of each output, the end symbol included, (sentences,).
    """

    def __init__(self, symbols: Sequence[int], counts: Ids, longest: Sequence[int]) -> None:
        self._symbols = np.array(symbols)
        self._counts = counts
        self._has_any = bool(counts.any())
        self._longest = np.array(longest)

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """See `Constraint`."""
        symbols = torch.from_numpy(self._symbols).to(logits.device)
        if not self._has_any:
            logits.index_fill_(1, symbols, -torch.inf)
            return
        used = (rows.tokens[:, :, None] == self._symbols).sum(axis=1)
        left = (self._counts[rows.sentence] - used).clip(min=0)
        missing = left.sum(axis=1)
        allowed = torch.from_numpy(left > 0).to(logits.device)
        kept = logits[:, symbols].masked_fill(~allowed, -torch.inf)
        waiting = np.flatnonzero(missing)
        logits[torch.from_numpy(waiting).to(logits.device), EOS] = -torch.inf
        # One position is for the end symbol.
        last = (missing > 0) & (self._longest[rows.sentence] - rows.steps - 1 <= missing)
        logits[torch.from_numpy(np.flatnonzero(last)).to(logits.device)] = -torch.inf
        logits[:, symbols] = kept


class Placing:
    """Lets each output have the terms of its sentence (Post and Vilar 2018; Hu et al. 2019).

    An output ends only after it has all of them. The last positions before its maximum length are
    for those that are missing. A beam compares hypotheses that have the same number of tokens of
    terms, which are a bank.

    Args:
        terms: of each sentence, or None.
        longest: the maximum length of each output, the end symbol included, (sentences,).
    """

    def __init__(self, terms: Sequence[Terms | None], longest: Sequence[int]) -> None:
        self._terms = terms
        self._longest = longest
        self._progress: dict[int, Progress] = {}  # of the rows of this step that have terms
        self._continues: Tensor | None = None

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """See `Constraint`."""
        self._progress = {
            row: terms.progress(rows.tokens[row].tolist())
            for row, sentence in enumerate(rows.sentence.tolist())
            if (terms := self._terms[sentence]) is not None
        }
        for row, found in self._progress.items():
            sentence = rows.sentence[row]
            terms = cast(Terms, self._terms[sentence])
            if found.longer is not None:
                if self._continues is None:
                    self._continues = torch.from_numpy(terms.vocabulary.continues).to(logits.device)
                kept = logits[row, list(found.longer)]
                logits[row].masked_fill_(self._continues, -torch.inf)
                logits[row, list(found.longer)] = kept
            if found.wanted:
                logits[row, EOS] = -torch.inf
                # One position is for the end symbol.
                if self._longest[sentence] - rows.steps - 1 <= terms.least - found.placed:
                    kept = logits[row, list(found.wanted)]
                    logits[row] = -torch.inf
                    logits[row, list(found.wanted)] = kept

    def width(self, sentence: int) -> int:
        """How many hypotheses more than others the beam of a sentence has."""
        terms = self._terms[sentence]
        return 0 if terms is None else terms.least

    def wanted(self, count: int) -> Ids:
        """(rows, n) tokens that begin or continue a term of each row; PAD where there are fewer."""
        found = np.full(
            (count, max((len(p.wanted) for p in self._progress.values()), default=0)), PAD
        )
        for row, progress in self._progress.items():
            found[row, : len(progress.wanted)] = progress.wanted
        return found

    def banks(self, rows: Rows, tokens: Ids) -> Ids:
        """(rows, k) the tokens of terms in each row with each of the next `tokens` (rows, k)."""
        found = np.zeros(tokens.shape, dtype=np.int64)
        for row, progress in self._progress.items():
            terms = cast(Terms, self._terms[rows.sentence[row]])
            found[row] = progress.complete
            before = rows.tokens[row].tolist()
            for column, token in enumerate(tokens[row].tolist()):
                if token in terms.ids:
                    found[row, column] = terms.progress([*before, token]).placed
        return found


class Constraints:
    """All constraints of a search. A forced prefix of a sentence overrides all others.

    `placing` is the one of the terms, if a sentence has some.
    """

    def __init__(
        self,
        constraints: Sequence[Constraint],
        prefixes: Sequence[Sequence[int]] = (),
        placing: Placing | None = None,
    ) -> None:
        self._constraints = [*constraints, placing] if placing else constraints
        self.placing = placing
        longest = max(map(len, prefixes), default=0)
        self._forced = np.full((len(prefixes), longest), FREE, dtype=np.int64)
        for sentence, prefix in enumerate(prefixes):
            self._forced[sentence, : len(prefix)] = prefix

    def apply(self, logits: Tensor, rows: Rows) -> None:
        """See `Constraint`."""
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
        for constraint in self._constraints:
            constraint.apply(logits, rows)


def constraints_of(
    config: SearchConfig, sentences: Sequence[Sentence], longest: Sequence[int]
) -> Constraints:
    """The constraints of a search; `longest` are the maximum lengths of the outputs."""
    symbols = sorted({token for each in sentences for token in each.copies})
    found: list[Constraint] = [Forbidden(config, symbols)]
    if symbols:
        counts = [[each.copies.get(symbol, 0) for symbol in symbols] for each in sentences]
        found.append(Copies(symbols, np.array(counts), longest))
    terms = [each.terms for each in sentences]
    placing = Placing(terms, longest) if any(terms) else None
    return Constraints(found, [each.prefix for each in sentences], placing)


def _repeating(tokens: Ids, n: int) -> tuple[Tensor, Tensor]:
    """Rows and tokens, in pairs, for which the token would repeat an n-gram of the row."""
    steps = tokens.shape[1]
    # (rows, steps - n + 1, n): all n-grams so far. The last n - 1 tokens begin the next n-gram.
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=1)
    begun = tokens[:, steps - n + 1 :]
    row, position = np.nonzero((ngrams[:, :, :-1] == begun[:, None, :]).all(axis=2))
    return torch.from_numpy(row), torch.from_numpy(ngrams[row, position, -1])
