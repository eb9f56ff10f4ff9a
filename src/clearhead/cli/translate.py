"""`clearhead translate`: lines in, their translations out."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.failures import say
from clearhead.cli.options import (
    BatchSize,
    ComputeType,
    Device,
    Engine,
    SearchOptions,
    Threads,
    loaded_translator,
    with_search,
)
from clearhead.cli.streams import (
    BLOCK_LINES,
    Counter,
    counted_lines,
    input_lines,
    one_line,
    opened_output,
    translate_blocks,
    with_prefixes,
)
from clearhead.errors import DataError, SearchError

if TYPE_CHECKING:
    from clearhead.decoding.engine import Hypothesis
    from clearhead.tokenizer import Tokenizer

Written = Callable[[int, str, "Sequence[Hypothesis]"], str]
"""How (number, text, hypotheses) are written, as whole lines."""


@with_search
def translate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A model folder, e.g. runs/my-model.")
    ],
    search: SearchOptions,
    input_file: Annotated[
        str, typer.Option("--input", "-i", metavar="FILE", help="One sentence a line; - is stdin.")
    ] = "-",
    output_file: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Appears when it is complete; - is stdout."
        ),
    ] = "-",
    n_best: Annotated[
        int | None, typer.Option(metavar="N", help="Translations given for each sentence.")
    ] = None,
    prefix_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What each translation must begin with, line by line."),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Write `score, tab, translation`; not for --json or --n-best, which have scores.",
        ),
    ] = False,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a line, with all scores.")
    ] = False,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    threads: Threads = 0,
    engine: Engine = "auto",
    compute_type: ComputeType = None,
) -> None:
    """Translate lines of text, from the standard input to the standard output by default.

    Each line gives one line, an empty line an empty one. With --n-best above 1 each line gives so
    many (an empty one gives one), written as `number ||| translation ||| score`, with the number
    of the line counted from 0. The score is the log-probability divided by the length penalty, by
    which hypotheses are ranked; with --sample they stand in the order in which they were drawn. A
    sentence of more than 1,024 tokens, or than the model has learned positions for, is cut there,
    with a warning that names its line.

    \b
    clearhead translate runs/my-model < in.txt > out.txt
    clearhead translate runs/my-model -i in.txt.gz -o out.txt --beam-size 8
    clearhead translate runs/my-model --n-best 3 < in.txt
    clearhead translate runs/my-model --sample --temperature 0.8 --seed 7 < in.txt
    """  # noqa: D301
    if input_file == prefix_file == "-":
        raise DataError("input and prefixes cannot both come from the standard input")
    typed = input_file == "-" and sys.stdin is not None and sys.stdin.isatty()
    with opened_output(output_file, inputs=(input_file, prefix_file)) as output:
        total = counted_lines(input_file)
        lines = with_prefixes(
            input_lines(input_file), None if prefix_file is None else input_lines(prefix_file)
        )
        translator = loaded_translator(
            folder,
            device=device,
            threads=threads,
            engine=engine,
            compute_type=compute_type,
            scores=scores or json_lines,
        )
        asked = search.over(translator.search, n_best)
        written = _written(json_lines, scores, asked.n_best, translator.target_tokenizer)
        if typed:
            say("one sentence a line; Ctrl-D ends")
        # On a terminal it would stand in the middle of the output, or of what is typed.
        wanted = not typed and not (output_file == "-" and output.isatty())
        counter = Counter(sys.stderr, total, "sentences", wanted)
        try:
            # A person who types waits for each answer.
            most = 1 if typed else BLOCK_LINES
            results = translate_blocks(translator, lines, asked, batch_size, counter, most)
            for number, (text, hypotheses) in enumerate(results):
                output.write(written(number, text, hypotheses))
        finally:
            counter.clear()


def _written(json_lines: bool, scores: bool, n_best: int, tokenizer: Tokenizer) -> Written:
    """The form of output that is asked for.

    Raises:
        SearchError: `--scores` with a form that has scores anyway.
    """
    if scores and (json_lines or n_best > 1):
        form = "--json" if json_lines else "more than one translation a line"
        raise SearchError(
            f"--scores means nothing with {form}",
            why="the scores are written there anyway",
            todo="leave --scores out" + ("" if json_lines else ", or say --n-best 1"),
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
    """The form that Moses gave its n-best lists, without the scores of its single features."""
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
