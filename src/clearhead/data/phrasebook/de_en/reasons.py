"""Rules for sentences of two clauses, in German and English: weil, dass, ob.

In templates A and B are the two clauses.
"""

from __future__ import annotations

from clearhead.data.phrasebook.de_en.clauses import (
    Clause,
    be_so,
    deed,
    do_something,
    modal,
    now,
    quality,
    state,
    then,
)
from clearhead.data.phrasebook.de_en.deeds import going_to
from clearhead.data.phrasebook.de_en.lexicon import (
    ADJECTIVES,
    ASK,
    BUY,
    CALL,
    COME,
    FIND,
    GO,
    HAVE,
    HELP,
    KNOW_THAT,
    NEED,
    NOUNS,
    OWNERS,
    SAY,
    SELL,
    SLEEP,
    STAY,
    THINK,
    WASH,
    WORK,
    A,
)
from clearhead.data.phrasebook.de_en.phrases import (
    ER,
    PERSONS,
    POINTING,
    THEM,
    Subject,
    adjectives_of,
    build,
    kind,
    some,
    someone,
    subject_of,
)
from clearhead.data.phrasebook.de_en.words import Determiner, Gender
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.english import HE, ME, WE, YOU
from clearhead.data.phrasebook.fragment import Fragment, weave

ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}
NOUN = {noun.german: noun for noun in NOUNS}
# A thing is er, sie or es by its gender, and always it in English.
IT: dict[Gender, Fragment] = {
    "m": weave("er/p", "it/p"),
    "f": weave("sie/p", "it/p"),
    "n": weave("es/p", "it/p"),
}


def because(main: Clause, reason: Clause) -> Fragment:
    """The two clauses with weil between them, which sends the verbs to the end."""
    clauses = {"A": main.statement(mark=""), "B": reason.embedded()}
    return weave("A , weil/b B ./p", "A because/b B ./p", **clauses)


def speaker(dice: Dice) -> Subject:
    """Somebody whom a pronoun can name in the next clause."""
    subject = someone(dice, pronouns=0.65)
    return subject if subject.pronoun else speaker(dice)


def again(subject: Subject) -> Subject:
    """The same person, by a pronoun."""
    return Subject(subject.pronoun or subject.fragment, subject.person, subject.pronoun)


def owner(subject: Subject) -> Determiner | None:
    """The possessive of a person; none for she and they, whose German ihr is both."""
    if subject.person == HE:
        return OWNERS[2] if subject.pronoun is ER else None
    return {ME: OWNERS[0], YOU: OWNERS[1], WE: OWNERS[3]}.get(subject.person)


def absence(dice: Dice) -> Fragment:
    """`ich muss zu hause bleiben , weil ich krank bin .`, `er kann nicht kommen , weil ...`"""
    who, verb = speaker(dice), dice.pick((STAY, GO, SLEEP, COME, WORK))
    if verb in (COME, WORK):
        main = Clause(who, modal("can", verb, who.person), "nicht/n", negative=True)
    else:
        verbs = modal(dice.pick(("want", "have", "would")), verb, who.person)
        place = {STAY: ("zu/h hause/h", "at/h home/h"), GO: ("nach/h hause/h", "home/h")}
        main = Clause(who, verbs, *place.get(verb, ("", "")))
    if verb in (SLEEP, WORK) or dice.chance(0.5):
        return because(main, _bad_health(dice, who))
    duty = dice.pick((CALL, HELP, WASH))
    verbs = modal("have", duty, who.person)
    return because(main, do_something(dice, again(who), duty, verbs, negative=False))


def _bad_health(dice: Dice, who: Subject) -> Clause:
    adjective = ADJECTIVE[dice.pick(("krank", "müde"))]
    possessive = owner(who)
    if possessive is None or dice.chance(0.6):
        return be_so(again(who), adjective)
    relative = dice.pick((*kind("kin"), NOUN["kind"], NOUN["hund"], NOUN["katze"]))
    return be_so(subject_of(build(relative, possessive, False)), ADJECTIVE["krank"])


def feelings(dice: Dice) -> Fragment:
    """`sie ist glücklich , weil sie ein neues auto gekauft hat .`"""
    who = speaker(dice)
    happy = dice.chance(0.6)
    verb = dice.pick((BUY, FIND, SELL, HAVE)) if happy else dice.pick((FIND, HAVE))
    verbs = (now if verb is HAVE else then)(verb, who.person)
    feeling = be_so(who, ADJECTIVE["glücklich" if happy else "traurig"])
    return because(feeling, do_something(dice, again(who), verb, verbs, negative=not happy))


def errand(dice: Dice) -> Fragment:
    """`wir müssen in die stadt gehen , weil wir brot kaufen wollen .`"""
    who = speaker(dice)
    there = {"P": going_to(NOUN[dice.pick(("stadt", "markt"))])}
    main = Clause(who, modal(dice.pick(("want", "have")), GO, who.person), "P", "P", there)
    need = modal(dice.pick(("want", "have")), BUY, who.person)
    return because(main, do_something(dice, again(who), BUY, need, negative=False))


def bargain(dice: Dice) -> Fragment:
    """`ich möchte die lampe kaufen , weil sie billig ist .`: she in German, it in English."""
    who = dice.pick([subject for subject in PERSONS if subject.person in (ME, YOU, WE)])
    phrase = some(dice, kind("goods"), POINTING, "accusative")
    verbs = modal(dice.pick(("want", "would")), BUY, who.person)
    main = Clause(who, verbs, "O", "O", {"O": phrase.fragment})
    praise = ("billig", "schön", "neu")
    fitting = [one for one in adjectives_of(phrase.noun) if one.german in praise]
    it = Subject(THEM if phrase.plural else IT[phrase.noun.gender], phrase.person, None)
    return because(main, be_so(it, dice.pick(fitting)))


def replacement(dice: Dice) -> Fragment:
    """`er braucht ein neues auto , weil sein auto kaputt ist .`"""
    who = speaker(dice)
    possessive = owner(who)
    if possessive is None:
        return replacement(dice)
    noun = dice.pick([noun for noun in kind("break") if "aged" in noun.kinds])
    new = build(noun, A, False, "accusative", ADJECTIVE["neu"]).fragment
    verbs = now(NEED, who.person)
    if dice.chance(0.5):
        verbs = modal(dice.pick(("want", "would", "have")), BUY, who.person)
    old = subject_of(build(noun, possessive, False))
    state_ = be_so(old, ADJECTIVE[dice.pick(("kaputt", "alt"))])
    return because(Clause(who, verbs, "O", "O", {"O": new}), state_)


def report(dice: Dice) -> Fragment:
    """`ich glaube , dass der hund müde ist .`, `weißt du , ob er das buch gelesen hat ?`"""
    who, verb = someone(dice, pronouns=0.7), dice.pick((THINK, KNOW_THAT, SAY, ASK))
    german, english, mark = "dass/d", "that/d", "./p"
    head = Clause(who, now(verb, who.person)).statement(mark="")
    unsure = verb is KNOW_THAT and dice.chance(0.5)
    if unsure and who.person == YOU:
        head, mark = Clause(who, now(verb, YOU)).question(mark=""), "?/q"
    elif unsure:
        head = Clause(who, now(verb, who.person), "nicht/n", negative=True).statement(mark="")
    if unsure or verb is ASK:
        german, english = "ob/d", "whether/d"
    said = dice.pick((quality, deed, state))(dice)
    while said.negative and german == "ob/d":  # nobody asks whether it is not so
        said = dice.pick((quality, deed, state))(dice)
    clauses = {"A": head, "B": said.embedded()}
    return weave(f"A , {german} B {mark}", f"A {english} B {mark}", **clauses)
