"""Score given translations: how probable they are for a translator.

Each pair gives one line: the log-probability of the target (natural logarithm, the
sum over its tokens, the end symbol included), a tab, the source, a tab, the target.
With --per-token it is the mean of its tokens, which compares targets of different
lengths.

--worst N writes the N pairs that the model believes least, by the mean of their
tokens, the worst first. After the score comes the line number of the pair.
Wrong pairs are among them, but also free translations and short strings.

Several models of the same vocabulary, joined by +, score together.

  clearhead score runs/my-model --source train.en --target train.de > scored.tsv
  clearhead score runs/my-model --data memory.tmx --worst 50
  clearhead score runs/my-model --data train.tsv --per-token | LC_ALL=C sort -g
"""

from __future__ import annotations

import heapq
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from clearhead.cli.failures import warnings_printed
from clearhead.cli.options import add_shared, folders_of, load_options, positive, reject_unused
from clearhead.cli.streams import (
    BLOCK_LINES,
    Counter,
    ReportDone,
    blocks,
    in_blocks,
    opened_output,
)
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.api.translator import Translator
    from clearhead.data.reading.pairs import Pair
    from clearhead.decoding.engine import Hypothesis

IN_A_CELL = str.maketrans("\t\r\n", "   ")
"""What would begin another column or line."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER --source FILE --target FILE [options]"
    add_shared(parser, "folder")
    parser.add_argument("--source", metavar="FILE", help="source sentences, one per line")
    parser.add_argument("--target", metavar="FILE", help="their translations, one per line")
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="instead of two files a file of pairs, such as .tsv, .po or .tmx",
    )
    add_shared(parser, "--output")
    parser.add_argument(
        "--per-token",
        action="store_true",
        help="write the mean log-probability of a token, not the sum",
    )
    parser.add_argument(
        "--worst",
        type=positive,
        metavar="N",
        help="write only the N pairs with the lowest mean log-probability of a token, worst first",
    )
    parser.add_argument(
        "--json",
        dest="json_lines",
        action="store_true",
        help="write one JSON object per line, with the score of each token",
    )
    add_shared(parser, "--normalise")
    add_shared(parser, "--engine", "--compute-type", "--batch-size", "--device", "--threads")


class Scored(NamedTuple):
    """The result of a pair, in the order of `--worst`."""

    per_token: float
    line: int
    pair: Pair
    hypothesis: Hypothesis


def run(args: Namespace) -> None:
    """Score the pairs and write them."""
    from clearhead.api.loading import load_translator
    from clearhead.data.reading.pairs import read_pairs

    files = _files(args)
    with warnings_printed(), opened_output(args.output_file, files) as output:
        translator = load_translator(folders_of(args.folder), load_options(args))
        languages = translator.config.data.languages
        # The first pass checks the files, and counts.
        total = sum(1 for _ in read_pairs(files, "train", languages))
        counter = Counter(sys.stderr, total, "pairs", not output.isatty())
        with counter, warnings_printed(counter.clear):
            compute = partial(_scores, args, translator)
            parts = blocks(read_pairs(files, "train", languages), BLOCK_LINES)
            found = _scored(in_blocks(parts, compute, counter))
            if args.worst is not None:
                found = heapq.nsmallest(args.worst, found)
            for each in found:
                output.write(_line(args, translator, each))


def _files(args: Namespace) -> list[str]:
    if args.data is not None:
        reject_unused({"--source": args.source, "--target": args.target}, "--data")
        return [os.path.expanduser(args.data)]
    if args.source is None or args.target is None:
        todo = "name two files: --source FILE --target FILE; or one of pairs: --data FILE"
        raise DataError("there are no pairs to score", todo=todo)
    return [os.path.expanduser(args.source), os.path.expanduser(args.target)]


def _scores(
    args: Namespace, translator: Translator, pairs: Sequence[Pair], offset: int, done: ReportDone
) -> list[Hypothesis]:
    return translator.score(
        [pair.source for pair in pairs],
        [pair.target for pair in pairs],
        normalise=args.normalise,
        batch_size=args.batch_size,
        progress=done,
        offset=offset,
    )


def _scored(results: Iterable[tuple[Pair, Hypothesis]]) -> Iterator[Scored]:
    for pair, found in results:
        yield Scored(found.score / len(found.token_scores), pair.line, pair, found)


def _line(args: Namespace, translator: Translator, scored: Scored) -> str:
    per_token, line, pair, found = scored
    if args.json_lines:
        record = {
            "line": line,
            "source": pair.source,
            "target": pair.target,
            "score": found.score,
            "per_token": per_token,
            "tokens": translator.target_tokenizer.pieces(found.tokens),
            "token_scores": found.token_scores,
            "warnings": [remark._asdict() for remark in found.warnings],
        }
        return json.dumps(record, ensure_ascii=False) + "\n"
    chosen = per_token if args.per_token or args.worst is not None else found.score
    place = [str(line)] if args.worst is not None else []
    texts = (text.translate(IN_A_CELL) for text in (pair.source, pair.target))
    return "\t".join([f"{chosen:.4f}", *place, *texts]) + "\n"
