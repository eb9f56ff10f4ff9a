"""Names of attention heads, such as `decoder.3.cross.5`. Imports no torch.

Layers and heads count from 1. The beginning of a name stands for all heads below it: `decoder.3`
is layer 3 of the decoder, `decoder.3.cross` its cross-attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from clearhead.errors import ConfigError, nearest
from clearhead.inspect.names import listed

Attention = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder or of the decoder, or attention from target to source."""

Stack = Literal["encoder", "decoder"]


class Kind(NamedTuple):
    """A kind of attention.

    Attributes:
        title: for people.
        stack: the first part of the names of its heads, `encoder` or `decoder`.
        last: the third part, `self` or `cross`.
        field: its weights in the record of a layer.
    """

    title: str
    stack: Stack
    last: str
    field: str

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
    """The heads that names stand for, in the order of the model.

    Args:
        names: a list, or one text with commas.
        heads: all heads of the model.

    Raises:
        ConfigError: a name stands for no head of the model.
    """
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
