"""Write a report of what happens inside a model.

The report is one HTML file, which opens from the disk without a network. It
shows each input and its output as words: what each word attends to, in every
head of every layer; which words and heads an output comes from; its
alternatives; each step within a layer; and the tree of the beam search. A
translator translates the input first, with a beam search or with --sample,
unless you give a translation.

Several inputs and several models are compared in one file. After `clearhead
study` the report also shows what the heads do, and which measure may be believed.

  clearhead inspect runs/my-model "A man rides a bicycle." -o report.html
  clearhead inspect runs/my-model --input test.en --lines 1-5 --beam-size 8
  clearhead inspect runs/old "A cat." --with runs/new
  clearhead inspect runs/vowels --input test.ts --lines 3
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import (
    add_search,
    add_shared,
    option,
    reject_unfit,
    reject_unused,
    search_options,
    search_settings,
)
from clearhead.cli.streams import Counter, reject_standard_input, sentence_lines
from clearhead.cli.texts import texts_to_classify
from clearhead.errors import ConfigError, DataError

MOST_INPUTS = 50
"""Inputs of a report; more would make it slow to open."""


def lines_of(text: str) -> range:
    """The lines of an option such as `3` or `2-5`, counted from 1."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ArgumentTypeError(f"{text!r} is not a line or a range of lines such as 2-5")
    found = range(int(first), int(last if dash else first) + 1)
    if not found or found[0] < 1:
        raise ArgumentTypeError(f"{text!r} is not a range of lines from 1 on")
    return found


def add_inputs(parser: ArgumentParser) -> None:
    """Declare how inputs of a model are given, to this command and to `figures`."""
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="inputs of the model")
    parser.add_argument(
        *("-i", "--input"),
        dest="input_file",
        metavar="FILE",
        help="file with inputs: texts (-: stdin), or features",
    )
    parser.add_argument(
        "--lines",
        type=lines_of,
        metavar="N[-M]",
        help="lines, rows or sequences of the file, from 1 (default: 1)",
    )
    add_shared(parser, "--text-column")
    parser.add_argument(
        "--target",
        metavar="TEXT",
        help="translators: target text of a single input (default: its translation)",
    )


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [TEXT ...] [options]"
    add_shared(parser, "folder")
    add_inputs(parser)
    parser.add_argument(
        "--with",
        dest="others",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="another model or checkpoint to compare; may be repeated",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="the report (default: named after the model, e.g. my-model-report.html)",
    )
    add_shared(parser, "--ablate")
    parser.add_argument(
        "--ablate-by",
        choices=("zero", "mean"),
        default="zero",
        help="what replaces the outputs of heads, of these and of each one to see its effect; mean "
        "needs clearhead study (default: zero)",
    )
    add_shared(parser, "--device", "--threads")
    add_search(parser)


def run(args: Namespace) -> None:
    """Write the report and print its path."""
    from clearhead.api.loading import load
    from clearhead.inspect.report.writing import write_report

    if not args.texts and args.input_file is None:
        raise needs_input("there is none")
    check_inputs(args, MOST_INPUTS)
    models: dict[str, Any] = {}
    with warnings_printed():
        for folder in (args.folder, *args.others):
            if str(folder) in models:
                raise DataError("the same model folder is named twice", where=folder)
            models[str(folder)] = load(
                folder,
                device=args.device,
                threads=args.threads,
                ablate=args.ablate,
                ablate_by=args.ablate_by if args.ablate else "zero",
            )
    first = models[str(args.folder)]
    for name, model in models.items():
        if model.config.task != first.config.task or model.config.input != first.config.input:
            raise DataError(
                "the models read different inputs", where=name, todo="make one report for each"
            )
    inputs, names = chosen_inputs(args, first)
    search = None
    reject_unfit(args, first.config)
    if args.target is not None:
        given = {option(each.path): getattr(args, each.path) for each in search_settings()}
        reject_unused({"--sample": args.sample, **given}, "a given translation")
    elif first.config.task == "translation":
        # A beam search unless --sample: its tree is shown.
        search = {
            name: search_options(args, replace(model.search, method="beam", n_best=1))
            for name, model in models.items()
        }
    output = args.output or named_after(args.folder, "report.html")
    count = len(models) * len(inputs)
    with warnings_printed(), Counter(sys.stderr, count, "inputs") as counter:
        path = write_report(
            output,
            models,
            inputs,
            targets=None if args.target is None else [args.target],
            names=names,
            search=search,
            ablate_by=args.ablate_by,
            command=shlex.join(["clearhead", *args.words]),
            progress=counter.show,
        )
    print(path)
    print_message(f"{path.stat().st_size / 1e6:.1f} MB; open it in a browser")


def needs_input(why: str) -> ConfigError:
    """The error for inputs that are missing."""
    todo = 'give a text, "A sentence.", or --input FILE'
    return ConfigError("an input is needed", why=why, todo=todo)


def check_inputs(args: Namespace, most: int) -> None:
    """Check what `add_inputs` declares, before a model is loaded.

    Raises:
        ConfigError: there are too many inputs, or options that do not fit.
    """
    if args.texts and args.input_file is not None:
        raise ConfigError(
            "exactly one kind of input is needed",
            why="there are texts and --input",
            todo="leave one of them out",
        )
    if args.texts:
        options = {"--lines": args.lines, "--text-column": args.text_column}
        reject_unused(options, "a text", "leave it out, or use --input")
    count = len(args.texts) or len(args.lines or [1])
    if count > most:
        raise ConfigError(f"{count:,} inputs are too many", todo=f"give at most {most}")
    if args.target is not None and count > 1:
        raise ConfigError("--target is for a single input", todo="leave it out, or give one text")


def chosen_inputs(args: Namespace, model: Any) -> tuple[list[Any], list[str] | None]:
    """The inputs, and the names of those that are no texts.

    Raises:
        ConfigError: an option does not fit the model.
        DataError: the file cannot be read, or has fewer lines.
    """
    translates = model.config.task == "translation"
    if translates:
        reject_unused({"--text-column": args.text_column}, "translators")
    else:
        reject_unused({"--target": args.target}, "classifiers")
    file, lines = args.input_file, args.lines or range(1, 2)
    if not translates and model.config.input == "features":
        if args.texts:
            raise ConfigError(
                "this model classifies sequences of features, which are read from a file",
                todo="use --input FILE",
            )
        from clearhead.data.reading.feature_sequences import read_feature_sequences

        reject_unused({"--text-column": args.text_column}, "features")
        reject_standard_input(file)
        label_column = model.config.data.label_column
        sequences = read_feature_sequences(file, label_column, labelled=False)
        names = [f"{file}, sequence {number}" for number in lines]
        return _chosen(sequences, lines, file, "sequence"), names
    if args.texts:
        for text in args.texts:
            if text and os.path.isfile(os.path.expanduser(text)):
                print_message(
                    f"warning: the input is the text {text!r}, which is also the name of a file; "
                    f"to read the file: --input {shlex.quote(text)}"
                )
        return args.texts, None
    if translates:
        return _chosen(sentence_lines(file), lines, file, "line"), None
    texts, _ = texts_to_classify(model, file, args.text_column)
    return _chosen(texts, lines, file, "line"), None


def _chosen(items: Iterable[Any], lines: range, file: str, noun: str) -> list[Any]:
    """The items of these numbers.

    Raises:
        DataError: there are fewer.
    """
    found = list(islice(items, lines[0] - 1, lines[-1]))
    if len(found) < len(lines):
        raise DataError(f"there is no {noun} {lines[0] + len(found)}", where=file)
    return found


def named_after(folder: Path, ending: str) -> Path:
    """A name in the current folder, after a model or a checkpoint: `my-model-report.html`."""
    from clearhead.folder.model_folder import folder_of

    folder = Path(os.path.expanduser(folder))
    model = folder_of(folder)
    checkpoint = "" if model == folder else f"-{folder.stem}"
    return Path(f"{model.resolve().name}{checkpoint}-{ending}")
