"""Whether the two sides of sentence pairs belong together, judged without knowing the languages.

A source is compared with its own target and with all other targets of the sample, by length and by
the tokens that both have: numbers, names and marks, where rare ones count more. The figure for each
is the share of other targets that fit worse than the own one, on average. It is 0.5 by chance, with
a standard error of 1 / sqrt(12 n) for n pairs. The same figures with the targets shifted by a few
lines show whether lines are displaced. In a dialogue, where each target is also the next source,
they do not.

docs/decisions/0018 has the measurements behind the thresholds.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST = 200  # fewer pairs show nothing
BLOCK = 250  # neighbouring pairs that are also judged by themselves
CHANCE = 0.55  # a figure up to here may be chance
BETTER = 0.1  # by this much, lengths have to fit better to shifted targets
CLEAR = 0.65  # blocks are compared if one of them has at least this figure for length
CHAINED = 0.3  # the share of targets, at least, that are the next source in a dialogue
VARIED = 0.1  # the least standard deviation of the logarithm of lengths that shows anything
NEAR = 20  # the first pair with a shift is known to about this many pairs
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


@dataclass(frozen=True)
class Fit:
    """How well targets fit sources, by length and by shared tokens."""

    length: float
    tokens: float

    @property
    def most(self) -> float:
        return max(self.length, self.tokens)

    def __str__(self) -> str:
        return f"{100 * self.length:.0f} % by length, {100 * self.tokens:.0f} % by shared tokens"


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with the sides of a sample.

    Attributes:
        fit: of the targets as they are.
        shift: lines by which the targets are displaced; 0 if no shift makes them fit.
        better: the fit of the targets shifted back; None without a shift.
        first: about the first pair that is affected. Without a shift, the first pair of the first
            block that does not fit.
    """

    fit: Fit
    shift: int = 0
    better: Fit | None = None
    first: int = 0


def mismatch(sources: Sequence[str], targets: Sequence[str]) -> Mismatch | None:
    """What is wrong with n pairs, blocks of `BLOCK` neighbours; None: nothing, or unclear."""
    if len(sources) < LEAST:
        return None
    sides, every, chained = (
        _Sides(sources, targets),
        range(len(sources)),
        _chained(sources, targets),
    )
    if not sides.are_varied or chained.mean() >= CHAINED:
        return None
    fit = sides.fit(every)
    if found := sides.displaced(every, fit):
        return found
    if fit.most < CHANCE:
        return Mismatch(fit)
    blocks = np.array_split(every, max(1, len(sources) // BLOCK))
    fits = [sides.fit(block) for block in blocks]
    if max(fit.length for fit in fits) < CLEAR:
        return None
    for block, fit in zip(blocks, fits, strict=True):
        if fit.most < CHANCE and chained[block].mean() < CHAINED:
            return sides.displaced(block, fit) or Mismatch(fit, first=int(block[0]))
    return None


class _Sides:
    """How alike each source and each target of a sample are."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        logs = [np.log1p([len(text) for text in side]) for side in (sources, targets)]
        self.are_varied = min(side.std() for side in logs) >= VARIED
        source, target = ((side - side.mean()) / (side.std() + 1e-9) for side in logs)
        by_length = -np.abs(source[:, None] - target[None]).astype(np.float32)
        bags = [_bags(side) for side in (sources, targets)]
        frequency = np.maximum(*(bag.mean(axis=0) for bag in bags))
        rarity = -np.log(np.where(frequency > 0, frequency, 1))
        source, target = (_unit(bag * rarity) for bag in bags)
        self._alike = (by_length, source @ target.T)

    def _shares(self, rows: np.ndarray, shift: int) -> np.ndarray:
        """For both figures and each row, the share of targets that fit worse: (2, rows).

        They are compared with the target `shift` lines after the own one.
        """
        found = []
        for likeness in (each[rows] for each in self._alike):
            own = likeness[np.arange(len(rows)), rows + shift][:, None]
            found.append((likeness < own).mean(axis=1) + 0.5 * (likeness == own).mean(axis=1))
        return np.array(found)

    def _with_partner(self, rows: Sequence[int] | np.ndarray, shift: int) -> np.ndarray:
        partners = np.asarray(rows) + shift
        return np.asarray(rows)[(partners >= 0) & (partners < len(self._alike[0]))]

    def fit(self, rows: Sequence[int] | np.ndarray, shift: int = 0) -> Fit:
        """The fit of some pairs to the targets `shift` lines after the own ones."""
        length, tokens = self._shares(self._with_partner(rows, shift), shift).mean(axis=1)
        return Fit(float(length), float(tokens))

    def displaced(self, rows: Sequence[int] | np.ndarray, fit: Fit) -> Mismatch | None:
        """The mismatch of some pairs with this fit, if they fit better to shifted targets."""
        for shift in OFFSETS:
            better = self.fit(rows, shift)
            if better.length - fit.length > BETTER:
                return Mismatch(fit, shift, better, self._start(shift, int(rows[-1])))
        return None

    def _start(self, shift: int, last: int) -> int:
        """About the first pair with a shift, up to the pair `last`; 0: nearly all pairs have it."""
        rows = self._with_partner(np.arange(last + 1), shift)
        gain = (self._shares(rows, shift) - self._shares(rows, 0)).sum(axis=0)
        # The sum falls as long as targets fit their own sources better, and rises afterwards.
        start = int(np.argmin(np.cumsum(np.append(0.0, gain))[:-1]))
        return int(rows[start]) if start > NEAR else 0


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
        tokens += token if UNSPACED.search(token) else [token]
    return tokens
