"""Labelled examples: a text or a feature sequence, its labels, and where it came from."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clearhead.data.hashes import pair_hash
from clearhead.errors import DataError

Input = TypeVar("Input", bound="str | np.ndarray")

_LINE_BREAKS = re.compile(r"[\r\n]+")


class Labelled(NamedTuple, Generic[Input]):
    """One example.

    Attributes:
        input: a text, or features, float32 (frames, width), in which NaN is a missing value.
        labels: its labels; () where it has none, or where they were not asked for.
        place: where it was read, as errors and reports name it: `train.csv:17`, `cat/3.npy`.
        columns: the name of each feature; () where its file gives none.
    """

    input: Input
    labels: tuple[str, ...]
    place: str
    columns: tuple[str, ...] = ()


LabelledText: TypeAlias = Labelled[str]
LabelledSequence: TypeAlias = Labelled[np.ndarray]


def in_columns(example: Labelled[Any], names: Sequence[str]) -> Labelled[Any]:
    """The features of an example in the order of these names, if both it and they have any.

    Raises:
        DataError: a feature is missing, or there is one that is not among the names.
    """
    if not names or not example.columns or example.columns == tuple(names):
        return example
    missing = [name for name in names if name not in example.columns]
    more = [name for name in example.columns if name not in names]
    if missing or more:
        lacking = f"lacks the features {', '.join(missing)}" if missing else ""
        having = f"has the features {', '.join(more)}, which the training data lack" if more else ""
        raise DataError(
            f"the sequence {' and '.join(filter(None, (lacking, having)))}",
            where=example.place,
            why=f"the training data have {', '.join(names)}",
            todo="give the columns the names that they have there, in any order, and no others",
        )
    order = [example.columns.index(name) for name in names]
    return example._replace(input=example.input[:, order], columns=tuple(names))


def one_line(text: str) -> str:
    """A text with a space for each of its line breaks, as training and use both read it."""
    return _LINE_BREAKS.sub(" ", text)


def input_hash(content: str | np.ndarray) -> int:
    """64 bits of a text without the spaces at its ends, or of the values of features."""
    if isinstance(content, str):
        return pair_hash(content)
    # All NaNs are one, and so are 0 and -0.
    values = np.where(np.isnan(content), np.float32("nan"), content + 0).astype("<f4")
    digest = hashlib.blake2b(repr(values.shape).encode() + values.tobytes(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def label_name(value: object, where: str) -> str:
    """A label as it was read, from text, JSON or an array: a string without spaces at its ends.

    Raises:
        DataError: it is missing, empty, or neither text nor a number.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise DataError(f"the label is {kind}, not text or a number", where=where)
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"the label is {value}", where=where)
    name = str(value).strip()
    if not name:
        raise DataError("the label is empty", where=where)
    refuse_unnamable(name, where)
    return name


def refuse_unnamable(label: str, where: str | None = None) -> None:
    """Raise a DataError for what a label cannot hold, since files have labels in columns."""
    refuse_unwritable(label, "the label", where)
    if any(mark in label for mark in "\n\r\t"):
        what = "a tab" if "\t" in label else "a line break"
        raise DataError(f"the label holds {what}", where=where, why=f"it is {label!r}")


def refuse_unwritable(text: str, what: str, where: str | None) -> None:
    """Raise a DataError for what JSON can say and a text file cannot hold."""
    if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
        raise DataError(f"{what} holds a NUL or half a character (a lone surrogate)", where=where)
