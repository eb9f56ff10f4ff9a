"""How similar the languages of two sets of texts are, by the trigrams of letters in their words.

`Profile.overlap` is the Bhattacharyya coefficient of the trigrams of two sets, between 0 and 1. It
grows with the number of texts, so that `Known` divides it by the overlap of two sets of the same
texts: 1 is the same kind of text, and other languages of one script have about 0.5.

Known texts in several languages are unlike texts in one of them, although they cover it. So
`Profile.coverage` counts the trigrams that are not much rarer in the known texts. `turned` judges
the direction of each pair, which is clear even if each side has much of the other language.

docs/decisions/0018 has the measurements behind the thresholds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from clearhead.data.judging.pairing import READ, UNSPACED

LEAST_LETTERS = 2000  # fewer letters show nothing
FOREIGN = 0.57  # texts that are less alike are not in the same language
RARER = 20  # trigrams that are rarer by a factor up to this are covered
COVERED = 0.8  # known texts that cover this much of others have some of their language
CLEAR = 0.5  # pairs whose sides differ less, by the mean logarithm of ratios, have no direction

_WORD = re.compile(r"[^\W\d_]+")


class Profile:
    """The trigrams of the words of texts, with their ends; single letters in unspaced scripts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.grams: Counter[str] = Counter()
        self.letters = self.unspaced = 0
        for text in texts:
            for word in _WORD.findall(text[:READ].lower()):
                self.letters += len(word)
                if UNSPACED.search(word):
                    self.unspaced += len(word)
                    self.grams.update(word)
                else:
                    marked = f" {word} "
                    self.grams.update(marked[n : n + 3] for n in range(len(marked) - 2))

    def overlap(self, other: Profile) -> float:
        """The Bhattacharyya coefficient of two profiles: 0 without common trigrams."""
        common = self.grams.keys() & other.grams.keys()
        products = sum((self.grams[gram] * other.grams[gram]) ** 0.5 for gram in common)
        return products / max(1.0, (self.grams.total() * other.grams.total()) ** 0.5)

    def coverage(self, known: Profile) -> float:
        """The share of the trigrams that `known` has too, at most `RARER` times as rare."""
        scale = RARER * self.grams.total() / max(1, known.grams.total())
        covered = sum(min(count, scale * known.grams[gram]) for gram, count in self.grams.items())
        return covered / max(1, self.grams.total())


class Known:
    """Texts that others are compared with: several hundred, in no particular order."""

    def __init__(self, texts: Sequence[str], asked: int) -> None:
        """`asked` others are compared with the texts, at most half as many."""
        every = max(1, len(texts) // asked)
        chosen = set(range(0, every * asked, every))
        self._own = Profile([texts[number] for number in sorted(chosen)])
        rest = [text for number, text in enumerate(texts) if number not in chosen]
        self._rest = Profile(rest)

    def likeness(self, asked: Profile) -> float | None:
        """About 1 for the same kind of text; None if that is not clear."""
        if min(asked.letters, self._own.letters) < LEAST_LETTERS:
            return None
        if 2 * asked.unspaced > asked.letters and RARER * self._rest.unspaced > self._rest.letters:
            return None  # their characters depend on the subject
        return asked.overlap(self._rest) / max(1e-9, self._own.overlap(self._rest))

    def is_foreign(self, asked: Profile) -> bool:
        """Whether none of the texts are in the language of others."""
        likeness = self.likeness(asked)
        is_unlike = likeness is not None and likeness < FOREIGN
        return is_unlike and asked.coverage(self._rest) < COVERED


def turned(pairs: Sequence[tuple[str, str]], source: Profile, target: Profile) -> float:
    """The share of pairs, of those that are clear, from the language of `target` to `source`."""

    def lean(text: str) -> float:
        grams = Profile([text]).grams
        ratios = (n * log((target.grams[g] + 1) / (source.grams[g] + 1)) for g, n in grams.items())
        return sum(ratios) / max(1, grams.total())

    leans = (lean(one) - lean(other) for one, other in pairs)
    clear = [difference > 0 for difference in leans if abs(difference) > CLEAR]
    return sum(clear) / max(1, len(clear))
