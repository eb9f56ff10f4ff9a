"""The built-in pairs, named like a file.

`phrasebook:en-es` is the part that the caller asks for
(training pairs where training pairs are wanted), `phrasebook:en-es:train`, `:validation` and
`:test` are the parts by name. The reference pairs come first, and several times, among the
training pairs; they stay so where `data.drop_duplicates` is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from clearhead.errors import DataError

REFERENCE_TIMES = 20
"""So often each reference pair comes in training: once in 18,500 is too rare to be learned."""

Part = Literal["train", "validation", "test"]

PHRASEBOOK = "phrasebook:"


def phrasebook_pairs(name: str, part: Part = "train") -> Sequence[tuple[str, str]]:
    """The built-in pairs of `phrasebook:en-es` or `phrasebook:en-es:test`.

    Raises:
        DataError: there is no such language pair or part.
    """
    from clearhead.data.phrasebook import LANGUAGE_PAIRS, phrasebook

    languages, _, named = name.removeprefix(PHRASEBOOK).partition(":")
    if languages not in LANGUAGE_PAIRS or (named and named not in get_args(Part)):
        raise DataError(
            "there is no such built-in data",
            where=name,
            todo="choose one of "
            + ", ".join(PHRASEBOOK + languages for languages in LANGUAGE_PAIRS)
            + ", with :train, :validation or :test behind it if need be",
        )
    book = phrasebook(languages)
    entries = getattr(book, named or part)
    if (named or part) == "train":
        entries = (*book.reference * (REFERENCE_TIMES - 1), *entries)
    return [(entry.source, entry.target) for entry in entries]
