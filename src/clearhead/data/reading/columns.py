"""Which columns of a table have the texts and the labels: by the settings, or judged by the cells.

`columns_of` decides which columns are read. `likely_columns` judges a sample: a column has labels
if its values repeat, and texts if they hardly do and have several words. Where more than one column
could be either, nothing is guessed. Line 1 is a row like the others if its label is that of another
row, or its text is a sentence.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

from clearhead.data.reading.lines import has_ending
from clearhead.data.reading.tables import Column, Table, open_table
from clearhead.errors import ConfigError, DataError
from clearhead.tokenizer.normal_form import LABEL

SAMPLE = 1000
"""Rows that are judged: so many at the start of a table, and so many at random from the others.

The start alone would show one label only of a file that is sorted by label.
"""

LEAST = 10  # fewer rows show nothing

LABEL_WORDS = 4
"""A label has this many words on average at most, and so has the name of a column."""

UNSPACED = range(0x0E00, 0xD7B0)
"""Thai to Korean, roughly: each such character counts as a word."""

TEXT_OPTION = "--text-column"
"""The option of `clearhead classify` for the column of the texts."""


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

    def check(self) -> None:
        """Raise a ConfigError for one column twice, or for a name and a position."""
        if type(self.text) is not type(self.label) or self.text == self.label:
            raise ConfigError(
                f"the columns {self.text!r} and {self.label!r} do not go together",
                setting="data.label_column",
                why="a file with a header has two names, one without has two positions",
                todo="choose two different columns: --text-column and --label-column, or "
                "data.text_column and data.label_column",
            )


NAMED = Columns("text", "label")
"""The columns that are read unless others are given."""

LABEL_FIRST = Columns(2, 1)
"""The columns of a file with tabs and without a header, unless positions are given."""


def columns_of(table: Table, chosen: Columns, known: Collection[str] = ()) -> Columns:
    """The columns that are read: the chosen ones, or positions if the table has no header.

    A `.txt` file has no header. Line 1 of two cells in a `.tsv` file is a header if it has a chosen
    name. The name of the text column in the first cell may also be a label, as in `text`, so there
    it counts only if the labels are known and it is none of them.
    """
    cells = table.names
    if chosen.by_position or has_ending(table.path, ".csv") or len(cells) != 2:
        return chosen
    starts_with_text = cells[0] == chosen.text and known and cells[0] not in known
    is_header = chosen.label in cells or cells[1] == chosen.text or starts_with_text
    return chosen if is_header and not has_ending(table.path, ".txt") else LABEL_FIRST


def text_column_of(table: Table, chosen: Columns, known: Collection[str]) -> Column:
    """The column of the texts of a table that may have no labels.

    Without a chosen name in line 1 of a file with tabs, a line of one cell is a text, and of two
    cells the one that is no known label.
    """
    cells = table.names
    if chosen.by_position or has_ending(table.path, ".csv") or len(cells) > 2:
        return chosen.text
    if chosen.text in cells and not (chosen.text == cells[0] and chosen.text in known):
        return chosen.text
    return 1 if len(cells) == 1 else beside_label(cells, known) or chosen.text


def beside_label(cells: Sequence[str], known: Collection[str]) -> int | None:
    """The position of the one of two cells that is no known label; None if that is not clear."""
    names = {"", *map(LABEL, known)}  # a text may have no label
    match [all(LABEL(name) in names for name in _labels_of([cell])) for cell in cells]:
        case [True, False]:
            return 2
        case [False, True]:
            return 1
    return None


def index_of(table: Table, column: Column, setting: str) -> int:
    """The index of a column; the error suggests the columns that are likely by their cells."""
    try:
        return table.index(column, setting)
    except DataError as error:
        if isinstance(column, int) or column in table.names:
            raise
        likely = likely_columns(sample_of(table.path))
        if likely and setting == TEXT_OPTION:
            name = json.dumps(likely.text, ensure_ascii=False)
            error.todo = f"name the column: {TEXT_OPTION} {name}"
        elif likely:
            error.todo = f"set {likely.settings}"
        else:
            error.todo = f"{error.todo}; if line 1 is not a header, give positions, from 1"
        if likely and likely.by_position:
            error.why = f"the cells look like {likely.described}"
        raise


def columns_read(path: str, chosen: Columns = NAMED) -> Columns:
    """The columns of a file of labelled texts that are read; a DataError if it cannot be read."""
    if has_ending(path, ".jsonl"):
        return chosen
    with open_table(path) as table:
        return columns_of(table, chosen)


def other_columns(path: str) -> Columns | None:
    """The likely columns of a file, unless they are those that are read by default."""
    likely = likely_columns(sample_of(path))
    if likely is None or (has_ending(path, ".txt") and not likely.by_position):
        return None  # a .txt file has no names
    return None if likely == columns_read(path) else likely


def likely_columns(rows: Sequence[Sequence[str]]) -> Columns | None:
    """The columns of a table by line 1 and a sample of the others; None if they are not clear.

    They are names if line 1 is a header, positions otherwise.
    """
    if not rows:
        return None
    first, *others = rows
    if set(NAMED) <= set(first):
        return NAMED
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


def columns_hint(place: str | None, label: str) -> str:
    """A hint for an unusual label, if its place is line 1 of a table that may be misread."""
    file, _, line = (place or "").rpartition(":")
    if line != "1" or not has_ending(file, ".csv", ".tsv", ".txt"):
        return ""
    rows = sample_of(file)
    if likely := likely_columns(rows):
        if isinstance(likely.label, int) and label in _labels_of([rows[0][likely.label - 1]]):
            return ""  # the column of the labels was read
        like = f"the cells look like {likely.described}"
        return f"; {like}: write all files alike, and set {likely.settings}"
    if has_ending(file, ".txt"):
        return ""
    return "; if line 1 is a header, name its columns: data.text_column and data.label_column"


def sample_of(path: str) -> list[list[str]]:
    """Line 1 and a sample of the other rows; [] if the file is no table, or cannot be read."""
    if has_ending(path, ".jsonl"):
        return []
    try:
        with open_table(path) as table:
            rows = table.rows(header=False)
            first = list(islice(rows, SAMPLE + 1))
            spread, random = list(islice(rows, SAMPLE)), Random(0)
            for count, row in enumerate(rows, start=SAMPLE + 1):
                # Each of the rows so far is in the sample with the same probability.
                if (place := random.randrange(count)) < SAMPLE:
                    spread[place] = row
    except DataError:
        return []
    return [[cell.strip() for cell in cells] for _, cells in (*first, *spread)]


def holds_texts(cells: Sequence[str]) -> bool:
    """Whether most cells are different from the others, and they have several words."""
    return 2 * len(set(cells)) > len(cells) and mean_words(cells) >= 2


def _holds_labels(cells: Sequence[str]) -> bool:
    labels = _labels_of(cells)
    return 2 <= len(set(labels)) <= len(labels) / 2 and mean_words(labels) <= LABEL_WORDS


def _labels_of(cells: Sequence[str]) -> list[str]:
    """The labels in cells, each of which may have several."""
    return [name for cell in cells for name in cell.split("|")]


def mean_words(cells: Sequence[str]) -> float:
    """The mean number of words."""
    unspaced = sum(ord(character) in UNSPACED for cell in cells for character in cell)
    return (sum(len(cell.split()) for cell in cells) + unspaced) / max(1, len(cells))


def _is_header(text: str, label: str, labels: Sequence[str]) -> bool | None:
    """Whether the two cells of line 1 are names of columns; None if that is not clear."""
    counts = Counter(labels)
    if label in counts or mean_words([text]) > LABEL_WORDS:
        return False
    # The label of line 1 may also be a rare one, unless there are no rare ones.
    rare = [name for name, count in counts.items() if count == 1]
    return True if 100 * len(rare) < len(labels) else None
