"""How similar the languages of two sets of texts are, by the trigrams of letters in their words.

`Profile.overlap` is the Bhattacharyya coefficient of the trigrams of two sets, between 0 and 1. It
grows with the number of texts, so that `Likeness` divides it by the overlap of two sets of the same
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

LEAST_TEXTS = 100
"""Fewer texts show nothing."""

LEAST_LETTERS = 2000
"""Nor do fewer letters."""

TEXTS = 500
"""Texts of a set that are compared, at most."""

FOREIGN = 0.57
"""Texts that are less like each other than this are not in the same language."""

OTHER_SCRIPT = 0.1
"""Texts that are less like each other than this have hardly a letter in common."""

SIMILAR = 0.75
"""Texts that are more like each other than this are of one language and of similar content."""

CLOSER = 0.1
"""Swapped sides are more like the other side by this much."""

RARER = 20
"""Trigrams that are rarer by a factor up to this are covered: a language may be one of many."""

COVERED = 0.8
"""Known texts that cover this much of others have some of their language."""

ONE_WAY = 0.97
"""Pairs of which this share has one direction are all of it; the others are short, or names."""

CLEAR = 0.5
"""Pairs whose sides differ less, by the mean logarithm of ratios of trigrams, have no direction."""

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

    def is_unspaced(self, share: float = 0.5) -> bool:
        """Whether more than this share of letters is of a script without spaces between words."""
        return self.unspaced > share * self.letters


def turned(pairs: Sequence[tuple[str, str]], source: Profile, target: Profile) -> float:
    """The share of pairs from the language of `target` to that of `source`.

    Pairs without a clear direction, such as equal sides, do not count.
    """

    def lean(text: str) -> float:
        grams = Profile([text]).grams
        ratios = (n * log((target.grams[g] + 1) / (source.grams[g] + 1)) for g, n in grams.items())
        return sum(ratios) / max(1, grams.total())

    leans = (lean(one) - lean(other) for one, other in pairs)
    clear = [difference > 0 for difference in leans if abs(difference) > CLEAR]
    return sum(clear) / max(1, len(clear))


class Likeness:
    """Compares texts with a set of known texts.

    Args:
        known: the texts, of which several hundred are enough, in no particular order.
        asked: how many texts are compared with them; at most half as many as `known`.
    """

    def __init__(self, known: Sequence[str], asked: int) -> None:
        every = max(1, len(known) // asked)
        chosen = set(range(0, every * asked, every))
        rest = [text for number, text in enumerate(known) if number not in chosen]
        self._own = Profile([known[number] for number in sorted(chosen)])
        self._known = Profile(rest)

    def of(self, asked: Profile) -> float | None:
        """How similar texts are; about 1 for the same kind of text, None if that is not clear."""
        profiles = (asked, self._own)
        if min(profile.letters for profile in profiles) < LEAST_LETTERS:
            return None
        if asked.is_unspaced() and self._known.is_unspaced(1 / RARER):
            return None  # their characters depend on the subject
        return asked.overlap(self._known) / max(1e-9, self._own.overlap(self._known))

    def covers(self, asked: Profile) -> bool:
        """Whether some of the known texts are in the language of others."""
        return asked.coverage(self._known) >= COVERED
