"""Rules for what people do, want and like, in German and English.

In templates S is the subject, O the object, P a place, T a time; the ties are those of `english`.
"""

from __future__ import annotations

from clearhead.data.phrasebook.de_en.clauses import (
    MODALS,
    WOULD_LIKE,
    Clause,
    Verbs,
    deed,
    do_something,
    may_deny,
    modal,
    not_now,
    now,
    some_tense,
    state,
    then,
)
from clearhead.data.phrasebook.de_en.facts import at
from clearhead.data.phrasebook.de_en.lexicon import (
    BARE,
    BUY,
    COME,
    COUNTS,
    DEEDS,
    DRINK,
    EAT,
    FIND,
    GO,
    HELP,
    KNOW,
    LOVE,
    READ,
    RISE,
    SEE,
    SELL,
    SLEEP,
    STAY,
    THE,
    WASH,
    WORK,
)
from clearhead.data.phrasebook.de_en.phrases import (
    ONE,
    Subject,
    build,
    kind,
    nouns_of,
    some,
    someone,
)
from clearhead.data.phrasebook.de_en.words import Noun, Verb
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.english import HE, ME, THEY, WE, YOU, present
from clearhead.data.phrasebook.fragment import Fragment, weave

EVERY_DAY = weave("jeden/e tag/d", "every/e day/d")
EVENING = weave("am/ia abend/n", "in/i the/a evening/n")
MORNING = weave("am/ia morgen/n", "in/i the/a morning/n")
YESTERDAY = weave("gestern/y", "yesterday/y")
TODAY = weave("heute/t", "today/t")
TOMORROW = weave("morgen/t", "tomorrow/t")
HABITUAL = (EVERY_DAY, EVENING, MORNING)
PLANNED = (TODAY, TOMORROW, EVENING, MORNING)
# Object pronouns: accusative, dative, English, and the persons that cannot have them as an
# object. Sie is left out: it may be her or them.
OBJECTS = (
    ("mich", "mir", "me", (ME, WE)),
    ("dich", "dir", "you", (YOU,)),
    ("ihn", "ihm", "him", (HE,)),
    ("uns", "uns", "us", (ME, WE)),
)
DATIVE_OBJECTS = (
    *OBJECTS,
    ("", "ihr", "her", (HE,)),
    ("", "ihnen", "them", (THEY,)),
)


def doing(dice: Dice) -> Fragment:
    """`der junge liest ein buch .`, `hast du die tür zugemacht ?`"""
    return asked_or_told(dice, deed(dice))


def having(dice: Dice) -> Fragment:
    """`ich habe zwei hunde .`, `magst du käse ?`, `er braucht keine lampe .`"""
    return asked_or_told(dice, state(dice))


def asked_or_told(dice: Dice, clause: Clause) -> Fragment:
    """The clause as a statement, or now and then as a question; nobody asks about himself."""
    person, english = clause.subject.person, clause.verbs.english
    odd = person == ME or (person == WE and WOULD_LIKE.opening in english.opening)
    if dice.chance(0.2) and not clause.negative and not odd:
        return clause.question()
    return clause.statement()


def timed(dice: Dice) -> Fragment:
    """`gestern hat er ein buch gekauft .`, `jeden tag trinkt sie kaffee .`"""
    subject, which = someone(dice), dice.pick(("habit", "past", "plan"))
    if which == "habit":
        verb, time = dice.pick((EAT, DRINK, READ)), dice.pick(HABITUAL)
        noun = dice.pick(nouns_of(verb.objects))
        thing = build(noun, BARE, noun.plurals is not None, "accusative").fragment
        clause = Clause(subject, now(verb, subject.person), "O", "O", {"O": thing})
        if dice.chance(0.5):  # er trinkt jeden tag kaffee
            more = {"O": thing, "T": time}
            return Clause(subject, clause.verbs, "T O", "O T", more).statement()
        return clause.fronted(time)
    verb = dice.pick(DEEDS)
    if which == "past":
        verbs, time = then(verb, subject.person), YESTERDAY
    else:
        name = dice.pick(tuple(MODALS))
        verbs, time = modal(name, verb, subject.person), dice.pick(PLANNED)
    return do_something(dice, subject, verb, verbs, negative=False).fronted(time)


def moving(dice: Dice) -> Fragment:
    """`er geht zum bahnhof .`, `ich muss im hotel arbeiten .`, `wir sind nach hause gegangen .`"""
    subject = someone(dice)
    verb, middle, rest, slots = some_move(dice)
    tense = not_now if verb is COME else some_tense
    verbs = tense(dice, verb, subject.person)
    return asked_or_told(dice, Clause(subject, verbs, middle, rest, slots))


def some_move(dice: Dice) -> tuple[Verb, str, str, dict[str, Fragment]]:
    """A verb without object, and what goes with it."""
    place = dice.pick(kind("place"))
    verb = dice.pick((GO, GO, COME, WORK, SLEEP, STAY, RISE))
    if verb is RISE:
        count = dice.pick(COUNTS[3:])
        hour = f"um/i {count.german}/c uhr/h", f"at/i {count.plural}/c o'clock/h"
        return verb, *hour, {}
    if verb in (GO, COME):
        if dice.chance(0.2):
            return verb, "nach/h hause/h", "home/h", {}
        return verb, "P", "P", {"P": going_to(place)}
    if verb is STAY and dice.chance(0.5):
        return verb, "zu/h hause/h", "at/h home/h", {}
    return verb, "P", "P", {"P": at(place)}


def going_to(place: Noun) -> Fragment:
    """Going there: `zum bahnhof`, `in die stadt`."""
    german, english = place.to
    there = build(place, THE, False, "accusative" if german == "in" else "dative").fragment
    return weave(f"{german}/p N", f"{english}/p N", N=there)


def meeting(dice: Dice) -> Fragment:
    """`ich liebe dich .`, `kannst du mir helfen ?`, `er hat uns gesehen .`"""
    verb, subject = dice.pick((LOVE, SEE, KNOW, HELP, HELP)), someone(dice, pronouns=0.7)
    options = DATIVE_OBJECTS if verb is HELP else OBJECTS
    options = [one for one in options if subject.person not in one[3]]
    accusative, dative, english, _ = dice.pick(options)
    tenses = some_tense if verb in (SEE, HELP) else _always
    verbs = tenses(dice, verb, subject.person)
    negative = may_deny(dice, verbs)
    word = f"{dative if verb is HELP else accusative}/o{' nicht/n' if negative else ''}"
    return asked_or_told(dice, Clause(subject, verbs, word, f"{english}/o", {}, negative))


def _always(dice: Dice, verb: Verb, person: int) -> Verbs:
    del dice
    return now(verb, person)


def pastime(dice: Dice) -> Fragment:
    """`sie trinkt gern tee .`, `she likes to drink tea .`"""
    subject, verb = someone(dice), dice.pick((EAT, DRINK, READ, BUY))
    noun = dice.pick(nouns_of(verb.objects))
    thing = build(noun, BARE, noun.plurals is not None, "accusative").fragment
    negative = dice.chance(0.2)
    german = now(verb, subject.person)
    english = present("like", "likes", subject.person, "g")
    verbs = Verbs(german.second, "", german.all_last, english)
    middle = f"{'nicht/n ' if negative else ''}gern/g O"
    rest = f"to/v {verb.english}/v O"
    return asked_or_told(dice, Clause(subject, verbs, middle, rest, {"O": thing}, negative))


def wish(dice: Dice) -> Fragment:
    """`ich möchte ein bier .`, `will er einen hund ?`"""
    subject = someone(dice)
    nouns = kind("cup") if dice.chance(0.4) else kind("food goods pet")
    phrase = some(dice, nouns, ONE, "accusative", adjectives=0.25)
    name = dice.pick(("want", "would"))
    english = present("want", "wants", subject.person, "m") if name == "want" else WOULD_LIKE
    form = f"{MODALS[name][subject.person]}/m"
    verbs = Verbs(form, "", form, english)
    return asked_or_told(dice, Clause(subject, verbs, "O", "O", {"O": phrase.fragment}))


def asking(dice: Dice) -> Fragment:
    """`was hast du gekauft ?`, `wann stehst du auf ?`, `wer kann die tür aufmachen ?`"""
    if dice.chance(0.4):
        return _who(dice)
    subject = someone(dice, pronouns=0.7)
    if subject.person == ME:
        return asking(dice)
    if dice.chance(0.2):
        verb, word = dice.pick((RISE, COME, SLEEP, WORK)), ("wann/w", "when/w")
    else:
        verb, word = dice.pick((EAT, DRINK, READ, BUY, SELL, FIND, SEE, WASH)), ("was/w", "what/w")
    tense = not_now if verb is COME else some_tense
    return Clause(subject, tense(dice, verb, subject.person)).question(word)


def _who(dice: Dice) -> Fragment:
    who = Subject(weave("wer/w", "who/w"), HE, None)
    verb = dice.pick(DEEDS)
    verbs = some_tense(dice, verb, HE)
    return do_something(dice, who, verb, verbs, negative=False).statement("?/q")
