"""Write a configuration that suits your data.

NAME.toml has a comment for every setting; edit it, then train with it. The
command reads the files and proposes the size of the model, the vocabulary, the
regularisation and the length of the training for that amount of data, each with
its reason. Without files it writes the defaults.

  clearhead init my-model --train train.en train.de --validation val.en val.de
  clearhead init my-model --train pairs.tsv.gz --validation val.tsv --test test.tsv
  clearhead init topics --task classification --train train.csv --label-column topic
  clearhead init vowels --task classification --input features --train train.ts
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.failures import say
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
            "training data: two parallel text files, or one file of pairs, such as .tsv (source, "
            "tab, target) or .jsonl (keys source and target); for a classifier one file or folder; "
            "files may be compressed (.gz)",
        ),
        ("validation", "validation data, which choose the best model"),
        ("test", "test data; the same examples are left out of the training data"),
    ):
        parser.add_argument(
            f"--{part}", nargs="+", action="extend", default=[], metavar="FILE", help=text
        )
    parser.add_argument(
        "--task",
        choices=("translation", "classification"),
        default="translation",
        help="translate sentences (the default), or label texts or sequences of features",
    )
    parser.add_argument(
        "--input",
        dest="kind",
        choices=("text", "features"),
        help="what a classifier reads (default: text)",
    )
    parser.add_argument(
        "--text-column", metavar="NAME", help="name of the text column or key (default: text)"
    )
    parser.add_argument(
        "--label-column", metavar="NAME", help="name of the label column or key (default: label)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite NAME.toml")


def run(args: Namespace) -> None:
    """Write NAME.toml and print what was found in the data."""
    _refuse_idle(args)
    path = Path(f"{args.name.removesuffix('.toml')}.toml")
    _refuse_place(path, args.force)
    proposal: CommentedConfig
    if args.task == "translation":
        from clearhead.data.proposal_translation import propose_translation

        proposal = propose_translation(args.train, args.validation, args.test)
    else:
        from clearhead.data.proposal_classification import propose_classification

        proposal = propose_classification(
            args.kind or "text",
            *(args.train, args.validation, args.test),
            text_column=args.text_column or "text",
            label_column=args.label_column or "label",
        )
    _write(path, proposal.to_toml(str(path.with_suffix(""))))
    for line in proposal.seen:
        say(line)
    dry_run = shlex.join(["clearhead", "train", str(path), "--dry-run"])
    say(f"wrote {path}; to see what training needs: {dry_run}")


def _refuse_idle(args: Namespace) -> None:
    """Reject options that have no effect on the task."""
    if args.task == "translation":
        options = {"--input": args.kind, "--text-column": args.text_column}
        for option, value in {**options, "--label-column": args.label_column}.items():
            if value is not None:
                raise ConfigError(
                    f"{option} has no effect on a translator",
                    todo="add --task classification, or leave it out",
                )
    if args.kind == "features" and args.text_column is not None:
        raise ConfigError("--text-column has no effect on features", todo="leave it out")


def _refuse_place(path: Path, force: bool) -> None:
    """Reject a file that cannot or may not be written."""
    try:
        if not path.parent.is_dir():
            raise ConfigError(
                "the folder is missing",
                where=path.parent,
                todo=f"create it: {shlex.join(['mkdir', '-p', str(path.parent)])}",
            )
        taken = path.exists()
    except OSError as error:  # no permission for a folder above it, or the name is too long
        raise _unwritable(path, error) from None
    if taken and not force:
        raise ConfigError(
            "the file exists already", where=path, todo="choose another name, or use --force"
        )


def _write(path: Path, text: str) -> None:
    from clearhead.files import write_bytes

    try:
        write_bytes(path, text.encode("utf-8"), ConfigError)
    except UnicodeEncodeError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: Exception) -> ConfigError:
    return ConfigError("the file cannot be written", where=path, why=str(error))
