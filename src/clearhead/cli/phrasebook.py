"""`clearhead phrasebook`: writes the built-in sentence pairs as files."""

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
        Path, typer.Argument(metavar="FOLDER", help="Output folder; created if missing.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that is not empty.")
    ] = False,
) -> None:
    """Write the built-in sentence pairs to text files and print the paths.

    Each part (train, validation, test) gets a file per language and one for the word alignments.
    To train on the pairs no files are needed: set train = ["phrasebook:en-es"].

    \b
    clearhead phrasebook en-es phrasebook/
    """  # noqa: D301
    from clearhead.data.phrasebook import LANGUAGE_PAIRS, write_phrasebook

    if pair not in LANGUAGE_PAIRS:
        known = " and ".join(LANGUAGE_PAIRS)
        raise DataError(f"there is no phrasebook of {pair!r}", todo=f"there are {known}")
    if not force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            "the output exists already", where=folder, todo="name a new folder, or use --force"
        )
    try:
        paths = write_phrasebook(folder, pair)
    except OSError as error:
        raise DataError("the files cannot be written", where=folder, why=str(error)) from None
    for path in paths.values():
        typer.echo(str(path))
