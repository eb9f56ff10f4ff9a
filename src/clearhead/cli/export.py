"""Write a model in a format that other programs run.

  ctranslate2  translators, without PyTorch: translate and evaluate use it
  huggingface  translators, as Marian or Pegasus models for transformers, and
               classifiers that started from an encoder of the BERT family
  onnx         classifiers, with onnxruntime and without clearhead; --int8 also
               writes a smaller model and prints its accuracy
  argos        translators with one vocabulary of subwords for both languages,
               as a package for Argos Translate and LibreTranslate

The command compares the export with the model before it keeps it: labels or
greedy outputs must be equal, except for ties, and so must probabilities, up to
rounding. It prints the folder of the export.

  clearhead export runs/my-model
  clearhead export runs/my-model --format huggingface
  clearhead export runs/my-classifier --int8
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from clearhead.cli.failures import print_message
from clearhead.cli.options import add_shared

FORMATS = ("ctranslate2", "onnx", "huggingface", "argos")
"""Those of `clearhead.formats.registry`, which would have to be loaded for the help."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="format of the export (default: ctranslate2 for translators, onnx for classifiers)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FOLDER",
        type=Path,
        help="folder of the export (default: the name of the format in the model folder, where the "
        "other commands find it)",
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="with onnx: also write the model with 8-bit weights, and compare its accuracy on the "
        "validation data",
    )


def run(args: Namespace) -> None:
    """Export the model and print its folder."""
    from clearhead.api.exporting import export_model

    print(export_model(args.folder, args.format, args.output, int8=args.int8, report=print_message))
