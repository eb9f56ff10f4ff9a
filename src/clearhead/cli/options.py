"""Options that several commands have, and how they load a model and search."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clearhead.errors import ConfigError, SearchError

if TYPE_CHECKING:
    from clearhead.api.loading import LoadOptions
    from clearhead.settings import RunConfig, SearchConfig
    from clearhead.settings.declare import Setting


def at_least(least: int, text: str) -> int:
    """The whole number of an option."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < least:
        raise ArgumentTypeError(f"{number} is less than {least}")
    return number


positive = partial(at_least, 1)


def column(text: str) -> str | int:
    """A column of an option: a whole number is a position, everything else a name."""
    return positive(text) if text.isascii() and text.isdecimal() else text


SHARED: dict[str, dict[str, Any]] = {
    "folder": dict(
        metavar="FOLDER", type=Path, help="model folder or checkpoint, e.g. runs/my-model"
    ),
    "--text-column": dict(
        fits="classifiers of texts",
        metavar="COLUMN",
        type=column,
        help="name or position of the text column in a .csv, .tsv or .jsonl file (default: as in "
        "training)",
    ),
    "--output": dict(
        dest="output_file",
        metavar="FILE",
        default="-",
        help="output file, which gets its name when it is complete (default: -, stdout)",
    ),
    "--normalise": dict(
        fits="texts",
        action="store_true",
        help="bring the input into the style of the training text: case, punctuation, quotation "
        "marks (requires sacremoses)",
    ),
    "--batch-size": dict(
        type=positive,
        metavar="N",
        default=64,
        help="maximum number of inputs in a batch (default: 64)",
    ),
    "--device": dict(
        choices=("cpu", "cuda", "auto"),
        default="auto",
        help="device of the model; auto uses the GPU if there is one (default: auto)",
    ),
    "--threads": dict(
        type=partial(at_least, 0),
        metavar="N",
        default=0,
        help="number of CPU threads; 0: one per core (default: 0)",
    ),
    "--engine": dict(
        fits="translators",
        choices=("auto", "torch", "ctranslate2"),
        default="auto",
        help="program that translates; auto uses the CTranslate2 export if there is one that fits "
        "(see clearhead export), otherwise PyTorch (default: auto)",
    ),
    "--compute-type": dict(
        fits="translators",
        choices=("float32", "int8", "int16", "bfloat16", "float16"),
        metavar="TYPE",
        default="",
        help="number type of matrix products: %(choices)s; requires --engine (default: float32)",
    ),
    "--glossary": dict(
        fits="translators",
        metavar="FILE",
        default="",
        help="terms that the translations must have: a .tsv (term, tab, translation; several forms "
        "separated by |), .tmx or .tbx file",
    ),
    "--memory": dict(
        fits="translators",
        metavar="FILE",
        default="",
        help="earlier translations, a .tmx, .po or .tsv file; a text that is in it is not "
        "translated again",
    ),
    "--match": dict(
        fits="translators",
        type=float,
        metavar="X",
        default=1.0,
        help="with --memory: also use similar texts where the model is unsure; their least "
        "similarity, above 0 (default: 1, the same text only)",
    ),
    "--ablate": dict(
        metavar="HEADS",
        default="",
        help="heads to switch off, separated by commas: decoder.3.cross.5, or decoder.3 for all of "
        "layer 3; uses PyTorch",
    ),
    "--ablate-by": dict(
        choices=("zero", "mean"),
        default="zero",
        help="what replaces the outputs of these heads; mean needs clearhead study (default: zero)",
    ),
}
"""The declarations of arguments and options that several commands have."""

THREADS_OF_ENGINES = (
    "number of CPU threads; 0: one per core, with CTranslate2 at most 4 (default: 0)"
)


def add_shared(parser: ArgumentParser, *names: str) -> None:
    """Declare some of the arguments and options of `SHARED`."""
    for name in names:
        short = ("-o",) if name == "--output" else ()
        declared = SHARED[name]
        if name == "--threads" and "--engine" in names:
            declared = {**declared, "help": THREADS_OF_ENGINES}
        add_option(parser, *short, name, **declared)


def add_option(
    parser: ArgumentParser | _ArgumentGroup, *names: str, fits: str = "", **declared: Any
) -> None:
    """Declare an option, and which models it fits; by default all.

    `fits` is one of `translators`, `classifiers`, `texts` (models that read texts) and
    `classifiers of texts`. See `reject_unfit`.
    """
    cast(Any, parser.add_argument(*names, **declared)).fits = fits


def reject_unfit(args: Namespace, config: RunConfig, todo: str = "leave it out") -> None:
    """Raise a ConfigError for an option of the command that has no effect on a model."""
    models = "translators" if config.task == "translation" else "classifiers"
    fitting = {"", models}
    if config.input == "text":
        fitting |= {"texts", f"{models} of texts"}
    else:
        models = "features"
    for action in args.parser._actions:
        value = getattr(args, action.dest, action.default)
        if value != action.default and getattr(action, "fits", "") not in fitting:
            names = [name for name in action.option_strings if name.startswith("--")]
            name = names[-1] if value is False else names[0]  # --no-lowercase
            raise ConfigError(f"{name} has no effect on {models}", todo=todo)


def option(name: str) -> str:
    """`beam_size` -> `--beam-size`."""
    return f"--{name.replace('_', '-')}"


def search_settings() -> list[Setting]:
    """The settings of a search that have an option of their name."""
    from clearhead.settings import SearchConfig
    from clearhead.settings.declare import settings_of

    return [each for each in settings_of(SearchConfig) if each.path not in ("method", "n_best")]


def add_search(parser: ArgumentParser) -> None:
    """Declare the options of a search: `--sample`, and one for each of `search_settings`."""
    group = parser.add_argument_group("search (defaults: the model's configuration)")
    add_option(
        group,
        "--sample",
        fits="translators",
        action="store_true",
        help="draw outputs at random",
    )
    for each in search_settings():
        meaning = each.declaration.meaning.replace("`", "")
        only_sampling = "sampling" in each.declaration.only_with
        add_option(
            group,
            option(each.path),
            fits="translators",
            type=each.kind,
            metavar="N" if each.kind is int else "X",
            help=f"with --sample: {meaning}" if only_sampling else meaning,
        )


def reject_unused(options: Mapping[str, object], kind: str, todo: str = "leave it out") -> None:
    """Raise a ConfigError for an option that has no effect here; None or False: not given."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{name} has no effect on {kind}", todo=todo)


AS_OPTIONS = {
    "with method='sampling'": "with --sample",
    "with method='beam'": "without --sample",
    "use method='sampling'": "add --sample",
    "use method='beam'": "leave --sample out",
}
"""What an error about a search says of its method, with options."""


def search_options(args: Namespace, default: SearchConfig, **others: Any) -> SearchConfig:
    """A model's own search, changed by the options that were given and by `others`."""
    from clearhead.decoding.texts import chosen_search

    paths = [each.path for each in search_settings()]
    given = {name: value for name in paths if (value := getattr(args, name)) is not None} | others
    if args.sample:
        given["method"] = "sampling"
    try:
        return chosen_search(default, given, where=None)
    except SearchError as error:
        # Settings are options here.
        names = re.compile(rf"(?:search\.)?\b({'|'.join(f.name for f in fields(default))})\b")
        for path in ("what", "todo"):
            text = getattr(error, path) or ""
            for method, given in AS_OPTIONS.items():
                text = text.replace(method, given)
            setattr(error, path, names.sub(lambda m: option(m[1]), text))
        raise


def folders_of(name: str | Path) -> list[Path]:
    """The model folders of a name: of an ensemble, `runs/a+runs/b`, there are several."""
    parts = str(name).split("+")
    is_one = len(parts) == 1 or "" in parts or os.path.exists(os.path.expanduser(name))
    return [Path(name)] if is_one else list(map(Path, parts))


def load_options(args: Namespace, **choices: Any) -> LoadOptions:
    """How the options of a command load its models; `choices` are further fields."""
    from clearhead.api.loading import LoadOptions

    given = {f.name: getattr(args, f.name) for f in fields(LoadOptions) if f.name in args}
    return LoadOptions(**given | choices)
