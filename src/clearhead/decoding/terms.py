"""The terms that an output must have, as ids. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from clearhead.text.glossary import Glossary, Term
from clearhead.text.placing import word_ranges
from clearhead.tokenizer import Tokenizer

Ids = tuple[int, ...]


class Form(NamedTuple):
    """A form of a term. `is_glued`: without a space before it, after a mark such as `(`."""

    ids: Ids
    is_glued: bool


class Progress(NamedTuple):
    """How far an output has the terms.

    Attributes:
        placed: the tokens of all terms that it has, and of the one that it ends with.
        complete: the same without one that is not complete.
        left: the numbers of the terms that it lacks.
        wanted: the ids that continue or begin a term that it lacks.
        closes: whether it ends with a term, so that the word must end. Only the ids `longer` may
            continue it, as those of a longer form.
    """

    placed: int
    complete: int
    left: tuple[int, ...]
    wanted: tuple[int, ...]
    closes: bool
    longer: tuple[int, ...]


@dataclass(frozen=True)
class Vocabulary:
    """What the tokens of a target vocabulary are in a text, bool (ids,) each.

    Attributes:
        begins: whether a token after a letter continues its word.
        ends: whether a token ends with a letter or digit.
    """

    begins: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        """Found by decoding each token after a letter."""
        before = tokenizer.encode("a")[:1]
        start = len(tokenizer.decode(before))
        texts = [tokenizer.decode([*before, token])[start:] for token in range(len(tokenizer))]
        return cls(
            np.array([word_ranges(f"a{text}")[0][1] > 1 for text in texts]),
            np.array([word_ranges(f"{text}a")[-1][0] < len(text) for text in texts]),
        )


@dataclass(frozen=True)
class Terms:
    """The terms that an output must have: of each one of its forms, once."""

    forms: tuple[tuple[Form, ...], ...]
    vocabulary: Vocabulary

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The tokens of the shortest form of each term."""
        return tuple(min(len(form.ids) for form in forms) for forms in self.forms)

    @property
    def least(self) -> int:
        """The tokens of all terms."""
        return sum(self.lengths)

    @cached_property
    def ids(self) -> frozenset[int]:
        """All ids of all forms."""
        return frozenset(id for forms in self.forms for form in forms for id in form.ids)

    @cached_property
    def _beginning(self) -> dict[int, list[tuple[int, Form]]]:
        """The forms that begin with an id, with the numbers of their terms; the longest first."""
        found: dict[int, list[tuple[int, Form]]] = {}
        for number, forms in enumerate(self.forms):
            for form in forms:
                found.setdefault(form.ids[0], []).append((number, form))
        for forms in found.values():
            forms.sort(key=lambda each: -len(each[1].ids))
        return found

    def progress(self, tokens: Sequence[int]) -> Progress:
        """How far an output so far has the terms; where several match, the longest one counts."""
        tokens = tuple(tokens)
        left = set(range(len(self.forms)))
        complete, at, closes = 0, 0, False
        longer: set[int] = set()
        partial: dict[int, set[int]] = {}  # the tokens so far, and what continues them
        while at < len(tokens) and left:
            closes, step = False, 1
            for number, form in self._beginning.get(tokens[at], ()):
                end = at + len(form.ids)
                if number not in left or not self._can_begin(form, tokens, at):
                    continue
                if end > len(tokens):
                    so_far = len(tokens) - at
                    if form.ids[:so_far] == tokens[at:]:
                        counted = min(so_far, self.lengths[number])
                        partial.setdefault(counted, set()).add(form.ids[so_far])
                        longer.add(form.ids[so_far])
                elif form.ids == tokens[at:end] and not (
                    end < len(tokens) and self.vocabulary.begins[tokens[end]]
                ):
                    left.remove(number)
                    complete += self.lengths[number]
                    closes, step = end == len(tokens), len(form.ids)
                    break
            at += step
        if closes:
            partial = {}
        best = max(partial, default=0)
        wanted = partial.get(best) or {
            form.ids[0] for number in left for form in self.forms[number] if not form.is_glued
        }
        return Progress(
            complete + best,
            complete,
            tuple(sorted(left)),
            tuple(sorted(wanted)),
            closes,
            tuple(sorted(longer)) if closes else (),
        )

    def _can_begin(self, form: Form, tokens: Ids, at: int) -> bool:
        """Whether a form at this position is no part of a longer word."""
        return not (form.is_glued and at and self.vocabulary.ends[tokens[at - 1]])

    def are_in(self, tokens: Sequence[int]) -> bool:
        """Whether an output has all terms."""
        return not self.progress(tokens).left


class Terminology:
    """A glossary, and its terms as ids of a target vocabulary."""

    def __init__(self, glossary: Glossary, tokenizer: Tokenizer) -> None:
        self.glossary = glossary
        self.find = glossary.find
        self._tokenizer = tokenizer

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Computed when the first term is found."""
        return Vocabulary.of(self._tokenizer)

    def ids(self, found: Collection[Term]) -> Terms | None:
        """The terms as ids; without those that the vocabulary cannot write."""
        encoded = [self._forms(term.forms) for term in found]
        kept = tuple(filter(None, encoded))
        return Terms(kept, self.vocabulary) if kept else None

    def _forms(self, forms: Sequence[str]) -> tuple[Form, ...]:
        # As a word of its own, and after a bracket.
        before = tuple(self._tokenizer.encode("("))
        texts = [*forms, *(f"({form}" for form in forms)]
        found = list[Form]()
        for text, ids in zip(texts, map(tuple, self._tokenizer.encode_batch(texts)), strict=True):
            is_glued = text not in forms
            if is_glued:
                if ids[: len(before)] != before:
                    continue
                ids = ids[len(before) :]
            if ids and self._tokenizer.unk_id not in ids:
                found.append(Form(ids, is_glued))
        own = {form.ids for form in found if not form.is_glued}
        return tuple(
            form for form in dict.fromkeys(found) if not (form.is_glued and form.ids in own)
        )
