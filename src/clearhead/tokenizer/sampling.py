"""Subword regularisation: random segmentations that depend on the seed alone.

The sampling of SentencePiece itself has a different seed in each process, so a resumed run could
not repeat its segmentations. Pieces never contain a space between words, so each word is segmented
by itself, and what was computed for a word is cached.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, chain, pairwise
from math import exp, log, log1p
from random import Random
from sys import intern

import sentencepiece

META_SPACE = "\u2581"
# A word, with the space before it. A longer "word" (a sentence in Chinese, a line of base64) is
# split, because the cost grows with the square of the length.
_WORD = re.compile(f"{META_SPACE}[^{META_SPACE}]{{0,40}}|[^{META_SPACE}]{{1,40}}")
_MAX_CACHED = 200_000


class SegmentSampler:
    """Samples segmentations of texts with the pieces of a SentencePiece model.

    Args:
        processor: the model.
        kind: "bpe" or "unigram", as the model was learned.
        strength: for BPE the probability of skipping a merge (Provilkov et al. 2020, algorithm 1);
            for unigram the exponent of the probability of a segmentation (Kudo 2018, section 3.2,
            over all segmentations): 1 samples from the model, 0 would be uniform.
    """

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, kind: str, strength: float
    ) -> None:
        self._vocabulary = vocabulary = _Vocabulary(processor)
        self._strength = strength
        self._segmenter = _BPE(vocabulary) if kind == "bpe" else _Unigram(vocabulary, strength)

    def sample(self, texts: Iterable[str], seed: int) -> list[list[int]]:
        """The ids of one segmentation of each text: a function of (texts, seed) alone."""
        random = _RandomNumbers(seed, self._strength)
        ids: list[list[int]] = []
        for text in texts:
            spaced = META_SPACE + text.replace(" ", META_SPACE) if text else ""
            words = (self._segmenter.sample(word, random) for word in _WORD.findall(spaced))
            ids.append(self._vocabulary.ids_of(chain.from_iterable(words)))
        return ids


class _RandomNumbers:
    """Uniform numbers, and Bernoulli trials that fail with the probability `strength`.

    Of the trials only the number of successes before the next failure is sampled (a geometric
    distribution): most words use up a few successes and need no random number of their own.
    """

    def __init__(self, seed: int, strength: float) -> None:
        self.uniform = Random(seed).random
        self._strength = strength
        self.successes = self._until_failure()

    def trial(self) -> bool:
        """Whether the next trial succeeds."""
        if self.successes > 0:
            self.successes -= 1
            return True
        self.successes = self._until_failure()
        return False

    def _until_failure(self) -> int:
        return int(min(1e18, log(1.0 - self.uniform()) / log1p(-self._strength)))


class _Vocabulary:
    """The pieces of a model with their ids and scores."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        special = (processor.is_control, processor.is_unknown, processor.is_byte)
        plain = [i for i in range(len(processor)) if not any(test(i) for test in special)]
        self._ids = {processor.id_to_piece(i): i for i in plain}
        self.scores = {processor.id_to_piece(i): processor.get_score(i) for i in plain}
        self.longest = max(map(len, self.scores), default=1)
        # SentencePiece's own penalty for a character without a piece.
        self.unknown_score = min(self.scores.values(), default=0.0) - 10.0
        self._bytes = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        self._has_bytes = processor.is_byte(self._bytes[0])
        self._unk = processor.unk_id()

    def scores_from(self, word: str, start: int) -> list[tuple[int, float]]:
        """The pieces at the start of word[start:]: their end in the word, and their score."""
        found = [] if word[start] in self.scores else [(start + 1, self.unknown_score)]
        for end in range(start + 1, min(len(word), start + self.longest) + 1):
            score = self.scores.get(word[start:end])
            if score is not None:
                found.append((end, score))
        return found

    def ids_of(self, pieces: Iterable[str]) -> list[int]:
        """Ids of pieces and single characters; those without an id become bytes or unknown."""
        ids: list[int] = []
        for piece in pieces:
            known = self._ids.get(piece)
            if known is not None:
                ids.append(known)
            elif self._has_bytes:
                ids += [self._bytes[byte] for byte in piece.encode()]
            elif not ids or ids[-1] != self._unk:  # one for several unknown characters in a row
                ids.append(self._unk)
        return ids


class _BPE:
    """Byte-pair encoding of words with random merges left out (BPE-dropout).

    A state is a word that is partly merged, and has a number. The caches have tuples of strings and
    numbers only, which the garbage collector does not track.
    """

    def __init__(self, vocabulary: _Vocabulary) -> None:
        self._scores = vocabulary.scores
        self._clear_caches()

    def _clear_caches(self) -> None:
        self._words: dict[str, int] = {}
        self._numbers: dict[tuple[str, ...], int] = {}
        # For each state: its symbols; its possible merges, the best first; the state after each
        # merge, -1 if it is not known yet; and the number of merges until the end if none is
        # skipped, with the final pieces.
        self._symbols: list[tuple[str, ...]] = []
        self._merges: list[tuple[int, ...]] = []
        self._next: list[tuple[int, ...]] = []
        self._ends: list[tuple[int, tuple[str, ...]] | None] = []

    def sample(self, word: str, random: _RandomNumbers) -> tuple[str, ...]:
        """Apply the best merge that is not skipped, until all are skipped or none remains."""
        state = self._words.get(word)
        if state is None:
            if len(self._symbols) > _MAX_CACHED:
                self._clear_caches()
            state = self._words[word] = self._state(tuple(word))
        while True:
            steps, pieces = self._ends[state] or self._find_end(state)
            if random.successes >= steps:
                random.successes -= steps
                return pieces
            while random.successes > 0:
                random.successes -= 1
                state = self._next[state][0]
            # The best merge whose own trial succeeds.
            for choice in range(len(self._next[state])):
                if random.trial():
                    state = self._after(state, choice)
                    break
            else:
                return self._symbols[state]

    def _state(self, symbols: tuple[str, ...]) -> int:
        state = self._numbers.get(symbols)
        if state is None:
            state = self._numbers[symbols] = len(self._symbols)
            merges = self._rank(symbols)
            self._symbols.append(symbols)
            self._merges.append(merges)
            self._next.append((-1,) * len(merges))
            self._ends.append(None)
        return state

    def _after(self, state: int, choice: int) -> int:
        """The state after one of the merges."""
        known = self._next[state]
        if known[choice] < 0:
            merged = self._state(_merge(self._symbols[state], self._merges[state][choice]))
            known = self._next[state] = (*known[:choice], merged, *known[choice + 1 :])
        return known[choice]

    def _find_end(self, state: int) -> tuple[int, tuple[str, ...]]:
        final, steps = state, 0
        while self._next[final]:
            final = self._after(final, 0)
            steps += 1
        end = self._ends[state] = steps, self._symbols[final]
        return end

    def _rank(self, symbols: tuple[str, ...]) -> tuple[int, ...]:
        """The indices of the symbols that can merge with the next one, the best merge first."""
        scored = [
            (-score, i)
            for i, (left, right) in enumerate(pairwise(symbols))
            if (score := self._scores.get(left + right)) is not None
        ]
        return tuple(i for _, i in sorted(scored))


def _merge(symbols: tuple[str, ...], i: int) -> tuple[str, ...]:
    return (*symbols[:i], intern(symbols[i] + symbols[i + 1]), *symbols[i + 2 :])


_Choices = tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
"""For each start in a word: the ends that a piece can have, and their cumulative probabilities."""


class _Unigram:
    """The unigram model: words with all their segmentations and the weights of these."""

    def __init__(self, vocabulary: _Vocabulary, strength: float) -> None:
        self._vocabulary, self._strength = vocabulary, strength
        self._cache: dict[str, _Choices] = {}

    def sample(self, word: str, random: _RandomNumbers) -> list[str]:
        """Pieces from left to right, each with its probability given those before it."""
        pieces, start, choices = [], 0, self._cache.get(word) or self._prepare(word)
        while start < len(word):
            ends, sums = choices[start]
            # Rounding may let the probabilities add up to a little less than 1.
            at = min(bisect_right(sums, random.uniform()), len(ends) - 1) if len(ends) > 1 else 0
            pieces.append(word[start : ends[at]])
            start = ends[at]
        return pieces

    def _prepare(self, word: str) -> _Choices:
        if len(self._cache) > _MAX_CACHED:
            self._cache.clear()
        choices: list[tuple[tuple[int, ...], tuple[float, ...]]] = []
        # total[i] is the log of the summed weights of all segmentations of word[i:].
        total = [0.0] * (len(word) + 1)
        for start in reversed(range(len(word))):
            scores = self._vocabulary.scores_from(word, start)
            weights = [self._strength * score + total[end] for end, score in scores]
            most = max(weights)
            total[start] = most + log(sum(exp(weight - most) for weight in weights))
            sums = accumulate(exp(weight - total[start]) for weight in weights)
            choices.append((tuple(end for end, _ in scores), tuple(sums)))
        self._cache[word] = tuple(reversed(choices))
        return self._cache[word]
