"""The part of `clearhead evaluate` that scores classifiers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from clearhead.cli.counter import Counter
from clearhead.cli.failures import say
from clearhead.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from clearhead.api import Classifier
    from clearhead.data.labelled import Labelled
    from clearhead.tasks.class_scores import ClassScores, Comparison


class Asked(NamedTuple):
    """What is to be scored, and in which form: text or JSON, with pictures in a folder or not."""

    data: str
    as_json: bool
    figures: Path | None


def evaluate_classes(
    names: Sequence[str], asked: Asked, batch_size: int, device: str, threads: int
) -> None:
    """Classify labelled examples with each model, and print how good it is.

    Raises:
        DataError: the data cannot be read, or have a label that a model does not know; or the
            pictures cannot be written.
    """
    from clearhead import api
    from clearhead.tasks.class_scores import compare, score_classes
    from clearhead.tasks.classification import truth_of

    scores: dict[str, ClassScores] = {}
    compared: dict[str, Comparison] = {}
    said: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in names:
        classifier = api.load_classifier(name, device=device, threads=threads)
        examples = _read(classifier, asked.data)
        counter = Counter(sys.stderr, len(examples))
        truth = truth_of(examples, classifier.label_set)
        several = classifier.config.classifier.multi_label
        try:
            found = classifier.probabilities(
                [example.input for example in examples],
                batch_size=batch_size,
                progress=counter.show,
            )
        finally:
            counter.clear()
        scores[name] = score_classes(found, truth, classifier.labels, several)
        said[name] = found, truth
        first, first_truth = said[names[0]]
        if name != names[0]:
            if truth.shape != first_truth.shape or (truth != first_truth).any():
                raise DataError("the models know different labels, so they cannot be compared")
            compared[name] = compare(first, found, truth, several)
    if asked.as_json:
        typer.echo(json.dumps(_as_dict(asked.data, scores, compared), indent=2))
    else:
        typer.echo("\n".join(_as_lines(asked.data, scores, compared)))
    if asked.figures is not None:
        _draw(scores, asked.figures)


def _draw(scores: Mapping[str, ClassScores], folder: Path) -> None:
    """The confusion matrix of each model, as a picture named after it."""
    import numpy as np

    from clearhead.inspect.figures import confusion_figure, write_figures

    pictures = []
    for name, found in scores.items():
        if found.confusion is None:
            raise DataError(
                "where examples may have several labels, there is no confusion matrix",
                todo="leave --figures out",
            )
        labels = [each.name for each in found.per_class]
        counts = np.array(found.confusion)
        pictures.append((f"confusion-{Path(name).name}", partial(confusion_figure, counts, labels)))
    for path in write_figures(pictures, folder):
        say(str(path))


def _read(classifier: Classifier, data: str) -> list[Labelled]:
    from clearhead.tasks.labelled_data import read_examples

    return read_examples(data, classifier.config)


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
