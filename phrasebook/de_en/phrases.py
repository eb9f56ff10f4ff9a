"""Noun phrases, subjects and clauses of the German-English grammar.

A German clause has two positions for verbs: `ich rufe meine mutter an`, `er will ein auto kaufen`,
`wir haben einen brief geschrieben`. In a clause after weil or dass all verbs come last:
`weil ich meine mutter anrufe`. English has the same order in all of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from phrasebook.de_en.lexicon import (
    ADJECTIVES,
    BARE,
    COUNTS,
    DEEDS,
    NO,
    NOT_ANY,
    NOUNS,
    OWNERS,
    STATES,
    THE,
    THIS,
    WASH,
    A,
    Adjective,
    Case,
    Determiner,
    Gender,
    Noun,
    Verb,
)
from phrasebook.english import (
    HE,
    ME,
    THEY,
    WE,
    YOU,
    Finite,
    a_or_an,
    auxiliary,
    be,
    followed,
    past,
    present,
)
from phrasebook.grammar import Dice, Fragment, tie, weave

# ---- Noun phrases

# Forms for masculine, feminine, neuter and plural.
ARTICLE: dict[Case, str] = {
    "nominative": "der die das die",
    "accusative": "den die das die",
    "dative": "dem der dem den",
}
STRONG: dict[Case, str] = {
    "nominative": "er e es e",
    "accusative": "en e es e",
    "dative": "em er em en",
}
# As above; - where ein, mein, kein have no ending.
MIXED: dict[Case, str] = {
    "nominative": "- e - e",
    "accusative": "en e - e",
    "dative": "em er em en",
}
AFTER_STRONG: dict[Case, str] = {
    "nominative": "e e e en",
    "accusative": "en e e en",
    "dative": "en en en en",
}
AFTER_MIXED: dict[Case, str] = {
    "nominative": "er e es en",
    "accusative": "en e es en",
    "dative": "en en en en",
}
ADJECTIVE_ENDINGS = {"strong": AFTER_STRONG, "mixed": AFTER_MIXED, "bare": STRONG}

# A determiner, and whether its noun is plural.
Choice = tuple[Determiner, bool]

POINTING: tuple[Choice, ...] = (
    *[(THE, False)] * 4,
    *[(THE, True)] * 2,
    *[(THIS, False), (THIS, True)] * 2,
)
OWNED: tuple[Choice, ...] = tuple((owner, plural) for owner in OWNERS for plural in (False, True))
SPECIFIC = (*POINTING, *OWNED)
ONE: tuple[Choice, ...] = ((A, False),)
SOME: tuple[Choice, ...] = tuple((count, True) for count in COUNTS)
FEW = SOME[:4]  # two to five, the more frequent ones
PLAIN: tuple[Choice, ...] = ((BARE, False), (BARE, True))  # water, apples
NAMED = PLAIN[:1]  # for names
NONE: tuple[Choice, ...] = ((NO, False),)
NOTHING: tuple[Choice, ...] = ((NOT_ANY, False), (NOT_ANY, True))  # kein wasser, keine äpfel


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, and what the rest of the sentence has to know of it."""

    fragment: Fragment
    noun: Noun
    plural: bool
    determiner: Determiner

    @property
    def person(self) -> int:
        """Third person, singular or plural."""
        return THEY if self.plural else HE


@dataclass(frozen=True)
class Subject:
    """A subject; `pronoun` refers to it in the next clause, None if no pronoun can."""

    fragment: Fragment
    person: int
    pronoun: Fragment | None


ICH, DU, WIR = (weave("ich/p", "i/p"), weave("du/p", "you/p"), weave("wir/p", "we/p"))
ER, SIE, THEM = (weave("er/p", "he/p"), weave("sie/p", "she/p"), weave("sie/p", "they/p"))
PERSONS = (
    *(Subject(word, person, word) for word, person in ((ICH, ME), (DU, YOU), (ER, HE))),
    *(Subject(word, person, word) for word, person in ((SIE, HE), (WIR, WE), (THEM, THEY))),
)
# A neuter person is es in German, but he or she in English: no pronoun refers to it.
AGAIN: dict[Gender, Fragment | None] = {"m": ER, "f": SIE, "n": None}


def subject_of(phrase: Phrase) -> Subject:
    """The subject that a noun phrase makes."""
    pronoun = THEM if phrase.plural else AGAIN[phrase.noun.gender]
    return Subject(phrase.fragment, phrase.person, pronoun)


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
    if noun.kinds & {"adult", "youth", "place", "shade"} and determiner in OWNERS:
        return False
    if determiner in (BARE, NOT_ANY):
        return plural or noun.plurals is None
    if determiner is A and "cup" in noun.kinds:
        return True
    return determiner not in (A, NO) or noun.plurals is not None


@cache
def build(
    noun: Noun,
    determiner: Determiner,
    plural: bool,
    case: Case = "nominative",
    adjective: Adjective | None = None,
) -> Phrase:
    """The noun phrase: `einen roten apfel`, `a red apple`."""
    column = 3 if plural else "mfn".index(noun.gender)
    left = f"{noun.decline(case, plural)}/n"
    right = f"{noun.plurals[1] if plural and noun.plurals else noun.english}/n"
    if adjective:
        ending = ADJECTIVE_ENDINGS[determiner.endings][case].split()[column]
        left = f"{adjective.stem}{ending}/a {left}"
        right = f"{adjective.english}/a {right}"
    if determiner is not BARE:
        left = f"{_inflect(determiner, case, column)}/d {left}"
        article = determiner.plural if plural else determiner.english
        if article == "a":
            article = a_or_an(right)
        right = f"{article}/d {right}" if article else right
    return Phrase(weave(left, right), noun, plural, determiner)


def _inflect(determiner: Determiner, case: Case, column: int) -> str:
    if determiner is THE:
        return ARTICLE[case].split()[column]
    if determiner.endings == "bare":
        return determiner.german
    endings = STRONG if determiner.endings == "strong" else MIXED
    return determiner.german + endings[case].split()[column].removeprefix("-")


def some(
    dice: Dice,
    nouns: Sequence[Noun],
    wanted: tuple[Choice, ...],
    case: Case = "nominative",
    adjectives: float = 0.0,
) -> Phrase:
    """A random noun phrase; `adjectives` is the probability of an adjective."""
    noun = dice.pick(nouns)
    options = choices(noun, wanted)
    while not options:
        noun = dice.pick(nouns)
        options = choices(noun, wanted)
    determiner, plural = dice.pick(options)
    adjective = None
    if not noun.kinds & {"kin", "name"} and dice.chance(adjectives):
        fitting = adjectives_of(noun, at_noun=True)
        adjective = dice.pick(fitting) if fitting else None
    return build(noun, determiner, plural, case, adjective)


def someone(dice: Dice, pronouns: float = 0.55) -> Subject:
    """A random subject: a pronoun (with probability `pronouns`) or a person."""
    if dice.chance(pronouns):
        return dice.pick(PERSONS)
    return subject_of(some(dice, kind("person"), SPECIFIC))


# ---- Clauses

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
    """The verbs of a clause: German in second position and last, or all of them last; English."""

    second: str
    end: str
    all_last: str
    english: Finite


@dataclass(frozen=True)
class Clause:
    """A clause whose word order is still open.

    Args:
        subject: fills the slot S.
        verbs: the verbs in both languages.
        middle: the German template text between the verbs, including nicht.
        rest: the English template text after the verbs.
        slots: the fillings of the slots in `middle` and `rest`.
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
        """The time first, so the subject after the verb: `gestern hat er das buch gelesen .`"""
        german = f"T {self.verbs.second} S {self.middle} {self.verbs.end} ./p"
        return self._weave(german, f"T {self._english()} ./p", T=time)

    def question(self, word: tuple[str, str] = ("", ""), mark: str = "?/q") -> Fragment:
        """The verb first, or after a question word: `was hat er gelesen ?`"""
        german = f"{word[0]} {self.verbs.second} S {self.middle} {self.verbs.end} {mark}"
        english = f"{word[1]} {self.verbs.english.question('S', self.rest)} {mark}"
        return self._weave(german, english)

    def embedded(self) -> Fragment:
        """The verbs last, as after weil and dass: `er das buch gelesen hat`."""
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
    """The perfect, which corresponds to the English past: ich habe angerufen, i called."""
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
    """The present, the perfect or a modal verb, at random."""
    return now(verb, person) if dice.chance(0.4) else not_now(dice, verb, person)


def not_now(dice: Dice, verb: Verb, person: int) -> Verbs:
    """The perfect or a modal verb, at random; er kommt would rather be he is coming."""
    if dice.chance(0.45):
        return then(verb, person)
    return modal(dice.pick(tuple(MODALS)), verb, person)


def may_deny(dice: Dice, verbs: Verbs) -> bool:
    """Whether to negate: one time in six, but never would like."""
    return dice.chance(1 / 6) and WOULD_LIKE.plain not in verbs.english.plain


def do_something(
    dice: Dice, subject: Subject, verb: Verb, verbs: Verbs, *, negative: bool
) -> Clause:
    """A clause with a random object."""
    thing = some_object(dice, verb, negative)
    middle = "O"
    if negative:  # kein buch, or das buch nicht
        middle = "O/n" if thing.determiner in (NO, NOT_ANY) else "O nicht/n"
    return Clause(subject, verbs, middle, "O", {"O": thing.fragment}, negative)


def some_object(dice: Dice, verb: Verb, negative: bool = False) -> Phrase:
    """A random object of the verb; in a negative clause `a` and no article become kein."""
    usage = verb.usage
    if "known" in usage:
        wanted = SPECIFIC
    elif negative:
        wanted = NEGATED_BARE if "bare" in usage else NEGATED
        wanted = NEGATED_GENERAL if "general" in usage else wanted
    elif "general" in usage:
        wanted = GENERAL
    else:
        wanted = UNCOUNTED if "bare" in usage else INDEFINITE
    nouns = nouns_of(verb.objects)
    return some(dice, nouns, wanted, verb.case, adjectives=0.0 if verb is WASH else 0.3)


def be_so(subject: Subject, adjective: Adjective, negative: bool = False) -> Clause:
    """A clause with sein and an adjective, which has no ending in German."""
    nicht = "nicht/n " if negative else ""
    german, english = f"{nicht}{adjective.german}/a", f"{adjective.english}/a"
    return Clause(subject, is_(subject.person), german, english, {}, negative)


def description(dice: Dice) -> Clause:
    """`die katze ist schwarz`, about any noun."""
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
