"""Noun phrases, subjects and clauses of the English-Spanish grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from phrasebook.en_es.lexicon import (
    ADJECTIVES,
    BARE,
    COUNTS,
    HAVE,
    NOUNS,
    OWNERS,
    THAT,
    THE,
    THIS,
    WASH,
    A,
    Adjective,
    Determiner,
    Gender,
    Noun,
    Verb,
    agree,
    conjugate,
)
from phrasebook.english import (
    HE,
    ME,
    THEY,
    WE,
    YOU,
    Finite,
    Mood,
    a_or_an,
    auxiliary,
    be,
    followed,
    present,
)
from phrasebook.grammar import Dice, Fragment, weave

# ---- Noun phrases

# A determiner, and whether its noun is plural.
Choice = tuple[Determiner, bool]

POINTING: tuple[Choice, ...] = (
    *[(THE, False)] * 4,
    *[(THE, True)] * 3,
    *((word, plural) for word in (THIS, THAT) for plural in (False, True)),
)
OWNED: tuple[Choice, ...] = tuple((owner, plural) for owner in OWNERS for plural in (False, True))
ONE: tuple[Choice, ...] = ((A, False),)
SOME: tuple[Choice, ...] = tuple((count, True) for count in COUNTS)
FEW = SOME[:4]  # two to five, the more frequent ones
PLAIN: tuple[Choice, ...] = ((BARE, False), (BARE, True))  # water, apples
NAMED = PLAIN[:1]  # for names


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, and what the rest of the sentence has to know of it."""

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
    """A subject. Spanish drops its pronouns except él and ella, which English distinguishes."""

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
        """Template text; a pronoun that Spanish drops is tied to the verb."""
        return "S" if self.phrase else f"{PRONOUNS[self.person]}/{letter}"

    @property
    def spanish(self) -> str:
        """Template text; empty for a dropped pronoun."""
        return "S" if self.phrase else ""


PRONOUNS = ("i", "you", "he", "we", "they")
EL = Subject(HE, "m", weave("he/p", "él/p"))
ELLA = Subject(HE, "f", weave("she/p", "ella/p"))
# I, you, we and they take masculine adjectives: the form for people of unknown gender.
DROPPED = tuple(Subject(person, "m", None) for person in (ME, YOU, WE, THEY))
PERSONS = (*DROPPED, EL, ELLA)


@cache
def nouns_of(kinds: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns of any of these kinds."""
    return tuple(noun for noun in NOUNS if noun.kinds & kinds)


def kind(words: str) -> tuple[Noun, ...]:
    """The nouns of any of these kinds, given as words."""
    return nouns_of(frozenset(words.split()))


@cache
def adjectives_of(noun: Noun, at_noun: bool = False) -> tuple[Adjective, ...]:
    """The adjectives that suit a noun; `at_noun` leaves out open and closed (open the door)."""
    hidden = "open" if at_noun else ""
    return tuple(
        adjective
        for adjective in ADJECTIVES
        if adjective.suits & noun.kinds and hidden not in adjective.suits
    )


@cache
def choices(noun: Noun, wanted: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Those of the wanted determiners that this noun can take; a name takes none."""
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
    """Apples in general, which take an article only in Spanish: `apples`, `las manzanas`."""
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
    """A random noun phrase; `adjectives` is the probability of an adjective."""
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
    """A random subject: a pronoun (with probability `pronouns`) or a person."""
    if dice.chance(pronouns):
        return dice.pick(PERSONS)
    return Subject.of(some(dice, kind("person"), (*POINTING, *OWNED)))


# ---- Clauses

SER = ("soy", "eres", "es", "somos", "son")
ESTAR = ("estoy", "estás", "está", "estamos", "están")
IR = ("voy", "vas", "va", "vamos", "van")
QUERER = conjugate("querer", strong="quier")
PODER = conjugate("poder", strong="pued")
TENER = HAVE.present

MOODS: tuple[Mood, ...] = ("plain", "plain", "plain", "negative", "question")
SPECIFIC = (*POINTING, *OWNED)
# The determiners of an object, for verbs without and with the usage `bare`.
INDEFINITE = (*SPECIFIC, *ONE * 4, *FEW)
UNCOUNTED = (*INDEFINITE, *PLAIN * 3)


def pick_mood(dice: Dice, subject: Subject) -> Mood:
    """Statement, negation or question; no question about `i`."""
    mood = dice.pick(MOODS)
    return "plain" if mood == "question" and subject.person == ME else mood


def clause(
    mood: Mood,
    subject: Subject,
    verbs: tuple[Finite, str],
    rest: tuple[str, str],
    **slots: Fragment,
) -> Fragment:
    """A clause from its verbs and the words after them, each in English and in Spanish."""
    english, spanish = verbs
    letter = "m" if "/m" in spanish else "v"
    if mood == "question":  # the Spanish verb comes before the subject
        right = f"¿/q {spanish} {subject.spanish} {rest[1]} ?/q"
    else:
        right = f"{subject.spanish} {'no/n' if mood == 'negative' else ''} {spanish} {rest[1]}"
    left = english.clause(mood, subject.english(letter), rest[0])
    return weave(left, right, **subject.slots, **slots)


def be_so(dice: Dice, subject: Subject, adjective: Adjective) -> Fragment:
    """`the soup is very hot`, with ser or estar according to the adjective."""
    left = f"{adjective.english}/a"
    right = f"{agree(adjective.spanish, subject.gender, subject.plural)}/a"
    if adjective.gradable and dice.chance(0.2):
        left, right = f"very/w {left}", f"muy/w {right}"
    verb = (SER if adjective.be == "ser" else ESTAR)[subject.person]
    mood = pick_mood(dice, subject)
    if mood == "question":  # ¿ está sucia la mesa ?
        asked = f"{be(subject.person).opening} {subject.english('v')} {left} ?/q"
        return weave(asked, f"¿/q {verb}/v {right} {subject.spanish} ?/q", **subject.slots)
    return clause(mood, subject, (be(subject.person), f"{verb}/v"), (left, right))


def conjugated(verb: Verb, person: int) -> tuple[Finite, str]:
    """The verb in the present tense, in English and in Spanish."""
    return present(verb.english, verb.third, person), f"{verb.present[person]}/v"


def some_object(dice: Dice, verb: Verb, mood: Mood = "plain") -> tuple[Fragment, str]:
    """A random object of the verb, and its Spanish template text."""
    wanted = UNCOUNTED if "bare" in verb.usage else INDEFINITE
    # No tengo un coche is correct, but no tengo coche is more natural: this generates neither.
    if "known" in verb.usage or (verb is HAVE and mood == "negative"):
        wanted = SPECIFIC
    phrase = some(dice, nouns_of(verb.objects), wanted, adjectives=0.0 if verb is WASH else 0.3)
    personal = "personal" in verb.usage and _is_somebody(phrase)
    return phrase.fragment, "a O" if personal else "O"


def _is_somebody(phrase: Phrase) -> bool:
    kinds = phrase.noun.kinds
    return "person" in kinds or ("pet" in kinds and phrase.definite)


def pick_modal(dice: Dice, person: int, then: str) -> tuple[Finite, str, str]:
    """A random modal verb: English followed by `then`, Spanish, and the Spanish linking word."""
    modal = dice.pick(("want", "can", "have", "going"))
    if modal == "want":
        english = followed(present("want", "wants", person, "m"), f"to/m {then}")
        return english, f"{QUERER[person]}/m", ""
    if modal == "can":
        return followed(auxiliary("can", "cannot/mn"), then), f"{PODER[person]}/m", ""
    if modal == "have":
        english = followed(present("have", "has", person, "m"), f"to/m {then}")
        return english, f"{TENER[person]}/m", "que/m"
    return followed(be(person, "m"), f"going/m to/m {then}"), f"{IR[person]}/m", "a/m"
