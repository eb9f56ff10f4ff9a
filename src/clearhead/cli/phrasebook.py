"""Write the built-in sentence pairs as files.

For each part (train, validation, test) the command writes a file per language
and one of word alignments, and prints their paths. Training does not need the
files: set train = ["phrasebook:en-es"].

  clearhead phrasebook en-es phrasebook/
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from clearhead.errors import DataError


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s PAIR FOLDER [options]"
    parser.add_argument("pair", metavar="PAIR", help="source and target language: en-es or de-en")
    parser.add_argument(
        "folder", metavar="FOLDER", type=Path, help="output folder, created if missing"
    )
    parser.add_argument("--force", action="store_true", help="write to a folder that is not empty")


def run(args: Namespace) -> None:
    """Write the files and print their paths."""
    from clearhead.data.reading.phrasebook import LANGUAGE_PAIRS, write_phrasebook

    pair, folder = args.pair, args.folder
    if pair not in LANGUAGE_PAIRS:
        known = " and ".join(LANGUAGE_PAIRS)
        raise DataError(f"there is no phrasebook {pair!r}", todo=f"choose from {known}")
    if not args.force and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            "the output exists already", where=folder, todo="choose a new folder, or use --force"
        )
    print("\n".join(map(str, write_phrasebook(folder, pair).values())))
