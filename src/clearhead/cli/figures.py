"""Draw what happens inside a model.

For an input it draws the five most useful pictures; --only draws others, by name.
A translator translates the input first, unless you give a translation. Without an
input it draws what is known of the run and of the model. The command prints the
paths of the pictures on the standard output, and the translation or the labels on
the standard error. It overwrites pictures of the same names. A classifier of texts
reads a file as `clearhead classify` does: of a table, the text column.

Pictures of an input:
  alignment         the source words of each target word (translators)
  word-effects      what each source word did for each output word or label
  head-effects      what each head did for each output word or label
  encoder-heads     the attention of every head of every layer; also decoder-heads
                    and cross-heads (translators)
  encoder-layers    the output of every layer; also decoder-layers
  encoder.2         inside layer 2, step by step; also decoder.2
  encoder.2.self    the attention of layer 2, mean over its heads; also
                    decoder.2.self and decoder.2.cross
  decoder.2.cross.3 the attention of head 3

Pictures of a run:
  learning-curves   loss, score and learning rate
  importance        how much the model needs each head (after clearhead study)
  faithfulness      which measure of attribution may be believed (likewise)
  training-strip    the attention of a validation example in the course of training,
                    if the run has training.watch_attention; also training-animation,
                    and training-strip.2 for the second example

  clearhead figures runs/my-model --input "A man rides a bicycle."
  clearhead figures runs/my-model --input "A cat." --only alignment,decoder.3.cross.1
  clearhead figures runs/my-model --format svg,pdf --theme dark
  clearhead figures runs/my-model --input-file test.en --line 7 -o pictures
  clearhead figures runs/trec --input-file reviews.csv --text-column review --line 3
  clearhead figures runs/vowels --input test.ts --line 3
"""

from __future__ import annotations

import os
import shlex
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import add_shared, positive, reject_unused
from clearhead.cli.streams import reject_standard_input, sentence_lines
from clearhead.cli.texts import texts_to_classify
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.api.translator import Translator
    from clearhead.decoding.engine import Hypothesis
    from clearhead.folder.model_folder import ModelFolder
    from clearhead.inspect.drawing import Draw, Theme


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        *("-i", "--input"),
        dest="input_text",
        metavar="TEXT",
        help="input of the model: a text, or a file of features (default: none)",
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
        default="png",
        help="formats of the pictures, of png, svg and pdf (default: png)",
    )
    parser.add_argument(
        "--only", metavar="NAMES", help="names of pictures, separated by commas (see above)"
    )
    parser.add_argument(
        "--theme", choices=("light", "dark"), default="light", help="colours (default: light)"
    )
    add_shared(parser, "--device", "--threads")


def run(args: Namespace) -> None:
    """Draw the pictures and print their paths."""
    from clearhead.device import explain_full_memory
    from clearhead.folder.files import refuse_links
    from clearhead.folder.model_folder import read_model_folder
    from clearhead.inspect.drawing import THEMES, check_formats, write_figures
    from clearhead.inspect.pictures import chosen, default_names, needs_input, pictures_of_run

    formats = _parts(args.formats)
    check_formats(formats)
    names = None if args.only is None else _parts(args.only)
    given = args.input_text is not None or args.input_file is not None
    of_an_input = given if names is None else any(map(needs_input, names))
    _check_input(args, names, given, of_an_input)
    theme = THEMES[args.theme]
    folder = read_model_folder(args.folder)
    # Not read for pictures of an input, which a damaged study should not prevent.
    of_run = not given if names is None else not all(map(needs_input, names))
    found, missing = pictures_of_run(folder, theme) if of_run else ({}, {})
    if names is None and of_run and not found:
        raise _needs_input("the folder has no log of a run, and no study of the model")
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu"):
        if of_an_input:
            of_input, is_translation = _pictures_of_input(args, theme)
            names = names or default_names(of_input, is_translation)
            found |= of_input
        if names is None:
            names = [name for name in found if "." not in name]
        pictures = chosen(names, found, missing)
        output = args.output or _default_folder(folder)
        refuse_links(folder.path, output, DataError)
        paths = write_figures(pictures, output, formats)
    print("\n".join(map(str, paths)))
    noun = "file" if len(paths) == 1 else "files"
    print_message(f"wrote {len(paths)} {noun} to {output}")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _check_input(
    args: Namespace, names: Sequence[str] | None, given: bool, needs_input: bool
) -> None:
    """Check that there is an input where one is needed, and only there."""
    if args.input_text is not None and args.input_file is not None:
        raise ConfigError(
            "exactly one input is needed",
            why="--input and --input-file are two",
            todo="leave one of them out",
        )
    if needs_input and not given:
        raise _needs_input("there is none")
    if not needs_input:
        options = {
            **{"--input": args.input_text, "--input-file": args.input_file},
            **{"--target": args.target, "--text-column": args.text_column},
            f"--line {args.line}": args.line > 1,
        }
        what = "pictures that need no input" if names else "pictures without an input"
        reject_unused(options, what)


def _needs_input(why: str) -> ConfigError:
    todo = 'use --input "A sentence." or --input-file FILE'
    return ConfigError("an input is needed", why=why, todo=todo)


def _pictures_of_input(args: Namespace, theme: Theme) -> tuple[dict[str, Draw], bool]:
    """The pictures of the input, and whether it is translated."""
    from clearhead.api.classifier import is_empty
    from clearhead.api.loading import load
    from clearhead.api.translator import Translator
    from clearhead.inspect.alignment import kept_aligner
    from clearhead.inspect.pictures import (
        pictures_of_classification,
        pictures_of_record,
        pictures_of_translation,
    )
    from clearhead.inspect.recording import record
    from clearhead.inspect.subject import Subject

    with warnings_printed():
        model = load(args.folder, device=args.device, threads=args.threads)
    if isinstance(model, Translator):
        reject_unused({"--text-column": args.text_column}, "translators")
        source = _text(args, sentence_lines)
        target = _translation(model, source) if args.target is None else args.target
        subject = Subject.translation(model, source, target)
        aligner = partial(kept_aligner, model.folder, model.model)
        with warnings_printed():
            return pictures_of_translation(subject, aligner, theme), True
    reject_unused({"--target": args.target}, "classifiers")
    content, times = _classifier_input(model, args)
    if is_empty(content):
        raise DataError("the source is empty", todo="give a text")
    if not model.labels:
        with warnings_printed():
            return pictures_of_record(record(model, content), theme), False
    with warnings_printed():
        subject = Subject.classification(model, content)
    _print_labels(model, content)
    if times is not None:
        subject.source_pieces = times[: len(subject.source_pieces)]
    with warnings_printed():
        return pictures_of_classification(model, subject, theme), False


def _default_folder(model: ModelFolder) -> Path:
    """The folder for the pictures of a model or a checkpoint, named after it."""
    checkpoint = f"-{model.weights.stem}" if model.is_checkpoint else ""
    return Path(f"{model.path.resolve().name}{checkpoint}-figures")


def _translation(translator: Translator, source: str) -> Hypothesis:
    """Translate by beam search, and print the translation.

    Raises:
        DataError: the source is empty.
    """
    from clearhead.api.classifier import is_empty

    if is_empty(source):
        raise DataError("the input is empty", todo="give a sentence")
    search = replace(translator.search, method="beam", n_best=1)
    with warnings_printed():
        best = translator.translate([source], search=search)[0][0]
    print_message(f"translation: {best.text}")
    return best


def _print_labels(classifier: Classifier, content: Any) -> None:
    """Print the labels that `classify` gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has been warned of a cut input
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
    from clearhead.data.reading.feature_sequences import frame_times, read_feature_sequences

    path, line = args.input_file or args.input_text, args.line
    reject_standard_input(path)
    label_column = str(classifier.config.data.label_column)
    examples = read_feature_sequences(path, label_column, labelled=False)
    example = next(islice(examples, line - 1, None), None)
    if example is None:
        raise DataError(f"there is no sequence {line}", where=path)
    return example, frame_times(path, line, label_column)
