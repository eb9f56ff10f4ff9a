"""Whether texts are in the language of others, by the share of their words that the others have.

Texts of one language share many words even if they are about different things, and texts of
different languages hardly any. In several languages at once, known texts still have the words of
each. docs/decisions/0018 has the measurements behind the thresholds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from clearhead.data.judging.pairing import READ, UNSPACED

LEAST_WORDS = 200  # fewer words show nothing

_WORD = re.compile(r"[^\W\d_]+")


def words_of(texts: Sequence[str]) -> Counter[str]:
    """The words of texts, lower-cased; the single characters of scripts without spaces."""
    words: Counter[str] = Counter()
    for text in texts:
        for word in _WORD.findall(text[:READ].lower()):
            words.update(word if UNSPACED.search(word) else [word])
    return words


def letters_of(words: Counter[str]) -> Counter[str]:
    """The letters of words."""
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    return letters


def known_share(words: Counter[str], known: Counter[str]) -> float:
    """The share of words, or letters, that are known; 1 if there are too few to judge by."""
    if min(words.total(), known.total()) < LEAST_WORDS:
        return 1.0
    return sum(count for word, count in words.items() if word in known) / words.total()
