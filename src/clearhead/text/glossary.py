"""The terms of a glossary: where they are in a text, and which forms a translation may have.

A term may have several forms on each side, separated by `|`, such as `Drucker|Druckers`.
A form without capitals is found in any case; another one only as it is written. A translation may
begin a form with a capital; of a term in capitals it has capitals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clearhead.errors import Remark
from clearhead.text.placing import word_ranges

SEPARATOR = "|"


class Term(NamedTuple):
    """An occurrence of a term in a text, and the forms that its translation may have."""

    source: str
    forms: tuple[str, ...]

    @property
    def remark(self) -> Remark:
        """The remark on a text whose translation lacks the term."""
        return Remark("term", f"has a translation without {self.forms[0]!r} for {self.source!r}")


class Glossary:
    """Terms of a pair of languages; of several entries for a term, the first one counts.

    Args:
        entries: source and target of each entry, with their forms.
    """

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        self._entries: dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]] = {}
        self._longest: dict[str, int] = {}
        for sources, targets in entries:
            forms = _forms(targets)
            for source in _forms(sources) if forms else ():
                words = tuple(_words(source.lower()))
                self._entries.setdefault(words, []).append((source, forms))
                first = words[0]
                self._longest[first] = max(len(words), self._longest.get(first, 0))

    def find(self, text: str) -> list[Term]:
        """The terms in a text, in their order; the longest one counts where several begin."""
        found, ranges, number = list[Term](), word_ranges(text), 0
        words = [text[start:end].lower() for start, end in ranges]
        while number < len(words):
            longest = min(self._longest.get(words[number], 0), len(words) - number)
            step = 1
            for count in range(longest, 0, -1):
                if term := self._term(text, ranges[number : number + count]):
                    found.append(term)
                    step = count
                    break
            number += step
        return found

    def _term(self, text: str, ranges: Sequence[tuple[int, int]]) -> Term | None:
        """The term that these words are."""
        words = tuple(text[start:end].lower() for start, end in ranges)
        written = text[ranges[0][0] : ranges[-1][1]]
        entries = self._entries.get(words, ())
        # What is written exactly so comes before what has no capitals.
        for source, forms in entries:
            if source == written:
                return Term(written, _cased(forms, written, source))
        for source, forms in entries:
            if source.islower():
                return Term(written, _cased(forms, written, source))
        return None


def missing(terms: Iterable[Term], translation: str) -> list[Term]:
    """The terms that a translation lacks. Each of its words can be in one term only."""
    words = _words(translation)
    return [term for term in terms if not any(_removed(_words(form), words) for form in term.forms)]


def _removed(form: list[str], words: list[str]) -> bool:
    """Whether a form is in these words, from which it is removed."""
    for start in range(len(words) - len(form) + 1):
        if words[start : start + len(form)] == form:
            words[start : start + len(form)] = [""]  # what is beside it stays apart
            return True
    return False


class Placed(NamedTuple):
    """How many terms the sources have, and how many of them the translations have."""

    terms: int
    placed: int


def count_placed(glossary: Glossary, sources: Sequence[str], outputs: Sequence[str]) -> Placed:
    """Compare the terms of sentences with their translations."""
    found = [glossary.find(source) for source in sources]
    total = sum(map(len, found))
    left = sum(len(missing(terms, out)) for terms, out in zip(found, outputs, strict=True))
    return Placed(total, total - left)


def _forms(side: str) -> tuple[str, ...]:
    """The forms of one side of an entry, without those that have no word."""
    forms = (" ".join(form.split()) for form in side.split(SEPARATOR))
    return tuple(dict.fromkeys(form for form in forms if word_ranges(form)))


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_ranges(text)]


def _cased(forms: Sequence[str], written: str, source: str) -> tuple[str, ...]:
    """The forms as a translation may write them."""
    if written.isupper() and len(written) > 1 and not source.isupper():
        return tuple(form.upper() for form in forms)
    cased = (each for form in forms for each in (form, form[:1].upper() + form[1:]))
    return tuple(dict.fromkeys(cased))
