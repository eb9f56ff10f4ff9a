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
    """A form of a term: its ids, and where they may be.

    A search tries forms that are `wanted`. One that is `apart` does not follow a letter.
    """

    ids: Ids
    wanted: bool = True
    apart: bool = False


class Progress(NamedTuple):
    """How far an output has the terms.

    Attributes:
        placed: the tokens of all terms that it has, and of the one that it ends with.
        complete: the same without one that is not complete.
        wanted: the ids that continue or begin a term that it lacks; empty if it has all.
        longer: None unless it ends with a term, so that the word must end. Only these ids may
            continue it, as those of a longer form.
    """

    placed: int
    complete: int
    wanted: tuple[int, ...]
    longer: tuple[int, ...] | None


@dataclass(frozen=True)
class Vocabulary:
    """What the tokens of a target vocabulary are in a text, bool (ids,) each.

    Attributes:
        continues: whether a token after a letter continues its word.
        ends: whether a token ends with a letter or digit.
    """

    continues: np.ndarray
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
        """The forms that begin with an id, with the numbers of their terms.

        The longest are first, and of those of a length the ones of terms with few forms.
        """
        found: dict[int, list[tuple[int, Form]]] = {}
        for number, forms in enumerate(self.forms):
            for form in forms:
                found.setdefault(form.ids[0], []).append((number, form))
        for forms in found.values():
            forms.sort(key=lambda each: (-len(each[1].ids), len(self.forms[each[0]])))
        return found

    def progress(self, tokens: Sequence[int]) -> Progress:
        """How far an output so far has the terms."""
        tokens = tuple(tokens)
        left, complete, at, closes = set(range(len(self.forms))), 0, 0, False
        partial: dict[int, set[int]] = {}  # by the number of tokens so far, what continues them
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
                elif form.ids == tokens[at:end] and not (
                    end < len(tokens) and self.vocabulary.continues[tokens[end]]
                ):
                    left.remove(number)
                    complete += self.lengths[number]
                    closes, step = end == len(tokens), len(form.ids)
                    break
            at += step
        longer = tuple(sorted(set().union(*partial.values()))) if closes else None
        best = 0 if closes else max(partial, default=0)
        starts = (form.ids[0] for number in left for form in self.forms[number] if form.wanted)
        wanted = partial[best] if best else set(starts)
        return Progress(complete + best, complete, tuple(sorted(wanted)), longer)

    def _can_begin(self, form: Form, tokens: Ids, at: int) -> bool:
        """Whether a form at this position is no part of a longer word."""
        return not (form.apart and at and self.vocabulary.ends[tokens[at - 1]])

    def are_in(self, tokens: Sequence[int]) -> bool:
        """Whether an output has all terms."""
        return not self.progress(tokens).wanted


class Terminology:
    """A glossary, and its terms as ids of a target vocabulary."""

    def __init__(self, glossary: Glossary, tokenizer: Tokenizer) -> None:
        self.glossary = glossary
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
        """The ids of each form as a word of its own, and right after a mark or a word."""
        before = tuple(self._tokenizer.encode("("))
        texts = [*forms, *(f"({form}" for form in forms)]
        encoded = list(map(tuple, self._tokenizer.encode_batch(texts)))
        found = list[Form]()
        for form, alone, after in zip(forms, encoded, encoded[len(forms) :], strict=False):
            # In a script without spaces a form follows a word immediately.
            is_spaced = word_ranges(f"a{form}")[0][1] > 1
            found.append(Form(alone, wanted=is_spaced))
            if after[: len(before)] == before and after[len(before) :] != alone:
                found.append(Form(after[len(before) :], wanted=not is_spaced, apart=is_spaced))
        unknown = self._tokenizer.unk_id
        found = [form for form in dict.fromkeys(found) if form.ids and unknown not in form.ids]
        # A script without spaces may have one way only to write a form.
        has_wanted = any(form.wanted for form in found)
        return tuple(found if has_wanted else (form._replace(wanted=True) for form in found))
