"""Translate lines of text, or a document.

Each line of the input gives one line of output; an empty line gives an empty
line. With --n-best N, N > 1, each gives N lines `number ||| translation |||
score`, where the number is that of the input line, from 0; an empty line gives
one. The score is the log-probability divided by the length penalty. The best
translation comes first; samples are in the order in which they were drawn.

Lines are translated in blocks of up to 1,024. A block ends if the input pauses,
so another program can read the translation of a line before it writes the next.

A sentence of more than 1,024 tokens, or of more than the model has learned
positions for, is cut there. Warnings name lines that are cut, that are much longer
than the training sentences, or that have characters which these do not have. They
also name translations that end at the length limit or repeat themselves. Of many
warnings of one kind, the first are printed and the others are counted.

If a line cannot be translated, its output is an empty line, and the error is
printed. The exit code is then that of the first such error.

A warning is printed for input that looks different from the training text, for
example with capitals if the training text has none. --normalise converts the
input. The translations keep the style of the training text.

A document is named after the model folder: .po, .html, .md, .srt, .vtt, .xlf,
.json (its values), .docx, .txt (paragraphs), .csv and .tsv (a column), or a folder
of these. Everything but its text stays as it is: markup, placeholders, code. What
is translated already is left as it is. The places of doubtful translations and the
least confident places are printed at the end, or all of them with --json.

Several models of the same vocabulary, joined by +, translate together: at each
step their log-probabilities are averaged.

--memory takes the translation of a text from a file of earlier translations if it
is there; placeholders may differ. The model translates the others. --glossary names
terms, which it then places in its translations.

With -i the input is a text file. A warning is printed if line 1 has a tab, or looks
like JSON or markup.

  clearhead translate runs/my-model < in.txt > out.txt
  clearhead translate runs/my-model -i in.txt.gz -o out.txt --beam-size 8
  clearhead translate runs/my-model --n-best 3 < in.txt
  clearhead translate runs/my-model --sample --temperature 0.8 --seed 7 < in.txt
  clearhead translate runs/seed-1+runs/seed-2 < in.txt
  clearhead translate runs/my-model app.po -o app.de.po
  clearhead translate runs/my-model manual/ -o manual-de/ --memory memory.tmx
  clearhead translate runs/my-model app.po -o app.de.po --glossary terms.tsv
  clearhead translate runs/my-model --format html < page.html > page.de.html
"""

from __future__ import annotations

import functools
import json
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clearhead.cli.failures import warnings_printed
from clearhead.cli.options import (
    add_search,
    add_shared,
    folders_of,
    load_options,
    reject_unused,
    search_options,
)
from clearhead.cli.streams import (
    STANDARD,
    Line,
    count_lines,
    input_lines,
    sentence_lines,
    shared_input,
    text_in_line,
    translating,
    with_prefixes,
    write_results,
)
from clearhead.errors import ClearheadError, ConfigError, DataError, SearchError

if TYPE_CHECKING:
    from clearhead.decoding.engine import Hypothesis
    from clearhead.tokenizer import Tokenizer

Format = Callable[[int, Line, "Sequence[Hypothesis]"], str]
"""Turns (line number, line, hypotheses) into complete lines of output."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments and options."""
    parser.usage = "%(prog)s FOLDER [DOCUMENT] [options]"
    add_shared(parser, "folder")
    parser.add_argument(
        "document",
        metavar="DOCUMENT",
        nargs="?",
        help="document to translate, or a folder of documents; -: stdin, with --format (default: "
        "the lines of -i)",
    )
    parser.add_argument(
        *("-i", "--input"),
        dest="input_file",
        metavar="FILE",
        default=STANDARD,
        help="input file, one sentence per line (default: -, stdin; a terminal shows a prompt)",
    )
    add_shared(parser, "--output")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="format of the document: po, html, markdown, srt, vtt, xliff, json, docx, text, csv "
        "or tsv (default: by the end of its name)",
    )
    add_shared(parser, "--text-column")
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="number of translations of each sentence (default: the model's configuration)",
    )
    parser.add_argument(
        "--prefix-file",
        metavar="FILE",
        help="file with the beginning of each translation, one per line",
    )
    parser.add_argument(
        "--scores",
        action="store_true",
        help="write the score and a tab before each translation",
    )
    parser.add_argument(
        "--json",
        dest="json_lines",
        action="store_true",
        help="write one JSON object per line, with all scores",
    )
    add_shared(parser, "--normalise")
    add_shared(parser, "--engine", "--compute-type", "--batch-size", "--device", "--threads")
    add_shared(parser, "--glossary", "--memory", "--match", "--ablate", "--ablate-by")
    add_search(parser)


def run(args: Namespace) -> None:
    """Translate the document, or the input line by line."""
    from clearhead.api.loading import load_translator
    from clearhead.cli.documents import report_repeated

    if args.document is not None or args.format is not None:
        _translate_documents(args)
        return
    reject_unused({"--text-column": args.text_column}, "lines of text")
    if args.input_file == args.prefix_file == STANDARD:
        raise DataError("input and prefixes cannot both come from the standard input")
    failed: list[ClearheadError] = []
    with shared_input(args.input_file) as ranks:
        total = count_lines(args.input_file)
        prefixes = None if args.prefix_file is None else input_lines(args.prefix_file)
        lines = with_prefixes(sentence_lines(args.input_file), prefixes)
        with warnings_printed():
            options = load_options(args, scores=args.scores or args.json_lines)
            translator = load_translator(folders_of(args.folder), options)
        n_best = {} if args.n_best is None else {"n_best": args.n_best}
        search = search_options(args, translator.search, **n_best)
        form = _format(args.json_lines, args.scores, search.n_best, translator.target_tokenizer)
        translate = translating(translator, search, args, "return")

        def written(number: int, line: Line, hypotheses: Sequence[Hypothesis]) -> str:
            failed.extend(each.error for each in hypotheses if each.error is not None)
            return form(number, line, hypotheses)

        write_results(args, ranks, lines, total, "sentence", translate, written)
        report_repeated(translator)
    if failed:
        raise SystemExit(failed[0].exit_code)


def _translate_documents(args: Namespace) -> None:
    from clearhead.api.loading import load_translator
    from clearhead.cli.documents import translate_documents
    from clearhead.ranks import joined_ranks
    from clearhead.text.documents import check_format

    options = {"--n-best": args.n_best, "--prefix-file": args.prefix_file, "--scores": args.scores}
    if args.document is not None and args.input_file != STANDARD:
        options["--input"] = args.input_file
    reject_unused(options, "a document")
    if args.format is not None:
        check_format(args.format)
    with joined_ranks() as ranks:
        if ranks.count > 1:
            what, todo = "one process translates documents", "start it without torchrun"
            raise ConfigError(what, todo=todo)
    with warnings_printed():
        translator = load_translator(folders_of(args.folder), load_options(args, scores=False))
    translate_documents(args, translator, search_options(args, translator.search))


def _format(json_lines: bool, scores: bool, n_best: int, tokenizer: Tokenizer) -> Format:
    """The output format that the options choose."""
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


def _as_text(number: int, line: Line, hypotheses: Sequence[Hypothesis]) -> str:
    return text_in_line(hypotheses[0]) + "\n"


def _with_score(number: int, line: Line, hypotheses: Sequence[Hypothesis]) -> str:
    best = hypotheses[0]
    return f"{best.normalised_score:.4f}\t{text_in_line(best)}\n"


def _as_n_best(number: int, line: Line, hypotheses: Sequence[Hypothesis]) -> str:
    """The format of Moses, without its feature scores."""
    return "".join(
        f"{number} ||| {text_in_line(hypothesis)} ||| {hypothesis.normalised_score:.4f}\n"
        for hypothesis in hypotheses
    )


def _as_json(
    tokenizer: Tokenizer, number: int, line: Line, hypotheses: Sequence[Hypothesis]
) -> str:
    record = {
        "source": line.text,
        "hypotheses": [
            {
                "text": hypothesis.text,
                "score": _number(hypothesis.score),
                "normalised_score": _number(hypothesis.normalised_score),
                "confidence": hypothesis.confidence,
                "finished": hypothesis.finished,
                "match": hypothesis.match,
                "tokens": tokenizer.pieces(hypothesis.tokens),
                "token_scores": hypothesis.token_scores,
                "warnings": [remark._asdict() for remark in hypothesis.warnings],
                "error": None if hypothesis.error is None else str(hypothesis.error),
            }
            for hypothesis in hypotheses
        ],
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _number(score: float) -> float | None:
    """A score for JSON, which has no NaN."""
    return None if math.isnan(score) else score
