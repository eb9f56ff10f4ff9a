"""Labels and weights of examples, in the forms that scikit-learn takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from clearhead.api.classifier import is_missing, items_of
from clearhead.data.trainable import NO_REGRESSION
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.tokenizer.normal_form import LABEL

SEVERAL = (
    "give one label for each example, or of several labels a column of 0 and 1 for each, as "
    "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(labels) does"
)
"""The forms of labels."""


class Targets(NamedTuple):
    """The classes (K,) in order, the names of them, and the numbers of those of each example."""

    classes: np.ndarray
    names: list[str]
    numbers: list[list[int]]
    has_several: bool

    def indicators(self) -> np.ndarray:
        """Whether each label applies to each example, as 0 and 1, (N, K)."""
        found = np.zeros((len(self.numbers), len(self.classes)), dtype=int)
        for row, numbers in enumerate(self.numbers):
            found[row, numbers] = 1
        return found

    def check_like(self, classes: np.ndarray, has_several: bool) -> None:
        """Check that they have the form of the labels of a fitted classifier.

        Raises:
            DataError: they have another form, type or number.
        """
        if self.has_several != has_several:
            todo = "give them in the form of those that it was fitted to"
            raise DataError("the labels have another form than in the training", todo=todo)
        kinds = [each.dtype.kind in "US" for each in (self.classes, classes)]
        if not has_several and kinds[0] != kinds[1]:
            names = "numbers", "strings"
            what = f"the labels are {names[kinds[0]]}, and those of fit {names[kinds[1]]}"
            raise DataError(what, todo="convert them, e.g. y.astype(str)")
        # The columns of an array have no names but their numbers.
        known = [*range(len(classes))], classes.tolist()
        if has_several and self.classes.tolist() not in known:
            what = f"the labels are {self.classes.tolist()}, not {classes.tolist()}"
            raise DataError(what, todo="give a column for each, in this order")


def read_targets(y: Any, count: int, unit: str, owner: str) -> Targets:
    """The labels of so many examples: texts or sequences of an estimator of this name.

    Raises:
        DataError: they have another form or number.
    """
    if y is None:
        raise DataError(f"{owner} requires y to be passed, but the target y is None")
    columns = getattr(y, "columns", None) if getattr(y, "ndim", 2) == 2 else None
    table = _table(y)
    if table is None:
        found = _of_labels(items_of(y, "labels"))
    elif table.shape[1] == 1:
        if columns is None:
            _warn_of_column(owner)
        found = _of_labels(table[:, 0].tolist())
    else:
        found = _of_indicators(table, columns)
    if len(found.numbers) != count:
        raise DataError(f"there are {count:,} {unit} and {len(found.numbers):,} labels")
    return found


def read_weights(
    given: Iterable[float] | None, targets: Targets, by_label: Any, owner: str
) -> np.ndarray:
    """The weight of each example, (N,): what is given, times the weight of its labels.

    Args:
        given: (N,), weights of examples; None: all count the same.
        targets: the labels.
        by_label: a mapping from labels to weights; None or "balanced" changes no weight here.
        owner: the name of the estimator.

    Raises:
        ConfigError: `by_label` is wrong.
        DataError: `given` is wrong.
    """
    count = len(targets.numbers)
    weights = np.ones(count) if given is None else _weights(given, count)
    if by_label is None or is_balanced(by_label):
        return weights
    of_class, classes = list[float](), targets.classes.tolist()
    if isinstance(by_label, Mapping):
        _check_labels(by_label, classes, f"{owner}(class_weight=…)")
        with suppress(TypeError, ValueError):
            of_class = [float(by_label.get(each, 1.0)) for each in classes]
    if not of_class or min(of_class) < 0:
        raise ConfigError(
            'class_weight is not "balanced", None, or a mapping from labels to weights from 0',
            where=f"{owner}(class_weight={by_label!r})",
        )
    return weights * [np.prod([of_class[n] for n in each]) for each in targets.numbers]


def names_of(classes: np.ndarray) -> list[str]:
    """The names of labels in the model folder."""
    names = [LABEL(str(value).strip()) for value in classes]
    if len(set(names)) < len(names):
        what = "two labels differ only in spaces or in the form of their characters"
        raise DataError(what, why=f"they are {[str(value) for value in classes]!a}")
    return names


def is_balanced(class_weight: Any) -> bool:
    """Whether `class_weight` is "balanced"."""
    return isinstance(class_weight, str) and class_weight == "balanced"


def _table(y: Any) -> np.ndarray | None:
    """Labels as an array of two dimensions, if they have so many."""
    y = y.toarray() if hasattr(y, "toarray") else y
    is_nested = isinstance(y, list) and len(y) > 0 and isinstance(y[0], list | tuple | np.ndarray)
    if not is_nested and getattr(y, "ndim", 1) != 2:
        return None
    if is_nested and len({len(row) for row in y if isinstance(row, Sized)}) > 1:
        raise DataError("the lists of labels have unequal lengths", todo=SEVERAL)
    found = np.asarray(y)
    return found if found.ndim == 2 else None


def _of_labels(labels: Sequence[Any]) -> Targets:
    """One label for each example."""
    for number, label in enumerate(labels, start=1):
        if isinstance(label, Collection) and not isinstance(label, str):
            raise DataError(
                f"the label is {type_of(label)}", where=f"example {number}", todo=SEVERAL
            )
        if is_missing(label):
            todo = "leave the examples without a label out, e.g. table.dropna(subset=['label'])"
            raise DataError(f"the label is {label}", where=f"example {number}", todo=todo)
    try:
        values = np.asarray(labels)
        if values.ndim != 1:
            raise ValueError(f"they have the shape {values.shape}")
        if len({isinstance(label, str) for label in labels}) > 1:
            raise ValueError("some are strings and some are not")
        if values.dtype.kind == "f" and not all(value.is_integer() for value in values):
            raise DataError("the labels are continuous numbers", todo=NO_REGRESSION)
        classes, numbers = np.unique(values, return_inverse=True)
    except (TypeError, ValueError) as error:
        what = "the labels are not a string or whole number for each example"
        todo = f"{SEVERAL}; labels are all strings, or all whole numbers"
        raise DataError(what, why=str(error), todo=todo) from None
    return Targets(classes, names_of(classes), [[number] for number in numbers.tolist()], False)


def _of_indicators(values: np.ndarray, columns: Any) -> Targets:
    """Any number of labels for each example: (N, K), 1 where a label applies."""
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise DataError(
            "y has several columns, and not only 0 and 1",
            todo=SEVERAL,
        )
    classes = np.arange(values.shape[1]) if columns is None else np.asarray(list(columns))
    numbers = [np.flatnonzero(row).tolist() for row in values]
    return Targets(classes, names_of(classes), numbers, True)


def _check_labels(weights: Mapping[Any, float], classes: Sequence[Any], where: str) -> None:
    """Check that the labels of weights are those of the examples; a fold may lack some of them."""
    unknown, without = (
        [each for each in one if each not in two]
        for one, two in ((weights, classes), (classes, weights))
    )
    if unknown and without:
        raise ConfigError(
            f"no example has the label {unknown[0]!r}",
            where=where,
            why=f"{without[0]!r} has no weight",
            todo="correct the label, or give each label a weight",
        )


def _weights(values: Iterable[float], count: int) -> np.ndarray:
    """The weight of each example, (count,)."""
    try:
        weights = np.asarray(items_of(values, "sample_weight"), dtype=float)
        if weights.shape != (count,):
            raise ValueError(f"it has the shape {weights.shape}, and there are {count:,} examples")
        if not (weights >= 0).all() or not np.isfinite(weights.sum()):
            raise ValueError("a weight is negative or not finite")
        if not weights.any():
            raise ValueError("all weights are zero")
    except (TypeError, ValueError) as error:
        what = "there is not a weight for each example"
        raise DataError(what, where="sample_weight", why=str(error)) from None
    return weights


def _warn_of_column(name: str) -> None:
    """Warn that labels are a matrix of one column, as scikit-learn does."""
    from warnings import warn as warn_as

    kind: type[Warning] = UserWarning
    with suppress(ImportError):
        from sklearn.exceptions import DataConversionWarning as kind  # noqa: N813
    what = f"A column-vector y was passed when a 1d array was expected by {name}"
    warn_as(f"{what}: it is read as (N,)", kind, stacklevel=4)
