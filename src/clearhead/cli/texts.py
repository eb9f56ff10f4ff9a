"""The texts that a classifier reads from a file: its lines, or the text column of a table."""

from __future__ import annotations

import json
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

    The labels of the classifier help to recognise the columns, if the user chooses no
    `text_column`. A warning is printed if line 1 seems to have a label, or to be a header that is
    read as a text.
    """
    from clearhead.data.reading.columns import NAMED, Columns, columns_with_labels, header_at
    from clearhead.data.reading.labelled import TEXT_FORMATS, read_texts

    table = TEXT_FORMATS.of(path)
    has_columns = path != STANDARD and table is not None and table.named_columns
    if not has_columns and not isinstance(text_column, int):
        reject_unused({"--text-column": text_column}, "files without named columns")
        total = count_lines(path)
        # The columns are judged before the texts are read, so the file is read twice.
        can_be_judged = table is not None and total is not None
        labelled = columns_with_labels(path, classifier.labels) if can_be_judged else None
        if labelled:
            return read_texts(path, labelled), total
        return _lines(path, classifier.labels), total
    if path == STANDARD:
        raise ConfigError(
            "--text-column has no effect on the standard input",
            todo="name the file of the table instead of -",
        )
    data = classifier.config.data
    columns = Columns(text_column or data.text_column, data.label_column)
    known = () if text_column else classifier.labels
    total = sum(1 for _ in read_texts(path, columns, known))  # checks all lines
    if has_columns and isinstance(columns.text, int):
        usual = data.text_column if isinstance(data.text_column, str) else NAMED.text
        if name := header_at(path, columns.text, usual, classifier.labels):
            print_message(
                f"warning: {path}:1: the line looks like a header, and is read as a text; to skip "
                f"it, name the column: --text-column {json.dumps(name, ensure_ascii=False)}"
            )
    return read_texts(path, columns, known), total


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
