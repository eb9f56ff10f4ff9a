"""The items of what people give: a list, a generator, a column of a table; but no table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clearhead.data.labelled import Labelled
from clearhead.errors import DataError


def items_of(values: Iterable[Any], what: str) -> list[Any]:
    """The items in their order: of a column of a table not in that of its index.

    Args:
        values: to be listed.
        what: they are called in a message ("texts").

    Raises:
        DataError: it is a table or a mapping, whose items are but the names of its columns.
        TypeError: it is a single string or example.
    """
    if isinstance(values, str | bytes | Labelled):
        one = "example" if isinstance(values, Labelled) else "string"
        raise TypeError(f"{what} is a single {one}: give a list of {what}")
    # A column of a table, whose index may have any names, has one dimension.
    if isinstance(values, Mapping) or (
        hasattr(values, "columns") and getattr(values, "ndim", 2) != 1
    ):
        refuse_table(values, what)
    return list(values)


def texts_of(values: Iterable[str], what: str = "texts") -> list[str]:
    """As `items_of`, where all are strings.

    Raises:
        DataError: one is no string, or as in `items_of`.
        TypeError: it is a single string.
    """
    if getattr(values, "ndim", 1) != 1:
        refuse_table(values, what)
    texts = items_of(values, what)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            name = f"{what.removesuffix('s')} {number}"
            raise DataError(f"{name} is a {type(text).__name__}, not a string")
    return texts


def refuse_table(values: Any, what: str) -> None:
    """Say that this is a table.

    Raises:
        DataError: always.
    """
    is_of = f"of shape {tuple(values.shape)}" if hasattr(values, "shape") else "a table"
    raise DataError(
        f"the {what} are not a list but {is_of}",
        todo=f"give one column, e.g. table['{what.removesuffix('s')}']",
    )
