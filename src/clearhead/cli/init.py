"""Write a configuration that suits your data.

The command reads the files and proposes the size of the model, the vocabulary,
the regularisation and the length of the training for that amount of data, each
with its reason. Without files it writes the defaults. NAME.toml explains every
setting in a comment; edit it, then train with it. It also prints a score that the
model has to beat: of the translation of the most similar training sentence, or of a
linear model for a classifier, if scikit-learn is installed.

  clearhead init my-model --train train.en train.de --validation val.en val.de
  clearhead init my-model --train pairs.tsv.gz --validation val.tsv --test test.tsv
  clearhead init my-model --train train.tsv --validation val.tsv --minutes 30
  clearhead init my-model --train app.po memory.tmx more.tsv --validation val.po
  clearhead init topics --task classification --train train.csv --label-column topic
  clearhead init topics --task classification --train train.csv --start-from runs/bert
  clearhead init vowels --task classification --input features --train train.ts
"""

from __future__ import annotations

import shlex
import sys
import tomllib
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.failures import print_message
from clearhead.cli.options import add_option, column, positive, reject_unfit
from clearhead.cli.streams import Counter
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from clearhead.settings.commented import CommentedConfig


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s NAME [options]"
    parser.add_argument("name", metavar="NAME", help="name of the run; the file is NAME.toml")
    for part, text in (
        (
            "train",
            "training data: two parallel text files, or a file of pairs, such as .tsv (source, "
            "tab, target) or .jsonl (keys source and target); for a classifier a file or folder; "
            "further ones are added; files may be compressed (.gz)",
        ),
        ("validation", "validation data, in the same formats; chooses the best checkpoint"),
        ("test", "test data, in the same formats; its examples are left out of the training data"),
    ):
        parser.add_argument(
            f"--{part}", nargs="+", action="extend", default=[], metavar="FILE", help=text
        )
    parser.add_argument(
        "--task",
        choices=("translation", "classification"),
        default="translation",
        help="task of the model (default: translation)",
    )
    add_option(
        parser,
        "--input",
        fits="classifiers",
        dest="kind",
        choices=("text", "features"),
        help="classification: kind of input (default: text)",
    )
    for kind, fits in (("text", "classifiers of texts"), ("label", "classifiers")):
        add_option(
            parser,
            f"--{kind}-column",
            fits=fits,
            metavar="COLUMN",
            type=column,
            help=f"classification: name of the {kind} column or key, or its position, from 1, in a "
            f"file without a header (default: {kind}, or recognised by the cells)",
        )
    add_option(
        parser,
        "--multi-label",
        fits="classifiers of texts",
        action=BooleanOptionalAction,
        help="classification of texts: whether a text may have several labels, separated by | "
        "(default: yes if at least 5 %% of the labels have a |)",
    )
    for side in ("source", "target"):
        add_option(
            parser,
            f"--{side}-language",
            fits="translators",
            metavar="LANGUAGE",
            default="",
            help=f"translation: language of the {side}s, such as de or pt-BR; chooses the texts of "
            "a .tmx file (default: as the files name it)",
        )
    parser.add_argument(
        "--start-from",
        default="",
        metavar="MODEL",
        help="trained model to start from: a model folder, a folder of Hugging Face files, or hf: "
        "and a name on the Hugging Face hub, which is not looked up here (default: none)",
    )
    parser.add_argument(
        "--mismatch",
        choices=("refuse", "warn"),
        help="what happens to data that clearly are not what they should be, such as a validation "
        "set in another language (default: refuse)",
    )
    parser.add_argument(
        "--minutes",
        type=positive,
        metavar="NUMBER",
        help="minutes of training; the learning rate falls to zero when they end (default: no "
        "limit)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite NAME.toml")


def run(args: Namespace) -> None:
    """Write NAME.toml and print what was found in the data."""
    from clearhead.folder.files import write_bytes
    from clearhead.settings import RunConfig

    if args.task == "translation":
        reject_unfit(args, RunConfig(), "add --task classification, or leave it out")
    else:
        reject_unfit(args, RunConfig(task="classification", input=args.kind or "text"))
    path = Path(f"{args.name.removesuffix('.toml')}.toml")
    _check_path(path, args.force)
    proposal = _proposed(args)
    if args.mismatch:
        proposal.values["data.mismatch"] = args.mismatch
    if args.minutes:
        from clearhead.data.proposing.settings import limit_minutes

        limit_minutes(proposal, args.minutes)
    text = proposal.to_toml(str(path.with_suffix("")))
    warnings = _checked(text, args) if args.train else []
    write_bytes(path, _encoded(text, path), ConfigError)
    for line in proposal.seen:
        print_message(line)
    for line in warnings:
        print_message(f"warning: {line}")
    if args.task == "classification" and args.train:
        _print_baseline(path)
    elif args.train and args.validation:
        _print_neighbours(path)
    dry_run = shlex.join(["clearhead", "train", str(path), "--dry-run"])
    print_message(f"wrote {path}; to see what training needs: {dry_run}")


def _proposed(args: Namespace) -> CommentedConfig:
    """The settings for the data, and for the model that the run starts from."""
    from clearhead.data.reading.lines import check_regular
    from clearhead.settings.data import absolute_path

    kind, files = args.kind or "text", (args.train, args.validation, args.test)
    for file in (*args.train, *args.validation, *args.test):
        check_regular(file, folder=True)
    brought = None
    if args.start_from:
        from clearhead.api.start import brought_by

        brought = brought_by(absolute_path(args.start_from), args.task, kind)
    if args.task == "translation":
        from clearhead.data.proposing.translation import propose_translation

        languages = args.source_language, args.target_language
        return propose_translation(*files, args.start_from, brought, languages)
    from clearhead.data.proposing.classification import propose_classification

    return propose_classification(
        kind,
        *files,
        text_column=args.text_column,
        label_column=args.label_column,
        multi_label=args.multi_label,
        start_from=args.start_from,
        brought=brought,
    )


def _checked(text: str, args: Namespace) -> list[str]:
    """Refuse data that cannot be trained on as proposed; the result has a line for each warning."""
    from clearhead.data.trainable import check_trainable
    from clearhead.settings import config_from

    tree = tomllib.loads(text)
    # Those in the text start in the folder of the file that is to be written.
    tree["data"] |= {part: getattr(args, part) for part in ("train", "validation", "test")}
    return check_trainable(config_from(tree))


def _encoded(text: str, path: Path) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            "a name that would be in the file is not UTF-8",
            where=path,
            todo="rename that file or folder",
        ) from None


def _print_baseline(path: Path) -> None:
    """Print how well a linear model does on the validation data, if it can be fitted."""
    from clearhead.errors import ClearheadError
    from clearhead.evaluation.baseline import BaselineError, baseline_on_files
    from clearhead.settings import read_config

    try:
        if line := baseline_on_files(read_config(path)):
            print_message(f"{line} on the validation data")
    except BaselineError as error:
        print_message(f"no linear baseline: {error.why}")
    except ClearheadError:
        pass  # training reports what is wrong with the data


def _print_neighbours(path: Path) -> None:
    """Print the scores of the nearest neighbours of the validation sentences, if there are any."""
    from clearhead.data.reading.parts import parts_of
    from clearhead.errors import ClearheadError
    from clearhead.evaluation.neighbour import score_neighbours, training_memory
    from clearhead.evaluation.scores import scored_form
    from clearhead.settings import read_config

    try:
        config = read_config(path)
        with Counter(sys.stderr, None, "training pairs") as counter:
            memory = training_memory(config, progress=counter.show)
        pairs = parts_of(config).validation.read(config).examples
    except ClearheadError as error:
        print_message(f"no nearest neighbour: {error.where or path}: {error.what}")
        return
    lowercase, tokenize = config.lowercase, config.evaluation.tokenize
    form = scored_form([config], lowercase)
    texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with Counter(sys.stderr, len(pairs), "neighbours") as counter:
        found = score_neighbours(
            memory, *texts, tokenize, lowercase=lowercase, form=form, progress=counter.show
        )
    print_message(f"{found} on the validation data: what a model has to beat")


def _check_path(path: Path, force: bool) -> None:
    """Reject a file that cannot or may not be written."""
    from clearhead.folder.files import unwritable

    try:
        if not path.parent.is_dir():
            raise ConfigError(
                "the folder is missing",
                where=path.parent,
                todo=f"create it: {shlex.join(['mkdir', '-p', str(path.parent)])}",
            )
        exists = path.exists()
    except OSError as error:  # no permission for a folder above it, or the name is too long
        raise unwritable(path, error, ConfigError) from None
    if exists and not force:
        raise ConfigError(
            "the file exists already", where=path, todo="choose another name, or use --force"
        )
