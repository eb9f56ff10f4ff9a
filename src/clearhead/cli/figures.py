"""`clearhead figures`: pictures of what happens inside a model when it reads an input."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.failures import say, warnings_said
from clearhead.cli.options import Device, Threads
from clearhead.cli.streams import input_lines, refuse_standard
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    from clearhead.api import Classifier, Translator
    from clearhead.decoding.engine import Hypothesis


def figures(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A model folder, e.g. runs/my-model.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Where the pictures go; made if need be."
        ),
    ],
    input_text: Annotated[
        str | None,
        typer.Option("--input", "-i", metavar="TEXT", help="What to read; for features a file."),
    ] = None,
    input_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file that holds what to read; - is stdin."),
    ] = None,
    line: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Which line of the file, or sequence of features, from 1."
        ),
    ] = 1,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="For a translator: the translation to look at, by default its own.",
        ),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="png, svg, or both: png,svg")
    ] = "png,svg",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Draw what happens inside a model, and write the paths of the pictures to the output.

    There are heat maps of the attention of every head of every layer, of each encoder layer's
    input and the outputs of its attention and its feed-forward network, and of what the encoder
    makes of its input from layer to layer. A translator first translates the input; or it is
    looked at while it reads a translation that is given. What a model says is told on the standard
    error. What is in the folder under the same names is replaced.

    \b
    clearhead figures runs/my-model --input "A man rides a bicycle." -o pictures
    clearhead figures runs/my-model --input-file test.en --line 7 --format svg -o pictures
    clearhead figures runs/vowels --input test.ts --line 3 -o pictures
    """  # noqa: D301
    if (input_text is None) == (input_file is None):
        raise ConfigError(
            "give one input to look at",
            why="there is none" if input_text is None else "--input and --input-file are two",
            todo='say --input "A sentence.", or --input-file FILE',
        )
    from clearhead import api
    from clearhead.inspect.figures import check_formats, draw_all
    from clearhead.inspect.recording import record

    wanted = [name.strip() for name in formats.split(",")]
    check_formats(wanted)
    with warnings_said():
        subject = api.load(folder, device=device, threads=threads)
    if isinstance(subject, api.Translator):
        source = _text(input_text, input_file, line)
        found = record(subject, source, _said(subject, source) if target is None else target)
    elif target is not None:
        raise ConfigError("a classifier has no target", todo="leave --target out")
    else:
        content, times = _classified(subject, input_text, input_file, line)
        with warnings_said():
            found = record(subject, content)
        _say_labels(subject, content)
        if times is not None:
            found = replace(found, source=times[: len(found.source)])
    for path in draw_all(found, output, wanted):
        typer.echo(str(path))


def _said(translator: Translator, source: str) -> Hypothesis:
    """What the translator finds by beam search, told to the person at the terminal.

    Raises:
        DataError: the source is empty.
    """
    if not source.strip():
        raise DataError("the input is empty", todo="give a sentence to look at")
    search = replace(translator.search, method="beam", n_best=1)
    with warnings_said():
        best = translator.translate([source], search=search)[0][0]
    say(f"translation: {best.text}")
    return best


def _say_labels(classifier: Classifier, content: Any) -> None:
    """What the classifier decides, told to the person at the terminal as `classify` has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was cut was said of the record
        (found,) = classifier.classify([content])
    labels = ", ".join(f"{one.label} ({one.probability:.4f})" for one in found)
    say(f"label: {labels or 'none, for no probability reaches one half'}")


def _text(text: str | None, file: str | None, line: int) -> str:
    """The text itself, or the line of a file."""
    if file is None:
        if line > 1:
            raise ConfigError(
                f"--line {line} means nothing with a text", todo="leave it out, or say --input-file"
            )
        return text or ""
    found = next(islice(input_lines(file), line - 1, None), None)
    if found is None:
        raise DataError(f"there is no line {line}", where=file)
    return found


def _classified(
    classifier: Classifier, text: str | None, file: str | None, line: int
) -> tuple[Any, tuple[str, ...] | None]:
    """What the classifier is to read, a text or a sequence of features, and its frames' times."""
    if classifier.config.input == "text":
        return _text(text, file, line), None
    from clearhead.data.feature_sequences import frame_times, read_feature_sequences

    path = file or text or ""
    refuse_standard(path)
    column = classifier.config.data.label_column
    examples = read_feature_sequences(path, column, labelled=False)
    example = next(islice(examples, line - 1, None), None)
    if example is None:
        raise DataError(f"there is no sequence {line}", where=path)
    return example, frame_times(path, line, column)
