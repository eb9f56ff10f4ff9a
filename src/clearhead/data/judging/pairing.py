"""Whether the two sides of sentence pairs belong together, judged without knowing the languages.

A source is compared with its own target and with all other targets of the sample, by length and by
the tokens that both have: numbers, names and marks, where rare ones count more. The figure for each
is the share of other targets that fit worse than the own one, on average. It is 0.5 by chance, with
a standard error of 1 / sqrt(12 n) for n pairs. Blocks of neighbours are judged one by one, with the
targets shifted by a few lines, too: a better figure shows that lines are displaced. In a dialogue,
where each target is also the next source, it does not.

docs/decisions/0018 has the measurements behind the thresholds.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

LEAST = 200  # fewer pairs show nothing
BLOCK = 250  # neighbouring pairs that are judged together
CHANCE = 0.55  # a figure up to here may be chance
BETTER = 0.1  # by this much, lengths have to fit better to shifted targets
CLEAR = 0.65  # one block may be at chance, unless another has at least this figure for length
CHAINED = 0.3  # the share of targets, at least, that are the next source in a dialogue
VARIED = 0.1  # the least standard deviation of the logarithm of lengths that shows anything
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

    `rows` are the first pairs that do not fit, all of them or a block. `better` is their fit with
    the targets shifted by `shift` lines; None if no shift makes them fit.
    """

    rows: range
    fit: Fit
    shift: int = 0
    better: Fit | None = None


def mismatch(sources: Sequence[str], targets: Sequence[str]) -> Mismatch | None:
    """What is wrong with n pairs, blocks of `BLOCK` neighbours; None: nothing, or unclear."""
    if len(sources) < LEAST:
        return None
    sides, chained = _Sides(sources, targets), _chained(sources, targets)
    if not sides.are_varied or chained.mean() >= CHAINED:
        return None
    every = range(len(sources))
    edges = np.linspace(0, len(every), max(1, len(every) // BLOCK) + 1).astype(int).tolist()
    blocks = [range(*ends) for ends in pairwise(edges)]
    fits = [(rows, sides.fit(rows)) for rows in blocks if chained[rows].mean() < CHAINED]
    for rows, fit in fits:
        for shift in OFFSETS:
            better = sides.fit(rows, shift)
            if better.length - fit.length > BETTER:
                return Mismatch(rows, fit, shift, better)
    if (whole := sides.fit(every)).most < CHANCE:
        return Mismatch(every, whole)
    if max(fit.length for _, fit in fits) < CLEAR:
        return None
    return next((Mismatch(rows, fit) for rows, fit in fits if fit.most < CHANCE), None)


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

    def fit(self, rows: range, shift: int = 0) -> Fit:
        """The fit of some pairs to the targets `shift` lines after the own ones."""
        count = len(self._alike[0])
        own = np.array([row for row in rows if 0 <= row + shift < count])
        shares = []
        for likeness in self._alike:
            theirs, others = likeness[own, own + shift][:, None], likeness[own]
            shares.append(float((others < theirs).mean() + 0.5 * (others == theirs).mean()))
        return Fit(*shares)


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
