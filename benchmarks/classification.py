r"""How good the classification examples are: on the test data, or by cross-validation.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python examples/prepare_trec.py
    .venv/bin/python benchmarks/classification.py examples/trec.toml
    .venv/bin/python benchmarks/classification.py examples/japanese-vowels.toml
    .venv/bin/python benchmarks/classification.py examples/trec.toml --folds 5 --set model.d_ff=64

Without `--folds`: trains on the training data once a seed, classifies the test data, and prints
each accuracy, their mean, and the minutes taken. With `--folds`: the training data alone are
dealt into so many parts, each is classified by a model that learned from the others, and the
test data are not read. Settings are chosen by the second, and reported by the first.

With `--before SIGN` a finer set of labels is learned, such as `DESC:manner`, and what stands
before the sign is scored: a class is as likely as its finer labels together.

    .venv/bin/python examples/prepare_trec.py --fine --output runs/trec-fine
    .venv/bin/python benchmarks/classification.py examples/trec.toml --before : \
        --set 'data.train=["runs/trec-fine/train.tsv"]' \
        --set 'data.test=["runs/trec-fine/test.tsv"]'
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from command import exit_code_of, has_data, positive, whole

from clearhead import api
from clearhead.data.labelled import Labelled
from clearhead.data.parts import read_examples
from clearhead.settings import RunConfig, read_config


class Trial(NamedTuple):
    """One model to train, and the examples that it is scored on.

    `before` is the sign that ends the part of a label that is scored; "": all of it is.
    """

    config: RunConfig
    held_out: str
    before: str = ""


class Result(NamedTuple):
    """What a trial came to: the share of right labels, in percent, and the time it took."""

    right: int
    examples: int
    loss: float
    minutes: float


def main(words: list[str] | None = None) -> int:
    """Train, score, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", help="a configuration of a classification")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="choices")
    parser.add_argument("--seeds", type=positive, default=3, help="runs on the test data")
    parser.add_argument("--folds", type=whole(2), help="cross-validate instead")
    parser.add_argument("--only", type=positive, help="run just so many of the folds")
    parser.add_argument("--before", default="", metavar="SIGN", help="score labels up to this sign")
    parser.add_argument("--jobs", type=positive, default=1, help="models trained at the same time")
    options = parser.parse_args(words)
    if not has_data():
        return 0
    return exit_code_of(partial(report, options))


def report(options: argparse.Namespace) -> None:
    """Train and score what is asked for, and print it."""
    config = read_config(options.config, options.choices)
    with TemporaryDirectory() as folder:
        if options.folds:
            trials = folds(config, options.folds, Path(folder), options.before)[: options.only]
        else:
            trials = seeds(config, options.seeds, Path(folder), options.before)
        results = run_all(trials, options.jobs)
    kind = "fold" if options.folds else "seed"
    for number, result in enumerate(results, start=1):
        print(f"{kind} {number}: {accuracy(result):.2f} %, {result.minutes:.1f} min")
    print(summary(results, options))


def accuracy(result: Result) -> float:
    return 100 * result.right / result.examples


def summary(results: Sequence[Result], options: argparse.Namespace) -> str:
    """The mean accuracy, its spread, the mean loss, and the longest time."""
    found = [accuracy(result) for result in results]
    spread = f" (standard deviation {stdev(found):.2f})" if len(found) > 1 else ""
    loss = mean(result.loss for result in results)
    longest = max(result.minutes for result in results)
    settings = " ".join(options.choices)
    return (
        f"{options.config} {settings}: {mean(found):.2f} %{spread}, loss {loss:.4f}, "
        f"at most {longest:.1f} min"
    )


def seeds(config: RunConfig, count: int, folder: Path, before: str = "") -> list[Trial]:
    """A run of the whole training data for each seed, scored on the test data."""
    return [
        Trial(
            dataclasses.replace(config, seed=seed, folder=str(folder / f"seed-{seed}")),
            config.data.test[0],
            before,
        )
        for seed in range(1, count + 1)
    ]


def folds(config: RunConfig, count: int, folder: Path, before: str = "") -> list[Trial]:
    """The training data dealt class by class; each part is scored by a model of the others."""
    examples = read_examples(config.data.train[0], config)
    order = np.random.default_rng(1).permutation(len(examples))
    # By what is scored, so that the parts are the same with finer labels.
    by_class = sorted(order.tolist(), key=lambda i: scored(examples[i].labels[0], before))
    parts = [by_class[part::count] for part in range(count)]
    trials = []
    for number, part in enumerate(parts):
        out = set(part)
        learned, held_out = folder / f"learn-{number}", folder / f"held-out-{number}"
        write([e for i, e in enumerate(examples) if i not in out], learned)
        write([examples[i] for i in part], held_out)
        data = dataclasses.replace(
            config.data,
            train=(suffixed(learned),),
            validation=(),
            test=(suffixed(held_out),),
            # As `write` calls them.
            text_column="text",
            label_column="label",
        )
        trial = dataclasses.replace(config, data=data, folder=str(folder / f"model-{number}"))
        trials.append(Trial(trial, suffixed(held_out), before))
    return trials


def suffixed(path: Path) -> str:
    """The file that `write` made."""
    return next(str(file) for file in path.parent.glob(f"{path.name}.*"))


def write(examples: Sequence[Labelled], path: Path) -> None:
    """Write examples as a file that can be read again."""
    if isinstance(examples[0].input, str):
        with path.with_suffix(".jsonl").open("w", encoding="utf-8") as file:
            for example in examples:
                record = {"text": example.input, "label": example.labels[0]}
                file.write(json.dumps(record) + "\n")
        return
    np.savez(
        path.with_suffix(".npz"),
        x=np.concatenate([example.input for example in examples]),
        lengths=np.array([len(example.input) for example in examples]),
        y=np.array([example.labels[0] for example in examples]),
    )


def run_all(trials: Sequence[Trial], jobs: int) -> list[Result]:
    """The result of each trial; several at the same time have one thread each."""
    if jobs == 1:
        return [run(trial) for trial in trials]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return list(pool.map(run, map(of_one_thread, trials)))


def of_one_thread(trial: Trial) -> Trial:
    """The same on one thread, for trials that share the processor."""
    training = dataclasses.replace(trial.config.training, threads=1)
    return trial._replace(config=dataclasses.replace(trial.config, training=training))


def run(trial: Trial) -> Result:
    """Train, and classify what was held out."""
    began = time.monotonic()
    config = trial.config
    if not api.train(config, observers=()).finished:
        # The trainer has taken Ctrl-C in hand, to save what there is.
        raise KeyboardInterrupt
    minutes = (time.monotonic() - began) / 60
    classifier = api.load_classifier(config.folder, threads=config.training.threads)
    examples = read_examples(trial.held_out, config)
    found = classifier.probabilities([example.input for example in examples])
    truth = [example.labels[0] for example in examples]
    right, loss = score(found, classifier.labels, truth, trial.before)
    return Result(right, len(truth), loss, minutes)


def score(
    found: np.ndarray, labels: Sequence[str], truth: Sequence[str], before: str = ""
) -> tuple[int, float]:
    """How many are right, and the mean of -log p of what is true.

    Args:
        found: (N, labels), the probabilities.
        labels: their names.
        truth: the label of each example (N,).
        before: the sign that ends the part of a label that is scored; "": all of it is.
    """
    names = [scored(label, before) for label in labels]
    classes = sorted(set(names))
    belongs = np.array([[name == one for one in classes] for name in names])
    found = found @ belongs  # (N, classes)
    rows = [classes.index(scored(label, before)) for label in truth]
    right = int((found.argmax(axis=1) == rows).sum())
    return right, -float(np.log(found[np.arange(len(rows)), rows] + 1e-12).mean())


def scored(label: str, before: str) -> str:
    """The part of a label that is scored: all of it, or what stands before the sign."""
    return label.partition(before)[0] if before else label


if __name__ == "__main__":
    sys.exit(main())
