"""What inspection has found out about a model, kept in its folder beside it.

    inspection/study.json       importance and roles of the heads, faithfulness of the measures
    inspection/means.safetensors    mean output of each head
    inspection/alignment.json   how the model aligns words

Each has the checksum of the weights that it was found with. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import DataError, ModelFolderError
from clearhead.folder.files import (
    LARGEST_FILE,
    Write,
    read_json,
    refuse_links,
    write_json,
    write_together,
)
from clearhead.folder.model_folder import ModelFolder
from clearhead.folder.tensors import read_digest, read_tensors, save_tensors

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "inspection"
STUDY, ALIGNMENT, MEANS = "study.json", "alignment.json", "means.safetensors"


def read_finding(found: ModelFolder, name: str) -> dict[str, Any] | None:
    """What was found about these weights; None if there is nothing, or of other weights."""
    path = found.path / FOLDER / name
    if not path.is_file():
        return None
    tree = read_json(path)
    return tree if tree.get("weights") == read_digest(found.weights) else None


def write_finding(found: ModelFolder, name: str, tree: Mapping[str, Any]) -> Path:
    """Keep what was found about the weights of a model; returns the file."""
    content = {"weights": read_digest(found.weights), **tree}
    return _write(found, name, partial(write_json, tree=content))


def read_means(found: ModelFolder) -> Mapping[str, Tensor]:
    """The mean outputs (heads, d_v) of the heads of each attention."""
    path = found.path / FOLDER / MEANS
    todo = f"compute them: clearhead study {found.path}"
    if not path.is_file():
        what = "the mean outputs of the heads are not known"
        raise ModelFolderError(what, where=path, todo=todo)
    if path.stat().st_size > LARGEST_FILE:
        what = f"the mean outputs of the heads have more than {LARGEST_FILE:,} bytes"
        raise ModelFolderError(what, where=path, todo=todo)
    tensors, facts = read_tensors(path)
    if facts.get("weights") != read_digest(found.weights):
        what = "the mean outputs of the heads are of other weights"
        raise ModelFolderError(what, where=path, todo=todo)
    return tensors


def write_means(found: ModelFolder, means: Mapping[str, Tensor]) -> None:
    """Keep the mean outputs of the heads."""
    facts = {"weights": read_digest(found.weights)}
    _write(found, MEANS, partial(save_tensors, tensors=means, facts=facts))


def _write(found: ModelFolder, name: str, write: Write) -> Path:
    refuse_links(found.path, found.path, DataError)
    (path,) = write_together(found.path / FOLDER, [(name, write)])
    return path
