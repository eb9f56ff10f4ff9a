"""`clearhead evaluate`: how good models are on sentences whose translation is known."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli.blocks import Line, best_texts, translate_blocks
from clearhead.cli.counter import Counter
from clearhead.cli.evaluate_classes import Asked, evaluate_classes
from clearhead.cli.options import BatchSize, Device, SearchOptions, Threads, with_search
from clearhead.cli.streams import input_lines
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    from clearhead.config import RunConfig

Tokenize = Literal["13a", "none", "intl", "char", "zh"]


@with_search
def evaluate(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER", help="Model folders; the first is the baseline."),
    ],
    search: SearchOptions,
    source: Annotated[
        str | None, typer.Option(metavar="FILE", help="For translators: sentences to translate.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="For translators: what they should become.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="For classifiers: examples with their labels."),
    ] = None,
    tokenize: Annotated[
        Tokenize | None,
        typer.Option(
            help="How sacreBLEU parts text into words; none for text that is tokenised already. "
            "By default as the model's configuration says.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For classifiers: draw the confusion matrices there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Translate a test set and score the result with sacreBLEU, or classify one and score that.

    A translator gives BLEU, chrF and TER, each with its 95 % confidence interval (bootstrap) and
    its signature, the share of sentences that match exactly, and a table by sentence length. Of
    two or more models each is compared with the first by a paired test.

    A classifier gives accuracy, macro and micro F1, each with its 95 % confidence interval
    (bootstrap), the expected calibration error, precision, recall and F1 of each label, and the
    confusion matrix.

    \b
    clearhead evaluate runs/my-model --source test.en --reference test.de
    clearhead evaluate runs/old runs/new --source test.en --reference test.de --json
    clearhead evaluate runs/trec --data test.tsv --figures pictures
    """  # noqa: D301
    from clearhead import api
    from clearhead.checkpoint import read_model_folder
    from clearhead.cli.report import evaluation_of

    names = [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise DataError("the same model folder is named twice")
    configs = {name: read_model_folder(name).config for name in names}
    if {config.task for config in configs.values()} == {"classification"}:
        asked = Asked(_named(data, "--data"), as_json, figures)
        evaluate_classes(names, asked, batch_size, device, threads)
        return
    source, reference = _named(source, "--source"), _named(reference, "--reference")
    sources, references = list(input_lines(source)), list(input_lines(reference))
    if len(sources) != len(references):
        raise DataError(
            "the files differ in length, so their lines do not belong together",
            where=f"{source}, {reference}",
            why=f"{len(sources):,} lines and {len(references):,} lines",
        )
    tokenize = tokenize or _common_tokenize(configs)
    outputs = {}
    for name in names:
        translator = api.load_translator(name, device=device, threads=threads)
        counter = Counter(sys.stderr, len(sources))
        lines = (Line(text, "") for text in sources)
        try:
            asked = search.over(translator.search, n_best=1)
            results = translate_blocks(translator, lines, asked, batch_size, counter)
            outputs[name] = best_texts(results)
        finally:
            counter.clear()
    evaluation = evaluation_of((source, reference), sources, references, outputs, tokenize)
    typer.echo(json.dumps(evaluation.to_dict(), indent=2) if as_json else evaluation.to_text())


def _named(file: str | None, option: str) -> str:
    """The file of an option that the kind of model needs."""
    if file is None:
        raise DataError(f"{option} names no file", todo=f"give it: {option} FILE")
    return file


def _common_tokenize(configs: dict[str, RunConfig]) -> Tokenize:
    """How the models' configurations have text tokenised, if they agree."""
    found: dict[str, Tokenize] = {
        name: config.evaluation.tokenize for name, config in configs.items()
    }
    if len(set(found.values())) > 1:
        raise ConfigError(
            "the models' configurations differ in evaluation.tokenize",
            why=", ".join(f"{name} has {value}" for name, value in found.items()),
            todo="choose for all of them: --tokenize 13a",
        )
    return next(iter(found.values()))
