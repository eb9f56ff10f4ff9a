"""Score translators or classifiers on a test set.

For a translator the command reports BLEU, chrF and TER from sacreBLEU, each
with its signature and its 95 % confidence interval (bootstrap); the share of
sentences that match exactly; and the scores by sentence length.

For a classifier it reports accuracy, macro and micro F1, each with its 95 %
confidence interval (bootstrap); the expected calibration error; precision,
recall and F1 of each label; and the confusion matrix.

Each model but the first is compared with the first by a paired test.

  clearhead evaluate runs/my-model --source test.en --reference test.de
  clearhead evaluate runs/old runs/new --source test.en --reference test.de --json
  clearhead evaluate runs/new runs/new/training/checkpoints/average.safetensors --source …
  clearhead evaluate runs/trec --data test.tsv --figures pictures
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clearhead.cli.evaluate_classes import Asked, evaluate_classes
from clearhead.cli.options import SearchOptions, add_search, add_shared, loaded_translator
from clearhead.cli.streams import STANDARD, Counter, Line, best_texts, input_lines, translate_blocks
from clearhead.errors import ConfigError, DataError, ModelFolderError

if TYPE_CHECKING:
    from clearhead.api import Translator
    from clearhead.settings import RunConfig

Tokenize = Literal["13a", "none", "intl", "char", "zh"]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [FOLDER ...] [options]"
    parser.add_argument(
        "folders",
        metavar="FOLDER",
        nargs="+",
        type=Path,
        help="model folders or checkpoints; the first is the baseline",
    )
    parser.add_argument("--source", metavar="FILE", help="translators: sentences to translate")
    parser.add_argument("--reference", metavar="FILE", help="translators: correct translations")
    parser.add_argument("--data", metavar="FILE", help="classifiers: examples with labels")
    parser.add_argument(
        "--text-column",
        metavar="NAME",
        help="classifiers: column of the texts (default: as in training)",
    )
    parser.add_argument(
        "--label-column",
        metavar="NAME",
        help="classifiers: column of the labels (default: as in training)",
    )
    parser.add_argument(
        "--tokenize",
        choices=("13a", "none", "intl", "char", "zh"),
        help="translators: tokenizer of BLEU; none for text that is already tokenised (default: "
        "evaluation.tokenize of the models)",
    )
    parser.add_argument(
        "--lowercase",
        action=BooleanOptionalAction,
        help="translators: ignore case in scores (default: evaluation.lowercase of the models)",
    )
    parser.add_argument(
        "--figures",
        metavar="FOLDER",
        type=Path,
        help="classifiers: folder for pictures of the confusion matrices",
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="write a JSON object")
    add_shared(parser, "--engine", "--compute-type", "--batch-size", "--device", "--threads")
    add_search(parser)


def run(args: Namespace) -> None:
    """Score the models and print the report."""
    from clearhead.checkpoint import read_model_folder
    from clearhead.evaluation.report import evaluation_of

    search = SearchOptions.of(args)
    if args.source == args.reference == STANDARD:
        raise DataError("sources and references cannot both come from the standard input")
    names = [str(folder) for folder in args.folders]
    if len(set(names)) < len(names):
        raise DataError("the same model folder is named twice")
    configs = {name: read_model_folder(name).config for name in names}
    for_translators = {
        **{"--source": args.source, "--reference": args.reference, "--tokenize": args.tokenize},
        **{"--lowercase": args.lowercase, "--no-lowercase": args.lowercase is False},
        **{"--engine ctranslate2": args.engine == "ctranslate2"},
        **{"--compute-type": args.compute_type},
        **search.by_option(),
    }
    if _common_task(configs) == "classification":
        _refuse_idle(for_translators, "a classifier", "--data test.tsv")
        data = _named(args.data, "--data")
        asked = Asked(data, args.as_json, args.figures, args.text_column, args.label_column)
        evaluate_classes(configs, asked, args.batch_size, args.device, args.threads)
        return
    files = "--source test.en --reference test.de"
    columns = {"--text-column": args.text_column, "--label-column": args.label_column}
    _refuse_idle({"--data": args.data, "--figures": args.figures, **columns}, "a translator", files)
    source, reference = _named(args.source, "--source"), _named(args.reference, "--reference")
    sources, references = _pairs(source, reference)
    tokenize = args.tokenize or _common_tokenize(configs)
    lowercase = _common_lowercase(configs) if args.lowercase is None else args.lowercase
    run = {"device": args.device, "threads": args.threads, "engine": args.engine}
    outputs = {}
    for name in names:
        translator = loaded_translator(name, **run, compute_type=args.compute_type, scores=False)
        outputs[name] = _translated(translator, sources, search, args.batch_size)
    named = source, reference
    evaluation = evaluation_of(named, sources, references, outputs, tokenize, lowercase)
    print(json.dumps(evaluation.to_dict(), indent=2) if args.as_json else evaluation.to_text())


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
