"""Subword regularisation: segmentations drawn at random, the same for the same seed everywhere.

SentencePiece has such sampling built in, but its generator is salted in each process, so that a
run which is resumed could never see again what it saw. Here the draw depends on the seed alone.
SentencePiece's pieces never reach across a space, so that each word is drawn by itself, from
what was worked out when the word was first met.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise
from math import exp, log, log1p
from random import Random
from sys import intern

import sentencepiece

META_SPACE = "\u2581"
# A word, with the space before it. A longer "word" (a sentence in Chinese, a line of base64) is
# taken in parts: the work grows with the square of the length.
_WORD = re.compile(f"{META_SPACE}[^{META_SPACE}]{{0,40}}|[^{META_SPACE}]{{1,40}}")
_MAX_REMEMBERED = 200_000


class SegmentSampler:
    """Draws segmentations of texts with the pieces of a SentencePiece model.

    Args:
        processor: the model.
        kind: "bpe" or "unigram", as the model was learned.
        strength: for BPE the chance that a merge is left out (Provilkov et al. 2020, algorithm
            1); for unigram the exponent on the probability of a segmentation (Kudo 2018,
            section 3.2, over all segmentations): 1 draws from the model, near 0 evenly.
    """

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, kind: str, strength: float
    ) -> None:
        self._vocabulary = vocabulary = _Vocabulary(processor)
        self._strength = strength
        self._words = _Merges(vocabulary) if kind == "bpe" else _Lattices(vocabulary, strength)

    def sample(self, texts: Iterable[str], seed: int) -> list[list[int]]:
        """The ids of one segmentation of each text: a function of (texts, seed) alone."""
        chance = _Chance(seed, self._strength)
        return [self._vocabulary.ids_of(self._pieces(text, chance)) for text in texts]

    def _pieces(self, text: str, chance: _Chance) -> list[str]:
        pieces: list[str] = []
        if text:
            for word in _WORD.findall(META_SPACE + text.replace(" ", META_SPACE)):
                pieces += self._words.draw(word, chance)
        return pieces


class _Chance:
    """Uniform numbers, and coins of which the share `strength` shows tails.

    Of the coins only the heads up to the next tails are drawn, at once: most words use up a few
    heads and need no number of their own.
    """

    def __init__(self, seed: int, strength: float) -> None:
        self.uniform = Random(seed).random
        self._strength = strength
        self.heads = self._run_of_heads()

    def throw(self) -> bool:
        """One coin: True for heads."""
        if self.heads > 0:
            self.heads -= 1
            return True
        self.heads = self._run_of_heads()
        return False

    def _run_of_heads(self) -> int:
        return int(min(1e18, log(1.0 - self.uniform()) / log1p(-self._strength)))


class _Vocabulary:
    """The pieces of a model with their ids and scores."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        plain = [
            i
            for i in range(len(processor))
            if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
        ]
        self._ids = {processor.id_to_piece(i): [i] for i in plain}
        self.scores = {processor.id_to_piece(i): processor.get_score(i) for i in plain}
        self.longest = max(map(len, self.scores), default=1)
        # SentencePiece's own penalty for a character without a piece.
        self.unknown_score = min(self.scores.values(), default=0.0) - 10.0
        self._bytes = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        self._has_bytes = processor.is_byte(self._bytes[0])
        self._unk = processor.unk_id()

    def scores_from(self, word: str, start: int) -> list[tuple[int, float]]:
        """Of the pieces that word[start:] can begin with: their ends in the word, their scores."""
        found = [] if word[start] in self.scores else [(start + 1, self.unknown_score)]
        for end in range(start + 1, min(len(word), start + self.longest) + 1):
            score = self.scores.get(word[start:end])
            if score is not None:
                found.append((end, score))
        return found

    def ids_of(self, pieces: Iterable[str]) -> list[int]:
        """Ids of pieces and single characters; what has no id falls back to bytes or unknown."""
        ids: list[int] = []
        for piece in pieces:
            known = self._ids.get(piece)
            if known:
                ids += known
            elif self._has_bytes:
                ids += [self._bytes[byte] for byte in piece.encode()]
            elif not ids or ids[-1] != self._unk:  # neighbouring unknown ones are one
                ids.append(self._unk)
        return ids


class _Merges:
    """Words in BPE: their usual pieces, and what becomes of them when merges are left out.

    A word on its way from characters to pieces is a state, known by a number. What is remembered
    are tuples of strings and numbers, which the garbage collector passes over.
    """

    def __init__(self, vocabulary: _Vocabulary) -> None:
        self._scores = vocabulary.scores
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        self._symbols: list[tuple[str, ...]] = []
        # Of each state: the states that a merge leads to, the best merge first, -1 where it was
        # never made; and, once known, the merges that it usually takes and the pieces then.
        self._next: list[tuple[int, ...]] = []
        self._usual: list[tuple[int, tuple[str, ...]] | None] = []
        self._merges: list[tuple[int, ...]] = []
        self._words: dict[str, int] = {}

    def draw(self, word: str, chance: _Chance) -> tuple[str, ...]:
        """Apply the best merge that is not left out, until all are left out or none remains."""
        state = self._words.get(word, -1)
        if state < 0:
            state = self._begin(word)
        while True:
            steps, pieces = self._usual[state] or self._finish(state)
            if chance.heads >= steps:
                chance.heads -= steps
                return pieces
            while chance.heads > 0:
                chance.heads -= 1
                state = self._next[state][0]
            # The first of the merges, best first, that survives its own throw of the coin.
            for choice in range(len(self._next[state])):
                if chance.throw():
                    state = self._after(state, choice)
                    break
            else:
                return self._symbols[state]

    def _begin(self, word: str) -> int:
        if len(self._symbols) > _MAX_REMEMBERED:
            self._forget()
        state = self._words[word] = self._number(tuple(word))
        return state

    def _number(self, symbols: tuple[str, ...]) -> int:
        state = self._numbers.get(symbols)
        if state is None:
            state = self._numbers[symbols] = len(self._symbols)
            merges = self._rank(symbols)
            self._symbols.append(symbols)
            self._merges.append(merges)
            self._next.append((-1,) * len(merges))
            self._usual.append(None)
        return state

    def _after(self, state: int, choice: int) -> int:
        """The state that a merge leads to."""
        known = self._next[state]
        if known[choice] < 0:
            merged = self._number(_merge(self._symbols[state], self._merges[state][choice]))
            known = self._next[state] = (*known[:choice], merged, *known[choice + 1 :])
        return known[choice]

    def _finish(self, state: int) -> tuple[int, tuple[str, ...]]:
        """How many merges a state takes if none is left out, and its pieces then."""
        end, steps = state, 0
        while self._next[end]:
            end = self._after(end, 0)
            steps += 1
        usual = self._usual[state] = steps, self._symbols[end]
        return usual

    def _rank(self, symbols: tuple[str, ...]) -> tuple[int, ...]:
        """The places of the symbols that can merge with the next, the best merge first."""
        scored = [
            (-score, i)
            for i, (left, right) in enumerate(pairwise(symbols))
            if (score := self._scores.get(left + right)) is not None
        ]
        return tuple(i for _, i in sorted(scored))


def _merge(symbols: tuple[str, ...], i: int) -> tuple[str, ...]:
    return (*symbols[:i], intern(symbols[i] + symbols[i + 1]), *symbols[i + 2 :])


class _Lattices:
    """Words in the unigram model: all segmentations of each, with the weights of what remains."""

    def __init__(self, vocabulary: _Vocabulary, strength: float) -> None:
        self._vocabulary, self._strength = vocabulary, strength
        # Of each place in a word: where a piece from there can end, and up to each of these the
        # summed share of the segmentations that go on so.
        self._known: dict[str, tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]] = {}

    def draw(self, word: str, chance: _Chance) -> list[str]:
        """Pieces from the front, each by its share of the segmentations that go on from there."""
        places = self._known.get(word) or self._prepare(word)
        pieces, start = [], 0
        while start < len(word):
            ends, shares = places[start]
            # Rounding may let the shares add up to a little less than 1.
            at = min(bisect_right(shares, chance.uniform()), len(ends) - 1) if len(ends) > 1 else 0
            pieces.append(word[start : ends[at]])
            start = ends[at]
        return pieces

    def _prepare(self, word: str) -> tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]:
        if len(self._known) > _MAX_REMEMBERED:
            self._known.clear()
        places: list[tuple[tuple[int, ...], tuple[float, ...]]] = []
        # total[i] is the log of the summed weights of all segmentations of word[i:].
        total = [0.0] * (len(word) + 1)
        for start in reversed(range(len(word))):
            scores = self._vocabulary.scores_from(word, start)
            weights = [self._strength * score + total[end] for end, score in scores]
            most = max(weights)
            total[start] = most + log(sum(exp(weight - most) for weight in weights))
            shares = accumulate(exp(weight - total[start]) for weight in weights)
            places.append((tuple(end for end, _ in scores), tuple(shares)))
        known = self._known[word] = tuple(reversed(places))
        return known
