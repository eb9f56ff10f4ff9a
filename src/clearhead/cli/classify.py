"""Classify lines of text, or sequences of features.

Each input gives one line: its label, a tab, and the probability; with --top N
these of the N most probable labels. An empty line gives an empty line. The
probabilities are calibrated on the validation data. If inputs can have several
labels, those with a probability of at least 0.5 are written, and an empty line
if there is none, unless --top gives their number.

  clearhead classify runs/trec < questions.txt
  clearhead classify runs/trec --top 3 --json < questions.txt
  clearhead classify runs/vowels -i new.ts
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import say, warnings_said
from clearhead.cli.options import add_shared, positive
from clearhead.cli.streams import (
    BLOCK_LINES,
    CLASSIFIED,
    STANDARD,
    Counter,
    Progress,
    counted_lines,
    input_lines,
    is_typed,
    opened_output,
    refuse_standard,
    through_blocks,
)

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
        help="file with one text a line (default: -, stdin); for features a .ts, .csv or .npz "
        "file or a folder",
    )
    add_shared(parser, "--output")
    parser.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help="number of labels of each input (default: 1, or those of at least 0.5)",
    )
    parser.add_argument(
        "--json", dest="json_lines", action="store_true", help="write one JSON object a line"
    )
    add_shared(parser, "--batch-size", "--device", "--threads")


def run(args: Namespace) -> None:
    """Classify the input line by line, or sequence by sequence."""
    from clearhead.api.loading import load_classifier

    with warnings_said():
        classifier = load_classifier(args.folder, device=args.device, threads=args.threads)
    if classifier.config.input == "features":
        refuse_standard(args.input_file)

    def classify(
        block: Sequence[tuple[str, Any]], before: int, progress: Progress
    ) -> list[list[Prediction]]:
        return classifier.classify(
            [content for _, content in block],
            top=args.top,
            batch_size=args.batch_size,
            offset=before,
            progress=progress,
        )

    typed = is_typed(args.input_file)
    with opened_output(args.output_file, inputs=(args.input_file,)) as output:
        inputs, total = _read(classifier, args.input_file)
        if typed:
            say("type one text a line; Ctrl-D ends")
        counted = not typed and not (args.output_file == STANDARD and output.isatty())
        counter = Counter(sys.stderr, total, CLASSIFIED[classifier.config.input], counted)
        try:
            most = 1 if typed else BLOCK_LINES
            for (name, _), found in through_blocks(inputs, classify, counter, most):
                output.write(_as_json(name, found) if args.json_lines else _as_text(found))
        finally:
            counter.clear()


def _read(classifier: Classifier, path: str) -> tuple[Iterator[tuple[str, Any]], int | None]:
    """The inputs, each with its name, and their number if it is known."""
    if classifier.config.input == "text":
        from clearhead.data.labelled import TEXT_FORMATS

        table = TEXT_FORMATS.of(path)
        if table is not None and table.named_columns:
            say(
                f"warning: each line of {path} is read as one text, all its columns included; give "
                "a file of texts only, or score it with its labels: clearhead evaluate --data"
            )
        return ((text, text) for text in input_lines(path)), counted_lines(path)
    from clearhead.data.feature_sequences import read_feature_sequences

    column = classifier.config.data.label_column
    found = list(read_feature_sequences(path, column, labelled=False))
    return ((example.place, example) for example in found), len(found)


def _as_text(found: Sequence[Prediction]) -> str:
    return "\t".join(f"{one.label}\t{one.probability:.4f}" for one in found) + "\n"


def _as_json(name: str, found: Sequence[Prediction]) -> str:
    labels = [{"label": one.label, "probability": one.probability} for one in found]
    return json.dumps({"input": name, "labels": labels}, ensure_ascii=False) + "\n"
