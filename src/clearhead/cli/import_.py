"""Make a model folder of a model of Hugging Face.

The command reads BERT, DistilBERT, RoBERTa and XLM-R, and Marian translators such
as OPUS-MT. It writes the model folder if the imported model computes the same as
the original: the same token ids, and hidden states and logits that agree to
0.0001. It prints the folder. A translator or classifier can be used at once. An
encoder without labels is a model to start from: set
start_from = "FOLDER" in the configuration of a run. start_from also takes the
files of Hugging Face themselves; it then makes the same import.

  clearhead import hf downloads/bert-base-uncased runs/bert
  clearhead import hf hf:bert-base-uncased runs/bert
  clearhead import hf hf:Helsinki-NLP/opus-mt-en-de runs/en-de
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s hf SOURCE FOLDER"
    parser.add_argument("format", choices=("hf",), metavar="hf", help="format: Hugging Face")
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="folder with config.json, weights and tokenizer, or hf: and a name on the hub",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="model folder to write")


def run(args: Namespace) -> None:
    """Import the model and print its folder."""
    from clearhead.formats.huggingface.reading import import_model

    print(import_model(args.source, args.folder))
