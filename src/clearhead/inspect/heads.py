"""Names that users give, e.g. of heads, such as `decoder.3.cross.5`. Imports no torch.

Layers and heads count from 1. The beginning of a name stands for all heads below it: `decoder.3`
is layer 3 of the decoder, `decoder.3.cross` its cross-attention.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar, cast

from clearhead.errors import ConfigError, nearest

_Name = TypeVar("_Name", bound=str)

Attention = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder or of the decoder, or attention from target to source."""

Stack = Literal["encoder", "decoder"]


class Kind(NamedTuple):
    """A kind of attention, with the first and the third part of the names of its heads."""

    title: str
    stack: Stack
    last: str
    field: str  # its weights in the record of a layer

    def has(self, name: str) -> bool:
        """Whether a head or an attention is of this kind, by its name."""
        return name.split(".")[::2] == [self.stack, self.last]


KINDS: dict[Attention, Kind] = {
    "encoder": Kind("Encoder self-attention", "encoder", "self", "attention"),
    "decoder": Kind("Decoder self-attention", "decoder", "self", "self_attention"),
    "cross": Kind("Cross-attention", "decoder", "cross", "cross_attention"),
}
"""In the order of the paper's figure 1."""


class Head(NamedTuple):
    """Head `number` (from 1) of an attention such as `decoder.3.cross`."""

    attention: str
    number: int

    def __str__(self) -> str:
        return f"{self.attention}.{self.number}"


def chosen_heads(names: str | Iterable[str], heads: Sequence[Head]) -> tuple[Head, ...]:
    """The heads of a model that names stand for, in its order; all names must be known."""
    chosen: set[Head] = set()
    for name in listed(names):
        found = {head for head in heads if f"{head}.".startswith(f"{name}.")}
        if not found:
            parts = [str(head).split(".") for head in heads]
            known = dict.fromkeys(".".join(each[:n]) for each in parts for n in range(1, 5))
            close = nearest(name, known)
            raise ConfigError(
                f"{name!r} is not a head of this model",
                why=f"its heads are {heads[0]} to {heads[-1]}, in that order",
                todo=f"did you mean {close}?" if close else None,
            )
        chosen |= found
    return tuple(head for head in heads if head in chosen)


def listed(names: str | Iterable[str]) -> list[str]:
    """The names of a list, or those of a text, which commas separate."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def checked(
    names: str | Iterable[_Name], known: Collection[_Name], what: str, where: str
) -> list[_Name]:
    """The names of what a ConfigError calls `what` (`a measure`); each must be known."""
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
