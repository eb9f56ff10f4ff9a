"""Align the words of sentence pairs with a translator.

Each pair gives one line of links `source word-target word` in Pharaoh format,
numbered from 0 by the words between spaces. With --scores each link has the
share of the target word's weight. A source word has no link if it is perhaps not
translated: the translation is more probable without it, or does not need it.

What aligns is different in every model: some head of cross-attention, or a
measure such as removal; in the row that predicts a word or in the row that reads
it; by the best link of each target word, or of each word of both sides. The
command tries all of them once, and keeps the best in the model folder. The best
has the lowest alignment error rate (AER)

  - against given alignments of the pairs: --gold FILE, in Pharaoh format
  - or else against exact removal: the source word without which the probability
    of the target word falls most. This uses validation pairs of the run, or else
    the given pairs.

  clearhead align runs/en-de --source test.en --target test.de > test.align
  clearhead align runs/en-de --source dev.en --target dev.de --gold dev.align
  clearhead align runs/en-de --source a.en --target a.de --measure decoder.3.cross.2
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clearhead.cli.failures import print_message, warnings_printed
from clearhead.cli.options import add_shared, positive, reject_unused
from clearhead.cli.streams import Counter, counting, input_lines, opened_output, sentence_lines
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.api.translator import Translator
    from clearhead.inspect.alignment import Aligner, Links


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER --source FILE --target FILE [options]"
    add_shared(parser, "folder")
    for name, text in (
        ("--source", "source sentences, one per line"),
        ("--target", "their translations"),
    ):
        parser.add_argument(name, metavar="FILE", required=True, help=text)
    add_shared(parser, "--output")
    parser.add_argument(
        "--scores", action="store_true", help="write the score of each link: 0-0:0.93"
    )
    parser.add_argument(
        "--gold",
        metavar="FILE",
        help="correct alignments of the pairs, to choose the measure by",
    )
    parser.add_argument(
        "--measure",
        metavar="NAME",
        help="measure, cross-attention or head, e.g. value_zeroing, decoder.3.cross, "
        "decoder.3.cross.2 (default: the best one, see above)",
    )
    parser.add_argument(
        "--shift",
        type=int,
        choices=(0, 1),
        help="with --measure: 0 uses the row that predicts a word, 1 the row that reads it "
        "(default: 0)",
    )
    parser.add_argument(
        "--rule",
        choices=("target", "both"),
        help="with --measure: best link of each target word, or of each word of both sides "
        "(default: both)",
    )
    parser.add_argument(
        "--sentences",
        type=positive,
        metavar="N",
        help="maximum number of pairs to choose the measure by (default: 100)",
    )
    add_shared(parser, "--device", "--threads")


def run(args: Namespace) -> None:
    """Align the pairs and write the links."""
    from clearhead.api.loading import load_translator
    from clearhead.inspect.alignment import aligned, pair_of, pharaoh
    from clearhead.tokenizer.normal_form import is_blank

    _check_options(args)
    inputs = (args.source, args.target, args.gold)
    with warnings_printed(), opened_output(args.output_file, inputs=inputs) as output:
        pairs = _given_pairs(args)
        translator = load_translator(
            args.folder, device=args.device, threads=args.threads, engine="torch"
        )
        aligner = _aligner(args, translator, pairs)
        with Counter(sys.stderr, len(pairs), "pairs", not output.isatty()) as counter:
            for number, (source, target) in enumerate(pairs, start=1):
                found = []
                if not (is_blank(source) or is_blank(target)):
                    pair = pair_of(translator, source, target, f"{args.source}:{number}")
                    found = aligned(pair, aligner)
                output.write(pharaoh(found, args.scores) + "\n")
                counter.show(number)


def _check_options(args: Namespace) -> None:
    if args.measure is None:
        options = {"--shift": args.shift, "--rule": args.rule}
        reject_unused(options, "a measure that is not named", "leave it out, or add --measure")
    if args.measure is not None:
        options = {"--gold": args.gold, "--sentences": args.sentences}
        reject_unused(options, "a measure that is named", "leave it out, or leave out --measure")


def _given_pairs(args: Namespace) -> list[tuple[str, str]]:
    sources = list(sentence_lines(args.source, "sources"))
    targets = list(sentence_lines(args.target, "targets"))
    if len(sources) != len(targets):
        raise DataError(
            "the sources and targets differ in number, so they do not belong together",
            where=f"{args.source}, {args.target}",
            why=f"{len(sources):,} sources and {len(targets):,} targets",
        )
    return list(zip(sources, targets, strict=True))


def _aligner(args: Namespace, translator: Translator, pairs: Sequence[tuple[str, str]]) -> Aligner:
    """The way to align that is named, or kept in the model folder, or found now."""
    from clearhead.inspect.alignment import Aligner, best_aligner, check_measure, kept_aligner
    from clearhead.inspect.findings import ALIGNMENT, write_finding

    if args.measure is not None:
        check_measure(translator.model, args.measure)
        return Aligner(args.measure, args.shift or 0, args.rule or "both", "named", 0.0, 0)
    again = args.gold or args.sentences
    if not again and (kept := kept_aligner(translator.folder, translator.model)) is not None:
        return kept
    gold = _gold(args, len(pairs))
    aligner, errors = best_aligner(translator, pairs, gold, args.sentences or 100, counting)
    if translator.folder.is_checkpoint:
        print_message("this is a checkpoint, which another may replace: the choice is not kept")
    else:
        path = write_finding(translator.folder, ALIGNMENT, vars(aligner))
        print_message(f"wrote {path}")
    measured = "target" if aligner.criterion == "removal" else aligner.rule
    print_message(
        f"aligns by {aligner.measure}, shift {aligner.shift}, rule {aligner.rule}; error rate of "
        f"the rule {measured} {REFERENCES[aligner.criterion]}: {100 * aligner.score:.1f} % on the "
        f"{aligner.sentences:,} pairs by which it was chosen"
    )
    others = sorted(errors.items(), key=lambda item: item[1])[1:4]
    found = ", ".join(
        f"{name}, shift {shift}, rule {rule} {100 * error:.1f} %"
        for (name, shift, rule), error in others
    )
    print_message(f"the next best: {found}")
    return aligner


REFERENCES = {
    "gold": "against the given alignments",
    "removal": "against exact removal",
}


def _gold(args: Namespace, count: int) -> list[Links] | None:
    """The correct alignments, one for each pair."""
    from clearhead.inspect.alignment import parse_pharaoh

    if args.gold is None:
        return None
    lines = list(input_lines(args.gold))
    if len(lines) != count:
        what = f"there are {len(lines):,} alignments for {count:,} pairs"
        raise DataError(what, where=args.gold)
    return [parse_pharaoh(line, f"{args.gold}:{n}") for n, line in enumerate(lines, start=1)]
