"""The labels that a text classifier is given, and their names in a model folder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from clearhead.data.labelled import refuse_unnamable
from clearhead.errors import DataError


def classes_of(labels: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, sorted, and for each text the number of its label.

    Raises:
        DataError: a label is missing, or they are not all strings or all numbers.
    """
    labels = list(labels)
    _check_labels(labels)
    try:
        values = np.asarray(labels)
        if values.ndim != 1:
            raise ValueError(f"they have the shape {values.shape}")
        return np.unique(values, return_inverse=True)
    except (TypeError, ValueError) as error:
        what = "the labels are not one string or number for each text"
        raise DataError(what, why=str(error)) from None


def _check_labels(labels: Sequence[Any]) -> None:
    """Refuse what numpy would silently make strings of."""
    for number, label in enumerate(labels, start=1):
        if label is None or (isinstance(label, float | np.floating) and math.isnan(label)):
            raise DataError(
                f"the label of text {number} is missing",
                why=f"it is {label}",
                todo="give the text a label, or leave it out",
            )
        if isinstance(label, str) != isinstance(labels[0], str):
            raise DataError(
                "some labels are strings and some are not",
                why=f"that of text 1 is a {type(labels[0]).__name__}, "
                f"that of text {number} a {type(label).__name__}",
                todo="make all of them strings, or none",
            )


def names_of(classes: np.ndarray) -> list[str]:
    """The labels as the model folder has them.

    Raises:
        DataError: one is empty or cannot stand in a file, or two are written alike.
    """
    names = [str(value).strip() for value in classes]
    for name in names:
        refuse_unnamable(name)
    if len(set(names)) < len(names) or not all(names):
        raise DataError("a label is empty, or two are written alike", why=f"they are {names}")
    return names
