"""Translate lines of text.

The command reads the standard input and writes the standard output by default.
Each line gives one line; an empty line gives an empty line. With --n-best N > 1
a line gives N lines `number ||| translation ||| score`, whose number is that of
the input line, from 0; an empty line gives one. Hypotheses are sorted by the
score, the log-probability divided by the length penalty; those of --sample are
in the order in which they were drawn. A sentence of more than 1,024 tokens, or
of more than the model has learned positions for, is cut there, with a warning
that names its line.

  clearhead translate runs/my-model < in.txt > out.txt
  clearhead translate runs/my-model -i in.txt.gz -o out.txt --beam-size 8
  clearhead translate runs/my-model --n-best 3 < in.txt
  clearhead translate runs/my-model --sample --temperature 0.8 --seed 7 < in.txt
"""

from __future__ import annotations

import functools
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clearhead.cli.failures import say
from clearhead.cli.options import SearchOptions, add_search, add_shared, loaded_translator
from clearhead.cli.streams import (
    BLOCK_LINES,
    STANDARD,
    Counter,
    counted_lines,
    input_lines,
    is_typed,
    one_line,
    opened_output,
    translate_blocks,
    with_prefixes,
)
from clearhead.errors import DataError, SearchError

if TYPE_CHECKING:
    from clearhead.decoding.engine import Hypothesis
    from clearhead.tokenizer import Tokenizer

Format = Callable[[int, str, "Sequence[Hypothesis]"], str]
"""Turns (line number, text, hypotheses) into whole lines of output."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        *("-i", "--input"),
        dest="input_file",
        metavar="FILE",
        default=STANDARD,
        help="input file, one sentence a line (default: -, stdin)",
    )
    add_shared(parser, "--output")
    parser.add_argument("--n-best", type=int, metavar="N", help="translations of each sentence")
    parser.add_argument(
        "--prefix-file",
        metavar="FILE",
        help="file whose lines are the beginnings that the translations must have",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="write `score, tab, translation`; --json and --n-best have scores anyway",
    )
    parser.add_argument(
        "--json",
        dest="json_lines",
        action="store_true",
        help="write one JSON object a line, with all scores",
    )
    add_shared(parser, "--engine", "--compute-type", "--batch-size", "--device", "--threads")
    add_search(parser)


def run(args: Namespace) -> None:
    """Translate the input line by line."""
    if args.input_file == args.prefix_file == STANDARD:
        raise DataError("input and prefixes cannot both come from the standard input")
    typed = is_typed(args.input_file)
    with opened_output(args.output_file, inputs=(args.input_file, args.prefix_file)) as output:
        total = counted_lines(args.input_file)
        lines = with_prefixes(
            input_lines(args.input_file),
            None if args.prefix_file is None else input_lines(args.prefix_file),
        )
        translator = loaded_translator(
            args.folder,
            device=args.device,
            threads=args.threads,
            engine=args.engine,
            compute_type=args.compute_type,
            scores=args.scores or args.json_lines,
        )
        wanted = SearchOptions.of(args).over(translator.search, args.n_best)
        form = _format(args.json_lines, args.scores, wanted.n_best, translator.target_tokenizer)
        if typed:
            say("type one sentence a line; Ctrl-D ends")
        # In a terminal the counter would disturb the output, or what is being typed.
        counted = not typed and not (args.output_file == STANDARD and output.isatty())
        counter = Counter(sys.stderr, total, "sentences", counted)
        try:
            # Somebody who types waits for each answer.
            most = 1 if typed else BLOCK_LINES
            results = translate_blocks(translator, lines, wanted, args.batch_size, counter, most)
            for number, (text, hypotheses) in enumerate(results):
                output.write(form(number, text, hypotheses))
        finally:
            counter.clear()


def _format(json_lines: bool, scores: bool, n_best: int, tokenizer: Tokenizer) -> Format:
    """The output format that the options choose.

    Raises:
        SearchError: `--scores` with a format that has scores anyway.
    """
    if scores and (json_lines or n_best > 1):
        raise SearchError(
            f"--scores has no effect with {'--json' if json_lines else '--n-best above 1'}",
            why="that format has scores anyway",
            todo="leave --scores out" + ("" if json_lines else ", or use --n-best 1"),
        )
    if json_lines:
        return functools.partial(_as_json, tokenizer)
    if n_best > 1:
        return _as_n_best
    return _with_score if scores else _as_text


def _as_text(number: int, text: str, hypotheses: Sequence[Hypothesis]) -> str:
    return one_line(hypotheses[0].text) + "\n"


def _with_score(number: int, text: str, hypotheses: Sequence[Hypothesis]) -> str:
    best = hypotheses[0]
    return f"{best.normalised_score:.4f}\t{one_line(best.text)}\n"


def _as_n_best(number: int, text: str, hypotheses: Sequence[Hypothesis]) -> str:
    """As n-best lists of Moses, without its feature scores."""
    return "".join(
        f"{number} ||| {one_line(hypothesis.text)} ||| {hypothesis.normalised_score:.4f}\n"
        for hypothesis in hypotheses
    )


def _as_json(tokenizer: Tokenizer, number: int, text: str, hypotheses: Sequence[Hypothesis]) -> str:
    record = {
        "source": text,
        "hypotheses": [
            {
                "text": hypothesis.text,
                "score": hypothesis.score,
                "normalised_score": hypothesis.normalised_score,
                "finished": hypothesis.finished,
                "tokens": tokenizer.pieces(hypothesis.tokens),
                "token_scores": hypothesis.token_scores,
            }
            for hypothesis in hypotheses
        ],
    }
    return json.dumps(record, ensure_ascii=False) + "\n"
