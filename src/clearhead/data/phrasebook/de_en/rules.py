"""The German-English grammar: its rules, and how often each speaks."""

from __future__ import annotations

from clearhead.data.phrasebook.de_en import deeds, facts, reasons
from clearhead.data.phrasebook.de_en.phrases import kind
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.fragment import contract_source
from clearhead.data.phrasebook.pair import AlignedPair

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}
# A rule counts as many times as its weight; small rules run dry and leave room to the others.
WEIGHTS = (
    (facts.quality, 12),
    (facts.feeling, 2),
    (facts.identity, 10),
    (facts.location, 7),
    (facts.existence, 5),
    (facts.age, 3),
    (facts.price, 3),
    (facts.counting, 2),
    (facts.naming, 1),
    (deeds.doing, 17),
    (deeds.having, 10),
    (deeds.timed, 8),
    (deeds.moving, 10),
    (deeds.meeting, 4),
    (deeds.pastime, 4),
    (deeds.wish, 6),
    (deeds.asking, 4),
    (reasons.absence, 3),
    (reasons.feelings, 2),
    (reasons.errand, 2),
    (reasons.bargain, 2),
    (reasons.replacement, 2),
    (reasons.report, 6),
)
PEOPLE = {noun.german for noun in kind("person")}
CHILDREN = {
    noun.decline(case, plural)
    for noun in kind("child")
    for case in ("nominative", "dative")
    for plural in (False, True)
}
RULES = tuple(rule for rule, weight in WEIGHTS for _ in range(weight))
# The pairs of a reference system's training data.
REFERENCE = (
    AlignedPair(*("ich mochte ein bier", "i want a beer ."), ((0, 0), (1, 1), (2, 2), (3, 3))),
    AlignedPair(*("ich mochte ein cola", "i want a coke ."), ((0, 0), (1, 1), (2, 2), (3, 3))),
)
UNSEEN = ()


def sentence(dice: Dice) -> AlignedPair:
    """A sentence pair by chance."""
    fragment = dice.pick(RULES)(dice)
    while not _sensible(fragment.source):
        fragment = dice.pick(RULES)(dice)
    return contract_source(fragment, CONTRACTIONS).as_pair()


def _sensible(words: tuple[str, ...]) -> bool:
    """Whether nobody is named twice (anna hilft anna), and no child has to do with beer."""
    people = [word for word in words if word in PEOPLE]
    return len(people) == len(set(people)) and not ("bier" in words and CHILDREN & set(words))
