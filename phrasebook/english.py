"""English verb phrases and articles, which both grammars use.

A person is a number: 0 i, 1 you, 2 he, she, it and singular nouns, 3 we, 4 they and plural nouns.
The functions return template text (see `grammar`) with these ties: `v` the verb, `m` the modal
verb, `n` the negation, `q` the question marks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasebook.grammar import tie

Mood = Literal["plain", "negative", "question"]

ME, YOU, HE, WE, THEY = range(5)
BE = ("am", "are", "is", "are", "are")
DO = ("do", "do", "does", "do", "do")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def a_or_an(next_word: str) -> str:
    """The indefinite article before a word, by its first letter, which suffices for these words."""
    return "an" if next_word[0] in "aeiou" else "a"


@dataclass(frozen=True)
class Finite:
    """The forms of a verb phrase in a statement, a negation and a question."""

    plain: str
    negative: str
    opening: str  # before the subject of a question
    rest: str  # after the subject of a question

    def clause(self, mood: Mood, subject: str, rest: str) -> str:
        """The template of a clause with this verb phrase; a question ends with its mark."""
        if mood == "plain":
            return f"{subject} {self.plain} {rest}"
        if mood == "negative":
            return f"{subject} {self.negative} {rest}"
        return f"{self.question(subject, rest)} ?/q"

    def question(self, subject: str, rest: str) -> str:
        """The template of a question without its mark."""
        return f"{self.opening} {subject} {self.rest} {rest}"


def present(base: str, third: str, person: int, letter: str = "v") -> Finite:
    """The simple present: eats, does not eat, does she eat."""
    return _with_do(third if person == HE else base, base, DO[person], letter)


def past(base: str, form: str) -> Finite:
    """The simple past: ate, did not eat, did she eat."""
    return _with_do(form, base, "did", "v")


def be(person: int, letter: str = "v") -> Finite:
    """To be: is, is not, is she."""
    form = f"{BE[person]}/{letter}"
    return Finite(form, f"{form} not/n", form, "")


def auxiliary(word: str, negated: str) -> Finite:
    """A modal verb, which takes no do: can, cannot, can she."""
    return Finite(f"{word}/m", negated, f"{word}/m", "")


def followed(finite: Finite, by: str) -> Finite:
    """The verb phrase followed by more words: wants + to buy."""
    return Finite(
        f"{finite.plain} {by}", f"{finite.negative} {by}", finite.opening, f"{finite.rest} {by}"
    )


def _with_do(form: str, base: str, do: str, letter: str) -> Finite:
    bare = tie(base, letter)
    return Finite(tie(form, letter), f"{do}/n not/n {bare}", f"{do}/{letter}", bare)
