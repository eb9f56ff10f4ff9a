"""What a word is in the German-English grammar, and how it is written down in the lexicon.

Kinds say what goes with what: an adjective lists the kinds of noun that it suits, a verb the
kinds that it takes as an object. Words are compared by identity: each is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun; one without plurals (German, English) is a mass noun, a relative or a name.

    `weak`: it ends in -n but in the nominative (der junge, den jungen). `at`, `to`: for a place,
    the prepositions for being there and for going there, each in German and in English.
    """

    german: str
    english: str
    gender: Gender
    kinds: frozenset[str]
    plurals: tuple[str, str] | None
    weak: bool = False
    at: tuple[str, str] = ("in", "in")
    to: tuple[str, str] = ("zu", "to")

    def decline(self, case: Case, plural: bool) -> str:
        """The German form."""
        if plural and self.plurals:
            form = self.plurals[0]
            return form + "n" if case == "dative" and form[-1] not in "ns" else form
        return self.german + "n" if self.weak and case != "nominative" else self.german


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective: as it stands alone, and the stem that takes endings (teuer, teur-)."""

    german: str
    stem: str
    english: str
    suits: frozenset[str]


@dataclass(frozen=True, eq=False)
class Determiner:
    """What stands before a noun, in English singular and plural; None where it cannot stand.

    `endings`: like der (`strong`), like ein (`mixed`), or none at all (`bare`).
    """

    german: str
    english: str | None
    plural: str | None
    endings: Literal["strong", "mixed", "bare"]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: German infinitive, present tense (ich, du, er), participle; English forms.

    `prefix` is what comes off (ich rufe an), `be` says that the perfect is made with sein,
    `case` is that of the object. Manners are words: `bare` likes objects without article (eat
    apples), `known` only has objects that are known (open the door), `general` has these or all
    of a kind (like the dog, like dogs).
    """

    infinitive: str
    singular: tuple[str, ...]
    participle: str
    english: str
    third: str
    past: str
    objects: frozenset[str]
    manners: frozenset[str]
    prefix: str
    be: bool
    case: Case

    def present(self, person: int) -> str:
        """The finite form without prefix; wir and sie have the infinitive's."""
        return (*self.singular, self.infinitive, self.infinitive)[person]


def make_noun(german: str, english: str, gender: Gender, kinds: str, weak: bool = False) -> Noun:
    """A noun from `singular plural` in both languages, or from the singulars alone."""
    one, *many = german.split()
    single, *several = english.split()
    plurals = (many[0], several[0]) if many else None
    return Noun(one, single, gender, _set(kinds), plurals, weak)


def make_place(
    german: str, english: str, gender: Gender, kinds: str, *, at: str = "in in", to: str = "zu to"
) -> Noun:
    """A place, with its prepositions, each as `german english`."""
    here, there = at.split(), to.split()
    prepositions = ((here[0], here[1]), (there[0], there[1]))
    return Noun(german, english, gender, _set(kinds), None, False, *prepositions)


def make_adjective(german: str, english: str, suits: str, stem: str = "") -> Adjective:
    """An adjective; the stem is only needed if it is not the word without a final -e."""
    return Adjective(german, stem or german.removesuffix("e"), english, _set(suits))


def make_verb(
    german: str,
    english: str,
    objects: str = "",
    manners: str = "",
    *,
    prefix: str = "",
    be: bool = False,
    case: Case = "accusative",
) -> Verb:
    """A verb from `infinitive ich du er participle` and `base, third person, past`."""
    infinitive, first, second, third, participle = german.split()
    base, s_form, past = english.split(", ")
    present, kinds = (first, second, third), _set(objects)
    return Verb(
        *(infinitive, present, participle, base, s_form, past, kinds, _set(manners)),
        *(prefix, be, case),
    )


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())
