"""Rules for habits, counts, prices, greetings and names, in English and Spanish.

In templates S is the subject, O the object, P a place, T a time; the ties are those of `english`.
"""

from __future__ import annotations

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.en_es.clauses import IR, MOODS, SER, clause, conjugated, pick_mood
from clearhead.data.phrasebook.en_es.lexicon import (
    BARE,
    BUY,
    COST,
    COUNTS,
    DRINK,
    EAT,
    HAVE,
    LIVE,
    NEED,
    NOUNS,
    PLAY,
    READ,
    SEE,
    SLEEP,
    WANT,
    WORK,
)
from clearhead.data.phrasebook.en_es.phrases import (
    DROPPED,
    EL,
    ELLA,
    FEW,
    ONE,
    POINTING,
    Subject,
    build,
    kind,
    nouns_of,
    some,
    someone,
)
from clearhead.data.phrasebook.en_es.places import at
from clearhead.data.phrasebook.english import HE, ME, be, present
from clearhead.data.phrasebook.fragment import Fragment, tie, weave

NOUN = {noun.english: noun for noun in NOUNS}
# Where people live, work, play and sleep.
SCENES = (
    (LIVE, "house city hotel"),
    (WORK, "city house garden hotel school kitchen"),
    (PLAY, "park garden street house beach"),
    (SLEEP, "bed house garden car hotel"),
)
# What one can have for some euros.
CHEAP = tuple(noun for noun in kind("item food drink") if "goods" in noun.kinds)
TIMES = (
    weave("every/e day/d", "todos/e los/e días/d"),
    weave("in/p the/a morning/n", "por/p la/a mañana/n"),
    weave("at/p night/n", "por/p la/p noche/n"),
)
GREETINGS = (
    ("hello", "hola"),
    ("goodbye", "adiós"),
    ("good night", "buenas noches"),
    ("good afternoon", "buenas tardes"),
    ("thank you", "gracias"),
)
# Whose name; in Spanish: who (if said), the reflexive pronoun, the verb; whom it may name.
BEARERS = (
    ("my", "", "me", "llamo", "mf"),
    ("your", "", "te", "llamas", "mf"),
    ("his", "él/o", "se", "llama", "m"),
    ("her", "ella/o", "se", "llama", "f"),
)


def scene(dice: Dice) -> Fragment:
    """`my father works in the city`, `she sleeps at night`, `we go to the beach`."""
    subject = someone(dice)
    if dice.chance(0.4):
        verbs = (present("go", "goes", subject.person), f"{IR[subject.person]}/v")
        place = at(dice, "to", "a", dice.pick(kind("town")))
    else:
        verb, places = dice.pick(SCENES)
        verbs = conjugated(verb, subject.person)
        place = at(dice, "in", "en", NOUN[dice.pick(places.split())])
        if verb is not LIVE and dice.chance(0.3):
            place = dice.pick(TIMES)
    return clause(pick_mood(dice, subject), subject, verbs, ("P", "P"), P=place)


def routine(dice: Dice) -> Fragment:
    """`do you drink coffee in the morning ?`, `she reads books every day`."""
    subject, verb = someone(dice), dice.pick((EAT, DRINK, READ))
    noun = dice.pick(nouns_of(verb.objects))
    thing, time = build(noun, BARE, noun.plurals is not None).fragment, dice.pick(TIMES)
    verbs = conjugated(verb, subject.person)
    return clause(pick_mood(dice, subject), subject, verbs, ("O T", "O T"), O=thing, T=time)


def family(dice: Dice) -> Fragment:
    """`i have two brothers`, `does she have a sister ?`."""
    noun, subject = dice.pick(kind("sibling")), someone(dice)
    determiner, plural = dice.pick((*ONE * 2, *FEW))
    relative = build(noun, determiner, plural)
    mood = "question" if dice.chance(0.3) and subject.person != ME else "plain"
    verbs = conjugated(HAVE, subject.person)
    return clause(mood, subject, verbs, ("O", "O"), O=relative.fragment)


def counting(dice: Dice) -> Fragment:
    """`how many books do you have ?`: ¿ cuántos libros tienes ?"""
    verb, subject = dice.pick((HAVE, WANT, NEED, BUY, SEE)), someone(dice, pronouns=0.8)
    nouns = [noun for noun in nouns_of(verb.objects) if noun.plurals and "kin" not in noun.kinds]
    noun = dice.pick(nouns)
    finite, form = conjugated(verb, subject.person)
    many = "cuántas" if noun.gender == "f" else "cuántos"
    return weave(
        f"how/h many/h O {finite.clause('question', subject.english('v'), '')}",
        f"¿/q {many}/h O {form} {subject.spanish} ?/q",
        **subject.slots,
        O=build(noun, BARE, plural=True).fragment,
    )


def price(dice: Dice) -> Fragment:
    """`how much do the shoes cost ?`, `this hat costs ten euros`."""
    subject = Subject.of(some(dice, CHEAP, POINTING, adjectives=0.2))
    finite, form = conjugated(COST, subject.person)
    if dice.chance(0.3):
        asked = f"how/h much/h {finite.clause('question', 'S', '')}"
        return weave(asked, f"¿/q cuánto/h {form} S ?/q", **subject.slots)
    count = dice.pick(COUNTS)
    euros = (f"{count.plural}/c euros/e", f"{count.spanish[2]}/c euros/e")
    return clause("plain", subject, (finite, form), euros)


def greeting(dice: Dice) -> Fragment:
    """`hello ana`, `good night david`, `thank you girls`."""
    english, spanish = dice.pick(GREETINGS)
    noun = dice.pick((*kind("name"), NOUN["boy"], NOUN["girl"]))
    who = build(noun, BARE, plural=noun.plurals is not None).fragment
    return weave(f"{tie(english, 'g')} N", f"{tie(spanish, 'g')} N", N=who)


def naming(dice: Dice) -> Fragment:
    """`my name is ana`, `is his name pedro ?`, `i am laura`."""
    name = dice.pick(kind("name"))
    words = (f"{name.english}/a", f"{name.spanish}/a")
    if dice.chance(0.2):
        subject = dice.pick((*DROPPED[:2], EL if name.gender == "m" else ELLA))
        verbs = (be(subject.person), f"{SER[subject.person]}/v")
        return clause(pick_mood(dice, subject), subject, verbs, words)
    bearers = [bearer for bearer in BEARERS if name.gender in bearer[4]]
    owner, who, reflexive, calls, _ = dice.pick(bearers)
    mood = dice.pick(MOODS)
    if owner == "my" and mood == "question":
        mood = "plain"
    no = "no/n" if mood == "negative" else ""
    right = f"{who} {no} {reflexive}/o {calls}/lv {words[1]}"
    if mood == "question":
        right = f"¿/q {right} ?/q"
    return weave(be(HE).clause(mood, f"{owner}/o name/l", words[0]), right)
