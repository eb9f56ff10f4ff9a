"""Study a model: what its heads do, and which picture of it may be believed.

The command replays sentences of a sample (default: the validation data of the
run) and measures

  - how much the loss rises without each head, with its 95 % interval, beside
    an estimate from gradients; with --scores also how much chrF changes
  - what each head attends to, where the numbers show it: the previous token,
    the aligned word, punctuation and so on
  - which measure of attribution is faithful: whether the probability of the
    output falls when the source words that the measure ranks first are removed

The loss is that of the references or of the true labels of the sample; all else
is about what the model itself gives.

It prints tables, and keeps the result in FOLDER/inspection, where
`clearhead inspect` and --ablate-by mean find it.

  clearhead study runs/my-model
  clearhead study runs/my-model --source test.en --reference test.de --sentences 500
  clearhead study runs/trec --data test.tsv --json
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import add_shared, positive, reject_unused
from clearhead.cli.streams import counting, required


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    for name, text in (
        ("--source", "translators: sentences of the sample"),
        ("--reference", "translators: their correct translations"),
        ("--data", "classifiers: examples with labels"),
    ):
        parser.add_argument(name, metavar="FILE", help=text)
    parser.add_argument(
        "--sentences",
        type=positive,
        metavar="N",
        default=200,
        help="maximum number of sentences or examples, the first ones (default: 200)",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="translators: also translate the sample without each head; takes minutes",
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="write a JSON object")
    parser.add_argument(
        "--ablate-by",
        choices=("zero", "mean"),
        default="zero",
        help="what replaces the output of a head: %(choices)s over the sample (default: zero)",
    )
    add_shared(parser, "--device", "--threads")


def run(args: Namespace) -> None:
    """Study the model, print the tables and keep the result."""
    from clearhead.api.loading import load
    from clearhead.api.translator import Translator
    from clearhead.inspect.findings import STUDY, write_finding
    from clearhead.inspect.study import examples_of, pairs_of, study_model, table

    with warnings_printed():
        model = load(args.folder, device=args.device, threads=args.threads, engine="torch")
        if isinstance(model, Translator):
            reject_unused({"--data": args.data}, "translators", "use --source and --reference")
            sample = pairs_of(model, _both(args))
        else:
            options = {"--source": args.source, "--reference": args.reference}
            options |= {"--scores": args.scores}
            reject_unused(options, "classifiers", "leave it out, or use --data")
            sample = examples_of(model, [args.data] if args.data else None)
        study, means = study_model(
            model, sample, args.sentences, args.scores, args.ablate_by, counting
        )
    if model.folder.is_checkpoint:
        print_message("this is a checkpoint, which another may replace: the study is not kept")
    else:
        kept = {**study, "means": {name: mean.tolist() for name, mean in means.items()}}
        print_message(f"wrote {write_finding(model.folder, STUDY, kept)}")
    print(json.dumps(study, indent=2) if args.as_json else "\n".join(table(study)), flush=True)


def _both(args: Namespace) -> list[str] | None:
    """The files of the sample, if any are named."""
    if not (args.source or args.reference):
        return None
    return [required(args.source, "--source"), required(args.reference, "--reference")]
