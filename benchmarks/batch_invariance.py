"""Whether a sentence gets the same words whatever its neighbours and the size of its batch.

    .venv/bin/python benchmarks/batch_invariance.py runs/my-model test.en

Translates the first sentences of a file in batches of 1, 2, 4 … 256, in float32, greedily and
with a beam of 5, and counts the sentences that get other words than in batches of 1. Ends with
exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from command import exit_code_of, positive, whole

from clearhead import api
from clearhead.data.lines import read_lines

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SEARCHES = {"greedy": 1, "beam 5": 5}


class Run(NamedTuple):
    """One translation of all sentences: its batch size, seconds, and what differed."""

    batch_size: int
    seconds: float
    other_words: int


def main(words: list[str] | None = None) -> int:
    """Print a line for each search and batch size; 1 if any sentence differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="a model folder")
    parser.add_argument("source", help="sentences to translate, one a line")
    parser.add_argument("--sentences", type=positive, default=1000, help="how many of them at most")
    parser.add_argument("--engine", default="torch", help="torch, ctranslate2 or auto")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--threads", type=whole(0), default=0, help="of the CPU")
    options = parser.parse_args(words)
    found: list[int] = []
    code = exit_code_of(lambda: found.append(measure(options)))
    return code or max(found)


def measure(options: argparse.Namespace) -> int:
    """Read, load, and print the table; 1 if any sentence differs, else 0."""
    sentences = list(islice(read_lines(options.source), options.sentences))
    translator = api.load_translator(
        options.folder,
        device=options.device,
        threads=options.threads,
        engine=options.engine,
    )
    return report(translator, sentences)


def report(translator: api.Translator, sentences: Sequence[str]) -> int:
    """Print the table; 1 if any sentence differs, else 0."""
    print(f"{len(sentences):,} sentences, float32")
    print(f"{'search':<8}{'batch size':>12}{'seconds':>12}{'sentences/s':>14}{'other words':>14}")
    differing = 0
    for search, beam_size in SEARCHES.items():
        for run in compare(translator, sentences, beam_size):
            rate = len(sentences) / run.seconds
            print(
                f"{search:<8}{run.batch_size:>12}{run.seconds:>12.1f}{rate:>14.1f}"
                f"{run.other_words:>14}",
                flush=True,
            )
            differing += run.other_words
    print("every sentence got the same words each time" if differing == 0 else "DIFFERENCES found")
    return int(differing > 0)


def compare(translator: api.Translator, sentences: Sequence[str], beam_size: int) -> Iterator[Run]:
    """Translate all sentences once for each batch size; the first says what the others should."""
    expected: list[str] | None = None
    for batch_size in BATCH_SIZES:
        began = time.perf_counter()
        found = translator.translate(
            sentences, method="beam", beam_size=beam_size, n_best=1, batch_size=batch_size
        )
        seconds = time.perf_counter() - began
        texts = [hypotheses[0].text for hypotheses in found]
        expected = expected or texts
        other_words = sum(a != b for a, b in zip(texts, expected, strict=True))
        yield Run(batch_size, seconds, other_words)


if __name__ == "__main__":
    sys.exit(main())
