"""Noun phrases and subjects of the English-Spanish grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.en_es.lexicon import (
    ADJECTIVES,
    BARE,
    COUNTS,
    NOUNS,
    OWNERS,
    THAT,
    THE,
    THIS,
    A,
)
from clearhead.data.phrasebook.en_es.words import Adjective, Determiner, Gender, Noun, agree
from clearhead.data.phrasebook.english import HE, ME, THEY, WE, YOU, a_or_an
from clearhead.data.phrasebook.fragment import Fragment, weave

# A determiner, and whether the noun behind it is plural.
Choice = tuple[Determiner, bool]

POINTING: tuple[Choice, ...] = (
    *[(THE, False)] * 4,
    *[(THE, True)] * 3,
    *((word, plural) for word in (THIS, THAT) for plural in (False, True)),
)
OWNED: tuple[Choice, ...] = tuple((owner, plural) for owner in OWNERS for plural in (False, True))
ONE: tuple[Choice, ...] = ((A, False),)
SOME: tuple[Choice, ...] = tuple((count, True) for count in COUNTS)
FEW = SOME[:4]  # two to five, which one says more often
PLAIN: tuple[Choice, ...] = ((BARE, False), (BARE, True))  # water, apples
NAMED = PLAIN[:1]  # names have no other


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, and what the rest of the sentence asks of it."""

    fragment: Fragment
    noun: Noun
    plural: bool
    definite: bool = True

    @property
    def person(self) -> int:
        """Third person, singular or plural."""
        return THEY if self.plural else HE


@dataclass(frozen=True)
class Subject:
    """Who does it. Spanish drops its pronouns but for él and ella, which English tells apart."""

    person: int
    gender: Gender
    phrase: Fragment | None  # None: dropped in Spanish

    @classmethod
    def of(cls, phrase: Phrase) -> Subject:
        """The subject that a noun phrase makes."""
        return cls(phrase.person, phrase.noun.gender, phrase.fragment)

    @property
    def plural(self) -> bool:
        """Whether the subject is more than one."""
        return self.person in (WE, THEY)

    @property
    def slots(self) -> dict[str, Fragment]:
        """What fills the slot S, if there is one."""
        return {} if self.phrase is None else {"S": self.phrase}

    def english(self, letter: str) -> str:
        """Template text; a pronoun that Spanish drops is tied to the verb that tells it."""
        return "S" if self.phrase else f"{PRONOUNS[self.person]}/{letter}"

    @property
    def spanish(self) -> str:
        """Template text."""
        return "S" if self.phrase else ""


PRONOUNS = ("i", "you", "he", "we", "they")
EL = Subject(HE, "m", weave("he/p", "él/p"))
ELLA = Subject(HE, "f", weave("she/p", "ella/p"))
# With adjectives, i, you, we and they are masculine here: the form that may mean anyone.
DROPPED = tuple(Subject(person, "m", None) for person in (ME, YOU, WE, THEY))
PERSONS = (*DROPPED, EL, ELLA)


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
    if noun.kinds & {"person", "place", "world", "shade"} and determiner in OWNERS:
        return False
    if "world" in noun.kinds:
        return determiner is THE
    if determiner is BARE:
        return plural or noun.plurals is None
    return determiner is not A or noun.plurals is not None


@cache
def build(
    noun: Noun, determiner: Determiner, plural: bool, adjective: Adjective | None = None
) -> Phrase:
    """The noun phrase: `two black cats`, `dos gatos negros`."""
    one, uno = noun.plurals if plural and noun.plurals else (noun.english, noun.spanish)
    left, right = f"{one}/n", f"{uno}/n"
    if adjective:
        left = f"{adjective.english}/a {left}"
        right = f"{right} {agree(adjective.spanish, noun.gender, plural)}/a"
    if determiner is not BARE:
        article = determiner.plural if plural else determiner.english
        if determiner is A:
            article = a_or_an(left)
        left = f"{article}/d {left}"
        right = f"{_spanish_article(noun, determiner, plural)}/d {right}"
    definite = determiner not in (A, BARE, *COUNTS)
    return Phrase(weave(left, right), noun, plural, definite or "name" in noun.kinds)


def build_generic(noun: Noun, plural: bool) -> Phrase:
    """Apples in general, which take an article in Spanish alone: `apples`, `las manzanas`."""
    one, uno = noun.plurals if plural and noun.plurals else (noun.english, noun.spanish)
    article = _spanish_article(noun, THE, plural)
    return Phrase(weave(f"{one}/n", f"{article}/n {uno}/n"), noun, plural)


def _spanish_article(noun: Noun, determiner: Determiner, plural: bool) -> str:
    if determiner is THE and noun.stressed_a and not plural:
        return "el"
    return agree(determiner.spanish, noun.gender, plural)


def some(
    dice: Dice, nouns: Sequence[Noun], wanted: tuple[Choice, ...], adjectives: float = 0.0
) -> Phrase:
    """A noun phrase by chance, with an adjective as often as `adjectives` says."""
    noun = dice.pick(nouns)
    options = choices(noun, wanted)
    while not options:
        noun = dice.pick(nouns)
        options = choices(noun, wanted)
    determiner, plural = dice.pick(options)
    adjective = None
    if not noun.kinds & {"kin", "name", "world"} and dice.chance(adjectives):
        adjective = dice.pick(adjectives_of(noun, at_noun=True))
    return build(noun, determiner, plural, adjective)


def someone(dice: Dice, pronouns: float = 0.55) -> Subject:
    """A subject by chance: a pronoun, or a person."""
    if dice.chance(pronouns):
        return dice.pick(PERSONS)
    return Subject.of(some(dice, kind("person"), (*POINTING, *OWNED)))
