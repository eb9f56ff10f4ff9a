"""Draw what happens inside a model.

For an input it draws the most useful pictures; --only draws others, by name.
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
  encoder.2         inside layer 2, step by step; also decoder.2
  encoder.2.self    the attention of layer 2, mean over its heads; also
                    decoder.2.self and decoder.2.cross
  decoder.2.cross.3 the attention of head 3

Pictures of a run:
  learning-curves   loss, score and learning rate
  importance        how much the model needs each head (after clearhead study)
  faithfulness      which measure of attribution may be believed (likewise)
  training-strip    the attention of a validation example in the course of training,
                    if the run has training.watch_attention; training-strip.2 for the
                    second example

  clearhead figures runs/my-model "A man rides a bicycle."
  clearhead figures runs/my-model "A cat." --only alignment,decoder.3.cross.1
  clearhead figures runs/my-model --format svg,pdf
  clearhead figures runs/my-model --input test.en --lines 7 -o pictures
  clearhead figures runs/trec --input reviews.csv --text-column review --lines 3
  clearhead figures runs/vowels --input test.ts --lines 3
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.inspect import add_inputs, check_inputs, chosen_inputs, named_after, needs_input
from clearhead.cli.options import add_shared, reject_unused
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.inspect.drawing import Draw


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [TEXT] [options]"
    add_shared(parser, "folder")
    add_inputs(parser)
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
    add_shared(parser, "--device", "--threads")


def run(args: Namespace) -> None:
    """Draw the pictures and print their paths."""
    from clearhead.device import explain_full_memory
    from clearhead.folder.files import refuse_links
    from clearhead.folder.model_folder import open_folder
    from clearhead.inspect import pictures
    from clearhead.inspect.drawing import check_formats, write_figures
    from clearhead.inspect.heads import listed

    formats = listed(args.formats)
    check_formats(formats)
    names = None if args.only is None else listed(args.only)
    given = bool(args.texts) or args.input_file is not None
    of_an_input = given if names is None else any(map(pictures.needs_input, names))
    if of_an_input and not given:
        raise needs_input("there is none")
    check_inputs(args, most=1)
    if not of_an_input:
        _check_no_input(args, names)
    folder = open_folder(args.folder)
    # Not read for pictures of an input, which a damaged study should not prevent.
    of_run = not given if names is None else not all(map(pictures.needs_input, names))
    found, missing = pictures.pictures_of_run(folder) if of_run else ({}, {})
    if names is None and of_run and not found:
        raise needs_input("the folder has no log of a run, and no study of the model")
    with explain_full_memory("give a shorter input, or use the CPU: --device cpu"):
        if of_an_input:
            of_input, is_translation = _pictures_of_input(args)
            names = names or pictures.default_names(of_input, is_translation)
            found |= of_input
        if names is None:
            names = [name for name in found if "." not in name]
        output = args.output or named_after(args.folder, "figures")
        drawn = pictures.chosen(names, found, missing)
        refuse_links(folder.path, output, DataError)
        paths = write_figures(drawn, output, formats)
    print("\n".join(map(str, paths)))
    noun = "file" if len(paths) == 1 else "files"
    print_message(f"wrote {len(paths)} {noun} to {output}")


def _check_no_input(args: Namespace, names: Sequence[str] | None) -> None:
    options = {
        **{"a text": bool(args.texts), "--input": args.input_file},
        **{"--target": args.target, "--text-column": args.text_column, "--lines": args.lines},
    }
    reject_unused(options, "pictures that need no input" if names else "pictures without an input")


def _pictures_of_input(args: Namespace) -> tuple[dict[str, Draw], bool]:
    """The pictures of the input, and whether it is translated."""
    from clearhead.api.classifier import is_empty
    from clearhead.api.loading import load
    from clearhead.api.translator import Translator
    from clearhead.inspect.pictures import pictures_of_input

    with warnings_printed():
        model = load(args.folder, device=args.device, threads=args.threads)
        (content,), _ = chosen_inputs(args, model)
    if is_empty(content):
        raise DataError("the input is empty", todo="give a sentence")
    target = None
    if isinstance(model, Translator):
        target = args.target
        if target is None:
            search = replace(model.search, method="beam", n_best=1)
            with warnings_printed():
                target = model.translate([content], search=search)[0][0]
            print_message(f"translation: {target.text}")
    with warnings_printed():
        found = pictures_of_input(model, content, target)
    if not isinstance(model, Translator) and model.labels:
        _print_labels(model, content)
    return found, target is not None


def _print_labels(classifier: Any, content: Any) -> None:
    """Print the labels that `classify` gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has been warned of a cut input
        (predictions,) = classifier.classify([content])
    labels = ", ".join(f"{one.label} ({one.probability:.4f})" for one in predictions)
    print_message(f"label: {labels or 'none, no probability reaches its threshold'}")
