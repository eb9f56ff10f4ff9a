"""The part of `clearhead evaluate` that scores classifiers."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from clearhead.cli.failures import say, warnings_said
from clearhead.cli.streams import CLASSIFIED, Counter
from clearhead.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from clearhead.api import Classifier
    from clearhead.data.labelled import Labelled
    from clearhead.evaluation.class_scores import ClassScores
    from clearhead.evaluation.significance import Comparison
    from clearhead.settings import RunConfig


NAMELESS = {"text": (".txt",), "features": (".ts", ".npz", ".npy")}
"""Files of examples, by the input of a model, whose columns, if there are any, have no names."""


class Asked(NamedTuple):
    """What is to be scored, and in which form: text or JSON, with pictures in a folder or not.

    Columns that are not named are those that a model was trained on.
    """

    data: str
    as_json: bool
    figures: Path | None
    text_column: str | None = None
    label_column: str | None = None


class Subject(NamedTuple):
    """A model that is scored, and what it is given: examples and the truth (examples, labels)."""

    classifier: Classifier
    examples: Sequence[Labelled]
    truth: np.ndarray


def evaluate_classes(
    configs: Mapping[str, RunConfig], asked: Asked, batch_size: int, device: str, threads: int
) -> None:
    """Classify labelled examples with each model, and print how good it is.

    Args:
        configs: of the models, by the names of their folders; the first is the baseline.
        asked: what is to be scored.
        batch_size: examples at a time, at most.
        device: as `load_classifier` takes it; `threads` likewise.

    Raises:
        ConfigError: confusion matrices are asked for of a model that has none; or in one model an
            example may have several labels, in another it has one; or a column is named where
            there are none.
        DataError: the data cannot be read, or have a label that a model does not know, or other
            examples for one model than for another; or the pictures cannot be written.
    """
    from clearhead import api
    from clearhead.evaluation.class_scores import score_classes
    from clearhead.evaluation.significance import compare, right_answers

    _refuse_both_kinds(configs)
    _refuse_columns(configs, asked)
    if asked.figures is not None:
        _refuse_figures(configs)
    subjects: dict[str, Subject] = {}
    for name in configs:
        with warnings_said():
            classifier = api.load_classifier(name, device=device, threads=threads)
        subjects[name] = _read(name, classifier, asked)
    _refuse_other_examples(subjects, asked.data)
    scores: dict[str, ClassScores] = {}
    right: dict[str, np.ndarray] = {}
    for name, subject in subjects.items():
        several = subject.classifier.config.classifier.multi_label
        found = _probabilities(subject, batch_size)
        scores[name] = score_classes(found, subject.truth, subject.classifier.labels, several)
        right[name] = right_answers(found, subject.truth, several)
    first, *others = right
    compared = {name: compare(right[first], right[name]) for name in others}
    if asked.as_json:
        typer.echo(json.dumps(_as_dict(asked.data, scores, compared), indent=2))
    else:
        typer.echo("\n".join(_as_lines(asked.data, scores, compared)))
    if asked.figures is not None:
        _draw(scores, asked.figures)


def _refuse_both_kinds(configs: Mapping[str, RunConfig]) -> None:
    """Say before anything is computed that one answer is right by other rules than another."""
    (first, baseline), *others = configs.items()
    for name, config in others:
        if config.classifier.multi_label != baseline.classifier.multi_label:
            one, several = (first, name) if config.classifier.multi_label else (name, first)
            raise ConfigError(
                "the models cannot be compared",
                where=name,
                why=f"for {several} an example may have several labels, for {one} it has one",
                todo="evaluate each by itself",
            )


def _refuse_columns(configs: Mapping[str, RunConfig], asked: Asked) -> None:
    """Say before anything is computed that a named column means nothing."""
    plain = asked.data.lower().removesuffix(".gz")
    is_file = not os.path.isdir(os.path.expanduser(asked.data))
    named = asked.text_column or asked.label_column
    for name, config in configs.items():
        if asked.text_column and config.input == "features":
            raise ConfigError(
                "--text-column means nothing for features", where=name, todo="leave it out"
            )
        if named and is_file and plain.endswith(NAMELESS[config.input]):
            raise ConfigError(
                "a file of this form has no columns with names",
                where=asked.data,
                todo="leave --text-column and --label-column out",
            )


def _refuse_figures(configs: Mapping[str, RunConfig]) -> None:
    """Say before anything is computed that a model has no confusion matrix."""
    for name, config in configs.items():
        if config.classifier.multi_label:
            raise ConfigError(
                "where examples may have several labels, there is no confusion matrix",
                where=name,
                todo="leave --figures out",
            )


def _refuse_other_examples(subjects: Mapping[str, Subject], data: str) -> None:
    """Say before anything is computed that the models are not asked the same."""
    (first, baseline), *others = subjects.items()
    wanted = [example.labels for example in baseline.examples]
    for name, subject in others:
        if [example.labels for example in subject.examples] != wanted:
            raise DataError(
                "the models cannot be compared",
                where=data,
                why=f"{name} reads other examples, or other labels of theirs, than {first}",
                todo="say --label-column, or evaluate each by itself",
            )


def _probabilities(subject: Subject, batch_size: int) -> np.ndarray:
    """What each label's probability is found to be, (examples, labels)."""
    classifier, examples, _ = subject
    _say_empty(examples)
    counter = Counter(sys.stderr, len(examples), CLASSIFIED[classifier.config.input])
    with warnings_said():
        try:
            return classifier.probabilities(examples, batch_size=batch_size, progress=counter.show)
        finally:
            counter.clear()


def _say_empty(examples: Sequence[Labelled]) -> None:
    """Say which examples have no text: they are scored, though `classify` gives them no label."""
    from clearhead.api.classifier import is_empty

    empty = [example.place for example in examples if is_empty(example)]
    if empty:
        more = f" (and {len(empty) - 1:,} more like it)" if len(empty) > 1 else ""
        say(f"warning: {empty[0]} has no text and is scored by what the model makes of that{more}")


def _draw(scores: Mapping[str, ClassScores], folder: Path) -> None:
    """The confusion matrix of each model, as a picture named after it."""
    import numpy as np

    from clearhead.inspect.figures import confusion_figure, write_figures

    pictures = []
    for title, found in zip(_titles(list(scores)), scores.values(), strict=True):
        labels = [each.name for each in found.per_class]
        counts = np.array(found.confusion)
        pictures.append((title, partial(confusion_figure, counts, labels)))
    for path in write_figures(pictures, folder):
        say(str(path))


def _titles(names: Sequence[str]) -> list[str]:
    """The name of each model's picture; folders of one name are numbered."""
    titles: list[str] = []
    for name in names:
        # `.` is called as the folder that one is in.
        plain = f"confusion-{os.path.basename(os.path.abspath(name))}"
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        titles.append(next(t for t in itertools.chain([plain], numbered) if t not in titles))
    return titles


def _read(name: str, classifier: Classifier, asked: Asked) -> Subject:
    from clearhead.data.parts import read_examples
    from clearhead.tasks.classification import truth_of

    config = classifier.config
    named = {"text_column": asked.text_column, "label_column": asked.label_column}
    data = replace(config.data, **{key: column for key, column in named.items() if column})
    examples = read_examples(asked.data, replace(config, data=data))
    try:
        return Subject(classifier, examples, truth_of(examples, classifier.label_set))
    except DataError as error:
        # Another of the models may know the label.
        why = f"{name} does not know it; {error.why}"
        raise DataError(error.what, where=error.where, why=why, todo=error.todo) from None


def _as_dict(
    data: str, scores: Mapping[str, ClassScores], compared: Mapping[str, Comparison]
) -> dict[str, Any]:
    systems = {name: {"scores": found.to_dict()} for name, found in scores.items()}
    for name, comparison in compared.items():
        systems[name]["comparison"] = comparison._asdict()
    return {"data": data, "systems": systems}


def _as_lines(
    data: str, scores: Mapping[str, ClassScores], compared: Mapping[str, Comparison]
) -> list[str]:
    baseline = next(iter(scores))
    lines = [data]
    for name, found in scores.items():
        lines += ["", name, *found.lines()]
        if name in compared:
            comparison = compared[name]
            lines.append(
                f"against {baseline}: {comparison.second_only} right that it has wrong, "
                f"{comparison.first_only} wrong that it has right, "
                f"p = {comparison.p_value:.4f} (McNemar's exact test)"
            )
    return lines
