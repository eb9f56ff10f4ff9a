"""`clearhead evaluate`: how good models are on sentences whose translation is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli.evaluate_classes import Asked, evaluate_classes
from clearhead.cli.options import (
    BatchSize,
    ComputeType,
    Device,
    Engine,
    SearchOptions,
    Threads,
    loaded_translator,
    with_search,
)
from clearhead.cli.streams import STANDARD, Counter, Line, best_texts, input_lines, translate_blocks
from clearhead.errors import ConfigError, DataError, ModelFolderError

if TYPE_CHECKING:
    from clearhead.api import Translator
    from clearhead.settings import RunConfig

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
    text_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For classifiers: the column of the texts, if another than they were trained on.",
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Likewise the column of the labels.")
    ] = None,
    tokenize: Annotated[
        Tokenize | None,
        typer.Option(
            help="How sacreBLEU parts text into words; none for text that is tokenised already. "
            "By default as the model's configuration says.",
        ),
    ] = None,
    lowercase: Annotated[
        bool | None,
        typer.Option(
            help="Score without regard to case, or with. By default as the model's configuration "
            "says, which is without where the model lower-cases its text.",
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
    engine: Engine = "auto",
    compute_type: ComputeType = None,
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
    clearhead evaluate runs/new runs/new/training/checkpoints/average.safetensors --source …
    clearhead evaluate runs/trec --data test.tsv --figures pictures
    """  # noqa: D301
    from clearhead.checkpoint import read_model_folder
    from clearhead.evaluation.report import evaluation_of

    if source == reference == STANDARD:
        raise DataError("sources and references cannot both come from the standard input")
    names = [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise DataError("the same model folder is named twice")
    configs = {name: read_model_folder(name).config for name in names}
    for_translators = {
        **{"--source": source, "--reference": reference, "--tokenize": tokenize},
        **{"--lowercase": lowercase, "--no-lowercase": lowercase is False},
        **{"--engine ctranslate2": engine == "ctranslate2", "--compute-type": compute_type},
        **search.by_option(),
    }
    if _common_task(configs) == "classification":
        _refuse_idle(for_translators, "a classifier", "--data test.tsv")
        asked = Asked(_named(data, "--data"), as_json, figures, text_column, label_column)
        evaluate_classes(configs, asked, batch_size, device, threads)
        return
    files = "--source test.en --reference test.de"
    columns = {"--text-column": text_column, "--label-column": label_column}
    _refuse_idle({"--data": data, "--figures": figures, **columns}, "a translator", files)
    source, reference = _named(source, "--source"), _named(reference, "--reference")
    sources, references = _pairs(source, reference)
    tokenize = tokenize or _common_tokenize(configs)
    lowercase = _common_lowercase(configs) if lowercase is None else lowercase
    run = {"device": device, "threads": threads, "engine": engine, "compute_type": compute_type}
    outputs = {}
    for name in names:
        translator = loaded_translator(name, **run, scores=False)
        outputs[name] = _translated(translator, sources, search, batch_size)
    named = source, reference
    evaluation = evaluation_of(named, sources, references, outputs, tokenize, lowercase)
    typer.echo(json.dumps(evaluation.to_dict(), indent=2) if as_json else evaluation.to_text())


def _common_task(configs: Mapping[str, RunConfig]) -> str:
    """What all the models were trained for."""
    tasks = {name: config.task for name, config in configs.items()}
    for name, task in tasks.items():
        if task == "reconstruction":
            raise ModelFolderError(
                "this model fills in features: it neither translates nor classifies",
                where=name,
                todo="train a classifier that begins with its encoder: classifier.encoder_from",
            )
    if len(set(tasks.values())) > 1:
        raise ConfigError(
            "translators and classifiers are not scored together",
            why=", ".join(f"{name} is for {task}" for name, task in tasks.items()),
            todo="evaluate them one after the other",
        )
    return next(iter(tasks.values()))


def _refuse_idle(options: Mapping[str, object], kind: str, needed: str) -> None:
    """Refuse options that were given and mean nothing for this kind of model."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(
                f"{option} means nothing for {kind}", todo=f"leave it out; say {needed}"
            )


def _pairs(source: str, reference: str) -> tuple[list[str], list[str]]:
    """The lines of both files, which belong together."""
    sources, references = list(input_lines(source)), list(input_lines(reference))
    if len(sources) != len(references):
        raise DataError(
            "the files differ in length, so their lines do not belong together",
            where=f"{source}, {reference}",
            why=f"{len(sources):,} lines and {len(references):,} lines",
        )
    return sources, references


def _translated(
    translator: Translator, sources: list[str], search: SearchOptions, batch_size: int
) -> list[str]:
    """The best translation of each source."""
    counter = Counter(sys.stderr, len(sources), "sentences")
    lines = (Line(text, "") for text in sources)
    try:
        asked = search.over(translator.search, n_best=1)
        return best_texts(translate_blocks(translator, lines, asked, batch_size, counter))
    finally:
        counter.clear()


def _named(file: str | None, option: str) -> str:
    """The file of an option that the kind of model needs."""
    if file is None:
        raise DataError(f"{option} names no file", todo=f"give it: {option} FILE")
    return file


def _common_tokenize(configs: Mapping[str, RunConfig]) -> Tokenize:
    """How the models' configurations have text tokenised, if they agree."""
    found: dict[str, Tokenize] = {
        name: config.evaluation.tokenize for name, config in configs.items()
    }
    _refuse_differences(found, "evaluation.tokenize", "--tokenize 13a")
    return next(iter(found.values()))


def _common_lowercase(configs: Mapping[str, RunConfig]) -> bool:
    """Whether the models' configurations have text lower-cased before it is scored, if all do."""
    found = {name: config.lowercase for name, config in configs.items()}
    said = {name: str(value).lower() for name, value in found.items()}
    _refuse_differences(said, "evaluation.lowercase", "--lowercase or --no-lowercase")
    return next(iter(found.values()))


def _refuse_differences(found: Mapping[str, str], setting: str, option: str) -> None:
    """Refuse models of which each would be scored in another way."""
    if len(set(found.values())) > 1:
        raise ConfigError(
            f"the models' configurations differ in {setting}",
            why=", ".join(f"{name} has {value}" for name, value in found.items()),
            todo=f"choose for all of them: {option}",
        )
