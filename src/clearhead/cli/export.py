"""`clearhead export`: a translator in the format of a faster program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.failures import say


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A model folder, e.g. runs/my-model.")
    ],
    format: Annotated[
        Literal["ctranslate2"], typer.Option("--format", help="Which program is to run it.")
    ] = "ctranslate2",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where to; by default ctranslate2 in the model folder, where translate finds it.",
        ),
    ] = None,
) -> None:
    """Write a translator for CTranslate2, which runs it without PyTorch.

    The export is compared with the model before it takes its place: greedy outputs must be the
    same, log-probabilities within 0.001. From then on translate and evaluate use it, as long as
    the model folder holds the same weights. The folder of the export is printed. It has 32-bit
    numbers; others are chosen when it is used: clearhead translate --engine ctranslate2
    --compute-type int8.

    \b
    clearhead export runs/my-model --format ctranslate2
    """  # noqa: D301
    from clearhead import api

    typer.echo(api.export_model(folder, format, output, tell=say))
