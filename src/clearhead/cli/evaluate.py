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

import itertools
import json
import os
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import say, warnings_said
from clearhead.cli.options import SearchOptions, add_search, add_shared, loaded_translator
from clearhead.cli.streams import (
    CLASSIFIED,
    STANDARD,
    Counter,
    Line,
    best_texts,
    input_lines,
    translate_blocks,
)
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from clearhead.api import Translator
    from clearhead.data.labelled import Labelled
    from clearhead.evaluation.class_scores import ClassifierScores
    from clearhead.evaluation.evaluate import Report
    from clearhead.settings import RunConfig


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
    from clearhead.data.labels import LABELS, Labels
    from clearhead.evaluation.evaluate import ClassificationSet, TranslationSet, evaluate_models

    search = SearchOptions.of(args)
    if args.source == args.reference == STANDARD:
        raise DataError("sources and references cannot both come from the standard input")
    names = [str(folder) for folder in args.folders]
    if len(set(names)) < len(names):
        raise DataError("the same model folder is named twice")
    models = {name: read_model_folder(name) for name in names}
    configs = {name: model.config for name, model in models.items()}
    on = {"device": args.device, "threads": args.threads}
    if _common_task(configs) == "translation":
        idle = {"--data": args.data, "--figures": args.figures}
        idle |= {"--text-column": args.text_column, "--label-column": args.label_column}
        _refuse_idle(idle, "translators", "--source test.en --reference test.de")
        files = _named(args.source, "--source"), _named(args.reference, "--reference")
        sources, references = (list(input_lines(file)) for file in files)
        pairs = TranslationSet(configs, files, sources, references, args.tokenize, args.lowercase)
        how = {"engine": args.engine, "compute_type": args.compute_type, "scores": False}
        load = partial(loaded_translator, **on, **how)
        translate = partial(_translations, load=load, search=search, batch_size=args.batch_size)
        _print(evaluate_models(pairs, names, translate), args.as_json)
        return
    idle = {"--source": args.source, "--reference": args.reference, "--tokenize": args.tokenize}
    idle |= {"--lowercase": args.lowercase, "--no-lowercase": args.lowercase is False}
    idle |= {"--engine ctranslate2": args.engine == "ctranslate2"}
    idle |= {"--compute-type": args.compute_type}
    _refuse_idle(idle | search.by_option(), "classifiers", "--data test.tsv")
    labels = {name: Labels.load(model.path, LABELS) for name, model in models.items()}
    data = _named(args.data, "--data")
    labelled = ClassificationSet(configs, labels, data, args.text_column, args.label_column)
    if args.figures is not None and labelled.multi_label:
        raise ConfigError(
            "there is no confusion matrix if examples may have several labels",
            where="--figures",
            todo="leave it out",
        )
    classify = partial(_probabilities, batch_size=args.batch_size, **on)
    report = evaluate_models(labelled, names, classify)
    _print(report, args.as_json)
    if args.figures is not None:
        _draw(report.systems, args.figures)


def _common_task(configs: Mapping[str, RunConfig]) -> str:
    """What all the models were trained for."""
    tasks = {name: config.task for name, config in configs.items()}
    if len(set(tasks.values())) > 1:
        raise ConfigError(
            "translators and classifiers cannot be evaluated together",
            why=", ".join(f"{name} is for {task}" for name, task in tasks.items()),
            todo="evaluate them one after the other",
        )
    return next(iter(tasks.values()))


def _refuse_idle(options: Mapping[str, object], kind: str, needed: str) -> None:
    """Refuse options that were given and have no effect on this kind of model."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(
                f"{option} has no effect on {kind}", todo=f"leave it out; use {needed}"
            )


def _named(file: str | None, option: str) -> str:
    """The file of a required option."""
    if file is None:
        raise DataError(f"{option} is missing", todo=f"name a file: {option} FILE")
    return file


def _translations(
    name: str,
    texts: Sequence[str],
    load: Callable[[str], Translator],
    search: SearchOptions,
    batch_size: int,
) -> list[str]:
    """The best translation of each text."""
    translator = load(name)
    counter = Counter(sys.stderr, len(texts), "sentences")
    lines = (Line(text, "") for text in texts)
    chosen = search.over(translator.search, n_best=1)
    try:
        return best_texts(translate_blocks(translator, lines, chosen, batch_size, counter))
    finally:
        counter.clear()


def _probabilities(
    name: str, examples: Sequence[Labelled], batch_size: int, device: str, threads: int
) -> np.ndarray:
    """The probability of each label, (examples, labels)."""
    from clearhead.api.classifier import is_empty
    from clearhead.api.loading import load_classifier

    with warnings_said():
        classifier = load_classifier(name, device=device, threads=threads)
    # `classify` gives them no label, but each example must count in the scores.
    empty = [example.place for example in examples if is_empty(example)]
    if empty:
        more = f" (and {len(empty) - 1:,} more like it)" if len(empty) > 1 else ""
        say(f"warning: {empty[0]} has no text, but its prediction is scored{more}")
    counter = Counter(sys.stderr, len(examples), CLASSIFIED[classifier.config.input])
    with warnings_said():
        try:
            return classifier.probabilities(examples, batch_size=batch_size, progress=counter.show)
        finally:
            counter.clear()


def _print(report: Report[Any], as_json: bool) -> None:
    print(json.dumps(report.to_dict(), indent=2) if as_json else report.to_text())


def _draw(systems: Mapping[str, ClassifierScores], folder: Path) -> None:
    """Draw the confusion matrix of each model into a file named after it."""
    import numpy as np

    from clearhead.inspect.figures import confusion_figure, write_figures

    pictures = []
    for title, system in zip(_titles(list(systems)), systems.values(), strict=True):
        labels = [row.name for row in system.scores.per_class]
        counts = np.array(system.scores.confusion)
        pictures.append((title, partial(confusion_figure, counts, labels)))
    for path in write_figures(pictures, folder):
        say(str(path))


def _titles(names: Sequence[str]) -> list[str]:
    """The name of each model's picture; a number tells apart folders of the same name."""
    titles: list[str] = []
    for name in names:
        # A folder given as `.` has its own name.
        plain = f"confusion-{os.path.basename(os.path.abspath(name))}"
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        titles.append(next(t for t in itertools.chain([plain], numbered) if t not in titles))
    return titles
