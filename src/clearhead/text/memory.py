"""A translation memory: the translations of earlier texts.

Two texts are the same if their normal forms are, with a symbol for each protected span: the memory
has "Delete %1?" if it has "Delete %s?". How similar two texts are is 1 - d / (m + n), where d is
the number of characters to insert and to delete, and m and n are the lengths of the texts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from clearhead.text.spans import SOFTWARE, Masked, Protection
from clearhead.tokenizer import SYMBOLS
from clearhead.tokenizer.normal_form import PLAIN, NormalForm, is_blank


class Match(NamedTuple):
    """The translation of a text in a memory, with the spans of the text to translate.

    `similarity` is that of the text to translate and the text in the memory: 1 if they are the
    same, 0 if they have no character in common.
    """

    similarity: float
    text: str


class Memory:
    """The translations of texts.

    If a text has several translations, the most frequent counts, and of those the last. A pair
    whose sides have different spans counts for the very same text only.

    Args:
        pairs: texts and their translations; pairs with a blank side are left out.
        protection: the spans that need not be the same.
        form: the normal form.
        least: the least similarity of a match that `find` gives.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]],
        protection: Protection = SOFTWARE,
        form: NormalForm = PLAIN,
        least: float = 1.0,
    ) -> None:
        self._protection, self._form, self._least = protection, form, least
        same, masked = dict[str, dict[str, int]](), dict[str, dict[str, int]]()
        for source, target in pairs:
            if is_blank(source) or is_blank(target):
                continue
            _count(same, self._key(source), target)
            own = protection.mask(source)
            translation = protection.mask_like(target, own)
            if own.keeps(translation) and not self._has_others(own, translation):
                _count(masked, self._key(own.text), translation)
        self._same = {key: _most_frequent(found) for key, found in same.items()}
        self._masked = {key: _most_frequent(found) for key, found in masked.items()}

    def __len__(self) -> int:
        """The number of different texts."""
        return len(self._same)

    def find(self, text: str) -> Match | None:
        """The translation that is used for a text, if there is one.

        It has all spans of the text: a similar text counts only if it has as many.
        """
        if (found := self.exact(text)) or self._least >= 1:
            return found
        own = self._protection.mask(text)
        return self._most_similar(own, self._by_symbols.get(_symbols(own.text), ()), self._least)

    def exact(self, text: str) -> Match | None:
        """The translation of the same text, spans aside."""
        if found := self._same.get(self._key(text)):
            return Match(1.0, found)
        own = self._protection.mask(text)
        found = self._masked.get(self._key(own.text))
        return Match(1.0, own.restored(found)) if found else None

    def nearest(self, text: str) -> Match | None:
        """The translation of the most similar text."""
        own = self._protection.mask(text)
        return self.exact(text) or self._most_similar(own, self._sources, 0.0)

    def _most_similar(self, own: Masked, sources: Sequence[str], least: float) -> Match | None:
        """The translation of the most similar of some texts, if that is at least so similar."""
        # Imported here because only this needs it.
        from rapidfuzz.distance import Indel
        from rapidfuzz.process import extractOne

        similarity_of = Indel.normalized_similarity
        best = extractOne(
            self._key(own.text), sources, scorer=similarity_of, score_cutoff=least or None
        )
        if best is None:
            return None
        source, similarity, _ = best
        return Match(similarity, own.restored(self._masked[source]))

    @cached_property
    def _sources(self) -> list[str]:
        return list(self._masked)

    @cached_property
    def _by_symbols(self) -> Mapping[str, list[str]]:
        """The masked texts, by their symbols."""
        found = defaultdict[str, list[str]](list)
        for source in self._masked:
            found[_symbols(source)].append(source)
        return found

    def _key(self, text: str) -> str:
        return " ".join(self._form(text).split())

    def _has_others(self, source: Masked, translation: str) -> bool:
        """Whether a masked translation has spans that its source lacks."""
        found = self._protection.ranges(translation)
        return len(found) > len(source.symbols)


def _symbols(text: str) -> str:
    """The symbols of a masked text, sorted."""
    return "".join(sorted(filter(SYMBOLS.__contains__, text)))


def _count(counts: dict[str, dict[str, int]], key: str, translation: str) -> None:
    """Count a translation of a text, as the last one."""
    found = counts.setdefault(key, {})
    found[translation] = found.pop(translation, 0) + 1


def _most_frequent(counts: dict[str, int]) -> str:
    """The most frequent translation; of several the last."""
    return max(reversed(counts), key=lambda each: counts[each])
