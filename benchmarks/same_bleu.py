"""Whether a model has the same BLEU with every engine and number type.

    .venv/bin/python benchmarks/same_bleu.py runs/my-model test.en test.de

The script translates a test set with the search settings of the model, with each engine and number
type that is available. It records BLEU, chrF2, seconds, and the number of translations that differ
from those of PyTorch in float32. The exit code is 1 if the BLEU scores in float32, the default,
differ by more than the target.
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

from command import add_threads, exit_code_of, log, make_parser
from results import Results, line

from clearhead import api
from clearhead.api.exporting import export_model
from clearhead.data.reading.lines import read_lines
from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.scores import bleu_and_chrf
from clearhead.folder.model_folder import open_folder

KINDS = (
    *(("torch", "float32"), ("ctranslate2", "float32"), ("auto", "")),
    *(("torch", "bfloat16"), ("torch", "int8"), ("ctranslate2", "int8")),
)
DEFAULTS = KINDS[:3]


def main(words: list[str] | None = None) -> int:
    """Score, print and record; return 1 if the scores in float32 differ too much."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", help="a model folder; a copy of it is exported")
    parser.add_argument("source", help="sentences to translate, one per line")
    parser.add_argument("reference", help="their translations")
    add_threads(parser)
    options = parser.parse_args(words)
    results = Results("same_bleu", words, options.output)
    code = exit_code_of(partial(measure, options, results))
    return code or int(any(record["met"] is False for record in results.records))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Translate and score with each engine and type."""
    sources, references = (list(read_lines(name)) for name in (options.source, options.reference))
    if len(sources) != len(references) or not sources:
        raise DataError(
            f"there are {len(sources):,} sentences and {len(references):,} references",
            where=options.source,
        )
    found = open_folder(options.folder)
    if found.is_checkpoint:
        raise ConfigError(
            "this is a checkpoint", where=found.weights_path, todo=f"use {found.path}"
        )
    config = found.config
    expected: list[str] = []
    bleus: dict[tuple[str, str], float] = {}
    for kind, translator in translators(options.folder, options.threads):
        began = time.perf_counter()
        translations = translator.translate(sources, n_best=1)
        seconds = time.perf_counter() - began
        outputs = [hypotheses[0].text for hypotheses in translations]
        expected = expected or outputs
        bleu, chrf = bleu_and_chrf(
            outputs, references, config.evaluation.tokenize, lowercase=config.lowercase
        )
        other = sum(a != b for a, b in zip(outputs, expected, strict=True))
        more = {
            "chrF2": round(chrf.score, 2),
            "seconds": round(seconds, 1),
            "translations that differ": other,
        }
        subject = " ".join(filter(None, kind))
        results.add("BLEU", "BLEU", [bleu.score], subject=subject, more=more)
        print(f"{subject}: BLEU {bleu.score:.2f}, {more}", flush=True)
        bleus[kind] = bleu.score
    if not all(kind in bleus for kind in DEFAULTS):
        raise ConfigError("an engine is not available, so BLEU cannot be compared")
    defaults = [bleus[kind] for kind in DEFAULTS]
    difference = max(defaults) - min(defaults)
    print(line(results.add("difference in float32", "BLEU", [difference], claim="same-bleu")))
    results.write()


def translators(folder: str, threads: int) -> Iterator[tuple[tuple[str, str], api.Translator]]:
    """The model with each engine and type; those that are not available are only logged."""
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
                log(f"{engine} {compute_type}: {error.what}")
                continue
            yield (engine, compute_type), translator


if __name__ == "__main__":
    sys.exit(main())
