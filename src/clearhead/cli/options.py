"""Options that several commands have: how to search, and on what."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typer import Option

from clearhead.cli.failures import warnings_said
from clearhead.errors import SearchError

if TYPE_CHECKING:
    from clearhead.api import Translator
    from clearhead.settings import SearchConfig

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Option(help="Where to compute; auto takes the GPU if there is one."),
]
Threads = Annotated[
    int,
    Option(
        min=0, metavar="N", help="Of the processor; 0: PyTorch one a core, CTranslate2 4 at most."
    ),
]
Engine = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    Option(help="What translates; auto takes the faster one that is there (see export)."),
]
ComputeType = Annotated[
    Literal["float32", "int8", "int16", "bfloat16", "float16"] | None,
    Option(help="With an engine named: in what it multiplies; float32 by default."),
]
BatchSize = Annotated[
    int, Option(min=1, metavar="N", help="Inputs that are computed together, at most.")
]


@dataclass(frozen=True)
class SearchOptions:
    """How to search, as far as the person said; the rest is as the model's configuration has it.

    Each field becomes an option of the command; None means that it was not given.
    """

    beam_size: Annotated[
        int | None, Option(metavar="N", help="Hypotheses kept at each step; 1 is greedy search.")
    ] = None
    length_penalty: Annotated[
        float | None,
        Option(metavar="X", help="Alpha of Wu et al. 2016; 0: none, higher: longer output."),
    ] = None
    min_length: Annotated[
        int | None, Option(metavar="N", help="Tokens that an output has at least.")
    ] = None
    max_length: Annotated[
        int | None, Option(metavar="N", help="Tokens that an output has at most.")
    ] = None
    no_repeat_ngram: Annotated[
        int | None, Option(metavar="N", help="Let no sequence of so many tokens come twice.")
    ] = None
    sample: Annotated[
        bool, Option("--sample", help="Draw at random instead of looking for the best.")
    ] = False
    temperature: Annotated[
        float | None,
        Option(metavar="X", help="For --sample: below 1 bolder on the likely, above 1 flatter."),
    ] = None
    top_k: Annotated[
        int | None, Option(metavar="N", help="For --sample: only among so many likeliest tokens.")
    ] = None
    top_p: Annotated[
        float | None,
        Option(metavar="X", help="For --sample: only among the likeliest that hold this share."),
    ] = None
    seed: Annotated[
        int | None, Option(metavar="N", help="For --sample: the same seed, the same draws.")
    ] = None

    def by_option(self) -> dict[str, Any]:
        """The value of each option, by its name on the command line."""
        return {f"--{name.replace('_', '-')}": value for name, value in asdict(self).items()}

    def over(self, default: SearchConfig, n_best: int | None) -> SearchConfig:
        """The search that is asked for: these options laid over the model's own.

        Args:
            default: the model's own.
            n_best: hypotheses for each sentence, if that was said.

        Raises:
            SearchError: a value is wrong, or means nothing for the method.
        """
        from pydantic import ValidationError

        from clearhead.settings.reading import config_error
        from clearhead.settings.search import idle_for, method_for

        given = {name: value for name, value in asdict(self).items() if value is not None}
        asked_to_sample = given.pop("sample")
        method = "sampling" if asked_to_sample else method_for(given, default.method)
        if idle := idle_for(method, given):
            beside = "with" if method == "sampling" else "without"
            raise SearchError(f"--{idle.replace('_', '-')} means nothing {beside} --sample")
        if n_best is not None:
            given["n_best"] = n_best
        try:
            return replace(default, method=method, **given)
        except ValidationError as error:
            found = config_error(error, "search options", section="search")
            raise SearchError(
                found.what,
                where=found.where,
                todo="mend it with an option; what no option says is as the model's run had it",
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
    """The translator that is asked for; a warning, such as of a stale export, is said."""
    from clearhead import api

    with warnings_said():
        return api.load_translator(
            folder,
            device=device,
            threads=threads,
            engine=engine,
            compute_type=compute_type or "",
            scores=scores,
        )


def with_search(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a search: its parameter `search` becomes one for each field.

    Typer reads options from a signature, so it is the signature that is written out.
    """
    hints = get_type_hints(SearchOptions, include_extras=True)
    own = inspect.signature(command, eval_str=True)
    parameters = [p for name, p in own.parameters.items() if name != "search"]
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(SearchOptions, name),
            annotation=hint,
        )
        for name, hint in hints.items()
    ]

    @functools.wraps(command)
    def written_out(**values: Any) -> None:
        search = SearchOptions(**{name: values.pop(name) for name in hints})
        command(**values, search=search)

    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    # Some type checkers know no such attribute of functions.
    vars(written_out)["__signature__"] = own.replace(parameters=[*keyword_only, *options])
    return written_out
