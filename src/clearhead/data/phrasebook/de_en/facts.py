"""Rules for what is what, how, where and how much it is, in German and English.

In templates S is the subject, O the object, P a place, T a time; the ties are those of `english`.
"""

from __future__ import annotations

from clearhead.data.phrasebook.de_en import clauses
from clearhead.data.phrasebook.de_en.clauses import SEIN, Clause, is_, now
from clearhead.data.phrasebook.de_en.lexicon import (
    BARE,
    BUY,
    COST,
    COUNTS,
    HAVE,
    NEED,
    NO,
    OWNERS,
    SEE,
    THE,
    THIS,
)
from clearhead.data.phrasebook.de_en.phrases import (
    FEW,
    NONE,
    ONE,
    OWNED,
    PERSONS,
    PLAIN,
    POINTING,
    SOME,
    SPECIFIC,
    Choice,
    Subject,
    adjectives_of,
    build,
    kind,
    nouns_of,
    some,
    subject_of,
)
from clearhead.data.phrasebook.de_en.words import Noun
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.english import BE, ME
from clearhead.data.phrasebook.fragment import Fragment, tie, weave

# German, English, and the kinds of place that the preposition goes with.
ON = ("auf", "on", "top")
UNDER = ("unter", "under", "top shade")
IN = ("in", "in", "room case")
NEXT_TO = ("neben", "next to", "spot top")
BEHIND = ("hinter", "behind", "spot shade")
BEFORE = ("vor", "in front of", "spot")
ON_TABLE = ("auf", "on", "board")
# In, an or auf, as the place wants.
AT = ("", "", "place")
OUTSIDE = ("", "", "outside")
# Where things of a kind may be: no horse lies on a chair.
WHERE = {
    "item": (ON, ON, UNDER, NEXT_TO, IN),
    "food": (ON_TABLE, IN),
    "drink": (ON_TABLE,),
    "pet": (ON, UNDER, NEXT_TO, BEHIND),
    "animal": (OUTSIDE, BEHIND, BEFORE),
    "person": (AT, AT, NEXT_TO, BEHIND, BEFORE),
}
LANDMARKS: tuple[Choice, ...] = (
    *[(THE, False)] * 6,
    (THIS, False),
    *((owner, False) for owner in OWNERS),
)
# Who is called so: German pronoun and verb, whose name it is in English, whom it may name.
BEARERS = (
    ("ich", "heiße", "my", "mf"),
    ("du", "heißt", "your", "mf"),
    ("er", "heißt", "his", "m"),
    ("sie", "heißt", "her", "f"),
)
# Things, animals and people that there are, once or more.
THERE = tuple(noun for noun in kind("item food animal person") if noun.plurals)
# What one can have for some euros.
CHEAP = tuple(noun for noun in kind("item food drink") if "goods" in noun.kinds)


def quality(dice: Dice) -> Fragment:
    """`die katze ist schwarz .`, `sind deine schuhe neu ?`"""
    clause = clauses.quality(dice)
    return clause.question() if dice.chance(0.2) and not clause.negative else clause.statement()


def feeling(dice: Dice) -> Fragment:
    """`ich bin müde .`, `warum ist sie traurig ?`"""
    subject, adjective = dice.pick(PERSONS), dice.pick(adjectives_of(kind("adult")[0]))
    clause = clauses.be_so(subject, adjective, dice.chance(0.2))
    if clause.negative or subject.person == ME or dice.chance(0.6):
        return clause.statement()
    passing = adjective.german in ("krank", "müde", "glücklich", "traurig")
    return clause.question(("warum/w", "why/w") if passing and dice.chance(0.7) else ("", ""))


def identity(dice: Dice) -> Fragment:
    """`das ist ein rotes auto .`, `das sind meine bücher .`, `das ist kein hund .`"""
    wanted = (*ONE * 6, *PLAIN[1:] * 2, *OWNED, *NONE * 2)
    phrase = some(dice, kind("item big animal person"), wanted, adjectives=0.6)
    word = "those" if phrase.plural else "that"
    that = Subject(weave("das/t", f"{word}/t"), phrase.person, None)
    negative = phrase.determiner is NO
    middle = "O/n" if negative else "O"
    clause = Clause(that, is_(phrase.person), middle, "O", {"O": phrase.fragment}, negative)
    return clause.question() if dice.chance(0.2) and not negative else clause.statement()


def somewhere(dice: Dice, what: Noun) -> Fragment:
    """A place where such a thing may be: `unter dem tisch`, `under the table`."""
    classes = [name for name in WHERE if name in what.kinds]
    german, english, kinds = dice.pick(WHERE[dice.pick(classes)])
    landmark = dice.pick([noun for noun in kind(kinds) if noun is not what])
    if not german:
        return at(landmark)
    phrase = some(dice, (landmark,), LANDMARKS, "dative", adjectives=0.15)
    return weave(f"{german}/p N", f"{tie(english, 'p')} N", N=phrase.fragment)


def at(place: Noun) -> Fragment:
    """Being there: `am bahnhof`, `at the station`."""
    there = build(place, THE, False, "dative").fragment
    return weave(f"{place.at[0]}/p N", f"{place.at[1]}/p N", N=there)


def location(dice: Dice) -> Fragment:
    """`das buch ist auf dem tisch .`, `wo ist dein bruder ?`"""
    phrase = some(dice, kind("item food drink animal person"), SPECIFIC, adjectives=0.15)
    subject, negative = subject_of(phrase), dice.chance(0.15)
    if dice.chance(0.15):
        return Clause(subject, is_(phrase.person)).question(("wo/w", "where/w"))
    middle = "nicht/n P" if negative else "P"
    place = {"P": somewhere(dice, phrase.noun)}
    clause = Clause(subject, is_(phrase.person), middle, "P", place, negative)
    return clause.question() if dice.chance(0.2) and not negative else clause.statement()


def existence(dice: Dice) -> Fragment:
    """`im garten sind zwei hunde .`, `there are two dogs in the garden .`"""
    phrase = some(dice, THERE, (*ONE * 8, *FEW * 2, *SOME), adjectives=0.3)
    place = somewhere(dice, phrase.noun)
    german, english = SEIN[phrase.person], BE[phrase.person]
    slots = {"O": phrase.fragment, "P": place}
    return weave(f"P {german}/v O ./p", f"there/v {english}/v O P ./p", **slots)


def age(dice: Dice) -> Fragment:
    """`mein bruder ist zehn jahre alt .`, `wie alt ist dein hund ?`"""
    subject = dice.pick(PERSONS)
    if dice.chance(0.6):
        subject = subject_of(some(dice, kind("child sibling name pet"), SPECIFIC))
    verbs = is_(subject.person)
    if dice.chance(0.25):
        return Clause(subject, verbs).question(("wie/h alt/a", "how/h old/a"))
    count = dice.pick(COUNTS)
    years = f"{count.german}/c jahre/y alt/a", f"{count.plural}/c years/y old/a"
    return Clause(subject, verbs, *years).statement()


def price(dice: Dice) -> Fragment:
    """`was kostet der hut ?`, `diese äpfel kosten drei euro .`"""
    subject = subject_of(some(dice, CHEAP, POINTING, adjectives=0.2))
    verbs = now(COST, subject.person)
    if dice.chance(0.3):
        return Clause(subject, verbs).question(("was/h", "how/h much/h"))
    count = dice.pick(COUNTS)
    euros = f"{count.german}/c euro/e", f"{count.plural}/c euros/e"
    return Clause(subject, verbs, *euros).statement()


def counting(dice: Dice) -> Fragment:
    """`wie viele bücher hast du ?`, `how many books do you have ?`"""
    verb, subject = dice.pick((HAVE, NEED, BUY, SEE)), dice.pick(PERSONS[1:])
    nouns = [noun for noun in nouns_of(verb.objects) if noun.plurals and "kin" not in noun.kinds]
    noun = dice.pick(nouns)
    things = build(noun, BARE, True, verb.case).fragment
    clause = Clause(subject, now(verb, subject.person), slots={"O": things})
    return clause.question(("wie/h viele/h O", "how/h many/h O"))


def naming(dice: Dice) -> Fragment:
    """`ich heiße anna .`, `er heißt nicht paul .`, `wie heißt du ?`"""
    german, verb, english, genders = dice.pick(BEARERS)
    left, right = f"{german}/o {verb}/lv", f"{english}/o name/l is/v"
    if dice.chance(0.1) and english != "my":
        asked = f"what/w is/v {english}/o name/l ?/q"
        return weave(f"wie/w {verb}/lv {german}/o ?/q", asked)
    name = build(dice.pick([n for n in kind("name") if n.gender in genders]), BARE, False)
    no = ("nicht/n", "not/n") if dice.chance(0.3) else ("", "")
    return weave(f"{left} {no[0]} N ./p", f"{right} {no[1]} N ./p", N=name.fragment)
