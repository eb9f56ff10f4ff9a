"""The phrasebook: built-in sentence pairs that two small synchronous grammars yield.

English-Spanish and German-English everyday sentences with agreement in gender, number and case,
adjectives behind nouns, verbs at the end of clauses, questions, numbers. Every source has one
target, and every pair knows which word comes from which.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from clearhead.data.phrasebook.book import Phrasebook, compile_book
from clearhead.data.phrasebook.pair import AlignedPair
from clearhead.files import replace_file

__all__ = ["LANGUAGE_PAIRS", "AlignedPair", "Phrasebook", "phrasebook", "write_phrasebook"]

LANGUAGE_PAIRS = ("en-es", "de-en")
SEED = 1


@cache
def phrasebook(pair: str) -> Phrasebook:
    """The phrasebook of a language pair, `en-es` or `de-en`: always the same sentences.

    Raises:
        ValueError: there is no phrasebook of this language pair.
    """
    if pair == "en-es":
        from clearhead.data.phrasebook.en_es import rules
    elif pair == "de-en":
        from clearhead.data.phrasebook.de_en import rules
    else:
        known = " and ".join(LANGUAGE_PAIRS)
        raise ValueError(f"there is no phrasebook of {pair!r}: there are {known}")
    return compile_book(rules.sentence, rules.REFERENCE, rules.UNSEEN, SEED)


def write_phrasebook(folder: Path, pair: str) -> dict[str, Path]:
    """Write a phrasebook as text files: UTF-8, a sentence on every line.

    Each part (train, validation, test) becomes a file for each language, as `train.en`, and one
    for the alignments, `train.align`, with lines such as `0-0 1-2`. The folder is made if need be.

    Returns:
        The paths by name: `{"train.en": folder / "train.en", ...}`.

    Raises:
        ValueError: there is no phrasebook of this language pair.
    """
    book = phrasebook(pair)
    source, target = pair.split("-")
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, Path] = {}
    for part in ("train", "validation", "test"):
        pairs: tuple[AlignedPair, ...] = getattr(book, part)
        columns = {
            source: [pair.source for pair in pairs],
            target: [pair.target for pair in pairs],
            "align": [pair.pharaoh for pair in pairs],
        }
        for suffix, lines in columns.items():
            path = folder / f"{part}.{suffix}"
            text = "".join(f"{line}\n" for line in lines)
            replace_file(path, text.encode())
            paths[path.name] = path
    return paths
