"""Clauses of the German-English grammar, and the places where their verbs may stand.

A German clause has two places for verbs: `ich rufe meine mutter an`, `er will ein auto kaufen`,
`wir haben einen brief geschrieben`. In a clause behind weil or dass all verbs go to the end:
`weil ich meine mutter anrufe`. English has one order for all of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clearhead.data.phrasebook.de_en.lexicon import DEEDS, NO, NOT_ANY, NOUNS, STATES, WASH
from clearhead.data.phrasebook.de_en.phrases import (
    FEW,
    NONE,
    NOTHING,
    ONE,
    PLAIN,
    SPECIFIC,
    Phrase,
    Subject,
    adjectives_of,
    nouns_of,
    some,
    someone,
    subject_of,
)
from clearhead.data.phrasebook.de_en.words import Adjective, Verb
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.english import Finite, auxiliary, be, followed, past, present
from clearhead.data.phrasebook.fragment import Fragment, tie, weave

SEIN = ("bin", "bist", "ist", "sind", "sind")
HABEN = ("habe", "hast", "hat", "haben", "haben")
WOULD_LIKE = Finite("would/m like/m", "would/m not/n like/m", "would/m", "like/m")

Modal = Literal["can", "want", "have", "would"]
MODALS: dict[Modal, tuple[str, ...]] = {
    "can": ("kann", "kannst", "kann", "können", "können"),
    "want": ("will", "willst", "will", "wollen", "wollen"),
    "have": ("muss", "musst", "muss", "müssen", "müssen"),
    "would": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
}
INDEFINITE = (*SPECIFIC, *ONE * 5, *FEW)
UNCOUNTED = (*INDEFINITE, *PLAIN * 4)
GENERAL = (*SPECIFIC, *PLAIN * 6)
NEGATED = (*SPECIFIC, *NONE * 8)
NEGATED_BARE = (*NEGATED, *NOTHING * 6)
NEGATED_GENERAL = (*SPECIFIC, *NOTHING * 6)


@dataclass(frozen=True)
class Verbs:
    """The verbs of a clause: German in second place and at the end, or all at the end; English."""

    second: str
    end: str
    all_last: str
    english: Finite


@dataclass(frozen=True)
class Clause:
    """A clause before its words are put in order.

    Args:
        subject: who does it; fills the slot S.
        verbs: the verbs in both languages.
        middle: the German template text between the verbs, with nicht where it belongs.
        rest: the English template text behind the verbs.
        slots: what fills the slots of these.
        negative: whether the English verb phrase is the negative one.
    """

    subject: Subject
    verbs: Verbs
    middle: str = ""
    rest: str = ""
    slots: Mapping[str, Fragment] = field(default_factory=dict)
    negative: bool = False

    def statement(self, mark: str = "./p") -> Fragment:
        """The verb second: `er hat das buch gelesen .`"""
        german = f"S {self.verbs.second} {self.middle} {self.verbs.end} {mark}"
        return self._weave(german, f"{self._english()} {mark}")

    def fronted(self, time: Fragment) -> Fragment:
        """The verb still second, so behind the time: `gestern hat er das buch gelesen .`"""
        german = f"T {self.verbs.second} S {self.middle} {self.verbs.end} ./p"
        return self._weave(german, f"T {self._english()} ./p", T=time)

    def question(self, word: tuple[str, str] = ("", ""), mark: str = "?/q") -> Fragment:
        """The verb first, or behind a question word: `was hat er gelesen ?`"""
        german = f"{word[0]} {self.verbs.second} S {self.middle} {self.verbs.end} {mark}"
        english = f"{word[1]} {self.verbs.english.question('S', self.rest)} {mark}"
        return self._weave(german, english)

    def embedded(self) -> Fragment:
        """The verbs last, as behind weil and dass: `er das buch gelesen hat`."""
        return self._weave(f"S {self.middle} {self.verbs.all_last}", self._english())

    def _english(self) -> str:
        mood = "negative" if self.negative else "plain"
        return self.verbs.english.clause(mood, "S", self.rest)

    def _weave(self, german: str, english: str, **more: Fragment) -> Fragment:
        return weave(german, english, S=self.subject.fragment, **self.slots, **more)


def is_(person: int) -> Verbs:
    """To be, in the present."""
    form = f"{SEIN[person]}/v"
    return Verbs(form, "", form, be(person))


def now(verb: Verb, person: int) -> Verbs:
    """The present: ich rufe an, i call."""
    form = verb.present(person)
    end = f"{verb.prefix}/v" if verb.prefix else ""
    english = present(verb.english, verb.third, person)
    return Verbs(f"{form}/v", end, f"{verb.prefix}{form}/v", english)


def then(verb: Verb, person: int) -> Verbs:
    """The perfect, which is the past in English: ich habe angerufen, i called."""
    helper = f"{(SEIN if verb.be else HABEN)[person]}/v"
    participle = f"{verb.prefix}{verb.participle}/v"
    return Verbs(helper, participle, f"{participle} {helper}", past(verb.english, verb.past))


def modal(name: Modal, verb: Verb, person: int) -> Verbs:
    """A modal verb with another: ich will anrufen, i want to call."""
    finite, infinitive = f"{MODALS[name][person]}/m", f"{verb.prefix}{verb.infinitive}/v"
    base = tie(verb.english, "v")
    english = {
        "can": followed(auxiliary("can", "cannot/mn"), base),
        "want": followed(present("want", "wants", person, "m"), f"to/m {base}"),
        "have": followed(present("have", "has", person, "m"), f"to/m {base}"),
        "would": followed(WOULD_LIKE, f"to/m {base}"),
    }[name]
    return Verbs(finite, infinitive, f"{infinitive} {finite}", english)


def some_tense(dice: Dice, verb: Verb, person: int) -> Verbs:
    """The present, the perfect or a modal verb, by chance."""
    return now(verb, person) if dice.chance(0.4) else not_now(dice, verb, person)


def not_now(dice: Dice, verb: Verb, person: int) -> Verbs:
    """The perfect or a modal verb, by chance (er kommt is rather he is coming)."""
    if dice.chance(0.45):
        return then(verb, person)
    return modal(dice.pick(tuple(MODALS)), verb, person)


def may_deny(dice: Dice, verbs: Verbs) -> bool:
    """Whether to say that it is not so: one time in six, but never that one would not like to."""
    return dice.chance(1 / 6) and WOULD_LIKE.plain not in verbs.english.plain


def do_something(
    dice: Dice, subject: Subject, verb: Verb, verbs: Verbs, *, negative: bool
) -> Clause:
    """A clause with an object, which may be so or not so."""
    thing = some_object(dice, verb, negative)
    middle = "O"
    if negative:  # kein buch, or: das buch nicht
        middle = "O/n" if thing.determiner in (NO, NOT_ANY) else "O nicht/n"
    return Clause(subject, verbs, middle, "O", {"O": thing.fragment}, negative)


def some_object(dice: Dice, verb: Verb, negative: bool = False) -> Phrase:
    """What the verb may be done to; in a negative clause `a` and no article become kein."""
    manners = verb.manners
    if "known" in manners:
        wanted = SPECIFIC
    elif negative:
        wanted = NEGATED_BARE if "bare" in manners else NEGATED
        wanted = NEGATED_GENERAL if "general" in manners else wanted
    elif "general" in manners:
        wanted = GENERAL
    else:
        wanted = UNCOUNTED if "bare" in manners else INDEFINITE
    nouns = nouns_of(verb.objects)
    return some(dice, nouns, wanted, verb.case, adjectives=0.0 if verb is WASH else 0.3)


def be_so(subject: Subject, adjective: Adjective, negative: bool = False) -> Clause:
    """A clause that says how something is; the adjective has no ending in German."""
    nicht = "nicht/n " if negative else ""
    german, english = f"{nicht}{adjective.german}/a", f"{adjective.english}/a"
    return Clause(subject, is_(subject.person), german, english, {}, negative)


def quality(dice: Dice) -> Clause:
    """`die katze ist schwarz`, with anything that one can say something about."""
    phrase = some(dice, NOUNS, SPECIFIC)
    adjective = dice.pick(adjectives_of(phrase.noun))
    return be_so(subject_of(phrase), adjective, dice.chance(0.2))


def deed(dice: Dice) -> Clause:
    """Somebody does, did, can, wants or has to do something."""
    verb, subject = dice.pick(DEEDS), someone(dice)
    verbs = some_tense(dice, verb, subject.person)
    return do_something(dice, subject, verb, verbs, negative=may_deny(dice, verbs))


def state(dice: Dice) -> Clause:
    """Somebody has, needs, knows, loves or likes something."""
    verb, subject = dice.pick(STATES), someone(dice)
    verbs = now(verb, subject.person)
    return do_something(dice, subject, verb, verbs, negative=may_deny(dice, verbs))
