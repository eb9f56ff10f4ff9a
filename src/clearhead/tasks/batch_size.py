"""How many inputs are computed together, as a user may choose it."""

from __future__ import annotations

from typing import Any

from clearhead.errors import ClearheadError


def check_batch_size(batch_size: Any, unit: str, where: str, error: type[ClearheadError]) -> None:
    """Refuse what is no whole number of at least 1.

    Args:
        batch_size: as it was given.
        unit: what it counts: "sentences".
        where: the name of the method it was given to.
        error: the error of that method's arguments.

    Raises:
        ClearheadError: of the type that was asked for.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise error(
            f"batch_size = {batch_size!r} is not a number of {unit}",
            where=where,
            todo="give a whole number of at least 1",
        )
