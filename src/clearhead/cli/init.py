"""`clearhead init`: a commented configuration that suits the data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from clearhead.cli.failures import say
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from clearhead.settings.commented import CommentedConfig

FILE_OPTIONS = ("--train", "--validation", "--test")
SINGLE_FILES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")
BUILT_IN = "phrasebook:"


class InitCommand(TyperCommand):
    """Lets an option of files take one value or two: `--train train.en train.de`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after `spread` has been over them."""
        return super().parse_args(ctx, spread(args))


def spread(args: list[str]) -> list[str]:
    """Arguments in which each option of files is said again before its second file.

    A file that holds both sides (.tsv, .jsonl, a phrasebook) stands alone, and no option has more
    than two, so what follows is something else: `--train pairs.tsv my-model`. Labelled examples
    are in one file, or one folder, of whatever name.
    """
    if "--task=classification" in args or ("--task", "classification") in pairwise(args):
        return list(args)
    written: list[str] = []
    files = dict.fromkeys(FILE_OPTIONS, 0)
    left = _parted(args)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*written, word, *left]
        written.append(word)
        if word not in FILE_OPTIONS or not left:
            continue
        first = left.pop(0)
        written.append(first)
        files[word] += 1
        whole = first.lower().endswith(SINGLE_FILES) or first.startswith(BUILT_IN)
        if files[word] == 1 and not whole and left and not left[0].startswith("-"):
            written += [word, left.pop(0)]
            files[word] += 1
    return written


def _parted(args: list[str]) -> list[str]:
    """Each `--train=train.en` as two words, but behind `--`, where options end."""
    own = tuple(f"{option}=" for option in FILE_OPTIONS)
    end = args.index("--") if "--" in args else len(args)
    words = [part for a in args[:end] for part in (a.split("=", 1) if a.startswith(own) else [a])]
    return [*words, *args[end:]]


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The run's name; the file is NAME.toml.")
    ],
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE [FILE]",
            help="Sentence pairs to train on: two parallel files, or one .tsv (source, tab, "
            "target) or .jsonl (keys source and target); each may end in .gz. For a "
            "classification one file or folder.",
        ),
    ] = None,
    validation: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE [FILE]", help="Pairs, or examples, that pick the best model."),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE [FILE]",
            help="Those to score with later; training data that are also here are left out.",
        ),
    ] = None,
    task: Annotated[
        Literal["translation", "classification"],
        typer.Option(help="Translate sentences, or label texts or sequences of features."),
    ] = "translation",
    kind: Annotated[
        Literal["text", "features"] | None,
        typer.Option("--input", help="What is classified: text unless this is said."),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the texts, in files with columns or keys: text."),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the labels, in files with columns or keys: label."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite NAME.toml.")] = False,
) -> None:
    """Write NAME.toml, a configuration with comments, to look over and to train with.

    Looks at the files and proposes the size of the model, the vocabulary, the regularisation and
    the length of the training that suit their amount, each with its reason. Without files it
    writes the defaults.

    \b
    clearhead init my-model --train train.en train.de --validation val.en val.de
    clearhead init my-model --train pairs.tsv.gz --validation val.tsv --test test.tsv
    clearhead init topics --task classification --train train.csv --label-column topic
    clearhead init vowels --task classification --input features --train train.ts

    \b
    """  # noqa: D301
    options = {"--input": kind, "--text-column": text_column, "--label-column": label_column}
    _refuse_idle(task, {option: said for option, said in options.items() if said is not None})
    path = Path(f"{name.removesuffix('.toml')}.toml")
    _refuse_place(path, force)
    proposal = _proposed(task, (train or (), validation or (), test or ()), options)
    _write(path, proposal.to_toml(str(path.with_suffix(""))))
    for line in proposal.seen:
        say(line)
    dry_run = shlex.join(["clearhead", "train", str(path), "--dry-run"])
    say(f"wrote {path}; what it would take: {dry_run}")


def _refuse_idle(task: str, said: dict[str, str]) -> None:
    """Refuse options that mean nothing for what is asked."""
    if task == "translation" and said:
        raise ConfigError(
            f"{next(iter(said))} means nothing for a translation",
            todo="say --task classification, too",
        )
    if said.get("--input") == "features" and "--text-column" in said:
        raise ConfigError("--text-column means nothing for features")


def _refuse_place(path: Path, force: bool) -> None:
    """Refuse a name under which no file can be written, or none may be."""
    try:
        if not path.parent.is_dir():
            raise ConfigError(
                "the folder is missing",
                where=path.parent,
                todo=f"make it: {shlex.join(['mkdir', '-p', str(path.parent)])}",
            )
        taken = path.exists()
    except OSError as error:  # a folder above it is closed, or the name is too long
        raise _unwritable(path, error) from None
    if taken and not force:
        raise ConfigError(
            "the file exists already", where=path, todo="choose another name, or say --force"
        )


def _proposed(
    task: str, files: tuple[Sequence[str], ...], options: dict[str, Any]
) -> CommentedConfig:
    """What suits the training, validation and test files."""
    if task == "translation":
        from clearhead.data.proposal_translation import propose_translation

        return propose_translation(*files)
    from clearhead.data.proposal_classification import propose_classification

    return propose_classification(
        options["--input"] or "text",
        *files,
        text_column=options["--text-column"] or "text",
        label_column=options["--label-column"] or "label",
    )


def _write(path: Path, text: str) -> None:
    """Write the file, wholly or not at all."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    except (OSError, UnicodeEncodeError) as error:
        with suppress(OSError):  # it was never made, under that name
            unfinished.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: Exception) -> ConfigError:
    return ConfigError("the file cannot be written", where=path, why=str(error))
