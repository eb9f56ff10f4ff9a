"""Clauses of the English-Spanish grammar: subject, verb and what follows, in three moods."""

from __future__ import annotations

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.en_es.lexicon import HAVE, WASH
from clearhead.data.phrasebook.en_es.phrases import (
    FEW,
    ONE,
    OWNED,
    PLAIN,
    POINTING,
    Phrase,
    Subject,
    nouns_of,
    some,
)
from clearhead.data.phrasebook.en_es.words import Adjective, Verb, agree, conjugate
from clearhead.data.phrasebook.english import ME, Finite, Mood, auxiliary, be, followed, present
from clearhead.data.phrasebook.fragment import Fragment, weave

SER = ("soy", "eres", "es", "somos", "son")
ESTAR = ("estoy", "estás", "está", "estamos", "están")
IR = ("voy", "vas", "va", "vamos", "van")
QUERER = conjugate("querer", strong="quier")
PODER = conjugate("poder", strong="pued")
TENER = HAVE.present

MOODS: tuple[Mood, ...] = ("plain", "plain", "plain", "negative", "question")
SPECIFIC = (*POINTING, *OWNED)
# What an object's determiner may be, by what the verb is like.
INDEFINITE = (*SPECIFIC, *ONE * 4, *FEW)
UNCOUNTED = (*INDEFINITE, *PLAIN * 3)


def pick_mood(dice: Dice, subject: Subject) -> Mood:
    """Statement, negation or question; nobody asks what he does himself."""
    mood = dice.pick(MOODS)
    return "plain" if mood == "question" and subject.person == ME else mood


def clause(
    mood: Mood,
    subject: Subject,
    verbs: tuple[Finite, str],
    rest: tuple[str, str],
    **slots: Fragment,
) -> Fragment:
    """A clause from its verbs and from what follows them, each in English and in Spanish."""
    english, spanish = verbs
    letter = "m" if "/m" in spanish else "v"
    if mood == "question":  # the Spanish verb comes before the subject
        right = f"¿/q {spanish} {subject.spanish} {rest[1]} ?/q"
    else:
        right = f"{subject.spanish} {'no/n' if mood == 'negative' else ''} {spanish} {rest[1]}"
    left = english.clause(mood, subject.english(letter), rest[0])
    return weave(left, right, **subject.slots, **slots)


def be_so(dice: Dice, subject: Subject, adjective: Adjective) -> Fragment:
    """`the soup is very hot`, with ser or estar as the adjective wants."""
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
    """What the verb may be done to, and the Spanish template text of it."""
    wanted = UNCOUNTED if "bare" in verb.manners else INDEFINITE
    # No tengo un coche is right, but no tengo coche is better: there is neither of them here.
    if "known" in verb.manners or (verb is HAVE and mood == "negative"):
        wanted = SPECIFIC
    phrase = some(dice, nouns_of(verb.objects), wanted, adjectives=0.0 if verb is WASH else 0.3)
    personal = "personal" in verb.manners and _is_somebody(phrase)
    return phrase.fragment, "a O" if personal else "O"


def _is_somebody(phrase: Phrase) -> bool:
    kinds = phrase.noun.kinds
    return "person" in kinds or ("pet" in kinds and phrase.definite)


def pick_modal(dice: Dice, person: int, then: str) -> tuple[Finite, str, str]:
    """A modal verb with English words behind it, in Spanish, and what links Spanish to `then`."""
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
