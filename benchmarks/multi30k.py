"""BLEU on the test set of Multi30k of a translator trained with an example configuration.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/multi30k.py
    .venv/bin/python benchmarks/multi30k.py --config examples/multi30k-de-en.toml

The script records BLEU, chrF and TER with 95 % intervals and signatures, and the cost of training.
Run it again to resume an interrupted run or to score a finished one; `--restart` starts again.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch
from command import exit_code_of, has_data, make_parser
from results import Results, figure, line

from clearhead import api
from clearhead.data.reading.pairs import read_pairs
from clearhead.device import set_up_torch
from clearhead.errors import ConfigError
from clearhead.evaluation.scores import Measure, compare
from clearhead.settings import RunConfig, read_config
from clearhead.training.display import displays
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
    parser.add_argument("--restart", action="store_true", help="delete the run and start again")
    options = parser.parse_args(words)
    return exit_code_of(partial(run, options, words)) if has_data() else 0


def run(options: argparse.Namespace, words: list[str] | None) -> None:
    """Train, then record the scores and the cost of training."""
    config = read_config(options.config, options.choices)
    if not config.data.test:
        raise ConfigError("data.test is empty", where=options.config)
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
        print(line(record) if record["claim"] else f"{measure.name}: {figure(record)}")
    more = {"steps": ended.step, "peak MB": round(memory_mb(device))}
    precision = choose_precision(config.training.precision, device)
    record = results.add(
        f"{name}, training",
        "minutes",
        [round(ended.elapsed_s / 60, 1)],
        subject=subject,
        claim="multi30k-en-de-minutes" if name == "multi30k-en-de" else None,
        more=more,
        note=f"{precision}; ended by {ended.reason}; validations included",
    )
    print(f"training: {record['median']} minutes, {more}, {record['note']}")
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
    found = compare({"": outputs}, references, tokenize, lowercase=config.lowercase)[""]
    return found.bleu, found.chrf, found.ter


if __name__ == "__main__":
    sys.exit(main())
