r"""Score translators or classifiers on a test set.

For a translator the command reports BLEU, chrF and TER from sacreBLEU, each
with its signature and its 95 % confidence interval; the share of sentences that
match exactly; the share that keeps all placeholders, links and tags; and the
scores by sentence length. The nearest neighbour is the translation of the most
similar training sentence. It is scored if all data files of the first model's run
are unchanged.
References should look like the target side of the training data; otherwise a
warning is printed. --normalise converts the sources only.

For a classifier it reports accuracy, macro and micro F1, each with its 95 %
confidence interval; the negative log-likelihood and the expected calibration
error; precision, recall and F1 of each label; and the confusion matrix. With
scikit-learn installed, each classifier is compared with a linear model (a support
vector machine of TF-IDF, or for sequences of random kernels), which is fitted on
its training files if all data files of its run are unchanged.

--folds N trains a classifier N times, each time without a part of its training
and validation data, and scores that part. Examples with the same input, or of the
same group, are in one fold. --repeats does so several times with other folds.

Each model but the first is compared with the first by a paired test. With one
model, --output writes each prediction beside the correct answer: translations
with the lowest chrF first, or the most probable wrong labels.

  clearhead evaluate runs/my-model --source test.en --reference test.de
  clearhead evaluate runs/old runs/new --source test.en --reference test.de --json
  clearhead evaluate runs/my-model runs/my-model/training/checkpoints/average.safetensors \
    --source test.en --reference test.de
  clearhead evaluate runs/a runs/b runs/a+runs/b --source test.en --reference test.de
  clearhead evaluate runs/program --data test.po
  clearhead evaluate runs/trec --data test.tsv --output errors.csv
  clearhead evaluate runs/trec --folds 5
  clearhead evaluate topics.toml --folds 5 --repeats 3
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import (
    add_option,
    add_search,
    add_shared,
    column,
    folders_of,
    load_options,
    positive,
    reject_unfit,
    reject_unused,
    search_options,
)
from clearhead.cli.streams import (
    BLOCK_LINES,
    NOUNS,
    STANDARD,
    Counter,
    Line,
    blocks,
    in_blocks,
    reject_inputs,
    required,
    sentence_lines,
    text_in_line,
    translating,
)
from clearhead.errors import ClearheadError, ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from clearhead.data.reading.labelled import Labelled
    from clearhead.evaluation.class_scores import ClassifierScores
    from clearhead.evaluation.evaluate import Report
    from clearhead.evaluation.scores import TranslatorScores
    from clearhead.folder.model_folder import ModelFolder
    from clearhead.text.glossary import Glossary
    from clearhead.text.memory import Memory


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [FOLDER ...] [options]"
    parser.add_argument(
        "folders",
        metavar="FOLDER",
        nargs="+",
        type=Path,
        help="model folders or checkpoints; the first is the baseline; translators joined by + are "
        "an ensemble",
    )
    for name, fits, text in (
        ("--source", "translators", "sentences to translate"),
        ("--reference", "translators", "correct translations"),
    ):
        add_option(parser, name, fits=fits, metavar="FILE", help=f"{fits}: {text}")
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="examples with labels; for translators instead of two files a file of pairs, such as "
        ".tsv, .po or .tmx",
    )
    add_option(
        parser,
        "--folds",
        fits="classifiers",
        type=positive,
        metavar="N",
        help="classifiers: train and score in N folds of the data of the run, of a model folder or "
        "a configuration",
    )
    add_option(
        parser,
        "--repeats",
        fits="classifiers",
        type=positive,
        metavar="N",
        help="classifiers: repeat --folds with other folds and first weights (default: 1)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        help="predictions, worst errors first: a .csv, .tsv or .jsonl file",
    )
    for kind, fits in (("text", "classifiers of texts"), ("label", "classifiers")):
        add_option(
            parser,
            f"--{kind}-column",
            fits=fits,
            metavar="COLUMN",
            type=column,
            help=f"{fits}: name or position of the {kind} column (default: as in training)",
        )
    add_option(
        parser,
        "--tokenize",
        fits="translators",
        choices=("13a", "none", "intl", "char", "zh"),
        help="translators: tokenizer of BLEU; none if the text is tokenised already (default: the "
        "models' configuration)",
    )
    add_option(
        parser,
        "--lowercase",
        fits="translators",
        action=BooleanOptionalAction,
        help="translators: ignore case in scores (default: the models' configuration)",
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="write a JSON object")
    add_shared(
        parser, "--normalise", "--engine", "--compute-type", "--batch-size", "--device", "--threads"
    )
    add_shared(parser, "--glossary", "--memory", "--match", "--ablate", "--ablate-by")
    add_search(parser)


def run(args: Namespace) -> None:
    """Score the models and print the report."""
    from clearhead.evaluation.evaluate import common_setting
    from clearhead.folder.model_folder import open_folder

    if args.source == args.reference == STANDARD:
        raise DataError("sources and references cannot both come from the standard input")
    if args.folds:
        _cross_validate(args)
        return
    if args.repeats:
        raise ConfigError("--repeats is for folds", todo="add --folds 5")
    names = [str(folder) for folder in args.folders]
    if len(set(names)) < len(names):
        raise DataError("the same model folder is named twice")
    if args.output is not None:
        _check_output(args)
    models = {name: open_folder(folders_of(name)[0]) for name in names}
    tasks: dict[str, str] = {name: model.config.task for name, model in models.items()}
    todo = "evaluate translators and classifiers one after the other"
    is_translation = common_setting(tasks, "task", todo) == "translation"
    files = "--source test.en --reference test.de" if is_translation else "--data test.tsv"
    for model in models.values():
        reject_unfit(args, model.config, f"leave it out; use {files}")
    report = (_of_translators if is_translation else _of_classifiers)(args, models)
    try:
        text = json.dumps(report.to_dict(), indent=2) if args.as_json else str(report)
        print(text, flush=True)
    finally:  # the file is also written if the standard output is closed
        if args.output is not None:
            report.write_predictions(args.output)


def _cross_validate(args: Namespace) -> None:
    """Train in folds, and print the report of each repetition."""
    from clearhead.api.cross_validation import cross_validate
    from clearhead.data.reading.parts import parts_of_run
    from clearhead.folder.model_folder import open_folder
    from clearhead.settings import read_config
    from clearhead.training.display import duration

    reject_unused({"--data": args.data, "--normalise": args.normalise or None}, "--folds")
    if args.output is not None:
        _check_output(args)
    path, *others = args.folders
    if others:
        raise ConfigError("--folds is for one model", todo="name one model")
    parts = None
    if path.suffix == ".toml":
        config = read_config(path)
    else:
        config = open_folder(path).config
        if not config.data.train:
            raise ConfigError(
                "this model was trained on examples in memory, which are not in its folder",
                where=path,
                todo="use sklearn.model_selection.cross_val_score, or name a configuration",
            )
        parts = parts_of_run(path, config)
    reject_unfit(args, config)
    repeats = args.repeats or 1
    total, began = args.folds * repeats, time.monotonic()
    with Counter(sys.stderr, total, "folds") as counter:
        for repeat in range(repeats):

            def show(done: int, before: int = args.folds * repeat) -> None:
                counter.show(before + done)
                rest = total - before - done
                if rest and sys.stderr is not None and not sys.stderr.isatty():
                    left = (time.monotonic() - began) / (total - rest) * rest
                    print_message(f"{total - rest:,} of {total:,} folds, {duration(left)} left")

            with warnings_printed(counter.clear):
                found = cross_validate(
                    config,
                    args.folds,
                    repeat=repeat,
                    parts=parts,
                    options=load_options(args),
                    progress=show,
                )
            counter.clear()
            text = f"{found.report}\n{found.line()}"
            if args.as_json:
                text = json.dumps(found.report.to_dict() | {"folds": found.folds})
            print(text, flush=True)
            if args.output is not None and repeat == 0:
                found.report.write_predictions(args.output)


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


def _of_translators(args: Namespace, models: Mapping[str, ModelFolder]) -> Report[TranslatorScores]:
    from clearhead.api.loading import load_translator
    from clearhead.data.judging.text_style import target_style
    from clearhead.data.reading.pairs import read_pairs
    from clearhead.evaluation.evaluate import TranslatorSystem, evaluate_translators

    if args.data is not None:
        reject_unused({"--source": args.source, "--reference": args.reference}, "--data")
        languages = next(iter(models.values())).config.data.languages
        pairs = list(read_pairs([args.data], "test", languages))
        files = args.data, args.data
        sources, references = [p.source for p in pairs], [p.target for p in pairs]
    else:
        if args.source is None and args.reference is None:
            todo = "name two files: --source FILE --reference FILE; or one of pairs: --data FILE"
            raise DataError("there are no sentences to translate", todo=todo)
        files = required(args.source, "--source"), required(args.reference, "--reference")
        sources = list(sentence_lines(files[0], "sources"))
        references = list(sentence_lines(files[1], "references"))

    glossaries: dict[str, Glossary | None] = {}

    def translate(name: str) -> list[str]:
        translator = load_translator(folders_of(name), load_options(args, scores=False))
        glossaries[name] = translator.glossary
        search = search_options(args, translator.search, n_best=1)
        compute = translating(translator, search, args)
        lines = blocks((Line(text, "") for text in sources), BLOCK_LINES)
        counter = Counter(sys.stderr, len(sources), "sentences")
        with counter, warnings_printed(counter.clear):
            return [text_in_line(best) for _, (best, *_) in in_blocks(lines, compute, counter)]

    systems = {
        name: TranslatorSystem(
            model.config,
            partial(translate, name),
            target_style(model),
            partial(glossaries.get, name),
        )
        for name, model in models.items()
    }
    counter = Counter(sys.stderr, len(sources), "neighbours")
    with counter, warnings_printed(counter.clear):
        return evaluate_translators(
            *(systems, files, sources, references, args.tokenize, args.lowercase),
            memory=partial(_memory, next(iter(models.values()))),
            progress=counter.show,
        )


def _memory(model: ModelFolder) -> Memory | None:
    """The training pairs of a translator, if they are files that are unchanged."""
    from clearhead.evaluation.neighbour import training_memory

    if not model.config.data.train:
        return None
    try:
        with Counter(sys.stderr, None, "training pairs") as counter:
            return training_memory(model.config, model.path, counter.show)
    except ClearheadError as error:
        print_message(f"no nearest neighbour: {error.where or model.path}: {error.what}")
        return None


def _of_classifiers(args: Namespace, models: Mapping[str, ModelFolder]) -> Report[ClassifierScores]:
    import numpy as np

    from clearhead.data.labels import Labels
    from clearhead.evaluation.baseline import BaselineError, LinearBaseline, baseline_of_run
    from clearhead.evaluation.evaluate import ClassifierSystem, evaluate_classifiers
    from clearhead.folder.model_folder import read_thresholds

    labels = {name: Labels.of(model) for name, model in models.items()}
    data = required(args.data, "--data")

    def linear_baseline(name: str) -> LinearBaseline | None:
        try:
            return baseline_of_run(models[name].path, models[name].config, labels[name])
        except BaselineError as error:
            print_message(f"no linear baseline: {error.why}")
            return None

    systems = {
        name: ClassifierSystem(
            model.config,
            labels[name],
            classify=partial(_probabilities, args, name),
            linear_baseline=partial(linear_baseline, name),
            thresholds=np.array(read_thresholds(model, len(labels[name]))),
        )
        for name, model in models.items()
    }
    columns = {"text_column": args.text_column, "label_column": args.label_column}
    columns = {key: column for key, column in columns.items() if column}
    return evaluate_classifiers(systems, data, columns)


def _probabilities(args: Namespace, name: str, examples: Sequence[Labelled]) -> np.ndarray:
    """The probability of each label, (examples, labels)."""
    from clearhead.api.classifier import is_empty
    from clearhead.api.loading import load_classifier

    with warnings_printed():
        classifier = load_classifier(name, load_options(args))
    # `classify` gives them no label, but each example must count in the scores.
    empty = [example.place for example in examples if is_empty(example)]
    if empty:
        more = f" (and {len(empty) - 1:,} more like it)" if len(empty) > 1 else ""
        print_message(f"warning: {empty[0]} has no text, but its prediction is scored{more}")
    nouns = f"{NOUNS[classifier.config.input]}s"
    counter = Counter(sys.stderr, len(examples), nouns)
    with counter, warnings_printed(counter.clear):
        return classifier.probabilities(
            examples,
            normalise=args.normalise,
            batch_size=args.batch_size,
            progress=counter.show,
        )
