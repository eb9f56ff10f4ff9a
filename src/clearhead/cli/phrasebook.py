"""`clearhead phrasebook`: the built-in sentence pairs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clearhead.errors import DataError


def phrasebook(
    pair: Annotated[
        str, typer.Argument(metavar="PAIR", help="en-es or de-en: source and target language.")
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the files go; made if need be.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what is there, or was begun.")
    ] = False,
) -> None:
    """Write the built-in phrasebook as files, and their paths to the standard output.

    There are training, validation and test pairs, a file for each language and one for which word
    comes from which. Training can also use them by name: train = ["phrasebook:en-es"].

    \b
    clearhead phrasebook en-es phrasebook/
    """  # noqa: D301
    from clearhead.data.phrasebook import LANGUAGE_PAIRS, write_phrasebook

    if pair not in LANGUAGE_PAIRS:
        known = " and ".join(LANGUAGE_PAIRS)
        raise DataError(f"there is no phrasebook of {pair!r}", todo=f"there are {known}")
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            "there is something already", where=folder, todo="name a new folder, or say --force"
        )
    try:
        paths = write_phrasebook(folder, pair)
    except OSError as error:
        raise DataError("the files cannot be written", where=folder, why=str(error)) from None
    for path in paths.values():
        typer.echo(str(path))
