"""Train on Multi30k and score on its test set, from the example configuration.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/multi30k.py
    .venv/bin/python benchmarks/multi30k.py --config examples/multi30k-de-en.toml

Records BLEU, chrF and TER with their 95 % intervals and signatures, and the cost of the training.
Run it again to resume an interrupted run or to score a finished one; `--restart` starts over.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch
from command import exit_code_of, has_data, make_parser
from results import Results, line

from clearhead import api
from clearhead.data.readers import read_pairs
from clearhead.decoding.device import set_up_torch
from clearhead.errors import ConfigError
from clearhead.evaluation.scores import Measure, score_translations
from clearhead.settings import RunConfig, read_config
from clearhead.training.display import displays
from clearhead.training.events import RunEnded
from clearhead.training.progress import memory_mb
from clearhead.training.step import choose_precision

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"
CLAIMED = ("multi30k-en-de", "multi30k-de-en")
"""Configurations whose BLEU is a claim of the same name."""


def main(words: list[str] | None = None) -> int:
    """Train, translate the test set, score and record."""
    parser = make_parser(__doc__)
    parser.add_argument("--config", default=str(EXAMPLE), help="a configuration with a test set")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="choices")
    parser.add_argument("--restart", action="store_true", help="start over")
    options = parser.parse_args(words)
    if not has_data():
        return 0
    words = sys.argv[1:] if words is None else words
    return exit_code_of(partial(run, options, words), "interrupted; the same command resumes")


def run(options: argparse.Namespace, words: list[str]) -> None:
    """Train, then record the scores and what they cost."""
    config = read_config(options.config, options.choices)
    if not config.data.test:
        raise ConfigError("data.test names no files to score on", where=options.config)
    ended = api.train(config, restart=options.restart, observers=displays(sys.stderr))
    if not ended.finished:
        # The trainer has handled Ctrl-C and saved the run.
        raise KeyboardInterrupt
    device = set_up_torch(config.training.device, config.training.threads)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    results = Results("multi30k", words, options.output, gpu=gpu)
    name = Path(options.config).stem
    subject = " ".join([f"seed {config.seed}", *options.choices])
    for measure in scores(config):
        record = results.add(
            f"{name}, {measure.name}",
            measure.name,
            [measure.score],
            min=measure.low,
            max=measure.high,
            range="95 % interval",
            subject=subject,
            claim=name if measure.name == "BLEU" and name in CLAIMED else None,
            note=measure.signature,
        )
        print(score_line(measure) if record["claim"] is None else line(record))
    add_cost(results, ended, config, device)
    results.write()


def scores(config: RunConfig) -> tuple[Measure, ...]:
    """Translate the test set with the configuration's search; BLEU, chrF and TER."""
    training = config.training
    translator = api.load_translator(
        config.folder, device=training.device, threads=training.threads
    )
    pairs = list(read_pairs(config.data.test, "test"))
    translations = translator.translate(
        [pair.source for pair in pairs], search=config.search, n_best=1
    )
    outputs = [hypotheses[0].text for hypotheses in translations]
    references = [pair.target for pair in pairs]
    tokenize = config.evaluation.tokenize
    found = score_translations(outputs, references, tokenize, lowercase=config.lowercase)
    return found.bleu, found.chrf, found.ter


def score_line(measure: Measure) -> str:
    """A score with its 95 % interval and its signature."""
    interval = "" if measure.low is None else f" [{measure.low:.2f}, {measure.high:.2f}]"
    return f"{measure.name:<6}{measure.score:.2f}{interval}  {measure.signature}"


def add_cost(results: Results, ended: RunEnded, config: RunConfig, device: torch.device) -> None:
    """Record minutes, steps, peak memory and precision of the training."""
    first = results.records[0]
    name = first["measure"].partition(",")[0]
    more = {"steps": ended.step, "peak MB": round(memory_mb(device))}
    precision = choose_precision(config.training.precision, device)
    record = results.add(
        f"{name}, training",
        "minutes",
        [round(ended.elapsed_s / 60, 1)],
        subject=first["subject"],
        claim="multi30k-en-de-minutes" if name == "multi30k-en-de" else None,
        more=more,
        note=f"{precision}; ended by {ended.reason}; validations included",
    )
    print(f"training: {record['median']} minutes, {more}, {record['note']}")


if __name__ == "__main__":
    sys.exit(main())
