"""Write a translator in a format that runs faster.

CTranslate2 runs the model without PyTorch. The command compares the export with
the model before it keeps it: greedy outputs must be equal, except for ties, and
log-probabilities must agree to 0.001. It prints the folder of the export.
translate and evaluate use the export as long as the model folder holds the same
weights. The export has 32-bit weights; choose other numbers when you use it:
clearhead translate --engine ctranslate2 --compute-type int8

  clearhead export runs/my-model --format ctranslate2
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from clearhead.cli.failures import print_message
from clearhead.cli.options import add_shared


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    from clearhead.api.exporting import FORMATS

    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        help="format of the export (default: ctranslate2)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FOLDER",
        type=Path,
        help="folder of the export (default: the name of the format in the model folder, where the "
        "other commands find it)",
    )


def run(args: Namespace) -> None:
    """Export the model and print its folder."""
    from clearhead.api.exporting import export_model

    print(export_model(args.folder, args.format, args.output, report=print_message))
