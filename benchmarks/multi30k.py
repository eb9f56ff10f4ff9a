"""Train on Multi30k and score on its test set: the example configuration, start to end.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/multi30k.py
    .venv/bin/python benchmarks/multi30k.py --config examples/multi30k-de-en.toml

Prints BLEU, chrF and TER with their signatures and intervals, and what the training took. Said
again it goes on with an interrupted run, or scores a finished one again; `--restart` begins anew.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from functools import partial
from pathlib import Path

from command import exit_code_of, has_data

from clearhead import api
from clearhead.data.readers import read_pairs
from clearhead.errors import ConfigError
from clearhead.evaluation.scores import Measure, score_translations
from clearhead.settings import RunConfig, read_config
from clearhead.training.display import displays
from clearhead.training.events import RunEnded

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"


def main(words: list[str] | None = None) -> int:
    """Train, translate the test set, score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default=str(EXAMPLE), help="a configuration with a test set")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="choices")
    parser.add_argument("--restart", action="store_true", help="begin anew")
    options = parser.parse_args(words)
    if not has_data():
        return 0
    return exit_code_of(partial(run, options), "interrupted; the same command goes on")


def run(options: argparse.Namespace) -> None:
    """Train, then show the scores and what they cost."""
    config = read_config(options.config, options.choices)
    if not config.data.test:
        raise ConfigError("data.test names no files to score on", where=options.config)
    ended = api.train(config, restart=options.restart, observers=displays(sys.stderr))
    if not ended.finished:
        # The trainer has taken Ctrl-C in hand, to save what there is.
        raise KeyboardInterrupt
    show_scores(config)
    show_cost(config, ended)


def show_scores(config: RunConfig) -> None:
    """Translate the test set as the configuration says, and print its scores."""
    training = config.training
    translator = api.load_translator(
        config.folder, device=training.device, threads=training.threads
    )
    pairs = list(read_pairs(config.data.test, "test"))
    references = [pair.target for pair in pairs]
    found = translator.translate([pair.source for pair in pairs], search=config.search, n_best=1)
    outputs = [hypotheses[0].text for hypotheses in found]
    scores = score_translations(
        outputs, references, config.evaluation.tokenize, lowercase=config.lowercase
    )
    tokens = sum(len(reference.split()) for reference in references)
    print(f"test: {len(pairs):,} pairs, {tokens:,} reference tokens (between spaces)")
    for measure in (scores.bleu, scores.chrf, scores.ter):
        print(score_line(measure))


def score_line(measure: Measure) -> str:
    """A score with its 95 % interval and its signature."""
    interval = "" if measure.low is None else f" [{measure.low:.2f}, {measure.high:.2f}]"
    return f"{measure.name:<6}{measure.score:.2f}{interval}  {measure.signature}"


def show_cost(config: RunConfig, ended: RunEnded) -> None:
    """Print what the training took, and on what machine."""
    import torch

    from clearhead.decoding.device import set_up_torch
    from clearhead.training.progress import memory_mb
    from clearhead.training.step import choose_precision

    device = set_up_torch(config.training.device, config.training.threads)
    gpu = f", {torch.cuda.get_device_name(device)}" if device.type == "cuda" else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(
        f"training: {ended.elapsed_s / 60:.1f} minutes with validations, {ended.step:,} steps,"
        f" ended by {ended.reason}"
    )
    print(f"memory: {memory_mb(device):,.0f} MB at most, translation included")
    print(
        f"machine: {cores} cores, {torch.get_num_threads()} threads, {platform.machine()}{gpu},"
        f" torch {torch.__version__},"
        f" {choose_precision(config.training.precision, device)}"
    )


if __name__ == "__main__":
    sys.exit(main())
