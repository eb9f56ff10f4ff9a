r"""Score translators or classifiers on a test set.

For a translator the command reports BLEU, chrF and TER from sacreBLEU, each
with its signature and its 95 % confidence interval; the share of sentences that
match exactly; and the scores by sentence length.
References should look like the target side of the training data; otherwise a
warning is printed. --normalise converts the sources only.

For a classifier it reports accuracy, macro and micro F1, each with its 95 %
confidence interval; the negative log-likelihood and the expected calibration
error; precision, recall and F1 of each label; and the confusion matrix. With
scikit-learn installed, each text classifier is compared with a linear model
(TF-IDF, logistic regression), which is fitted on its training files if all data
files of its run are unchanged.

Each model but the first is compared with the first by a paired test. With one
model, --output writes each prediction beside the correct answer: translations
with the lowest chrF first, or the most probable wrong labels.

  clearhead evaluate runs/my-model --source test.en --reference test.de
  clearhead evaluate runs/old runs/new --source test.en --reference test.de --json
  clearhead evaluate runs/my-model runs/my-model/training/checkpoints/average.safetensors \
    --source test.en --reference test.de
  clearhead evaluate runs/trec --data test.tsv --figures pictures --output errors.csv
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import (
    add_search,
    add_shared,
    changed_search,
    column,
    given_search,
    loaded_classifier,
    loaded_translator,
    option,
    reject_unused,
    search_settings,
)
from clearhead.cli.streams import (
    NOUNS,
    STANDARD,
    Counter,
    Line,
    in_blocks,
    reject_inputs,
    sentence_lines,
    text_in_line,
    translating,
)
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from clearhead.data.reading.labelled import Labelled
    from clearhead.evaluation.class_scores import ClassifierScores
    from clearhead.evaluation.evaluate import Report
    from clearhead.evaluation.scores import TranslatorScores
    from clearhead.folder.model_folder import ModelFolder
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
    for name, metavar, text in (
        ("--source", "FILE", "translators: sentences to translate"),
        ("--reference", "FILE", "translators: correct translations"),
        ("--data", "FILE", "classifiers: examples with labels"),
        ("--output", "FILE", "predictions, worst errors first: a .csv, .tsv or .jsonl file"),
        ("--figures", "FOLDER", "classifiers: folder for pictures of the confusion matrices"),
    ):
        parser.add_argument(name, metavar=metavar, help=text)
    for kind in ("text", "label"):
        parser.add_argument(
            f"--{kind}-column",
            metavar="COLUMN",
            type=column,
            help=f"classifiers: name or position of the {kind} column (default: as in training)",
        )
    parser.add_argument(
        "--tokenize",
        choices=("13a", "none", "intl", "char", "zh"),
        help="translators: tokenizer of BLEU; none if the text is tokenised already (default: the "
        "models' configuration)",
    )
    parser.add_argument(
        "--lowercase",
        action=BooleanOptionalAction,
        help="translators: ignore case in scores (default: the models' configuration)",
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="write a JSON object")
    add_shared(
        parser, "--normalise", "--engine", "--compute-type", "--batch-size", "--device", "--threads"
    )
    add_shared(parser, "--ablate", "--ablate-by")
    add_search(parser)


def run(args: Namespace) -> None:
    """Score the models and print the report."""
    from clearhead.evaluation.evaluate import common_setting
    from clearhead.folder.model_folder import read_model_folder

    if args.source == args.reference == STANDARD:
        raise DataError("sources and references cannot both come from the standard input")
    names = [str(folder) for folder in args.folders]
    if len(set(names)) < len(names):
        raise DataError("the same model folder is named twice")
    if args.output is not None:
        _check_output(args)
    models = {name: read_model_folder(name) for name in names}
    configs = {name: model.config for name, model in models.items()}
    tasks: dict[str, str] = {name: config.task for name, config in configs.items()}
    todo = "evaluate translators and classifiers one after the other"
    if common_setting(tasks, "task", todo) == "translation":
        report = _evaluate_translators(args, configs, models)
    else:
        report = _evaluate_classifiers(args, configs, models)
    try:
        text = json.dumps(report.to_dict(), indent=2) if args.as_json else report.to_text()
        print(text, flush=True)
    finally:  # the files are also written if the standard output is closed
        if args.output is not None:
            report.write_predictions(args.output)
        if args.figures is not None:
            _draw(report.systems, Path(args.figures))


def _check_output(args: Namespace) -> None:
    """Check the file of the predictions before the models run."""
    from clearhead.evaluation.predictions import check_table_path

    if len(args.folders) > 1:
        raise ConfigError(
            "--output is for one model", todo="leave it out, or evaluate each model by itself"
        )
    path = Path(os.path.expanduser(args.output))
    check_table_path(path)
    reject_inputs([path], (args.source, args.reference, args.data, *map(str, args.folders)))


def _evaluate_translators(
    args: Namespace, configs: Mapping[str, RunConfig], models: Mapping[str, ModelFolder]
) -> Report[TranslatorScores]:
    from clearhead.data.judging.text_style import target_style
    from clearhead.evaluation.evaluate import evaluate_translators

    options = {"--data": args.data, "--figures": args.figures}
    options |= {"--text-column": args.text_column, "--label-column": args.label_column}
    todo = "leave it out; use --source test.en --reference test.de"
    reject_unused(options, "translators", todo)
    files = _required(args.source, "--source"), _required(args.reference, "--reference")
    sources = list(sentence_lines(files[0], "sources"))
    references = list(sentence_lines(files[1], "references"))

    def translate(name: str) -> list[str]:
        translator = loaded_translator(name, args, scores=False)
        search = changed_search(translator.search, {**given_search(args), "n_best": 1})
        compute = translating(translator, search, args)
        lines = (Line(text, "") for text in sources)
        with Counter(sys.stderr, len(sources), "sentences") as counter:
            return [text_in_line(best) for _, (best, *_) in in_blocks(lines, compute, counter)]

    with warnings_printed():
        return evaluate_translators(
            configs,
            files,
            sources,
            references,
            translate,
            lambda name: target_style(models[name].path),
            args.tokenize,
            args.lowercase,
        )


def _evaluate_classifiers(
    args: Namespace, configs: Mapping[str, RunConfig], models: Mapping[str, ModelFolder]
) -> Report[ClassifierScores]:
    from clearhead.data.labels import LABELS, Labels
    from clearhead.evaluation.baseline import BaselineError, LinearBaseline, baseline_of_run
    from clearhead.evaluation.evaluate import evaluate_classifiers

    options = {"--source": args.source, "--reference": args.reference, "--tokenize": args.tokenize}
    options |= {"--lowercase": args.lowercase, "--no-lowercase": args.lowercase is False}
    options |= {f"--engine {args.engine}": args.engine != "auto"}
    options |= {"--compute-type": args.compute_type}
    options |= {"--sample": args.sample}
    options |= {option(each.path): getattr(args, each.path) for each in search_settings()}
    reject_unused(options, "classifiers", "leave it out; use --data test.tsv")
    labels = {name: Labels.load(model.path, LABELS) for name, model in models.items()}
    data = _required(args.data, "--data")
    if args.figures is not None and any(c.classifier.multi_label for c in configs.values()):
        raise ConfigError(
            "there is no confusion matrix if examples may have several labels",
            where="--figures",
            todo="leave it out",
        )
    classify = partial(_probabilities, args)

    def linear_baseline(name: str) -> LinearBaseline | None:
        try:
            return baseline_of_run(models[name].path, configs[name], labels[name])
        except BaselineError as error:
            print_message(f"no linear baseline: {error.why}")
            return None

    return evaluate_classifiers(
        configs, labels, data, classify, args.text_column, args.label_column, linear_baseline
    )


def _required(file: str | None, name: str) -> str:
    """The file of a required option."""
    if file is None:
        raise DataError(f"{name} is missing", todo=f"name a file: {name} FILE")
    return file


def _probabilities(args: Namespace, name: str, examples: Sequence[Labelled]) -> np.ndarray:
    """The probability of each label, (examples, labels)."""
    from clearhead.api.classifier import is_empty

    classifier = loaded_classifier(name, args)
    # `classify` gives them no label, but each example must count in the scores.
    empty = [example.place for example in examples if is_empty(example)]
    if empty:
        more = f" (and {len(empty) - 1:,} more like it)" if len(empty) > 1 else ""
        print_message(f"warning: {empty[0]} has no text, but its prediction is scored{more}")
    nouns = f"{NOUNS[classifier.config.input]}s"
    with warnings_printed(), Counter(sys.stderr, len(examples), nouns) as counter:
        return classifier.probabilities(
            examples,
            normalise=args.normalise,
            batch_size=args.batch_size,
            progress=counter.show,
        )


def _draw(systems: Mapping[str, Any], folder: Path) -> None:
    """Draw the confusion matrix of each classifier into a file named after it."""
    import numpy as np

    from clearhead.inspect.drawing import write_figures
    from clearhead.inspect.pictures import confusion_figure

    pictures: dict[str, Callable[[], Figure]] = {}
    for name, system in systems.items():
        # A folder given as `.` has its own name.
        title = plain = f"confusion-{os.path.basename(os.path.abspath(name))}"
        number = 1
        while title in pictures:
            number += 1
            title = f"{plain}-{number}"
        labels = [row.name for row in system.scores.per_class]
        counts = np.array(system.scores.confusion)
        pictures[title] = partial(confusion_figure, counts, labels)
    for path in write_figures(pictures.items(), folder, ("png", "svg")):
        print_message(str(path))
