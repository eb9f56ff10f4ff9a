"""The English-Spanish grammar: its rules, and how often each speaks."""

from __future__ import annotations

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.en_es import days, deeds, places
from clearhead.data.phrasebook.en_es.phrases import kind
from clearhead.data.phrasebook.fragment import contract_target
from clearhead.data.phrasebook.pair import AlignedPair

CONTRACTIONS = {("a", "el"): "al", ("de", "el"): "del"}
# A rule counts as many times as its weight; small rules run dry and leave room to the others.
WEIGHTS = (
    (places.quality, 16),
    (places.feeling, 4),
    (places.identity, 10),
    (places.location, 9),
    (places.existence, 7),
    (places.supplies, 2),
    (deeds.action, 20),
    (deeds.plan, 14),
    (deeds.meeting, 5),
    (deeds.taste, 8),
    (deeds.pastime, 3),
    (days.scene, 8),
    (days.routine, 3),
    (days.family, 2),
    (days.counting, 2),
    (days.price, 4),
    (days.greeting, 1),
    (days.naming, 1),
)
PEOPLE = {noun.english for noun in kind("person")}
RULES = tuple(rule for rule, weight in WEIGHTS for _ in range(weight))
# The pairs of a reference system's training data, and a sentence that it has to translate unseen.
REFERENCE = (
    AlignedPair("hello world", "hola mundo", ((0, 0), (1, 1))),
    AlignedPair("i love you", "te amo", ((0, 1), (1, 1), (2, 0))),
    AlignedPair("the cat is black", "el gato es negro", ((0, 0), (1, 1), (2, 2), (3, 3))),
    AlignedPair("good morning", "buenos dias", ((0, 0), (1, 1))),
    AlignedPair("this is a book", "este es un libro", ((0, 0), (1, 1), (2, 2), (3, 3))),
    AlignedPair("what is your name", "como te llamas", ((0, 0), (1, 2), (2, 1), (3, 2))),
)
UNSEEN = ("i love cat", "this is a cat")


def sentence(dice: Dice) -> AlignedPair:
    """A sentence pair by chance."""
    fragment = dice.pick(RULES)(dice)
    while not _sensible(fragment.source):
        fragment = dice.pick(RULES)(dice)
    return contract_target(fragment, CONTRACTIONS).as_pair()


def _sensible(words: tuple[str, ...]) -> bool:
    """Whether nobody is named twice (ana helps ana)."""
    people = [word for word in words if word in PEOPLE]
    return len(people) == len(set(people))
