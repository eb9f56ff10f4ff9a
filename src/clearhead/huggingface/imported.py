"""An imported model before it is written, and what its comparison with the original needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.files import Saveable
from clearhead.settings import RunConfig

TOLERANCE = 1e-4
"""Greatest difference between hidden states or logits of the import and of the original."""

SENTENCES = (
    "Two dogs play in the snow.",
    "How many people lived in Madrid in 1987?",
    "The quick brown fox jumps over the lazy dog, while 23,481 others look on; none of them moves.",
    "Das hätte ich nicht gedacht: Straßen, Brücken, überall Wasser!",
    "¿Qué hora es? — No lo sé; pregúntale a Íñigo.",
    "中文句子也可以。 Ещё одно предложение. 🙂 x² + y² ≠ z²",
    "a",
)
"""Compared in one padded batch."""


@dataclass(frozen=True)
class Imported:
    """An imported model: its settings, its parameters by our names, and its other files."""

    config: RunConfig
    parameters: Mapping[str, Tensor]
    files: Mapping[str, Saveable]


def compare(what: str, ours: Tensor, theirs: Tensor, real: Tensor | None = None) -> None:
    """Compare two tensors, where `real` is True.

    Raises:
        ModelFolderError: they differ by more than `TOLERANCE`.
    """
    difference = (ours - theirs).abs()
    greatest = float((difference if real is None else difference[real]).max())
    if not greatest <= TOLERANCE:
        raise ModelFolderError(
            f"the {what} of the import differ from the original's by up to {greatest:.2g}",
            why=f"at most {TOLERANCE:g} is allowed; clearhead lacks a part of this model",
        )
