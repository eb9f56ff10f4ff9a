"""Accuracy of the classification examples, on the test data or by cross-validation.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python examples/prepare_trec.py
    .venv/bin/python benchmarks/classification.py examples/trec.toml
    .venv/bin/python benchmarks/classification.py examples/japanese-vowels.toml
    .venv/bin/python benchmarks/classification.py examples/trec.toml --folds 5 --set model.d_ff=64

Without `--folds`, the script trains one model per seed and evaluates it on the test data. With
`--folds N`, it divides the training data into N parts and evaluates on each part a model that was
trained on the others; the test data are not read. Use the second to choose settings.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from command import exit_code_of, has_data, make_parser, positive, whole
from results import Results, print_results

from clearhead import api
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.parts import read_examples
from clearhead.settings import RunConfig, read_config

CLAIMED = {"trec": "trec", "japanese-vowels": "vowels"}
"""The claim about the accuracy of each configuration."""


class Trial(NamedTuple):
    """One model to train, and the file of examples that it is scored on."""

    config: RunConfig
    held_out: str


class Result(NamedTuple):
    """Right predictions, examples, mean negative log-likelihood, and minutes of training."""

    right: int
    examples: int
    loss: float
    minutes: float

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * self.right / self.examples


def main(words: list[str] | None = None) -> int:
    """Train, evaluate and record."""
    parser = make_parser(__doc__)
    parser.add_argument("config", help="configuration of a classifier")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="choices")
    parser.add_argument("--seeds", type=positive, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--folds", type=whole(2), help="cross-validate with so many parts")
    parser.add_argument("--only", type=positive, help="run only so many of the parts")
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, words)) if has_data() else 0


def measure(options: argparse.Namespace, words: list[str] | None) -> None:
    """Train and evaluate; with other settings than the example's, the figures are no claim."""
    config = read_config(options.config, options.choices)
    with TemporaryDirectory() as folder:
        if options.folds:
            trials = folds(config, options.folds, Path(folder))[: options.only]
        else:
            trials = seeds(config, options.seeds, Path(folder))
        found = [run(trial) for trial in trials]
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
    print_results(results.records)
    results.write()


def seeds(config: RunConfig, count: int, folder: Path) -> list[Trial]:
    """A run on the whole training data for each seed, evaluated on the test data."""
    return [
        Trial(
            dataclasses.replace(config, seed=seed, folder=str(folder / f"seed-{seed}")),
            config.data.test[0],
        )
        for seed in range(1, count + 1)
    ]


def folds(config: RunConfig, count: int, folder: Path) -> list[Trial]:
    """A run for each part, evaluated on it; every class is divided evenly among the parts."""
    examples = read_examples(config.data.train[0], config)
    order = np.random.default_rng(1).permutation(len(examples))
    by_class = sorted(order.tolist(), key=lambda i: examples[i].labels[0])
    parts = [by_class[part::count] for part in range(count)]
    trials = []
    for number, part in enumerate(parts):
        out = set(part)
        others = [example for i, example in enumerate(examples) if i not in out]
        learned = write(others, folder / f"learn-{number}")
        held_out = write([examples[i] for i in part], folder / f"held-out-{number}")
        data = dataclasses.replace(
            config.data,
            train=(learned,),
            validation=(),
            test=(held_out,),
            # As in `write`.
            text_column="text",
            label_column="label",
        )
        trial = dataclasses.replace(config, data=data, folder=str(folder / f"model-{number}"))
        trials.append(Trial(trial, held_out))
    return trials


def write(examples: Sequence[Labelled], path: Path) -> str:
    """Write examples to a file in a format that clearhead reads; return its path."""
    inputs, labels = zip(*((example.input, example.labels[0]) for example in examples), strict=True)
    if isinstance(inputs[0], str):
        path = path.with_suffix(".jsonl")
        pairs = zip(inputs, labels, strict=True)
        lines = (json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs)
        path.write_text("".join(lines), encoding="utf-8")
    else:
        path = path.with_suffix(".npz")
        lengths = [len(sequence) for sequence in inputs]
        np.savez(path, x=np.concatenate(inputs), lengths=np.array(lengths), y=np.array(labels))
    return str(path)


def run(trial: Trial) -> Result:
    """Train, and classify the held-out examples."""
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
    """Right predictions and mean negative log-likelihood.

    `probabilities` are (N, labels), `truth` has the label of each example (N,).
    """
    rows = [list(labels).index(label) for label in truth]
    right = int((probabilities.argmax(axis=1) == rows).sum())
    return right, -float(np.log(probabilities[np.arange(len(rows)), rows] + 1e-12).mean())


if __name__ == "__main__":
    sys.exit(main())
