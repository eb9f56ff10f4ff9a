"""The terms of a glossary: where they are in a text, and which forms a translation may have.

A term may have several forms on each side, separated by `|`, such as `Drucker|Druckers`. A form
without capitals is found in any case; another one as it is written, or all in capitals. A
translation may begin a form with a capital; of a term in capitals it has capitals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

from clearhead.errors import Remark
from clearhead.text.placing import word_ranges
from clearhead.text.spans import SOFTWARE, Protection
from clearhead.tokenizer.normal_form import PLAIN, NormalForm

SEPARATOR = "|"


class Term(NamedTuple):
    """An occurrence of a term in a text, and the forms that its translation may have."""

    source: str
    forms: tuple[str, ...]

    @property
    def remark(self) -> Remark:
        """The remark on a text whose translation lacks the term."""
        return Remark("term", f"has a translation without {self.forms[0]!r} for {self.source!r}")


class Placed(NamedTuple):
    """How many terms the sources have, and how many of them the translations have."""

    terms: int
    placed: int


class Glossary:
    """Terms of a pair of languages; of several entries for a term, the first one counts.

    Args:
        entries: source and target of each entry, with their forms. Those without a word on one of
            the sides are left out.
        forms: the normal forms of sources and of translations.
        protection: the spans of a text in which no terms are looked for.
    """

    def __init__(
        self,
        entries: Iterable[tuple[str, str]],
        forms: tuple[NormalForm, NormalForm] = (PLAIN, PLAIN),
        protection: Protection = SOFTWARE,
    ) -> None:
        # Capitals distinguish terms, also if the model does not see them.
        self._source_form = replace(forms[0], lower=False)
        self._target_form, self._protection = forms[1], protection
        self._entries: dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]] = {}
        self._longest: dict[str, int] = {}
        for sources, targets in entries:
            found = _forms(targets)
            for source in _forms(self._source_form(sources)) if found else ():
                words = tuple(_words(source.lower()))
                self._entries.setdefault(words, []).append((source, found))
                self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

    def before(self, other: Glossary) -> Glossary:
        """A glossary with the terms of both, of which these come first."""
        both = copy(other)
        both._entries = {words: [*found] for words, found in self._entries.items()}
        for words, found in other._entries.items():
            both._entries.setdefault(words, []).extend(found)
        both._longest = {
            word: max(self._longest.get(word, 0), other._longest.get(word, 0))
            for word in self._longest | other._longest
        }
        return both

    def __len__(self) -> int:
        """The number of different forms of the sources, in any case."""
        return len(self._entries)

    def find(self, text: str) -> list[Term]:
        """The terms in a text, in their order; the longest one counts where several begin."""
        found = list[Term]()
        text = self._source_form(self._protection.mask(text).text)
        ranges, number = word_ranges(text), 0
        words = [text[start:end].lower() for start, end in ranges]
        while number < len(words):
            longest = min(self._longest.get(words[number], 0), len(words) - number)
            step = 1
            for count in range(longest, 0, -1):
                part = text[ranges[number][0] : ranges[number + count - 1][1]]
                if term := self._term(" ".join(part.split())):
                    found.append(term)
                    step = count
                    break
            number += step
        return found

    def _term(self, written: str) -> Term | None:
        """The term that these words are."""
        entries = self._entries.get(tuple(_words(written.lower())), ())
        # What is written exactly so comes before what has no capitals.
        ways = (
            lambda source: source == written,
            str.islower,
            lambda source: written.isupper() and not source.isupper(),
        )
        for fits in ways:
            for source, forms in entries:
                if fits(source):
                    return Term(written, self._cased(forms, written, source))
        return None

    def _cased(self, forms: Sequence[str], written: str, source: str) -> tuple[str, ...]:
        """The forms as a translation may write them."""
        if written.isupper() and len(written) > 1 and not source.isupper():
            cased = [form.upper() for form in forms]
        else:
            # Capitals within a form are part of it: iPhone.
            cased = [
                each
                for form in forms
                for each in (form, form[:1].upper() + form[1:] if form.islower() else form)
            ]
        return tuple(dict.fromkeys(map(self._target_form, cased)))

    def missing(self, terms: Iterable[Term], translation: str) -> list[Term]:
        """The terms that a translation lacks. Each of its words can be in one term only."""
        words = _words(self._target_form(self._protection.mask(translation).text))
        # A term with many forms can do with the word that another one does not need.
        fewest_first = sorted(terms, key=lambda term: len(term.forms))
        return [
            term
            for term in fewest_first
            if not any(_removed(_words(form), words) for form in term.forms)
        ]

    def count(self, sources: Sequence[str], outputs: Sequence[str]) -> Placed:
        """Compare the terms of sentences with their translations."""
        found = [self.find(source) for source in sources]
        total = sum(map(len, found))
        lacking = sum(len(self.missing(*each)) for each in zip(found, outputs, strict=True))
        return Placed(total, total - lacking)


def _removed(form: list[str], words: list[str]) -> bool:
    """Whether a form is in these words, from which it is removed."""
    for start in range(len(words) - len(form) + 1):
        if words[start : start + len(form)] == form:
            words[start : start + len(form)] = [""]  # what is beside it stays apart
            return True
    return False


def _forms(side: str) -> tuple[str, ...]:
    """The forms of one side of an entry, without those that have no word."""
    forms = (" ".join(form.split()) for form in side.split(SEPARATOR))
    return tuple(dict.fromkeys(form for form in forms if word_ranges(form)))


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_ranges(text)]
