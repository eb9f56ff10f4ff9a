"""Whether the translation of a sentence depends on the size of its batch.

    .venv/bin/python benchmarks/batch_invariance.py runs/my-model test.en

The script translates the first sentences of a file in batches of 1, 2, 4 … 256, in float32,
greedily and with a beam of 5. It counts the translations that differ from those in batches of 1.
The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from itertools import islice

from command import add_threads, exit_code_of, make_parser, positive
from results import Results, line

from clearhead import api
from clearhead.data.reading.lines import read_lines

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SEARCHES = {"greedy": 1, "beam 5": 5}


def main(words: list[str] | None = None) -> int:
    """Measure, print and record; return 1 if any sentence differs."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", help="a model folder")
    parser.add_argument("source", help="sentences to translate, one per line")
    parser.add_argument(
        "--sentences", type=positive, default=1000, help="most sentences (default: 1000)"
    )
    parser.add_argument(
        "--engine", default="torch", help="torch, ctranslate2 or auto (default: torch)"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    add_threads(parser)
    options = parser.parse_args(words)
    results = Results("batch_invariance", words, options.output)
    code = exit_code_of(partial(measure, options, results))
    return code or int(any(record["met"] is False for record in results.records))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Translate with each search and batch size, and count the translations that differ."""
    sentences = list(islice(read_lines(options.source), options.sentences))
    translator = api.load_translator(
        options.folder, device=options.device, threads=options.threads, engine=options.engine
    )
    worst = 0
    for search, beam_size in SEARCHES.items():
        expected: list[str] = []
        for batch_size in BATCH_SIZES:
            began = time.perf_counter()
            found = translator.translate(
                sentences, method="beam", beam_size=beam_size, n_best=1, batch_size=batch_size
            )
            seconds = time.perf_counter() - began
            texts = [hypotheses[0].text for hypotheses in found]
            expected = expected or texts
            other = sum(a != b for a, b in zip(texts, expected, strict=True))
            worst = max(worst, other)
            speed = len(sentences) / seconds
            results.add(
                f"{search}, batches of {batch_size}", "sentences/s", [speed], subject=options.engine
            )
            print(f"{search}, batches of {batch_size}: {speed:.1f} sentences/s, {other} differ")
    claimed = results.add(
        "sentences whose translation differs",
        "sentences",
        [worst],
        subject=options.engine,
        claim="batch-invariance",
        more={"sentences": len(sentences)},
    )
    print(line(claimed))
    results.write()


if __name__ == "__main__":
    sys.exit(main())
