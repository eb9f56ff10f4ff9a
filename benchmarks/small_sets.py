"""Classifiers by their proposed settings on small sets, beside the baselines that people use.

    python benchmarks/small_sets.py --sequences DATA/ArrowHead/ArrowHead --peers PYTHON
    python benchmarks/small_sets.py --texts debian/train.tsv debian/test.tsv

`--sequences` is the common start of the files ..._TRAIN.ts and ..._TEST.ts, as the archives of UEA
and UCR have them; the wheel of aeon ships some. Their baselines are MiniRocket with a ridge
classifier and the nearest neighbour (benchmarks/peers/sequences.py); PYTHON is that of an
environment with sktime and numba. The baseline of texts is a linear support vector machine on the
TF-IDF of words and characters. The settings are those of `clearhead init`, for each seed the
accuracy is that on the test file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from command import exit_code_of, log, make_parser, positive
from results import Results, print_results, rounded

from clearhead import api
from clearhead.api.proposing import propose
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.parts import read_examples
from clearhead.settings import RunConfig

PEERS = Path(__file__).parent / "peers" / "sequences.py"
SEQUENCES = RunConfig(task="classification", input="features")
TEXTS = RunConfig(task="classification")


def main(words: list[str] | None = None) -> int:
    """Train and evaluate, the baselines too, and record."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--sequences", nargs="+", default=[], metavar="START", help="starts of .ts files")
    add("--texts", nargs=2, action="append", default=[], metavar=("TRAIN", "TEST"))
    add("--peers", metavar="PYTHON", help="with sktime, for the baselines of sequences")
    add("--seeds", type=positive, default=5, help="number of seeds (default: 5)")
    options = parser.parse_args(words)
    results = Results("small_sets", words, options.output)
    return exit_code_of(partial(measure, options, results))


def measure(options: argparse.Namespace, results: Results) -> None:
    """Each set by itself; the records of a set are written when it ends."""
    sets = [
        (Path(start).name, SEQUENCES, (f"{start}_TRAIN.ts", f"{start}_TEST.ts"))
        for start in options.sequences
    ]
    sets += [(Path(train).parent.name, TEXTS, (train, test)) for train, test in options.texts]
    for name, config, files in sets:
        before = len(results.records)
        train, test = (list(read_examples(file, config)) for file in files)
        accuracies, minutes = ours(train, test, options.seeds)
        record = partial(results.add, f"{name}: accuracy", "%", range="seeds")
        note = f"{len(train):,} training and {len(test):,} test examples; the figure is the mean"
        fields: dict[str, Any] = {"median": rounded(mean(accuracies)), "note": note}
        record(accuracies, subject="clearhead", more={"minutes": minutes}, **fields)
        for peer, found in baselines(config, files, train, test, options.peers).items():
            fields = {"median": rounded(mean(found["accuracies"])), "note": note}
            more = {"minutes": found["seconds"] / 60}
            record(found["accuracies"], subject=peer, more=more, **fields)
        print_results(results.records[before:])
        results.write()


def ours(
    train: Sequence[Labelled], test: Sequence[Labelled], seeds: int
) -> tuple[list[float], float]:
    """The accuracy of each seed in percent, and the minutes of the longest training."""
    accuracies, minutes = list[float](), list[float]()
    for seed in range(1, seeds + 1):
        with TemporaryDirectory() as temporary:
            began = time.monotonic()
            config = dataclasses.replace(propose(train, Path(temporary) / "run"), seed=seed)
            if not api.train(config, examples=train, observers=()).finished:
                raise KeyboardInterrupt
            minutes.append((time.monotonic() - began) / 60)
            classifier = api.load_classifier(config.folder)
            best = classifier.probabilities([each.input for each in test]).argmax(axis=1)
            labels = [classifier.labels[n] for n in best]
        accuracies.append(right(labels, test))
        log(f"seed {seed}: {accuracies[-1]:.2f} %, {minutes[-1]:.1f} minutes")
    return accuracies, max(minutes)


def right(labels: Sequence[str], test: Sequence[Labelled]) -> float:
    """The share of right labels in percent."""
    pairs = zip(labels, test, strict=True)
    return 100 * float(np.mean([label == each.labels[0] for label, each in pairs]))


def baselines(
    config: RunConfig,
    files: Sequence[str],
    train: Sequence[Labelled],
    test: Sequence[Labelled],
    peers: str | None,
) -> dict[str, dict[str, Any]]:
    """By name, the accuracies and the seconds of all seeds together."""
    if config.input == "features":
        if not peers:
            return {}
        command = [peers, str(PEERS), *files]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    began = time.monotonic()
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    model = make_pipeline(make_union(words, characters), LinearSVC(random_state=0))
    model.fit([each.input for each in train], [each.labels[0] for each in train])
    accuracy = right(model.predict([each.input for each in test]), test)
    return {"linear SVM": {"accuracies": [accuracy], "seconds": time.monotonic() - began}}


if __name__ == "__main__":
    sys.exit(main())
