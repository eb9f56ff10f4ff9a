"""Classify lines of text, or sequences of features.

Each input gives one line: the most probable label, a tab, and its probability.
With --top N the line has the N most probable labels. If inputs can have several
labels, it has all labels with a probability of at least 0.5, perhaps none,
unless --top gives their number. An empty line gives an empty line. The
probabilities are calibrated on the validation data.

A warning is printed for texts that look different from the training text, for
example with capitals if the training text has none. --normalise converts them.

  clearhead classify runs/trec < questions.txt
  clearhead classify runs/trec --top 3 --json < questions.txt
  clearhead classify runs/trec -i reviews.csv --text-column review
  clearhead classify runs/vowels -i new.ts
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import print_message
from clearhead.cli.options import add_shared, column, loaded_classifier, positive, reject_unused
from clearhead.cli.streams import (
    NOUNS,
    STANDARD,
    ReportDone,
    count_lines,
    input_lines,
    opened_output,
    reject_standard_input,
    write_results,
)
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier, Prediction


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        *("-i", "--input"),
        dest="input_file",
        metavar="FILE",
        default=STANDARD,
        help="input file, one text per line, or a .csv, .tsv or .jsonl file with a text column, or "
        "a .txt file of label, tab, text (default: -, stdin; a terminal shows a prompt); for "
        "features a .ts, .csv or .npz file, or a folder",
    )
    parser.add_argument(
        "--text-column",
        metavar="COLUMN",
        type=column,
        help="name or position of the text column in a .csv, .tsv or .jsonl file (default: as in "
        "training)",
    )
    add_shared(parser, "--output")
    parser.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help="number of labels of each input (default: 1, or all of probability 0.5 and more)",
    )
    parser.add_argument(
        "--json", dest="json_lines", action="store_true", help="write one JSON object per line"
    )
    add_shared(parser, "--normalise", "--batch-size", "--device", "--threads")


def run(args: Namespace) -> None:
    """Classify the input line by line, or sequence by sequence."""
    classifier = loaded_classifier(args.folder, args)
    kind = classifier.config.input
    if kind == "features":
        reject_unused({"--normalise": args.normalise}, "features")
        reject_standard_input(args.input_file)

    def classify(
        block: Sequence[tuple[str, Any]], before: int, progress: ReportDone
    ) -> list[list[Prediction]]:
        return classifier.classify(
            [content for _, content in block],
            top=args.top,
            normalise=args.normalise,
            batch_size=args.batch_size,
            offset=before,
            progress=progress,
        )

    with opened_output(args.output_file, inputs=(args.input_file,)) as output:
        inputs, total = _read(classifier, args.input_file, args.text_column)
        form = _as_json if args.json_lines else _as_text
        write_results(args, output, inputs, total, NOUNS[kind], classify, form)


def _read(
    classifier: Classifier, path: str, text_column: str | int | None
) -> tuple[Iterator[tuple[str, Any]], int | None]:
    """The inputs, each with its name, and their number if it is known."""
    if classifier.config.input == "text":
        from clearhead.data.columns import Columns, columns_with_labels
        from clearhead.data.labelled import TEXT_FORMATS, read_texts

        table = TEXT_FORMATS.of(path)
        has_columns = path != STANDARD and table is not None and table.named_columns
        if not has_columns and not isinstance(text_column, int):
            reject_unused({"--text-column": text_column}, "files without named columns")
            total = count_lines(path)
            # The columns are judged before the texts are read, so the file is read twice.
            can_be_judged = table is not None and total is not None
            labelled = columns_with_labels(path, classifier.labels) if can_be_judged else None
            if labelled:
                return ((text, text) for text in read_texts(path, labelled)), total
            return _lines(path, classifier.labels), total
        if path == STANDARD:
            raise ConfigError(
                "--text-column has no effect on the standard input",
                todo="name the file: --input texts.csv",
            )
        data = classifier.config.data
        columns = Columns(text_column or data.text_column, data.label_column)
        known = () if text_column else classifier.labels
        total = sum(1 for _ in read_texts(path, columns, known))  # checks all lines
        return ((text, text) for text in read_texts(path, columns, known)), total
    reject_unused({"--text-column": text_column}, "features")
    from clearhead.data.feature_sequences import read_feature_sequences

    label_column = str(classifier.config.data.label_column)
    examples = list(read_feature_sequences(path, label_column, labelled=False))
    return ((example.place, example) for example in examples), len(examples)


def _lines(path: str, labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The lines of a file or of the standard input, with a warning if the first has a label."""
    for number, line in enumerate(input_lines(path)):
        if number == 0:
            found = [cell for cell in line.split("\t") if cell in labels]
            if "\t" in line and found:
                print_message(
                    f"warning: line 1 has a tab and the label {found[0]!r}, which is read as text; "
                    "for texts with labels, name a .tsv file: -i FILE.tsv"
                )
        yield line, line


def _as_text(number: int, item: tuple[str, Any], predictions: Sequence[Prediction]) -> str:
    return "\t".join(f"{one.label}\t{one.probability:.4f}" for one in predictions) + "\n"


def _as_json(number: int, item: tuple[str, Any], predictions: Sequence[Prediction]) -> str:
    labels = [{"label": one.label, "probability": one.probability} for one in predictions]
    return json.dumps({"input": item[0], "labels": labels}, ensure_ascii=False) + "\n"
