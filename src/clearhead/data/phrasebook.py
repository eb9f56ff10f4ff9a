"""The built-in phrasebook: English-Spanish and German-English sentence pairs with alignments.

The pairs are package data, made by the grammar in the repository's folder `phrasebook/`.
As a file name, `phrasebook:en-es` means the part that fits the use (training pairs for training);
`phrasebook:en-es:train`, `:validation` and `:test` name one part.
"""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from clearhead.errors import DataError
from clearhead.files import write_bytes

LANGUAGE_PAIRS = ("en-es", "de-en")
PHRASEBOOK = "phrasebook:"
Part = Literal["train", "validation", "test"]

REFERENCE_TIMES = 20
"""How often each reference pair occurs in training: one in 18,500 is too rare to be learned.

`data.drop_duplicates = true` removes the repetitions.
"""


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair with its word alignment.

    Args:
        source: words separated by single spaces.
        target: words separated by single spaces.
        alignment: pairs (index of a source word, index of a target word), sorted, counted from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]

    @property
    def pharaoh(self) -> str:
        """The alignment in the format of alignment tools: `0-0 1-2`."""
        return " ".join(f"{i}-{j}" for i, j in self.alignment)


@dataclass(frozen=True)
class Phrasebook:
    """The sentence pairs of one language pair.

    Args:
        reference: the pairs of a reference system, verbatim; a part of `train`.
        train: the training pairs; the reference pairs come first.
        validation: pairs to evaluate on during training.
        test: unseen combinations of seen words; no source or target occurs in another part.
    """

    reference: tuple[AlignedPair, ...]
    train: tuple[AlignedPair, ...]
    validation: tuple[AlignedPair, ...]
    test: tuple[AlignedPair, ...]


def data_file(pair: str) -> Path:
    """The file of a language pair: lines of part, source, target and alignment between tabs."""
    return Path(__file__).with_name(f"phrasebook-{pair}.tsv.bz2")


@cache
def phrasebook(pair: str) -> Phrasebook:
    """The phrasebook of a language pair, `en-es` or `de-en`.

    Raises:
        ValueError: there is no phrasebook of this language pair.
    """
    if pair not in LANGUAGE_PAIRS:
        known = " and ".join(LANGUAGE_PAIRS)
        raise ValueError(f"there is no phrasebook of {pair!r}: there are {known}")
    parts: dict[str, list[AlignedPair]] = {}
    for line in bz2.decompress(data_file(pair).read_bytes()).decode().splitlines():
        part, source, target, links = line.split("\t")
        alignment = [link.split("-") for link in links.split()]
        entry = AlignedPair(source, target, tuple((int(i), int(j)) for i, j in alignment))
        parts.setdefault(part, []).append(entry)
    reference = tuple(parts["reference"])
    return Phrasebook(
        reference,
        (*reference, *parts["train"]),
        tuple(parts["validation"]),
        tuple(parts["test"]),
    )


def phrasebook_pairs(name: str, part: Part = "train") -> Sequence[tuple[str, str]]:
    """The sentence pairs of `phrasebook:en-es` (then of this `part`) or `phrasebook:en-es:test`.

    The training part starts with the reference pairs, `REFERENCE_TIMES` times each.

    Raises:
        DataError: there is no such language pair or part.
    """
    languages, _, named = name.removeprefix(PHRASEBOOK).partition(":")
    if languages not in LANGUAGE_PAIRS or (named and named not in get_args(Part)):
        raise DataError(
            "there is no such built-in data",
            where=name,
            todo="choose one of "
            + ", ".join(PHRASEBOOK + languages for languages in LANGUAGE_PAIRS)
            + ", optionally followed by :train, :validation or :test",
        )
    book = phrasebook(languages)
    entries = getattr(book, named or part)
    if (named or part) == "train":
        entries = (*book.reference * (REFERENCE_TIMES - 1), *entries)
    return [(entry.source, entry.target) for entry in entries]


def write_phrasebook(folder: Path, pair: str) -> dict[str, Path]:
    """Write a phrasebook as text files: UTF-8, one sentence per line.

    Each part (train, validation, test) becomes a file per language, such as `train.en`, and
    `train.align` with alignments such as `0-0 1-2`. Creates the folder if it does not exist.

    Returns:
        The paths by name: `{"train.en": folder / "train.en", ...}`.

    Raises:
        ValueError: there is no phrasebook of this language pair.
        DataError: a file cannot be written.
    """
    book = phrasebook(pair)
    source, target = pair.split("-")
    paths: dict[str, Path] = {}
    for part in get_args(Part):
        entries: tuple[AlignedPair, ...] = getattr(book, part)
        columns = {
            source: [entry.source for entry in entries],
            target: [entry.target for entry in entries],
            "align": [entry.pharaoh for entry in entries],
        }
        for suffix, lines in columns.items():
            path = folder / f"{part}.{suffix}"
            write_bytes(path, "".join(f"{line}\n" for line in lines).encode(), DataError)
            paths[path.name] = path
    return paths
