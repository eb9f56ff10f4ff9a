"""Noun phrases and subjects of the German-English grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from clearhead.data.phrasebook.de_en.lexicon import (
    ADJECTIVES,
    BARE,
    COUNTS,
    NO,
    NOT_ANY,
    NOUNS,
    OWNERS,
    THE,
    THIS,
    A,
)
from clearhead.data.phrasebook.de_en.words import Adjective, Case, Determiner, Gender, Noun
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.english import HE, ME, THEY, WE, YOU, a_or_an
from clearhead.data.phrasebook.fragment import Fragment, weave

# Forms for masculine, feminine, neuter and plural.
ARTICLE: dict[Case, str] = {
    "nominative": "der die das die",
    "accusative": "den die das die",
    "dative": "dem der dem den",
}
STRONG: dict[Case, str] = {
    "nominative": "er e es e",
    "accusative": "en e es e",
    "dative": "em er em en",
}
# As above, but - where ein, mein, kein have no ending.
MIXED: dict[Case, str] = {
    "nominative": "- e - e",
    "accusative": "en e - e",
    "dative": "em er em en",
}
AFTER_STRONG: dict[Case, str] = {
    "nominative": "e e e en",
    "accusative": "en e e en",
    "dative": "en en en en",
}
AFTER_MIXED: dict[Case, str] = {
    "nominative": "er e es en",
    "accusative": "en e es en",
    "dative": "en en en en",
}
ADJECTIVE = {"strong": AFTER_STRONG, "mixed": AFTER_MIXED, "bare": STRONG}

# A determiner, and whether the noun behind it is plural.
Choice = tuple[Determiner, bool]

POINTING: tuple[Choice, ...] = (
    *[(THE, False)] * 4,
    *[(THE, True)] * 2,
    *[(THIS, False), (THIS, True)] * 2,
)
OWNED: tuple[Choice, ...] = tuple((owner, plural) for owner in OWNERS for plural in (False, True))
SPECIFIC = (*POINTING, *OWNED)
ONE: tuple[Choice, ...] = ((A, False),)
SOME: tuple[Choice, ...] = tuple((count, True) for count in COUNTS)
FEW = SOME[:4]  # two to five, which one says more often
PLAIN: tuple[Choice, ...] = ((BARE, False), (BARE, True))  # water, apples
NAMED = PLAIN[:1]  # names have no other
NONE: tuple[Choice, ...] = ((NO, False),)
NOTHING: tuple[Choice, ...] = ((NOT_ANY, False), (NOT_ANY, True))  # kein wasser, keine äpfel


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, and what the rest of the sentence asks of it."""

    fragment: Fragment
    noun: Noun
    plural: bool
    determiner: Determiner

    @property
    def person(self) -> int:
        """Third person, singular or plural."""
        return THEY if self.plural else HE


@dataclass(frozen=True)
class Subject:
    """Who does it; `pronoun` is how the next clause speaks of it, None if it cannot."""

    fragment: Fragment
    person: int
    pronoun: Fragment | None


ICH, DU, WIR = (weave("ich/p", "i/p"), weave("du/p", "you/p"), weave("wir/p", "we/p"))
ER, SIE, THEM = (weave("er/p", "he/p"), weave("sie/p", "she/p"), weave("sie/p", "they/p"))
PERSONS = (
    *(Subject(word, person, word) for word, person in ((ICH, ME), (DU, YOU), (ER, HE))),
    *(Subject(word, person, word) for word, person in ((SIE, HE), (WIR, WE), (THEM, THEY))),
)
# A neuter person would be es in German, but he or she in English: none is spoken of twice.
AGAIN: dict[Gender, Fragment | None] = {"m": ER, "f": SIE, "n": None}


def subject_of(phrase: Phrase) -> Subject:
    """The subject that a noun phrase makes."""
    pronoun = THEM if phrase.plural else AGAIN[phrase.noun.gender]
    return Subject(phrase.fragment, phrase.person, pronoun)


@cache
def nouns_of(kinds: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns of any of these kinds."""
    return tuple(noun for noun in NOUNS if noun.kinds & kinds)


def kind(words: str) -> tuple[Noun, ...]:
    """The nouns of any of the kinds named."""
    return nouns_of(frozenset(words.split()))


@cache
def adjectives_of(noun: Noun, at_noun: bool = False) -> tuple[Adjective, ...]:
    """The adjectives that suit a noun; at the noun itself none that says open (open the door)."""
    hidden = "open" if at_noun else ""
    return tuple(
        adjective
        for adjective in ADJECTIVES
        if adjective.suits & noun.kinds and hidden not in adjective.suits
    )


@cache
def choices(noun: Noun, wanted: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Those of the wanted determiners that this noun can take; a name needs none."""
    if "name" in noun.kinds:
        return NAMED
    return tuple(choice for choice in wanted if _takes(noun, *choice))


def _takes(noun: Noun, determiner: Determiner, plural: bool) -> bool:
    if plural and noun.plurals is None:
        return False
    if "kin" in noun.kinds:
        return determiner in OWNERS
    if noun.kinds & {"adult", "youth", "place", "shade"} and determiner in OWNERS:
        return False
    if determiner in (BARE, NOT_ANY):
        return plural or noun.plurals is None
    if determiner is A and "cup" in noun.kinds:
        return True
    return determiner not in (A, NO) or noun.plurals is not None


@cache
def build(
    noun: Noun,
    determiner: Determiner,
    plural: bool,
    case: Case = "nominative",
    adjective: Adjective | None = None,
) -> Phrase:
    """The noun phrase: `einen roten apfel`, `a red apple`."""
    column = 3 if plural else "mfn".index(noun.gender)
    left = f"{noun.decline(case, plural)}/n"
    right = f"{noun.plurals[1] if plural and noun.plurals else noun.english}/n"
    if adjective:
        ending = ADJECTIVE[determiner.endings][case].split()[column]
        left = f"{adjective.stem}{ending}/a {left}"
        right = f"{adjective.english}/a {right}"
    if determiner is not BARE:
        left = f"{_inflect(determiner, case, column)}/d {left}"
        article = determiner.plural if plural else determiner.english
        if article == "a":
            article = a_or_an(right)
        right = f"{article}/d {right}" if article else right
    return Phrase(weave(left, right), noun, plural, determiner)


def _inflect(determiner: Determiner, case: Case, column: int) -> str:
    if determiner is THE:
        return ARTICLE[case].split()[column]
    if determiner.endings == "bare":
        return determiner.german
    endings = STRONG if determiner.endings == "strong" else MIXED
    return determiner.german + endings[case].split()[column].removeprefix("-")


def some(
    dice: Dice,
    nouns: Sequence[Noun],
    wanted: tuple[Choice, ...],
    case: Case = "nominative",
    adjectives: float = 0.0,
) -> Phrase:
    """A noun phrase by chance, with an adjective as often as `adjectives` says."""
    noun = dice.pick(nouns)
    options = choices(noun, wanted)
    while not options:
        noun = dice.pick(nouns)
        options = choices(noun, wanted)
    determiner, plural = dice.pick(options)
    adjective = None
    if not noun.kinds & {"kin", "name"} and dice.chance(adjectives):
        fitting = adjectives_of(noun, at_noun=True)
        adjective = dice.pick(fitting) if fitting else None
    return build(noun, determiner, plural, case, adjective)


def someone(dice: Dice, pronouns: float = 0.55) -> Subject:
    """A subject by chance: a pronoun, or a person."""
    if dice.chance(pronouns):
        return dice.pick(PERSONS)
    return subject_of(some(dice, kind("person"), SPECIFIC))
