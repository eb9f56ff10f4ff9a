"""What a word is in the English-Spanish grammar, and how it is written down in the lexicon.

Kinds say what goes with what: an adjective lists the kinds of noun that it suits, a verb the
kinds that it takes as an object. Words are compared by identity: each is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]
Forms = tuple[str, str, str, str]  # masculine, feminine, and the plurals of both

# Adjectives that do not go with very.
NOT_GRADABLE = {"black", "white", "red", "green", "open", "closed", "broken", "empty", "delicious"}
# Present tense of regular verbs: yo, tú, él, nosotros, ellos.
ENDINGS = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun; one without plurals (English, Spanish) is a mass noun, a relative or a name.

    `stressed_a`: a feminine noun that takes the article el (el agua fría).
    """

    english: str
    spanish: str
    gender: Gender
    kinds: frozenset[str]
    plurals: tuple[str, str] | None
    stressed_a: bool


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective, and which verb it takes for to be; `gradable`: it can be very so."""

    english: str
    spanish: Forms
    be: Literal["ser", "estar"]
    suits: frozenset[str]
    gradable: bool


@dataclass(frozen=True, eq=False)
class Determiner:
    """What stands before a noun, singular and plural; None where English cannot use it."""

    english: str | None
    plural: str | None
    spanish: Forms


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: English base form and third person, Spanish infinitive and present tense.

    Its manners are words: `personal` takes the personal a, `bare` likes objects without article
    (eat apples), `known` only has objects that are known (open the door, not a door).
    """

    english: str
    third: str
    infinitive: str
    present: tuple[str, ...]
    objects: frozenset[str]
    manners: frozenset[str]


def agree(forms: Forms, gender: Gender, plural: bool) -> str:
    """The form that agrees with a noun of this gender and number."""
    return forms[2 * plural + (gender == "f")]


def conjugate(infinitive: str, strong: str = "", first: str = "") -> tuple[str, ...]:
    """The present tense; `strong` is the stem where it is stressed, `first` an odd first person."""
    weak, ending = infinitive[:-2], infinitive[-2:]
    stems = [strong or weak] * 5
    stems[3] = weak
    forms = [stem + end for stem, end in zip(stems, ENDINGS[ending], strict=True)]
    return (first or forms[0], *forms[1:])


def make_noun(
    english: str, spanish: str, gender: Gender, kinds: str, stressed_a: bool = False
) -> Noun:
    """A noun from `singular plural` in both languages, or from the singulars alone."""
    one, *many = english.split()
    uno, *muchos = spanish.split()
    plurals = (many[0], muchos[0]) if many else None
    return Noun(one, uno, gender, _set(kinds), plurals, stressed_a)


def make_adjective(
    english: str, spanish: str, be: Literal["ser", "estar"], suits: str
) -> Adjective:
    """An adjective from the masculine in -o, or from the two forms of one without gender."""
    one, *many = spanish.split()
    stem = one.removesuffix("o")
    forms = (one, one, *many, *many) if many else (one, stem + "a", stem + "os", stem + "as")
    gradable = english not in NOT_GRADABLE
    return Adjective(english, (forms[0], forms[1], forms[2], forms[3]), be, _set(suits), gradable)


def make_verb(
    english: str,
    infinitive: str,
    objects: str = "",
    manners: str = "",
    *,
    strong: str = "",
    first: str = "",
) -> Verb:
    """A verb from `base third` and the infinitive; `strong` and `first` as in `conjugate`."""
    base, third = english.split()
    present = conjugate(infinitive, strong, first)
    return Verb(base, third, infinitive, present, _set(objects), _set(manners))


def make_determiner(english: str, plural: str, spanish: str) -> Determiner:
    """A determiner from its English singular and plural and its four Spanish forms."""
    ms, fs, mp, fp = spanish.split()
    return Determiner(english, plural, (ms, fs, mp, fp))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())
