"""Options that several commands have, and the model and the search that they choose."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import warnings_printed
from clearhead.errors import ConfigError, SearchError

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.api.translator import Translator
    from clearhead.settings import SearchConfig


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{number} is less than 1")
    return number


SHARED: dict[str, dict[str, Any]] = {
    "folder": dict(metavar="FOLDER", type=Path, help="model folder, e.g. runs/my-model"),
    "--output": dict(
        dest="output_file",
        metavar="FILE",
        default="-",
        help="output file, which gets its name when it is complete (default: -, stdout)",
    ),
    "--batch-size": dict(
        type=positive,
        metavar="N",
        default=64,
        help="maximum number of inputs in a batch (default: 64)",
    ),
    "--device": dict(
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="device of the model; auto uses the GPU if there is one (default: auto)",
    ),
    "--threads": dict(
        type=int,
        metavar="N",
        default=0,
        help="number of CPU threads (default: one per core; CTranslate2: at most 4)",
    ),
    "--engine": dict(
        choices=("auto", "torch", "ctranslate2"),
        default="auto",
        help="program that translates; auto uses the CTranslate2 export if there is one that fits "
        "(see clearhead export), otherwise PyTorch (default: auto)",
    ),
    "--compute-type": dict(
        choices=("float32", "int8", "int16", "bfloat16", "float16"),
        metavar="TYPE",
        help="number type of matrix products: %(choices)s; requires --engine (default: float32)",
    ),
}
"""The declarations of arguments and options that several commands have."""


def add_shared(parser: ArgumentParser, *names: str) -> None:
    """Declare some of the arguments and options of `SHARED`."""
    for name in names:
        short = ("-o",) if name == "--output" else ()
        parser.add_argument(*short, name, **SHARED[name])


SEARCH: dict[str, tuple[type, str]] = {
    "beam_size": (int, "hypotheses kept at each step; 1: greedy search"),
    "length_penalty": (float, "alpha of Wu et al. 2016; 0: none; higher: longer output"),
    "min_length": (int, "minimum length of an output, in tokens"),
    "max_length": (int, "maximum length of an output, in tokens; 0: no further limit"),
    "no_repeat_ngram": (int, "length of token sequences that must not repeat; 0: all may"),
    "sample": (bool, "draw outputs at random"),
    "temperature": (float, "with --sample: below 1 likelier tokens, above 1 more varied ones"),
    "top_k": (int, "with --sample: draw from the N most probable tokens; 0: all"),
    "top_p": (float, "with --sample: draw from the most probable tokens of total probability X"),
    "seed": (int, "with --sample: the same seed draws the same outputs"),
}
"""The type and the help of each option of a search; `sample` sets the method."""


def option(name: str) -> str:
    """`beam_size` -> `--beam-size`."""
    return f"--{name.replace('_', '-')}"


def add_search(parser: ArgumentParser) -> None:
    """Declare the options of a search."""
    group = parser.add_argument_group("search (defaults: the model's configuration)")
    for name, (kind, text) in SEARCH.items():
        if kind is bool:
            group.add_argument(option(name), action="store_true", default=SUPPRESS, help=text)
        else:
            metavar = "N" if kind is int else "X"
            group.add_argument(
                option(name), type=kind, metavar=metavar, default=SUPPRESS, help=text
            )


def given_search(args: Namespace) -> dict[str, Any]:
    """The search options that the user has given."""
    return {name: value for name, value in vars(args).items() if name in SEARCH}


def reject_unused(options: Mapping[str, object], kind: str, todo: str = "leave it out") -> None:
    """Reject options that have no effect on a kind of model or data; None or False: not given.

    Raises:
        ConfigError: an option was given.
    """
    for name, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{name} has no effect on {kind}", todo=todo)


def changed_search(
    default: SearchConfig, given: Mapping[str, Any], n_best: int | None
) -> SearchConfig:
    """The model's own search, changed by the options that were given, and by --n-best if any.

    Raises:
        SearchError: a value is wrong, or has no effect on the method.
    """
    from pydantic import ValidationError

    from clearhead.settings.reading import config_error
    from clearhead.settings.search import idle_for, method_for

    changes = dict(given)
    sample = changes.pop("sample", False)
    method = "sampling" if sample else method_for(changes, default.method)
    if unused := idle_for(method, changes):
        beside = "with" if method == "sampling" else "without"
        raise SearchError(f"{option(unused)} has no effect {beside} --sample")
    if n_best is not None:
        changes["n_best"] = n_best
    try:
        return replace(default, method=method, **changes)
    except ValidationError as error:
        wrong = config_error(error, "search options", section="search")
        raise SearchError(
            wrong.what,
            where=wrong.where,
            why="options that are not given have the values of the model's configuration",
            todo="change or add an option",
        ) from None


def loaded_translator(folder: str | Path, args: Namespace, scores: bool) -> Translator:
    """Load a translator as the options choose, and print warnings, e.g. of a stale export."""
    from clearhead.api import loading

    with warnings_printed():
        return loading.load_translator(
            folder,
            device=args.device,
            threads=args.threads,
            engine=args.engine,
            compute_type=args.compute_type or "",
            scores=scores,
        )


def loaded_classifier(folder: str | Path, args: Namespace) -> Classifier:
    """Load a classifier as the options choose, and print warnings."""
    from clearhead.api import loading

    with warnings_printed():
        return loading.load_classifier(folder, device=args.device, threads=args.threads)
