"""Whether the two sides of sentence pairs belong together, judged without knowing the languages.

A source is compared with its own target and with all other targets of the sample, in three ways:

- by length: a long source has a long target;
- by shared tokens: numbers, names and punctuation marks that are in both, rare ones counting more;
- by words that go together: how often words of both sides occur in the same pairs is counted in one
  half of the sample and applied to the other.

The figure for each is the share of other targets that fit worse than the own one, on average. It is
0.5 by chance, with a standard error of 1 / sqrt(12 n) for n pairs. The same figure with the targets
shifted by a few lines shows whether the lines are displaced. In a dialogue, where each target is
also the next source, it does not.

docs/decisions/0018 has the measurements behind the thresholds.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

LEAST = 200
"""Fewer pairs show nothing."""

BLOCK = 250
"""Neighbouring pairs that are also judged by themselves, if there are several blocks."""

CHANCE = 0.55
"""A figure up to here may be chance."""

BETTER = 0.1
"""Shifted targets have to fit better by this much."""

CLEAR = 0.75
"""Blocks are compared if one of them has at least this figure for words."""

CHAINED = 0.3
"""The share of targets that are the next source, at least, in a dialogue."""

VARIED = 0.1
"""The least standard deviation of the logarithm of lengths that shows anything."""

NEAR = 20
"""The first pair with a shift is known to about this many pairs."""

OFFSETS = (1, -1, 2, -2)
WIDTH = 1024  # of the vectors of hashed tokens
READ = 1000  # characters of a text whose tokens are compared

NO_SPACES = (
    # Thai, Lao, Tibetan, Burmese; Khmer; Tai Le, New Tai Lue; Tai Tham; Balinese
    r"\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"
    # Japanese, Bopomofo; Chinese; Yi; Javanese, Burmese; Burmese; Chinese; Japanese; Chinese
    r"\u3040-\u312f\u3400-\u9fff\ua000-\ua4cf\ua980-\ua9ff\uaa60-\uaa7f\uf900-\ufaff"
    r"\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The characters of scripts without spaces between words, for a set in a regular expression."""

UNSPACED = re.compile(rf"[{NO_SPACES}\uac00-\ud7af]")
"""A character of such a script or of Korean, compared one by one."""

_TOKEN = re.compile(r"\d+|[^\W\d_]+|[^\w\s]")
_QUOTES = '«»„“”‟"‘’‚`´「」『』'
_MARKS: dict[str, str] = {mark: "'" for mark in _QUOTES}  # noqa: C420
_MARKS |= {"。": ".", "।": ".", "、": ",", "،": ",", "؟": "?", "—": "-", "–": "-"}


@dataclass(frozen=True)
class Fit:
    """How well targets fit sources: by length, by shared tokens, by words that go together."""

    length: float
    tokens: float
    words: float

    @property
    def most(self) -> float:
        """The greatest figure."""
        return max(self.length, self.tokens, self.words)

    @property
    def percent(self) -> tuple[str, str, str]:
        """The figures for people."""
        length, tokens, words = (
            f"{100 * value:.0f} %" for value in (self.length, self.tokens, self.words)
        )
        return length, tokens, words


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with the sides of a sample.

    Attributes:
        fit: of the targets as they are; without a shift, 0.5 is chance for all figures.
        shift: lines by which the targets are displaced; 0 if no shift makes them fit.
        better: the fit of the targets shifted back; None without a shift.
        first: about the first pair with this shift; without one, the first pair of the first block
            that does not fit. 0: all pairs are affected.
    """

    fit: Fit
    shift: int = 0
    better: Fit | None = None
    first: int = 0


def mismatch(sources: Sequence[str], targets: Sequence[str]) -> Mismatch | None:
    """What is wrong with n pairs, blocks of `BLOCK` neighbours; None: nothing, or unclear."""
    if len(sources) < LEAST:
        return None
    sides = _Sides(sources, targets)
    if min(sides.spread) < VARIED or sides.chained.mean() >= CHAINED:
        return None
    fit = sides.fit(0)
    if found := sides.shifted(fit, sides.rows(0), learned=None):
        return found
    if max(fit.length, fit.tokens) < CHANCE:
        fit = replace(fit, words=0.5 + fit.words - sides.words_by_chance())
        if fit.words < CHANCE:
            return Mismatch(fit)
    return sides.mismatch_of_blocks()


Halves: TypeAlias = tuple[np.ndarray, ...]
"""For each half of a sample the counts of tokens that go together: (WIDTH, WIDTH)."""


class _Sides:
    """The sides of n pairs as numbers."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.chained = _chained(sources, targets)
        logs = [np.log1p([len(text) for text in side]) for side in (sources, targets)]
        self.spread = [float(side.std()) for side in logs]
        source, target = ((side - side.mean()) / (side.std() + 1e-9) for side in logs)
        self._by_length = -np.abs(source[:, None] - target[None]).astype(np.float32)
        bags = [_bags(side) for side in (sources, targets)]
        frequency = np.maximum(*(bag.mean(axis=0) for bag in bags))
        rarity = -np.log(np.where(frequency > 0, frequency, 1))
        source, target = (_unit(bag * rarity) for bag in bags)
        self._by_tokens = source @ target.T
        self._words = [(bag - bag.mean(0)) / np.sqrt(bag.mean(0) + 1 / len(bag)) for bag in bags]
        self._unit_target = _unit(self._words[1]).T
        self._halves: dict[int, Halves] = {}
        size = min(BLOCK, len(sources) // 2)
        self._in_half = np.arange(len(sources)) // size % 2 == 0

    def rows(self, shift: int) -> np.ndarray:
        """The pairs that have a target `shift` lines after their own."""
        count = len(self._in_half)
        return np.arange(max(0, -shift), count - max(0, shift))

    def fit(self, shift: int, among: np.ndarray | None = None, learned: int | None = None) -> Fit:
        """The fit to the targets `shift` lines after the own ones.

        `among` are the pairs for which it is measured, by default all. Words that go together are
        learned from all pairs with the shift `learned`, by default `shift`.
        """
        rows = self.rows(shift)
        if among is not None:
            rows = np.intersect1d(rows, among)
        together = self._learned(shift if learned is None else learned)
        figures = (
            _shares(self._by_length[rows], rows + shift),
            _shares(self._by_tokens[rows], rows + shift),
            self._by_words(rows, rows + shift, together),
        )
        return Fit(*(float(figure.mean()) for figure in figures))

    def shifted(self, fit: Fit, among: np.ndarray, learned: int | None) -> Mismatch | None:
        """The mismatch of some pairs with this fit, if they fit better to shifted targets."""
        for shift in OFFSETS:
            rows = np.intersect1d(self.rows(shift), among)
            by_length = float(_shares(self._by_length[rows], rows + shift).mean())
            if by_length - fit.length <= BETTER:
                continue
            better = self.fit(shift, among, learned)
            if better.words - fit.words > BETTER:
                first = self._start(shift, int(among[-1]), learned)
                return Mismatch(fit, shift, better, first)
        return None

    def _start(self, shift: int, last: int, learned: int | None) -> int:
        """About the first pair with a shift, up to the pair `last`; 0: nearly all pairs have it."""
        rows, together = self.rows(shift), self._learned(shift if learned is None else learned)
        rows = rows[rows <= last]
        own, shifted = (self._by_words(rows, rows + by, together) for by in (0, shift))
        # The sum falls as long as targets fit their own sources better, and rises afterwards.
        start = int(np.argmin(np.cumsum(np.append(0.0, shifted - own))[:-1]))
        return int(rows[start]) if start > NEAR else 0

    def words_by_chance(self) -> float:
        """The figure for words of pairs that do not belong together: frequent words raise it."""
        rows = self.rows(0)
        far = [np.roll(rows, len(rows) * part // 7) for part in (2, 3, 4, 5)]
        figures = [self._by_words(rows, own, self._together(rows, own)).mean() for own in far]
        return float(np.mean(figures))

    def mismatch_of_blocks(self) -> Mismatch | None:
        """What is wrong from some block on, in a sample that fits as a whole."""
        blocks = np.array_split(self.rows(0), max(1, len(self._in_half) // BLOCK))
        fits = [self.fit(0, block) for block in blocks] if len(blocks) > 1 else []
        if max((fit.words for fit in fits), default=0.0) < CLEAR:
            return None
        for block, fit in zip(blocks, fits, strict=True):
            if self.chained[block].mean() >= CHAINED:
                continue
            if max(fit.length, fit.tokens, fit.words - 0.05) < CHANCE:
                whole = Mismatch(fit, first=int(block[0]))
                return self.shifted(fit, block, learned=0) or whole
        return None

    def _learned(self, shift: int) -> Halves:
        if shift not in self._halves:
            self._halves[shift] = self._together(self.rows(shift), self.rows(shift) + shift)
        return self._halves[shift]

    def _together(self, pairs: np.ndarray, partners: np.ndarray) -> Halves:
        """How often words go together, for each half of the sample counted in the other."""
        source, target = self._words
        first, second = (half[pairs] for half in (self._in_half, ~self._in_half))
        return tuple(source[pairs[each]].T @ target[partners[each]] for each in (second, first))

    def _by_words(self, rows: np.ndarray, own: np.ndarray, together: Halves) -> np.ndarray:
        """The share of targets that fit worse than `own`, for each of the rows."""
        source, _ = self._words
        found = np.empty(len(rows), dtype=np.float32)
        for half, counts in zip((self._in_half, ~self._in_half), together, strict=True):
            asked = half[rows]
            if asked.any():
                vectors = _unit(source[rows[asked]] @ counts)
                found[asked] = _shares(vectors @ self._unit_target, own[asked])
        return found


def _chained(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
    """For each pair, whether its target ends the next source, or its source has the next target."""
    following = zip(sources, targets, [*sources[1:], ""], [*targets[1:], ""], strict=True)
    return np.array(
        [
            bool(target and next_source.endswith(target))
            or bool(next_target and source.endswith(next_target))
            for source, target, next_source, next_target in following
        ]
    )


def _shares(likeness: np.ndarray, own: np.ndarray) -> np.ndarray:
    """For each row, the share of columns with a smaller value than that of the column `own`."""
    value = likeness[np.arange(len(own)), own][:, None]
    return (likeness < value).mean(axis=1) + 0.5 * (likeness == value).mean(axis=1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9)


def _bags(texts: Sequence[str]) -> np.ndarray:
    """Which hashed tokens each text has: float32 (texts, WIDTH)."""
    bags = np.zeros((len(texts), WIDTH), dtype=np.float32)
    for bag, text in zip(bags, texts, strict=True):
        bag[[zlib.crc32(token.encode()) % WIDTH for token in _tokens(text)]] = 1
    return bags


def _tokens(text: str) -> list[str]:
    """Lower-cased words, numbers and marks; the characters of scripts without spaces."""
    tokens: list[str] = []
    # Full-width marks and digits become ordinary ones.
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text[:READ]).lower()):
        if UNSPACED.search(token):
            tokens += token
        else:
            tokens.append(_MARKS.get(token) or token)
    return tokens
