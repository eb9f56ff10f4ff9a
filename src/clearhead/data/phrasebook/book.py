"""The phrasebook of a language pair: what a grammar says, split for training and testing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.pair import AlignedPair

SIZE = 20_000
VALIDATION_SIZE = 500
TEST_SIZE = 1_000
# Each word of a held-out sentence stays in at least this many training pairs.
MIN_SEEN = 20


@dataclass(frozen=True)
class Phrasebook:
    """The sentence pairs of one language pair.

    Args:
        reference: the pairs of a reference system, verbatim; a part of `train`.
        train: the training pairs; the reference pairs come first.
        validation: pairs to watch training with.
        test: unseen combinations of seen words; no source and no target is in another part.
    """

    reference: tuple[AlignedPair, ...]
    train: tuple[AlignedPair, ...]
    validation: tuple[AlignedPair, ...]
    test: tuple[AlignedPair, ...]


def compile_book(
    sentence: Callable[[Dice], AlignedPair],
    reference: Sequence[AlignedPair],
    unseen: Sequence[str],
    seed: int,
) -> Phrasebook:
    """A phrasebook of the sentences of a grammar, which is the same for the same seed.

    Args:
        sentence: the grammar: gives a pair by chance.
        reference: pairs that go into the training part as they are.
        unseen: sources that go nowhere.
        seed: what chance depends on.
    """
    dice = Dice(seed)
    pairs = {pair.source: pair for pair in reference}
    while len(pairs) < SIZE:
        pair = sentence(dice)
        if pair.source not in unseen:
            pairs.setdefault(pair.source, pair)
    own = dice.shuffled(list(pairs.values())[len(reference) :])
    held_out = _held_out(own, reference)
    chosen = {pair.source for pair in held_out}
    train = (*reference, *(pair for pair in own if pair.source not in chosen))
    test, validation = held_out[:TEST_SIZE], held_out[TEST_SIZE:]
    return Phrasebook(tuple(reference), train, tuple(validation), tuple(test))


def _held_out(own: Sequence[AlignedPair], reference: Sequence[AlignedPair]) -> list[AlignedPair]:
    """The test pairs, then the validation pairs: targets of one source, words of many."""
    targets = Counter(pair.target for pair in (*reference, *own))
    words = Counter(word for pair in own for word in _words(pair))
    chosen: list[AlignedPair] = []
    for pair in own:
        if len(chosen) == TEST_SIZE + VALIDATION_SIZE:
            break
        if targets[pair.target] == 1 and all(words[word] > MIN_SEEN for word in _words(pair)):
            chosen.append(pair)
            words.subtract(_words(pair))
    return chosen


def _words(pair: AlignedPair) -> set[tuple[str, str]]:
    source = {("source", word) for word in pair.source.split()}
    return source | {("target", word) for word in pair.target.split()}
