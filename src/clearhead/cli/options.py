"""Options that several commands have, and the translator and the search that they choose."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import warnings_said
from clearhead.errors import SearchError

if TYPE_CHECKING:
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
        help="output file, written under this name when it is complete (default: -, stdout)",
    ),
    "--batch-size": dict(
        type=positive,
        metavar="N",
        default=64,
        help="largest number of inputs in a batch (default: 64)",
    ),
    "--device": dict(
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto (the default) uses the GPU if there is one",
    ),
    "--threads": dict(
        type=int,
        metavar="N",
        default=0,
        help="CPU threads (default: one a core; CTranslate2: at most 4)",
    ),
    "--engine": dict(
        choices=("auto", "torch", "ctranslate2"),
        default="auto",
        help="auto (the default) uses the CTranslate2 export if there is one that fits (see "
        "clearhead export), otherwise PyTorch",
    ),
    "--compute-type": dict(
        choices=("float32", "int8", "int16", "bfloat16", "float16"),
        metavar="TYPE",
        help="number type of matrix products: %(choices)s; requires --engine (default: float32)",
    ),
}
"""How arguments and options are declared that several commands have."""


def add_shared(parser: ArgumentParser, *names: str) -> None:
    """Declare some of these arguments and options."""
    for name in names:
        short = ("-o",) if name == "--output" else ()
        parser.add_argument(*short, name, **SHARED[name])


def add_search(parser: ArgumentParser) -> None:
    """Declare an option for each field of `SearchOptions`."""
    search = parser.add_argument_group("search (defaults: the model's configuration)")

    def add(name: str, kind: type, text: str) -> None:
        search.add_argument(name, type=kind, metavar="N" if kind is int else "X", help=text)

    add("--beam-size", int, "hypotheses kept at each step; 1: greedy search")
    add("--length-penalty", float, "alpha of Wu et al. 2016; 0: none; higher: longer output")
    add("--min-length", int, "least number of tokens of an output")
    add("--max-length", int, "largest number of tokens of an output")
    add("--no-repeat-ngram", int, "length of token sequences that may not occur twice")
    search.add_argument("--sample", action="store_true", help="draw outputs at random")
    add(
        "--temperature",
        float,
        "with --sample: below 1 sharpens the distribution, above 1 flattens it",
    )
    add("--top-k", int, "with --sample: draw from the N most probable tokens")
    add("--top-p", float, "with --sample: draw from the most probable tokens with this total share")
    add("--seed", int, "with --sample: the same seed draws the same outputs")


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search; None means that an option was not given."""

    beam_size: int | None = None
    length_penalty: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    no_repeat_ngram: int | None = None
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    @classmethod
    def of(cls, args: Namespace) -> SearchOptions:
        """The options among the values of a command."""
        return cls(**{field.name: getattr(args, field.name) for field in fields(cls)})

    def by_option(self) -> dict[str, Any]:
        """The value of each option, by its name on the command line."""
        return {f"--{name.replace('_', '-')}": value for name, value in asdict(self).items()}

    def over(self, default: SearchConfig, n_best: int | None) -> SearchConfig:
        """The model's own search, changed by the options that were given.

        Args:
            default: the model's own search.
            n_best: hypotheses for each sentence, if the user has chosen.

        Raises:
            SearchError: a value is wrong, or has no effect on the method.
        """
        from pydantic import ValidationError

        from clearhead.settings.reading import config_error
        from clearhead.settings.search import idle_for, method_for

        given = {name: value for name, value in asdict(self).items() if value is not None}
        sample = given.pop("sample")
        method = "sampling" if sample else method_for(given, default.method)
        if idle := idle_for(method, given):
            beside = "with" if method == "sampling" else "without"
            raise SearchError(f"--{idle.replace('_', '-')} has no effect {beside} --sample")
        if n_best is not None:
            given["n_best"] = n_best
        try:
            return replace(default, method=method, **given)
        except ValidationError as error:
            found = config_error(error, "search options", section="search")
            raise SearchError(
                found.what,
                where=found.where,
                why="options that are not given have the values of the model's configuration",
                todo="change or add an option",
            ) from None


def loaded_translator(
    folder: str | Path,
    *,
    device: str,
    threads: int,
    engine: str,
    compute_type: str | None,
    scores: bool,
) -> Translator:
    """Load a translator, and print warnings, e.g. of a stale export."""
    from clearhead.api.loading import load_translator

    with warnings_said():
        return load_translator(
            folder,
            device=device,
            threads=threads,
            engine=engine,
            compute_type=compute_type or "",
            scores=scores,
        )
