"""Writes the data files of the phrasebook: samples sentences, splits them, compresses them.

    python -m phrasebook.make [FOLDER]

Without a folder it replaces the files of the package. The files are always the same bytes: the
random choices depend on the seed alone, and bzip2 files contain no date or name. The algorithm of
libbz2 has not changed for many years, unlike those of zlib and liblzma.
"""

from __future__ import annotations

import argparse
import bz2
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from clearhead.data.reading.phrasebook import LANGUAGE_PAIRS, AlignedPair, Phrasebook, data_file
from clearhead.folder.files import write_bytes
from phrasebook.de_en import rules as de_en
from phrasebook.en_es import rules as en_es
from phrasebook.grammar import Dice

SEED = 1
SIZE = 20_000
VALIDATION_SIZE = 500
TEST_SIZE = 1_000
# Each word of a held-out sentence occurs in at least this many of the other pairs.
MIN_SEEN = 20
GRAMMARS = {"en-es": en_es, "de-en": de_en}


def main() -> None:
    """Write the files of both language pairs and print their paths."""
    parser = argparse.ArgumentParser(
        prog="python -m phrasebook.make", description="Write the data files of the phrasebook."
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        default=data_file(LANGUAGE_PAIRS[0]).parent,
        help="where to write the files (default: the folder of the package)",
    )
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for pair in LANGUAGE_PAIRS:
        grammar = GRAMMARS[pair]
        book = compile_book(grammar.sentence, grammar.REFERENCE, grammar.UNSEEN, SEED)
        path = folder / data_file(pair).name
        write_bytes(path, bz2.compress(table(book).encode()))
        print(path)


def compile_book(
    sentence: Callable[[Dice], AlignedPair],
    reference: Sequence[AlignedPair],
    unseen: Sequence[str],
    seed: int,
) -> Phrasebook:
    """A phrasebook of sentences of a grammar, always the same for the same seed.

    Args:
        sentence: the grammar: returns a random pair.
        reference: pairs that go into the training part as they are.
        unseen: sources to leave out.
        seed: of the random choices.
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
    """The test pairs, then the validation pairs: their targets are unique, their words frequent."""
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


def table(book: Phrasebook) -> str:
    """The text of a data file: lines of part, source, target and alignment between tabs."""
    parts = {
        "reference": book.reference,
        "train": book.train[len(book.reference) :],
        "validation": book.validation,
        "test": book.test,
    }
    return "".join(
        f"{part}\t{pair.source}\t{pair.target}\t{pair.pharaoh}\n"
        for part, pairs in parts.items()
        for pair in pairs
    )


if __name__ == "__main__":
    main()
