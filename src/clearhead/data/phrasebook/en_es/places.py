"""Rules for what is what, how it is and where it is, in English and Spanish.

In templates S is the subject, O the object, P a place or a time; the ties are those of `english`.
"""

from __future__ import annotations

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.en_es.clauses import (
    ESTAR,
    MOODS,
    SER,
    SPECIFIC,
    be_so,
    clause,
    pick_mood,
)
from clearhead.data.phrasebook.en_es.lexicon import BARE, NOUNS, OWNERS, THAT, THE, THIS
from clearhead.data.phrasebook.en_es.phrases import (
    FEW,
    ONE,
    OWNED,
    PERSONS,
    PLAIN,
    SOME,
    Choice,
    Subject,
    adjectives_of,
    build,
    kind,
    some,
)
from clearhead.data.phrasebook.en_es.words import Noun, agree
from clearhead.data.phrasebook.english import BE, be
from clearhead.data.phrasebook.fragment import Fragment, tie, weave

# English, Spanish, and the kinds of place that the preposition goes with.
ON = ("on", "en", "top")
UNDER = ("under", "debajo de", "top shade")
IN = ("in", "en", "room outside")
INSIDE = ("in", "en", "room case")
NEXT_TO = ("next to", "al lado de", "spot top")
BEHIND = ("behind", "detrás de", "spot shade")
NEAR = ("near", "cerca de", "spot")
ON_TABLE = ("on", "en", "board")
AT_HOME = ("in", "en", "home")
# Where things of a kind may be: no horse lies on a chair.
WHERE = {
    "item": (ON, ON, UNDER, INSIDE, INSIDE, NEXT_TO),
    "food": (ON_TABLE, AT_HOME),
    "drink": (ON_TABLE, AT_HOME),
    "pet": (ON, UNDER, IN, NEXT_TO, BEHIND),
    "animal": (IN, BEHIND, NEAR),
    "person": (IN, IN, NEXT_TO, BEHIND, NEAR),
}
# Things, animals and people that there are, once or more.
THERE = tuple(noun for noun in kind("item food animal person") if noun.plurals)
LANDMARKS: tuple[Choice, ...] = (
    *[(THE, False)] * 6,
    (THIS, False),
    *((owner, False) for owner in OWNERS),
)


def quality(dice: Dice) -> Fragment:
    """`the cat is black`, `are your shoes dirty ?`, `this soup is very hot`."""
    phrase = some(dice, NOUNS, SPECIFIC)
    return be_so(dice, Subject.of(phrase), dice.pick(adjectives_of(phrase.noun)))


def feeling(dice: Dice) -> Fragment:
    """`i am tired`, `is she happy ?`."""
    return be_so(dice, dice.pick(PERSONS), dice.pick(adjectives_of(kind("adult")[0])))


def identity(dice: Dice) -> Fragment:
    """`this is a book`, `are those your shoes ?`, `that is not my sister`."""
    wanted = (*ONE * 8, *PLAIN[1:] * 3, *OWNED)
    phrase = some(dice, kind("item food drink big animal person"), wanted, adjectives=0.5)
    pointer, plural, mood = dice.pick((THIS, THAT)), phrase.plural, dice.pick(MOODS)
    this = f"{agree(pointer.spanish, phrase.noun.gender, plural)}/t"
    no = "no/n" if mood == "negative" else ""
    right = f"{this} {no} {SER[phrase.person]}/v O"
    if mood == "question":  # the pronoun stays first: ¿ estos son tus zapatos ?
        right = f"¿/q {right} ?/q"
    word = f"{pointer.plural if plural else pointer.english}/t"
    return weave(be(phrase.person).clause(mood, word, "O"), right, O=phrase.fragment)


def _somewhere(dice: Dice, what: Noun) -> Fragment:
    """A place where such a thing may be: `under the table`, `debajo de la mesa`."""
    classes = [name for name in WHERE if name in what.kinds]
    english, spanish, kinds = dice.pick(WHERE[dice.pick(classes)])
    landmark = dice.pick([noun for noun in kind(kinds) if noun is not what])
    return at(dice, english, spanish, landmark)


def at(dice: Dice, english: str, spanish: str, landmark: Noun) -> Fragment:
    """A preposition with a noun phrase; English says on the beach."""
    phrase = some(dice, (landmark,), LANDMARKS, adjectives=0.15)
    if english == "in" and landmark.english == "beach":
        english = "on"
    return weave(f"{tie(english, 'p')} N", f"{tie(spanish, 'p')} N", N=phrase.fragment)


def location(dice: Dice) -> Fragment:
    """`the keys are on the table`, `where is your brother ?`."""
    phrase = some(dice, kind("item food drink animal person"), SPECIFIC, adjectives=0.1)
    subject, estar = Subject.of(phrase), f"{ESTAR[phrase.person]}/v"
    if dice.chance(0.2):
        asked = f"where/w {BE[phrase.person]}/v S ?/q"
        return weave(asked, f"¿/q dónde/w {estar} S ?/q", **subject.slots)
    place = _somewhere(dice, phrase.noun)
    verbs = (be(phrase.person), estar)
    return clause(pick_mood(dice, subject), subject, verbs, ("P", "P"), P=place)


def existence(dice: Dice) -> Fragment:
    """`there are two black cats in the garden`, `is there a key on the table ?`."""
    phrase = some(dice, THERE, (*ONE * 8, *FEW * 2, *SOME), adjectives=0.35)
    place, are = _somewhere(dice, phrase.noun), f"{BE[phrase.person]}/v"
    slots = {"O": phrase.fragment, "P": place}
    if dice.chance(0.2):
        return weave(f"{are} there/v O P ?/q", "¿/q hay/v O P ?/q", **slots)
    if dice.chance(0.2) and phrase.plural:
        things = build(phrase.noun, BARE, plural=True).fragment
        many = "cuántas" if phrase.noun.gender == "f" else "cuántos"
        asked = f"how/h many/h O {are} there/v P ?/q"
        return weave(asked, f"¿/q {many}/h O hay/v P ?/q", O=things, P=place)
    return weave(f"there/v {are} O P", "hay/v O P", **slots)


def supplies(dice: Dice) -> Fragment:
    """`there is milk in the kitchen`, `there is no bread on the table`."""
    noun = dice.pick([noun for noun in kind("food drink") if noun.plurals is None])
    slots = {"O": build(noun, BARE, plural=False).fragment, "P": _somewhere(dice, noun)}
    no = ("no/n", "no/n") if dice.chance(0.4) else ("", "")
    return weave(f"there/v is/v {no[0]} O P", f"{no[1]} hay/v O P", **slots)
