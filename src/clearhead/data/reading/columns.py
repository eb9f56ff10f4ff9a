"""Which columns of a table have the texts and the labels: by the settings, or judged by the cells.

`columns_of` decides which columns are read. `likely_columns` judges: a column has labels if its
values repeat, and texts if they hardly do and have several words. Where more than one column could
be either, nothing is guessed. Line 1 is a row like the others if its label is that of another row,
or its text is a sentence.
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
from clearhead.errors import ConfigError, DataError, first_few
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
    name. As a label may be `text`, that name of the text column counts before the label only if it
    is not among the known labels, if there are any.
    """
    cells = table.names
    if chosen.by_position or has_ending(table.path, ".csv") or len(cells) != 2:
        return chosen
    starts_with_text = cells[0] == chosen.text and known and cells[0] not in known
    is_header = chosen.label in cells or cells[1] == chosen.text or starts_with_text
    return chosen if is_header and not has_ending(table.path, ".txt") else LABEL_FIRST


def text_column_of(table: Table, chosen: Columns, known: Collection[str]) -> Column:
    """The column of the texts of a table that may have no labels: a line of one cell is a text.

    A DataError if they are likely in another column than the one that is read by default.
    """
    if (
        len(table.names) == 1
        and not has_ending(table.path, ".csv")
        and chosen.text not in table.names
    ):
        return 1
    columns = columns_of(table, chosen, known)
    likely = likely_columns(table.path, known) if columns.by_position else None
    if likely is not None and likely.text != columns.text:
        raise DataError(
            f"the texts are not in column {columns.text}, which is read by default",
            where=table.path,
            why=f"the cells look like {likely.described}",
            todo=_name_the_texts(likely),
        )
    return columns.text


def index_of(table: Table, column: Column, setting: str, known: Collection[str]) -> int:
    """The index of a column; the error suggests the columns that are likely by their cells."""
    try:
        return table.index(column, setting)
    except DataError as error:
        if isinstance(column, int) or column in table.names:
            raise
        is_option = setting == TEXT_OPTION
        if likely := likely_columns(table.path, known):
            error.todo = _name_the_texts(likely) if is_option else f"set {likely.settings}"
            if likely.by_position:
                cells = [repr(cell if len(cell) <= 30 else f"{cell[:29]}…") for cell in table.names]
                error.why = f"line 1 is no header: {first_few(cells, 3)}"
        else:
            give = "its position, from 1" if is_option else "both columns by position, from 1"
            name = setting if is_option else f"data.{setting} ="
            error.todo = f"{error.todo}; if line 1 is not a header, give {give}: {name} 1"
        raise


def _name_the_texts(likely: Columns) -> str:
    return f"name the column: {TEXT_OPTION} {json.dumps(likely.text, ensure_ascii=False)}"


def columns_read(path: str, chosen: Columns = NAMED) -> Columns:
    """The columns of a file of labelled texts that are read; a DataError if it cannot be read."""
    if has_ending(path, ".jsonl"):
        return chosen
    with open_table(path) as table:
        return columns_of(table, chosen)


def other_columns(path: str) -> Columns | None:
    """The likely columns of a file, unless they are those that are read by default."""
    likely = likely_columns(path)
    if likely is None or (has_ending(path, ".txt") and not likely.by_position):
        return None  # a .txt file has no names
    return None if likely == columns_read(path) else likely


def likely_columns(path: str, known: Collection[str] = ()) -> Columns | None:
    """The columns of a `.csv`, `.tsv` or `.txt` file; None if they are not clear.

    They are names if line 1 is a header, positions otherwise. Of two columns, the one that has only
    `known` labels, at least from line 2 on, has the labels.
    """
    rows = _judged_rows(path)
    if not rows:
        return None
    first, *others = rows
    if set(NAMED) <= set(first):
        return NAMED
    if found := _by_known_labels(rows, known):
        return found
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


def columns_with_labels(path: str, known: Collection[str]) -> Columns | None:
    """The positions in a table of two columns without a header, if one has only known labels."""
    found = _by_known_labels(_judged_rows(path), known)
    return found if found and found.by_position else None


def header_at(path: str, position: int, usual: Column, known: Collection[str]) -> str:
    """The name at a position in line 1 if that looks like a header; otherwise "".

    It does if it has the `usual` name there, or the names of `likely_columns`.
    """
    rows, likely = _judged_rows(path), likely_columns(path, known)
    name = rows[0][position - 1] if rows else ""
    return name if name == usual or (likely is not None and not likely.by_position) else ""


def _by_known_labels(rows: Sequence[Sequence[str]], known: Collection[str]) -> Columns | None:
    """The columns of a table of two, of which one has only known labels, below a header or not."""
    if not rows or len(rows[0]) != 2:
        return None
    for below in (rows, rows[1:]):
        match [_are_known(cells, known) for cells in zip(*below, strict=True)]:
            case [True, False]:
                label, text = 0, 1
            case [False, True]:
                label, text = 1, 0
            case _:
                continue
        if below is not rows and all(rows[0]) and mean_words([rows[0][text]]) <= LABEL_WORDS:
            return Columns(rows[0][text], rows[0][label])
        return Columns(text + 1, label + 1)
    return None


def _are_known(cells: Sequence[str], known: Collection[str]) -> bool:
    """Whether the cells have known labels only; a text may have none."""
    names = set(map(LABEL, _labels_of(cells))) - {""}
    return bool(names) and names <= set(map(LABEL, known))


def columns_hint(
    place: str | None, label: str, known: Collection[str] = (), pattern: str = ""
) -> str:
    """A hint for an unusual label, if its place is line 1 of a table that may be misread.

    `pattern` is a file for which the columns in the settings are right.
    """
    file, _, line = (place or "").rpartition(":")
    if line != "1" or not has_ending(file, ".csv", ".tsv", ".txt"):
        return ""
    likely = likely_columns(file, known)
    if pattern:
        todo = f"give this file the columns of {pattern}, in the same order"
    elif likely:
        todo = f"set {likely.settings}"
    else:
        todo = "name its columns: data.text_column and data.label_column "
        todo += "(init and evaluate: --text-column …)"
    if likely and isinstance(likely.label, int):
        is_read = label in _labels_of([_judged_rows(file)[0][likely.label - 1]])
        return "" if is_read else f"; the cells look like {likely.described}: {todo}"
    return "" if has_ending(file, ".txt") else f"; if line 1 is a header, {todo}"


def _judged_rows(path: str) -> list[list[str]]:
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
