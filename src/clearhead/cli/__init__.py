"""The command `clearhead`: the roof, which nothing else imports.

Each command is a file of its own and imports what it needs when it runs, so that `--help` answers
at once. Results go to the standard output, all else to the standard error.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from clearhead.cli.classify import classify
from clearhead.cli.evaluate import evaluate
from clearhead.cli.export import export
from clearhead.cli.failures import CommandGroup, full_disk_said
from clearhead.cli.figures import figures
from clearhead.cli.init import InitCommand, init
from clearhead.cli.phrasebook import phrasebook
from clearhead.cli.train import train
from clearhead.cli.translate import translate

OVERVIEW = """
Train a translator or a classifier on your own data, measure it, and use it.

\b
clearhead init my-model --train train.en train.de --validation val.en val.de
clearhead train my-model.toml
clearhead translate runs/my-model < in.txt > out.txt
clearhead evaluate runs/my-model --source test.en --reference test.de
clearhead classify runs/my-classifier < texts.txt
clearhead figures runs/my-model --input "A sentence."
clearhead export runs/my-model --format ctranslate2

Each command says more: clearhead train --help
"""

app = typer.Typer(
    cls=CommandGroup,
    help=OVERVIEW,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command(cls=InitCommand, short_help="Write a configuration that suits your data.")(init)
app.command(short_help="Train a model, or go on with its training.")(train)
app.command(short_help="Translate lines of text.")(translate)
app.command(short_help="Classify lines of text, or sequences of features.")(classify)
app.command(short_help="Score models on a test set, and compare them.")(evaluate)
app.command(short_help="Draw what happens inside a model.")(figures)
app.command(short_help="Write a translator in a format that runs faster.")(export)
app.command(short_help="Write the built-in sentence pairs as files.")(phrasebook)


SPIN_COUNT = 1000
"""Times that an OpenMP thread polls a barrier before it sleeps. By default libgomp polls for a few
milliseconds, and training slows down many times over beside any other busy process."""


def main() -> None:
    """Run the command with the arguments of this process, and exit."""
    limit_busy_waiting()
    with full_disk_said():
        app(prog_name="clearhead")


def limit_busy_waiting() -> None:
    """Set `GOMP_SPINCOUNT` unless the user has chosen how threads wait.

    libgomp reads it once, when torch or ctranslate2 loads it.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)


def _show_version(wanted: bool) -> None:
    if wanted:
        from clearhead import __version__

        typer.echo(f"clearhead {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _roof(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
