"""Classify lines of text, or sequences of features.

Each input gives one line: the most probable label, a tab, and its probability.
With --top N the line has the N most probable labels. If inputs can have several
labels, it has all labels whose probability reaches their threshold, perhaps none,
unless --top gives their number. With --columns the output is a table: a line with
the names of all labels, then a line with their probabilities for each input. An
empty line gives a line without labels. The probabilities are calibrated on the
validation data.

A warning is printed for texts that look different from the training text, for
example with capitals if the training text has none. --normalise converts them.
Warnings also name texts that are cut, that are much longer than the training
texts, or that have other characters.

  clearhead classify runs/trec < questions.txt
  clearhead classify runs/trec --top 3 --json < questions.txt
  clearhead classify runs/trec --columns < questions.txt > probabilities.tsv
  clearhead classify runs/trec -i reviews.csv --text-column review
  clearhead classify runs/vowels -i new.ts
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import warnings_printed
from clearhead.cli.options import add_shared, load_options, positive, reject_unfit
from clearhead.cli.streams import (
    NOUNS,
    STANDARD,
    ReportDone,
    reject_standard_input,
    shared_input,
    write_results,
)
from clearhead.cli.texts import texts_to_classify
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
    add_shared(parser, "--text-column", "--output")
    parser.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help="number of labels of each input (default: 1, or all that reach their threshold)",
    )
    parser.add_argument(
        "--columns",
        action="store_true",
        help="write a table: a column for the probability of each label",
    )
    parser.add_argument(
        "--json", dest="json_lines", action="store_true", help="write one JSON object per line"
    )
    add_shared(parser, "--normalise", "--batch-size", "--device", "--threads")
    add_shared(parser, "--ablate", "--ablate-by")


def run(args: Namespace) -> None:
    """Classify the input line by line, or sequence by sequence."""
    from clearhead.api.loading import load_classifier

    with shared_input(args.input_file) as ranks:
        with warnings_printed():
            classifier = load_classifier(args.folder, load_options(args))
        reject_unfit(args, classifier.config)
        if args.columns and (args.top or args.json_lines):
            given = "--top" if args.top else "--json"
            raise ConfigError(f"{given} has no use with --columns", todo="leave it out")
        labels = classifier.labels

        def classify(
            block: Sequence[tuple[str, Any]], before: int, progress: ReportDone
        ) -> list[list[Prediction]]:
            return classifier.classify(
                [content for _, content in block],
                top=len(labels) if args.columns else args.top,
                normalise=args.normalise,
                batch_size=args.batch_size,
                offset=before,
                progress=progress,
            )

        inputs, total = _read(classifier, args.input_file, args.text_column)
        form = _as_json if args.json_lines else _as_text
        if args.columns:
            form = partial(_as_row, labels)
        noun = NOUNS[classifier.config.input]
        write_results(args, ranks, inputs, total, noun, classify, form)


def _read(
    classifier: Classifier, path: str, text_column: str | int | None
) -> tuple[Iterator[tuple[str, Any]], int | None]:
    """The inputs, each with its name, and their number if it is known."""
    if classifier.config.input == "text":
        texts, total = texts_to_classify(classifier, path, text_column)
        return ((text, text) for text in texts), total
    reject_standard_input(path)
    from clearhead.data.reading.feature_sequences import read_feature_sequences

    label_column = classifier.config.data.label_column
    examples = list(read_feature_sequences(path, label_column, labelled=False))
    return ((example.place, example) for example in examples), len(examples)


def _as_text(number: int, item: tuple[str, Any], predictions: Sequence[Prediction]) -> str:
    return "\t".join(f"{one.label}\t{one.probability:.4f}" for one in predictions) + "\n"


def _as_row(
    labels: Sequence[str], number: int, item: tuple[str, Any], predictions: Sequence[Prediction]
) -> str:
    found = {one.label: f"{one.probability:.4f}" for one in predictions}
    head = "\t".join(labels) + "\n" if number == 0 else ""
    return head + "\t".join(found.get(label, "") for label in labels) + "\n"


def _as_json(number: int, item: tuple[str, Any], predictions: Sequence[Prediction]) -> str:
    labels = [{"label": one.label, "probability": one.probability} for one in predictions]
    warnings = [remark._asdict() for one in predictions[:1] for remark in one.warnings]
    tree = {"input": item[0], "labels": labels, "warnings": warnings}
    return json.dumps(tree, ensure_ascii=False) + "\n"
