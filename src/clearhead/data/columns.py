"""Which columns of a table have the texts and which the labels, judged by their cells.

A column has labels if its values repeat, and texts if they hardly do and have several words. Where
more than one column could be either, nothing is guessed. Line 1 is a row like the others if its
label is that of another row, or its text is a sentence.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from clearhead.data.tables import Column, read_csv, read_tsv
from clearhead.errors import DataError, first_few

SAMPLE = 1000
"""Rows at the start of a table that are judged."""

LEAST = 10
"""Fewer rows show nothing."""

LABEL_WORDS = 4
"""A label has this many words on average at most, and so has the name of a column."""

UNSPACED = range(0x0E00, 0xD7B0)
"""Thai to Korean, roughly: a cell with such a character is not judged by its words."""


class Columns(NamedTuple):
    """The columns of the texts and of the labels: both names, or both positions from 1."""

    text: Column
    label: Column

    @property
    def by_position(self) -> bool:
        """Whether the file has no header."""
        return isinstance(self.text, int)

    @property
    def described(self) -> str:
        """Where the texts and labels are, for people."""
        if self.by_position:
            return f"texts in column {self.text}, labels in column {self.label}, and no header"
        return f"texts in column {self.text!r}, labels in column {self.label!r}"

    @property
    def settings(self) -> str:
        """The settings and the options that choose them."""
        text, label = (json.dumps(column, ensure_ascii=False) for column in self)
        return (
            f"data.text_column = {text} and data.label_column = {label} "
            f"(init and evaluate: --text-column {text} --label-column {label})"
        )


NAMED = Columns("text", "label")
"""The columns that are read unless others are given."""

BY_POSITION = "if line 1 is not a header, give both columns by position, from 1"


def likely_columns(path: str, known: Collection[str] = ()) -> Columns | None:
    """The columns of a `.csv`, `.tsv` or `.txt` file; None if they are not clear.

    They are names if line 1 is a header, positions otherwise. Of two columns, the one in which all
    cells are `known` labels has the labels.
    """
    try:
        rows = _first_rows(path)
    except DataError:
        return None
    if len(set(map(len, rows))) > 1:
        return None
    first, *others = rows
    if set(NAMED) <= set(first):
        return NAMED
    if len(first) == 2:
        match [set(known).issuperset(_labels_of(cells)) for cells in zip(*rows, strict=True)]:
            case [True, False]:
                return Columns(2, 1)
            case [False, True]:
                return Columns(1, 2)
    if len(others) < LEAST:
        return None
    columns = list(zip(*others, strict=True))
    texts = [number for number, cells in enumerate(columns) if holds_texts(cells)]
    labels = [number for number, cells in enumerate(columns) if _holds_labels(cells)]
    if len(texts) != 1 or len(labels) != 1:
        return None
    text, label = texts[0], labels[0]
    match _is_header(first[text], first[label], columns[label]):
        case True if all(first) and len(set(first)) == len(first):
            return Columns(first[text], first[label])
        case False:
            return Columns(text + 1, label + 1)
    return None


def _first_rows(path: str) -> list[list[str]]:
    is_csv = path.lower().removesuffix(".gz").endswith(".csv")
    with closing(read_csv(path) if is_csv else read_tsv(path)) as rows:
        return [[cell.strip() for cell in cells] for _, cells in islice(rows, SAMPLE + 1)]


def holds_texts(cells: Sequence[str]) -> bool:
    """Whether most cells are different from the others, and they have several words."""
    return 2 * len(set(cells)) > len(cells) and _words(cells) >= 2


def _holds_labels(cells: Sequence[str]) -> bool:
    labels = _labels_of(cells)
    return 2 <= len(set(labels)) <= len(labels) / 2 and _words(labels) <= LABEL_WORDS


def _labels_of(cells: Sequence[str]) -> list[str]:
    """The labels in cells, each of which may have several."""
    return [name for cell in cells for name in cell.split("|")]


def _words(cells: Sequence[str]) -> float:
    """The mean number of words; a character of a script without spaces counts as a word."""
    unspaced = sum(ord(character) in UNSPACED for cell in cells for character in cell)
    return (sum(len(cell.split()) for cell in cells) + unspaced) / max(1, len(cells))


def _is_header(text: str, label: str, labels: Sequence[str]) -> bool | None:
    """Whether the two cells of line 1 are names of columns; None if that is not clear."""
    counts = Counter(labels)
    if label in counts or _words([text]) > LABEL_WORDS:
        return False
    # The label of line 1 may also be a rare one, unless there are no rare ones.
    rare = [name for name, count in counts.items() if count == 1]
    return True if 100 * len(rare) < len(labels) else None


def described(cells: Sequence[str]) -> str:
    """Some cells, shortened, for a message."""
    short = [repr(cell if len(cell) <= 30 else f"{cell[:29]}…") for cell in cells]
    return first_few(short, 3)
