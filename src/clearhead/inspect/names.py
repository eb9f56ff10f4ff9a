"""Names that callers give: one, several in a list, or several in a text. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar, cast

from clearhead.errors import ConfigError, nearest

_Name = TypeVar("_Name", bound=str)


def listed(names: str | Iterable[str]) -> list[str]:
    """The names of a list, or those of a text, which commas separate."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def checked(
    names: str | Iterable[_Name], known: Collection[_Name], what: str, where: str
) -> list[_Name]:
    """The names, each of which must be known.

    Args:
        names: see `listed`.
        known: all names.
        what: what they name, for an error ("a measure").
        where: who asks, for an error.

    Raises:
        ConfigError: a name is unknown.
    """
    found = cast("list[_Name]", listed(names))
    for name in found:
        if name not in known:
            close = nearest(name, known)
            raise ConfigError(
                f"{name!r} is not {what}",
                where=where,
                why=f"there are {', '.join(known)}",
                todo=f"did you mean {close}?" if close else "choose from these",
            )
    return found
