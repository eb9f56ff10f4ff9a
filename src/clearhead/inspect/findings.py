"""What inspection has found out about a model, kept in its folder beside it.

    inspection/study.json       importance, roles and mean outputs of the heads, faithfulness
    inspection/alignment.json   how the model aligns words

Each has the hash of the weights that it was found with, and a hash of itself. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.errors import DataError, ModelFolderError
from clearhead.folder.files import make_folder, read_json, refuse_links, unwritable, write_json
from clearhead.folder.manifest import sealed, unsealed
from clearhead.folder.model_folder import ModelFolder

FOLDER = "inspection"
STUDY, ALIGNMENT = "study.json", "alignment.json"


def read_finding(found: ModelFolder, name: str) -> dict[str, Any] | None:
    """What was found about these weights; None if there is nothing, or of other weights."""
    path = found.path / FOLDER / name
    if not path.is_file():
        return None
    try:
        tree = unsealed(read_json(path))
    except ValueError as error:
        todo = "remove it, and repeat clearhead study or align"
        what = "the file is damaged, was changed, or is of another version"
        raise ModelFolderError(what, where=path, why=str(error), todo=todo) from None
    return tree if tree.get("weights") == found.weights_sha256 else None


def write_finding(found: ModelFolder, name: str, tree: Mapping[str, Any]) -> Path:
    """Keep what was found about the weights of a model; returns the file."""
    refuse_links(found.path, found.path, DataError)
    path = found.path / FOLDER / name
    try:
        make_folder(path.parent)
    except OSError as error:
        raise unwritable(path.parent, error, DataError) from None
    write_json(path, sealed({"weights": found.weights_sha256, **tree}), DataError)
    return path
