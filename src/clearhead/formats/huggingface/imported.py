"""An imported model before it is written, and what its comparison with the original needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import Stored
from clearhead.formats.huggingface.library import TOLERANCE
from clearhead.settings import RunConfig


@dataclass(frozen=True)
class Imported:
    """An imported model: its settings, its parameters by our names, and its other files."""

    config: RunConfig
    parameters: Mapping[str, Tensor]
    files: Mapping[str, Stored]


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
