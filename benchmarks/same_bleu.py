"""Whether a translation is worth the same whatever engine and type it is made with.

    .venv/bin/python benchmarks/same_bleu.py runs/my-model test.en test.de

Translates a test set as the model's configuration says, with each engine and in each type of
products that this machine has, and prints BLEU, chrF2, seconds and how many sentences got other
words than with PyTorch in float32. Ends with exit code 1 if BLEU in float32, which is what is
offered by default, differs by more than 0.1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from command import exit_code_of, say, whole

from clearhead import api
from clearhead.checkpoint import read_model_folder
from clearhead.ctranslate2.export import export_model
from clearhead.data.lines import read_lines
from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.scores import bleu_and_chrf

FIRST = ("torch", "float32")
KINDS = (
    *(FIRST, ("ctranslate2", "float32"), ("auto", "")),
    *(("torch", "bfloat16"), ("torch", "int8"), ("ctranslate2", "int8")),
)
DEFAULTS = KINDS[:3]
MOST_APART = 0.1
"""Of BLEU, in float32."""


class Score(NamedTuple):
    """What the outputs of one engine and type are worth, and what they took."""

    bleu: float
    chrf: float
    seconds: float
    other_words: int


def main(words: list[str] | None = None) -> int:
    """Print a line for each engine and type; 1 if one of the defaults is worth more or less."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="a model folder; its export is made anew, in another place")
    parser.add_argument("source", help="sentences to translate, one a line")
    parser.add_argument("reference", help="what they should become")
    parser.add_argument("--threads", type=whole(0), default=0, help="of the CPU")
    options = parser.parse_args(words)
    scores: dict[tuple[str, str], Score] = {}
    code = exit_code_of(partial(report, options, scores))
    return code or int(apart(scores) > MOST_APART)


def report(options: argparse.Namespace, scores: dict[tuple[str, str], Score]) -> None:
    """Fill in the scores, and print them as they come."""
    sources, references = (list(read_lines(name)) for name in (options.source, options.reference))
    if len(sources) != len(references) or not sources:
        raise DataError(
            f"there are {len(sources):,} sentences and {len(references):,} references",
            where=options.source,
        )
    found = read_model_folder(options.folder)
    if found.is_checkpoint:
        raise ConfigError("this is a checkpoint", where=found.weights, todo=f"name {found.path}")
    config = found.config
    tokenize = config.evaluation.tokenize
    print(f"{len(sources):,} sentences, BLEU with tokenize={tokenize}")
    print(f"{'engine, type':<24}{'BLEU':>8}{'chrF2':>8}{'seconds':>10}{'other words':>14}")
    expected: list[str] = []
    for engine, compute_type, translator in translators(options.folder, options.threads):
        began = time.perf_counter()
        translations = translator.translate(sources, n_best=1)
        seconds = time.perf_counter() - began
        outputs = [hypotheses[0].text for hypotheses in translations]
        expected = expected or outputs
        bleu, chrf = bleu_and_chrf(outputs, references, tokenize, lowercase=config.lowercase)
        other_words = sum(a != b for a, b in zip(outputs, expected, strict=True))
        score = scores[engine, compute_type] = Score(bleu.score, chrf.score, seconds, other_words)
        print(
            f"{f'{engine} {compute_type}':<24}{score.bleu:>8.2f}{score.chrf:>8.2f}"
            f"{score.seconds:>10.1f}{score.other_words:>14,}",
            flush=True,
        )
    if not all(kind in scores for kind in DEFAULTS):
        raise ConfigError("not every engine is here, so that there is nothing to compare")
    print(f"in float32 they differ by {apart(scores):.2f} BLEU; wanted: at most {MOST_APART}")


def translators(folder: str, threads: int) -> Iterator[tuple[str, str, api.Translator]]:
    """The model with each engine and type that is to be had here; who is not is named."""
    with TemporaryDirectory() as scratch:
        copy = Path(scratch) / "model"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("training", "ctranslate2"))
        export_model(copy)
        for engine, compute_type in KINDS:
            try:
                translator = api.load_translator(
                    copy,
                    engine=engine,
                    compute_type=compute_type,
                    device="cpu",
                    threads=threads,
                    scores=False,
                )
            except ConfigError as error:
                say(f"{engine} {compute_type}: {error.what}")
                continue
            yield engine, compute_type, translator


def apart(scores: dict[tuple[str, str], Score]) -> float:
    """How far the BLEU of the defaults lie apart."""
    found = [scores[kind].bleu for kind in DEFAULTS if kind in scores]
    return max(found) - min(found) if found else 0.0


if __name__ == "__main__":
    sys.exit(main())
