"""Draw what happens inside a model.

The pictures are heat maps: the attention weights of every head of every layer;
the input of each encoder layer, the outputs of its attention and its
feed-forward network; and the output of each encoder layer. A translator
translates the input first, unless you give a translation. The command prints the
paths of the pictures on the standard output, and the translation or the labels
on the standard error. It overwrites pictures of the same names. A classifier of
texts reads a file as `clearhead classify` does: of a table, the text column.

  clearhead figures runs/my-model --input "A man rides a bicycle."
  clearhead figures runs/my-model --input-file test.en --line 7 --format svg -o pictures
  clearhead figures runs/trec --input-file reviews.csv --text-column review --line 3
  clearhead figures runs/vowels --input test.ts --line 3 -o pictures
"""

from __future__ import annotations

import os
import shlex
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import add_shared, positive, reject_unused
from clearhead.cli.streams import reject_standard_input, source_lines
from clearhead.cli.texts import texts_to_classify
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.api.translator import Translator
    from clearhead.checkpoint.folder import ModelFolder
    from clearhead.decoding.engine import Hypothesis


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        *("-i", "--input"),
        dest="input_text",
        metavar="TEXT",
        help="input of the model: a text, or a file of features",
    )
    parser.add_argument(
        "--input-file", metavar="FILE", help="file with the input of the model (-: stdin)"
    )
    parser.add_argument(
        "--line",
        type=positive,
        metavar="N",
        default=1,
        help="number of the line, row or sequence in the file, from 1 (default: 1)",
    )
    add_shared(parser, "--text-column")
    parser.add_argument(
        "--target",
        metavar="TEXT",
        help="translators: target text (default: its translation)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FOLDER",
        type=Path,
        help="folder of the pictures, created if missing (default: named after the model, e.g. "
        "my-model-figures)",
    )
    parser.add_argument(
        "--format",
        dest="formats",
        metavar="LIST",
        default="png,svg",
        help="formats of the pictures (default: png,svg)",
    )
    add_shared(parser, "--device", "--threads")


def run(args: Namespace) -> None:
    """Draw the pictures and print their paths."""
    if (args.input_text is None) == (args.input_file is None):
        raise ConfigError(
            "exactly one input is needed",
            why="there is none" if args.input_text is None else "--input and --input-file are two",
            todo='use --input "A sentence." or --input-file FILE',
        )
    from clearhead.api.loading import load
    from clearhead.api.translator import Translator
    from clearhead.inspect.figures import check_formats, draw_all
    from clearhead.inspect.recording import record

    formats = [name.strip() for name in args.formats.split(",")]
    check_formats(formats)
    with warnings_printed():
        model = load(args.folder, device=args.device, threads=args.threads)
    if isinstance(model, Translator):
        reject_unused({"--text-column": args.text_column}, "translators")
        source = _text(args, source_lines)
        target = _translation(model, source) if args.target is None else args.target
        recorded = record(model, source, target)
    else:
        reject_unused({"--target": args.target}, "classifiers")
        content, times = _classifier_input(model, args)
        with warnings_printed():
            recorded = record(model, content)
        _print_labels(model, content)
        if times is not None:
            recorded = replace(recorded, source=times[: len(recorded.source)])
    output = args.output or _default_folder(model.folder)
    paths = draw_all(recorded, output, formats)
    print("\n".join(map(str, paths)))
    print_message(f"wrote {len(paths)} files to {output}")


def _default_folder(model: ModelFolder) -> Path:
    """The folder for the pictures of a model or a checkpoint, named after it."""
    checkpoint = f"-{model.weights.stem}" if model.is_checkpoint else ""
    return Path(f"{model.path.resolve().name}{checkpoint}-figures")


def _translation(translator: Translator, source: str) -> Hypothesis:
    """Translate by beam search, and print the translation.

    Raises:
        DataError: the source is empty.
    """
    if not source.strip():
        raise DataError("the input is empty", todo="give a sentence")
    search = replace(translator.search, method="beam", n_best=1)
    with warnings_printed():
        best = translator.translate([source], search=search)[0][0]
    print_message(f"translation: {best.text}")
    return best


def _print_labels(classifier: Classifier, content: Any) -> None:
    """Print the labels that `classify` gives; an encoder to start from has none."""
    if not classifier.labels:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `record` has warned of a cut input
        (predictions,) = classifier.classify([content])
    labels = ", ".join(f"{one.label} ({one.probability:.4f})" for one in predictions)
    print_message(f"label: {labels or 'none, all probabilities are below 0.5'}")


def _text(args: Namespace, read: Callable[[str], Iterable[str]]) -> str:
    """The text itself, or that of a line of a file, whose texts `read` gives."""
    text, file, line = args.input_text, args.input_file, args.line
    if file is None:
        options = {f"--line {line}": line > 1, "--text-column": args.text_column}
        reject_unused(options, "a text", "leave it out, or use --input-file")
        if text and os.path.isfile(os.path.expanduser(text)):
            print_message(
                f"warning: the input is the text {text!r}, which is also the name of a file; to "
                f"read the file: --input-file {shlex.quote(text)}"
            )
        return text
    content = next(islice(read(file), line - 1, None), None)
    if content is None:
        raise DataError(f"there is no line {line}", where=file)
    return content


def _classifier_input(
    classifier: Classifier, args: Namespace
) -> tuple[Any, tuple[str, ...] | None]:
    """The text or the sequence of features to read, and the times of its frames, if any."""
    if classifier.config.input == "text":
        column = args.text_column
        return _text(args, lambda file: texts_to_classify(classifier, file, column)[0]), None
    reject_unused({"--text-column": args.text_column}, "features")
    from clearhead.data.feature_sequences import frame_times, read_feature_sequences

    path, line = args.input_file or args.input_text, args.line
    reject_standard_input(path)
    label_column = str(classifier.config.data.label_column)
    examples = read_feature_sequences(path, label_column, labelled=False)
    example = next(islice(examples, line - 1, None), None)
    if example is None:
        raise DataError(f"there is no sequence {line}", where=path)
    return example, frame_times(path, line, label_column)
