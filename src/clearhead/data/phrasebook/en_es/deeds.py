"""Rules for what people do, want, like and have, in English and Spanish.

In templates S is the subject and O the object; the ties are those of `english`.
"""

from __future__ import annotations

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.en_es.clauses import (
    SPECIFIC,
    clause,
    conjugated,
    pick_modal,
    pick_mood,
    some_object,
)
from clearhead.data.phrasebook.en_es.lexicon import (
    ACTIONS,
    BARE,
    BUY,
    DEEDS,
    DRINK,
    EAT,
    HELP,
    KNOW,
    LOVE,
    READ,
    SEE,
)
from clearhead.data.phrasebook.en_es.phrases import (
    Phrase,
    Subject,
    build,
    build_generic,
    kind,
    nouns_of,
    some,
    someone,
)
from clearhead.data.phrasebook.english import Mood, present
from clearhead.data.phrasebook.fragment import Fragment, tie, weave

# English base and third person, Spanish for one thing and for many.
LIKE = ("like", "likes", "gusta", "gustan")
ADORE = ("love", "loves", "encanta", "encantan")
TO_ME = ("me", "te", "le", "nos", "les")
# Object pronouns, and the persons that cannot have them as an object: nobody sees himself here.
OBJECTS = (
    ("me", "me", (0, 3)),
    ("you", "te", (1,)),
    ("him", "lo", (2,)),
    ("her", "la", (2,)),
    ("us", "nos", (0, 3)),
    ("them", "los", (4,)),
)


def action(dice: Dice) -> Fragment:
    """`the boy eats an apple`, `do you have a red car ?`, `we do not drink wine`."""
    verb, subject = dice.pick(ACTIONS), someone(dice)
    mood = pick_mood(dice, subject)
    thing, right = some_object(dice, verb, mood)
    return clause(mood, subject, conjugated(verb, subject.person), ("O", right), O=thing)


def plan(dice: Dice) -> Fragment:
    """`i want to buy a house`, `can you open the door ?`, `he has to help ana`."""
    verb, subject = dice.pick(DEEDS), someone(dice, pronouns=0.7)
    thing, right = some_object(dice, verb)
    english, spanish, link = pick_modal(dice, subject.person, tie(verb.english, "v"))
    rest = ("O", f"{link} {verb.infinitive}/v {right}")
    return clause(pick_mood(dice, subject), subject, (english, spanish), rest, O=thing)


def meeting(dice: Dice) -> Fragment:
    """`i love you`, `my mother does not know him`: Spanish puts the pronoun before the verb."""
    verb, subject = dice.pick((LOVE, SEE, KNOW, HELP)), someone(dice, pronouns=0.7)
    english, spanish, _ = dice.pick([one for one in OBJECTS if subject.person not in one[2]])
    finite, form = conjugated(verb, subject.person)
    verbs = (finite, f"{spanish}/o {form}")
    return clause(pick_mood(dice, subject), subject, verbs, (f"{english}/o", ""))


def taste(dice: Dice) -> Fragment:
    """`i like your house`, `do you like coffee ?`, `she loves apples`.

    What is liked is the subject in Spanish, so it rules the verb: me gustan las manzanas.
    """
    subject, liked = someone(dice), _something_liked(dice)
    mood = pick_mood(dice, subject)
    words = ADORE if mood == "plain" and dice.chance(0.4) else LIKE
    pleases = words[3] if liked.plural else words[2]
    left = present(words[0], words[1], subject.person).clause(mood, subject.english("x"), "O")
    right = _pleases(subject, mood, f"{pleases}/v O")
    return weave(left, right, **subject.slots, O=liked.fragment)


def pastime(dice: Dice) -> Fragment:
    """`he likes to read books`: a él le gusta leer libros."""
    subject, verb = someone(dice), dice.pick((EAT, DRINK, READ, BUY))
    mood = pick_mood(dice, subject)
    noun = dice.pick(nouns_of(verb.objects))
    thing = build(noun, BARE, noun.plurals is not None)
    finite = present("like", "likes", subject.person)
    left = finite.clause(mood, subject.english("x"), f"to/i {verb.english}/i O")
    right = _pleases(subject, mood, f"gusta/v {verb.infinitive}/i O")
    return weave(left, right, **subject.slots, O=thing.fragment)


def _something_liked(dice: Dice) -> Phrase:
    if dice.chance(0.5):
        # Of what there is but one of, English has an article too: the world.
        several = [n for n in kind("food drink animal pretty read") if "world" not in n.kinds]
        noun = dice.pick(several)
        return build_generic(noun, noun.plurals is not None)
    return some(dice, kind("item food drink big place world"), SPECIFIC, adjectives=0.2)


def _pleases(subject: Subject, mood: Mood, rest: str) -> str:
    """The Spanish template around gustar: a la niña no le, me, ¿ te."""
    who, letter = ("a S", "v") if subject.phrase else ("", "x")
    no = "no/n" if mood == "negative" else ""
    right = f"{who} {no} {TO_ME[subject.person]}/{letter} {rest}"
    return f"¿/q {right} ?/q" if mood == "question" else right
