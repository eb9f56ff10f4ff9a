"""`clearhead classify`: texts or feature sequences in, their labels out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.failures import say, warnings_said
from clearhead.cli.options import BatchSize, Device, Threads
from clearhead.cli.streams import (
    BLOCK_LINES,
    CLASSIFIED,
    STANDARD,
    Counter,
    Progress,
    counted_lines,
    input_lines,
    opened_output,
    refuse_standard,
    through_blocks,
)

if TYPE_CHECKING:
    from clearhead.api import Classifier
    from clearhead.api.classifier import Prediction


def classify(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A model folder, e.g. runs/my-model.")
    ],
    input_file: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="One text a line, - is stdin; for features a .ts, .csv or .npz file or a folder.",
        ),
    ] = STANDARD,
    output_file: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Appears when it is complete; - is stdout."
        ),
    ] = STANDARD,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="So many labels for each input, whatever their probability."
        ),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a line.")
    ] = False,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Classify lines of text, or sequences of features.

    Each input gives one line: its label, a tab, the probability; with --top more of them, one
    after the other. An empty line gives an empty one. The probabilities are calibrated on the
    validation data. Where inputs may have several labels, those of at least one half come, and an
    empty line where none has it, unless --top says how many.

    \b
    clearhead classify runs/trec < questions.txt
    clearhead classify runs/trec --top 3 --json < questions.txt
    clearhead classify runs/vowels -i new.ts
    """  # noqa: D301
    from clearhead import api

    with warnings_said():
        classifier = api.load_classifier(folder, device=device, threads=threads)
    features = classifier.config.input == "features"
    if features:
        refuse_standard(input_file)
    typed = input_file == STANDARD and sys.stdin is not None and sys.stdin.isatty()
    with opened_output(output_file) as output:
        inputs, total = _read(classifier, input_file)
        if typed:
            say("one text a line; Ctrl-D ends")
        wanted = not typed and not (output_file == STANDARD and output.isatty())
        counter = Counter(sys.stderr, total, CLASSIFIED[classifier.config.input], wanted)
        try:
            most = 1 if typed else BLOCK_LINES
            for name, found in _classified(classifier, inputs, top, batch_size, counter, most):
                output.write(_as_json(name, found) if json_lines else _as_text(found))
        finally:
            counter.clear()


def _read(classifier: Classifier, path: str) -> tuple[Iterator[tuple[str, Any]], int | None]:
    """What is to be classified, each with its name, and how many there are, if that is known."""
    if classifier.config.input == "text":
        from clearhead.data.labelled import TEXT_FORMATS

        table = TEXT_FORMATS.of(path)
        if table is not None and table.named_columns:
            say(
                f"warning: each line of {path} is read as one text, whatever columns it has; give "
                "a file of texts alone, or score it with its labels: clearhead evaluate --data"
            )
        return ((text, text) for text in input_lines(path)), counted_lines(path)
    from clearhead.data.feature_sequences import read_feature_sequences

    column = classifier.config.data.label_column
    found = list(read_feature_sequences(path, column, labelled=False))
    return ((example.place, example) for example in found), len(found)


def _classified(
    classifier: Classifier,
    inputs: Iterable[tuple[str, Any]],
    top: int | None,
    batch_size: int,
    counter: Counter,
    most: int,
) -> Iterator[tuple[str, list[Prediction]]]:
    """The name of each input and its labels, in order."""

    def classify(
        block: Sequence[tuple[str, Any]], before: int, progress: Progress
    ) -> list[list[Prediction]]:
        raw = [content for _, content in block]
        return classifier.classify(
            raw, top=top, batch_size=batch_size, offset=before, progress=progress
        )

    for (name, _), found in through_blocks(inputs, classify, counter, most):
        yield name, found


def _as_text(found: Sequence[Prediction]) -> str:
    return "\t".join(f"{one.label}\t{one.probability:.4f}" for one in found) + "\n"


def _as_json(name: str, found: Sequence[Prediction]) -> str:
    labels = [{"label": one.label, "probability": one.probability} for one in found]
    return json.dumps({"input": name, "labels": labels}, ensure_ascii=False) + "\n"
