"""Cross-validation: train a classifier several times, each time without a part of the examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from clearhead.api.classifier import Classifier
from clearhead.api.loading import LoadOptions, load_classifier
from clearhead.api.training import train
from clearhead.data.labels import Labels
from clearhead.data.reading.labelled import Labelled, in_columns
from clearhead.data.reading.parts import Parts, parts_of
from clearhead.data.validation_split import fold_numbers
from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.baseline import (
    FEATURES,
    BaselineError,
    LinearBaseline,
    fit_baseline,
    is_available,
)
from clearhead.evaluation.class_scores import ClassifierScores, correct_answers, truth_of
from clearhead.evaluation.evaluate import ClassifierSystem, Report, score_classifiers
from clearhead.settings import RunConfig


class Validated(NamedTuple):
    """The scores of all examples, each by a model that was trained without it, and of each fold."""

    report: Report[ClassifierScores]
    folds: list[float]

    def line(self) -> str:
        """The accuracies of the folds in a line."""
        mean, spread = np.mean(self.folds), np.std(self.folds, ddof=1)
        return (
            f"accuracy of the {len(self.folds)} folds: {mean:.2f} % on average, standard deviation "
            f"{spread:.2f}, {min(self.folds):.2f} to {max(self.folds):.2f}"
        )


def cross_validate(
    config: RunConfig,
    folds: int,
    *,
    repeat: int = 0,
    parts: Parts | None = None,
    options: LoadOptions | None = None,
    progress: Callable[[int], None] | None = None,
) -> Validated:
    """Train and score a classifier on folds of its training and validation examples.

    Each label is divided evenly among the folds. Examples with the same input, or of the same
    group, are in one fold. In each training a share of the rest is held out for validation.

    Args:
        config: the run; its folder is not written.
        folds: their number.
        repeat: the number of this repetition: another division, and other first weights.
        parts: the data of the run; by default its files.
        options: what runs the models.
        progress: called with the number of folds that are done.

    Raises:
        ConfigError: the run is no classification, or there are too few folds.
        DataError: the data cannot be used, or there are too few examples.
    """
    if config.task != "classification":
        what = "folds are for classifiers"
        raise ConfigError(what, todo="leave --folds out, and name test data")
    if folds < 2:
        raise ConfigError(f"there cannot be {folds} folds", todo="give at least 2")
    read = [part.read(config) for part in (parts or parts_of(config))[:2]]
    if not read[0].examples:
        raise DataError("there are no examples", where=read[0].where)
    first = read[0].examples[0].columns
    examples = [in_columns(each, first) for part in read for each in part.examples]
    seed = config.seed + repeat
    numbers = fold_numbers(examples, folds, seed)
    if len(set(numbers)) < folds:
        what = f"there are not enough different examples, or groups, for {folds} folds"
        raise DataError(what, where=read[0].where, todo="give more examples, or fewer folds")
    labels = Labels.learn(each.labels for each in examples)
    truth = truth_of(examples, labels)
    found, thresholds = np.zeros(truth.shape), np.ones(truth.shape)
    linear = np.zeros(truth.shape) if is_available() else None
    scores = list[float]()
    for number in range(folds):
        held_out = np.flatnonzero(numbers == number)
        others = [each for each, n in zip(examples, numbers, strict=True) if n != number]
        model = _trained(replace(config, seed=seed), others, options)
        tested = [examples[i] for i in held_out]
        own = np.ix_(held_out, np.array([labels.index(name) for name in model.labels]))
        found[own], thresholds[own] = model.probabilities(tested), model.thresholds
        if linear is not None:
            linear = _add_linear(linear, others, tested, held_out, labels, config)
        decided = config.classifier.multi_label, thresholds[held_out]
        right = correct_answers(found[held_out], truth[held_out], *decided)
        scores.append(100 * float(np.mean(right)))
        if progress is not None:
            progress(number + 1)
    baseline = partial(_as_baseline, config, linear, len(examples), folds)
    system = ClassifierSystem(config, labels, lambda _: found, baseline, thresholds)
    name = config.folder or "this run"
    return Validated(score_classifiers(read[0].where, {name: system}, {name: examples}), scores)


def _trained(
    config: RunConfig, examples: Sequence[Labelled[Any]], options: LoadOptions | None
) -> Classifier:
    """The model of the run with these examples instead of its files."""
    data = replace(config.data, train=(), validation=(), test=())
    with TemporaryDirectory() as folder:
        run = replace(config, data=data, folder=folder)
        ended = train(run, examples=examples, restart=True, observers=(), resumable=False)
        if not ended.finished:
            raise KeyboardInterrupt
        return load_classifier(folder, options)


def _add_linear(
    linear: np.ndarray,
    others: Sequence[Labelled[Any]],
    tested: Sequence[Labelled[Any]],
    rows: np.ndarray,
    labels: Labels,
    config: RunConfig,
) -> np.ndarray | None:
    """The probabilities of linear models, with those of a fold; None if scikit-learn failed."""
    try:
        model = fit_baseline(others, truth_of(others, labels), config)
    except BaselineError:
        return None
    linear[rows] = model.probabilities(tested)
    return linear


def _as_baseline(
    config: RunConfig, probabilities: np.ndarray | None, examples: int, folds: int
) -> LinearBaseline | None:
    if probabilities is None:
        return None
    used = examples - examples // folds
    features = FEATURES[config.kind]
    return LinearBaseline(config.kind, features, used, examples, lambda _: probabilities)
