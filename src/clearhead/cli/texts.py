"""The texts that a classifier reads from a file: its lines, or the text column of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from clearhead.cli.failures import print_message
from clearhead.cli.options import reject_unused
from clearhead.cli.streams import STANDARD, count_lines, input_lines
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.data.reading.tables import Column


def texts_to_classify(
    classifier: Classifier, path: str, text_column: Column | None
) -> tuple[Iterator[str], int | None]:
    """The texts of a file or of the standard input, and their number if it is known.

    Unless the user chooses a `text_column`, a label of the classifier in line 1 of a file with tabs
    shows which column has the labels.
    """
    from clearhead.data.reading.columns import Columns, beside_label
    from clearhead.data.reading.labelled import TEXT_FORMATS, read_texts

    data, known, total = classifier.config.data, classifier.labels, None
    table = None if path == STANDARD else TEXT_FORMATS.of(path)
    column = text_column
    if table is None or not table.named_columns:
        if not isinstance(text_column, int):
            reject_unused({"--text-column": text_column}, "files without named columns")
            total = count_lines(path)
            if table is not None and total is not None:
                column = beside_label(next(input_lines(path)).split("\t"), known)
        elif path == STANDARD:
            raise ConfigError(
                "--text-column has no effect on the standard input",
                todo="name the file of the table instead of -",
            )
        if column is None:
            return _lines(path, known), total
    columns = Columns(column or data.text_column, data.label_column)
    chosen = columns, () if column else known
    total = sum(1 for _ in read_texts(path, *chosen))  # checks all lines
    return read_texts(path, *chosen), total


def _lines(path: str, labels: Sequence[str]) -> Iterator[str]:
    """The lines of a file or of the standard input, with a warning if the first has a label."""
    for number, line in enumerate(input_lines(path)):
        if number == 0:
            found = [cell for cell in line.split("\t") if cell in labels]
            if "\t" in line and found:
                print_message(
                    f"warning: line 1 has a tab and the label {found[0]!r}, which is read as text; "
                    "for texts with labels, name a .tsv file"
                )
        yield line
