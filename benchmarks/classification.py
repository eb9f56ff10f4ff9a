r"""Accuracy of the classification examples: on the test data, or by cross-validation.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python examples/prepare_trec.py
    .venv/bin/python benchmarks/classification.py examples/trec.toml
    .venv/bin/python benchmarks/classification.py examples/japanese-vowels.toml
    .venv/bin/python benchmarks/classification.py examples/trec.toml --folds 5 --set model.d_ff=64

Without `--folds`: trains once a seed on the training data and scores on the test data. With
`--folds`: splits the training data into so many parts; each is scored by a model that was trained
on the others, and the test data are not read. Choose settings by the second, report the first.
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
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from command import exit_code_of, has_data, make_parser, positive, whole
from results import Results, line

from clearhead import api
from clearhead.data.labelled import Labelled
from clearhead.data.parts import read_examples
from clearhead.settings import RunConfig, read_config

CLAIMED = {"trec": "trec", "japanese-vowels": "vowels"}
"""By the name of a configuration, the claim about its accuracy."""


class Trial(NamedTuple):
    """One model to train, and the file of examples that it is scored on."""

    config: RunConfig
    held_out: str


class Result(NamedTuple):
    """Right answers, examples, mean negative log-likelihood, and minutes of training."""

    right: int
    examples: int
    loss: float
    minutes: float

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * self.right / self.examples


def main(words: list[str] | None = None) -> int:
    """Train, score and record."""
    parser = make_parser(__doc__)
    parser.add_argument("config", help="a configuration of a classification")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="choices")
    parser.add_argument("--seeds", type=positive, default=3, help="runs on the test data (3)")
    parser.add_argument("--folds", type=whole(2), help="cross-validate instead")
    parser.add_argument("--only", type=positive, help="run only so many of the folds")
    parser.add_argument("--jobs", type=positive, default=1, help="models trained at a time (1)")
    options = parser.parse_args(words)
    if not has_data():
        return 0
    return exit_code_of(partial(measure, options, sys.argv[1:] if words is None else words))


def measure(options: argparse.Namespace, words: list[str]) -> None:
    """Train and score; settings other than the example's are recorded, but not as a claim."""
    config = read_config(options.config, options.choices)
    with TemporaryDirectory() as folder:
        if options.folds:
            trials = folds(config, options.folds, Path(folder))[: options.only]
        else:
            trials = seeds(config, options.seeds, Path(folder))
        found = run_all(trials, options.jobs)
    kind = "folds" if options.folds else "seeds"
    name = Path(options.config).stem
    model_settings = [c for c in options.choices if not c.startswith("training.threads=")]
    claim = None if options.folds or model_settings else CLAIMED.get(name)
    fields = {"subject": " ".join([f"{len(found)} {kind}", *options.choices]), "range": kind}
    results = Results("classification", words, options.output)
    accuracies = [result.accuracy for result in found]
    minutes = max(result.minutes for result in found)
    more = {"loss": round(mean(result.loss for result in found), 4)}
    fields |= {"median": mean(accuracies), "more": more, "note": "the figure is the mean"}
    results.add(f"{name}, accuracy", "%", accuracies, claim=claim, **fields)
    results.add(
        f"{name}, minutes of the longest run",
        "minutes",
        [minutes],
        claim=claim and f"{claim}-minutes",
        subject=fields["subject"],
    )
    each = ", ".join(f"{accuracy:.2f}" for accuracy in accuracies)
    print(f"{name}: {mean(accuracies):.2f} % of {each}; {more}")
    print(f"at most {minutes:.1f} minutes a run")
    for record in results.records:
        if record["claim"]:
            print(line(record))
    results.write()


def seeds(config: RunConfig, count: int, folder: Path) -> list[Trial]:
    """A run on the whole training data for each seed, scored on the test data."""
    return [
        Trial(
            dataclasses.replace(config, seed=seed, folder=str(folder / f"seed-{seed}")),
            config.data.test[0],
        )
        for seed in range(1, count + 1)
    ]


def folds(config: RunConfig, count: int, folder: Path) -> list[Trial]:
    """The training data split class by class; each part is scored by a model of the others."""
    examples = read_examples(config.data.train[0], config)
    order = np.random.default_rng(1).permutation(len(examples))
    by_class = sorted(order.tolist(), key=lambda i: examples[i].labels[0])
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
            # The names that `write` uses.
            text_column="text",
            label_column="label",
        )
        trial = dataclasses.replace(config, data=data, folder=str(folder / f"model-{number}"))
        trials.append(Trial(trial, suffixed(held_out)))
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
    """The result of each trial; trials that run at the same time have one thread each."""
    if jobs == 1:
        return [run(trial) for trial in trials]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return list(pool.map(run, map(of_one_thread, trials)))


def of_one_thread(trial: Trial) -> Trial:
    """The trial on one thread."""
    training = dataclasses.replace(trial.config.training, threads=1)
    return trial._replace(config=dataclasses.replace(trial.config, training=training))


def run(trial: Trial) -> Result:
    """Train, and classify what was held out."""
    began = time.monotonic()
    config = trial.config
    if not api.train(config, observers=()).finished:
        # The trainer has handled Ctrl-C and saved the run.
        raise KeyboardInterrupt
    minutes = (time.monotonic() - began) / 60
    classifier = api.load_classifier(config.folder, threads=config.training.threads)
    examples = read_examples(trial.held_out, config)
    found = classifier.probabilities([example.input for example in examples])
    truth = [example.labels[0] for example in examples]
    right, loss = score(found, classifier.labels, truth)
    return Result(right, len(truth), loss, minutes)


def score(
    probabilities: np.ndarray, labels: Sequence[str], truth: Sequence[str]
) -> tuple[int, float]:
    """Right answers and mean negative log-likelihood.

    Args:
        probabilities: (N, labels).
        labels: their names.
        truth: the label of each example (N,).
    """
    rows = [list(labels).index(label) for label in truth]
    right = int((probabilities.argmax(axis=1) == rows).sum())
    return right, -float(np.log(probabilities[np.arange(len(rows)), rows] + 1e-12).mean())


if __name__ == "__main__":
    sys.exit(main())
