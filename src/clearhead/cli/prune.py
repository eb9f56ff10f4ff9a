"""Make a smaller model without the heads that matter least.

The command keeps in each attention the heads without which the loss rises most,
as `clearhead study` has measured, and writes a model folder without the others.
That model can be used, exported, and trained on: set start_from = "FOLDER" in
the configuration of a run. Every attention keeps as many heads.

It prints the scores of both models on the first validation data of the run.

  clearhead study runs/my-model
  clearhead prune runs/my-model --heads 2 -o runs/smaller
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import add_shared, positive
from clearhead.cli.streams import counting

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.api.translator import Translator


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER --heads N -o FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        "--heads",
        type=positive,
        metavar="N",
        required=True,
        help="number of heads that each attention keeps",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FOLDER",
        type=Path,
        required=True,
        help="model folder to write, which must not exist",
    )
    parser.add_argument(
        "--sentences",
        type=positive,
        metavar="N",
        default=500,
        help="maximum number of sentences or examples to score both models by, the first ones "
        "(default: 500)",
    )


def run(args: Namespace) -> None:
    """Prune the model and print the scores of both."""
    from clearhead.api.loading import load
    from clearhead.inspect.prune import prune

    prune(args.folder, args.heads, args.output)
    print_message(f"wrote {args.output}")
    with warnings_printed():
        models = {folder: load(folder) for folder in (args.folder, args.output)}
        sample = _sample(models[args.folder], args.sentences)
        for folder, model in models.items():
            with counting(len(sample), "sentences") as show:
                report = model.evaluate(*map(list, zip(*sample, strict=True)), progress=show)
            scores = ", ".join(f"{name} {value:.2f}" for name, value in report.scores.items())
            print(f"{folder}: {scores}", flush=True)


def _sample(model: Translator | Classifier, count: int) -> list[tuple[Any, Any]]:
    """The first of the validation data of the model's run."""
    from clearhead.api.translator import Translator
    from clearhead.inspect.subject import examples_of, pairs_of

    if isinstance(model, Translator):
        return list(islice(pairs_of(model), count))
    return [(each.input, each.labels) for each in islice(examples_of(model), count)]
