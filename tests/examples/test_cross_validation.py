"""Cross-validation of the classification examples: every example is held out exactly once."""

from __future__ import annotations

import csv
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clearhead.data.reading.parts import read_examples
from clearhead.settings import RunConfig, config_from
from scripts import ROOT, load_script

sys.path.append(str(ROOT / "benchmarks"))
classification = load_script("benchmarks/classification.py")

CLASSES = {"plain": 12, "odd": 7, "naïve": 4}
FOLDS = [2, 3, 5]
Example = tuple[Any, tuple[str, ...]]


def config_of(train: Path, **choices: Any) -> RunConfig:
    """A run on these data; its other files do not exist."""
    others = {part: [f"{train.parent}/{part}-not-there.csv"] for part in ("validation", "test")}
    data = {"train": [str(train)], **others}
    data |= choices.pop("data", {})
    return config_from({"task": "classification", "data": data, "seed": 9, **choices})


def texts(folder: Path) -> RunConfig:
    """Texts in a table with other column names; some contain special characters."""
    signs = ['said "so"', "a, b", "naïve – 日本", "a\tb", "x\u2028y", "\\n", "{}", ""]
    with (folder / "all.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["topic", "question"])
        for label, count in CLASSES.items():
            writer.writerows((label, f"{label} {i} {signs[i % 8]}".strip()) for i in range(count))
    columns = {"text_column": "question", "label_column": "topic"}
    return config_of(folder / "all.csv", data=columns)


def features(folder: Path) -> RunConfig:
    """Sequences of unequal lengths, of two features, with missing values among them."""
    rng = np.random.default_rng(1)
    labels = [label for label, count in CLASSES.items() for _ in range(count)]
    lengths = rng.integers(1, 9, len(labels))
    x = rng.normal(size=(lengths.sum(), 2))
    x[rng.random(x.shape) < 0.1] = np.nan
    np.savez(folder / "all.npz", x=x, lengths=lengths, y=np.array(labels))
    return config_of(folder / "all.npz", input="features", data={"missing": "mean"})


Make = Callable[[Path], RunConfig]
each_kind = pytest.mark.parametrize("make", [texts, features])


def of(path: str, config: RunConfig) -> list[Example]:
    """The examples of a file, in a form that can be compared."""
    return [
        (e.input if isinstance(e.input, str) else (e.input.shape, e.input.tobytes()), e.labels)
        for e in read_examples(path, config)
    ]


def parts(trial: Any) -> tuple[Counter[Example], Counter[Example]]:
    """The training and the held-out examples of a trial, as its own run reads them."""
    (learned,) = trial.config.data.train
    return Counter(of(learned, trial.config)), Counter(of(trial.held_out, trial.config))


@each_kind
@pytest.mark.parametrize("count", FOLDS)
def test_each_example_is_held_out_once_and_learned_from_otherwise(
    make: Make, count: int, tmp_path: Path
) -> None:
    config = make(tmp_path)
    whole = Counter(of(config.data.train[0], config))
    assert whole.total() == len(whole) == sum(CLASSES.values())  # so that parts differ
    trials = classification.folds(config, count, tmp_path)
    assert len(trials) == count
    held_out: Counter[Example] = Counter()
    for trial in trials:
        learned, out = parts(trial)
        assert not learned & out
        assert learned + out == whole
        held_out += out
    assert held_out == whole


@each_kind
@pytest.mark.parametrize("count", FOLDS)
def test_every_class_is_dealt_out_evenly(make: Make, count: int, tmp_path: Path) -> None:
    trials = classification.folds(make(tmp_path), count, tmp_path)
    found = [Counter(labels for _, labels in parts(trial)[1]) for trial in trials]
    for label in CLASSES:
        counts = [fold[label,] for fold in found]
        assert sum(counts) == CLASSES[label]
        assert max(counts) - min(counts) <= 1
    sizes = [fold.total() for fold in found]
    assert max(sizes) - min(sizes) <= 1


@each_kind
def test_a_fold_is_a_run_of_its_own_with_the_settings_of_the_whole(
    make: Make, tmp_path: Path
) -> None:
    config = make(tmp_path)
    trials = classification.folds(config, 3, tmp_path)
    assert len({trial.config.folder for trial in trials}) == 3
    for trial in trials:
        assert trial.config.data.validation == ()
        assert trial.config.data.test == (trial.held_out,)
        for section in ("model", "training", "classifier", "seed", "input"):
            assert getattr(trial.config, section) == getattr(config, section)
        assert trial.config.data.missing == config.data.missing


def test_a_class_is_not_dealt_out_in_the_order_of_the_file(tmp_path: Path) -> None:
    # Neighbours in a file are often alike: the utterances of a speaker, the questions of a source.
    config = features(tmp_path)
    order = {example: i for i, example in enumerate(of(config.data.train[0], config))}
    for trial in classification.folds(config, 3, tmp_path):
        places = {order[e] for e in parts(trial)[1] if e[1] == ("plain",)}
        assert len({place % 3 for place in places}) > 1


@each_kind
def test_seeds_learn_from_all_and_are_scored_on_the_test_data(make: Make, tmp_path: Path) -> None:
    config = make(tmp_path)
    trials = classification.seeds(config, 4, tmp_path)
    assert [trial.config.seed for trial in trials] == [1, 2, 3, 4]
    assert len({trial.config.folder for trial in trials}) == 4
    for trial in trials:
        assert trial.held_out == config.data.test[0]
        same = dataclasses.replace(config, seed=trial.config.seed, folder=trial.config.folder)
        assert trial.config == same


@given(
    arrays(np.float64, (5, 4), elements=st.floats(0.01, 1)),
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=5, max_size=5),
)
def test_right_answers_and_the_loss_are_those_of_the_true_labels(
    raw: np.ndarray, truth: list[str]
) -> None:
    found = raw / raw.sum(axis=1, keepdims=True)
    right, loss = classification.score(found, ["a", "b", "c", "d"], truth)
    mine = np.array([row["abcd".index(label)] for row, label in zip(found, truth, strict=True)])
    assert (mine > np.sort(found)[:, -2]).sum() <= right <= (mine == found.max(axis=1)).sum()
    assert loss == pytest.approx(-np.log(mine).mean())
