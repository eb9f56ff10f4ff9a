"""The items of what people give: a list, a generator, a column of a table; but no table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clearhead.data.labelled import Labelled
from clearhead.errors import DataError


def items_of(values: Iterable[Any], what: str, *, arrays: bool = False) -> list[Any]:
    """The items in their order: of a column of a table not in that of its index.

    Args:
        values: to be listed.
        what: they are called in a message ("texts").
        arrays: whether an item may be an array, so that all may lie in one of more dimensions.

    Raises:
        DataError: it is a table or a mapping, whose items are but the names of its columns.
        TypeError: it is a single string or example.
    """
    if isinstance(values, str | bytes | Labelled):
        one = "example" if isinstance(values, Labelled) else "string"
        raise TypeError(f"{what} is a single {one}: give a list of {what}")
    # A column of a table, whose index may have any names, has one dimension.
    has_columns = hasattr(values, "columns") and getattr(values, "ndim", 2) != 1
    too_many = not arrays and getattr(values, "ndim", 1) != 1
    if isinstance(values, Mapping) or has_columns or too_many:
        shape = getattr(values, "shape", None)
        raise DataError(
            f"the {what} are not a list but {f'of shape {tuple(shape)}' if shape else 'a table'}",
            todo=f"give one column, e.g. table['{what.removesuffix('s')}']",
        )
    return list(values)


def texts_of(values: Iterable[str]) -> list[str]:
    """As `items_of`, of texts.

    Raises:
        DataError: one is no string, or as in `items_of`.
        TypeError: it is a single string.
    """
    texts = items_of(values, "texts")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise DataError(f"text {number} is a {type(text).__name__}, not a string")
    return texts
