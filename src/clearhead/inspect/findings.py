"""What inspection has found out about a model, kept in its folder beside it.

    inspection/study.json       importance and roles of the heads, faithfulness of the measures
    inspection/means.safetensors    mean output of each head
    inspection/alignment.json   how the model aligns words
    inspection/manifest.json    size and hash of these files

Each has the hash of the weights that it was found with. Imports no torch.
"""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import DataError, ModelFolderError
from clearhead.folder.files import (
    LARGEST_FILE,
    Write,
    json_bytes,
    make_folder,
    open_to_append,
    read_json,
    refuse_links,
    unwritable,
)
from clearhead.folder.manifest import MANIFEST, Entries, check, read_manifest, replace_together
from clearhead.folder.model_folder import ModelFolder, written
from clearhead.folder.tensors import read_tensors, save_tensors

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "inspection"
STUDY, ALIGNMENT, MEANS = "study.json", "alignment.json", "means.safetensors"


def read_finding(found: ModelFolder, name: str) -> dict[str, Any] | None:
    """What was found about these weights; None if there is nothing, or of other weights."""
    if (path := _checked(found, name)) is None:
        return None
    tree = read_json(path)
    return tree if tree.get("weights") == found.weights_sha256 else None


def write_finding(found: ModelFolder, name: str, tree: Mapping[str, Any]) -> Path:
    """Keep what was found about the weights of a model; returns the file."""
    return _write(found, name, written(json_bytes({"weights": found.weights_sha256, **tree})))


def read_means(found: ModelFolder) -> Mapping[str, Tensor]:
    """The mean outputs (heads, d_v) of the heads of each attention."""
    path, where = _checked(found, MEANS), found.path / FOLDER / MEANS
    todo = f"compute them: clearhead study {found.path}"
    if path is None:
        what = "the mean outputs of the heads are not known"
        raise ModelFolderError(what, where=where, todo=todo)
    tensors, facts = read_tensors(path)
    if facts.get("weights") != found.weights_sha256:
        what = "the mean outputs of the heads are of other weights"
        raise ModelFolderError(what, where=where, todo=todo)
    return tensors


def write_means(found: ModelFolder, means: Mapping[str, Tensor]) -> None:
    """Keep the mean outputs of the heads."""
    facts = {"weights": found.weights_sha256}
    _write(found, MEANS, partial(save_tensors, tensors=means, facts=facts))


def _entries(folder: Path) -> Entries:
    if not (folder / MANIFEST).is_file():
        return {}
    try:
        return read_manifest(folder)[1]
    except ModelFolderError as error:
        todo = f"remove {folder}, and repeat clearhead study or align"
        raise ModelFolderError(error.what, where=error.where, why=error.why, todo=todo) from None


def _checked(found: ModelFolder, name: str) -> Path | None:
    """The file with a finding, compared with its entry; None if there is none."""
    folder = found.path / FOLDER
    if (entry := _entries(folder).get(name)) is None:
        return None
    if entry.size > LARGEST_FILE:
        what = f"the file has more than {LARGEST_FILE:,} bytes"
        raise ModelFolderError(what, where=folder / name, todo=f"remove {folder}")
    check(folder / name, entry)
    return folder / name


def _write(found: ModelFolder, name: str, write: Write) -> Path:
    refuse_links(found.path, found.path, DataError)
    folder = found.path / FOLDER
    before: Entries = {}
    try:
        make_folder(folder)
        with open_to_append(folder / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # study and align may write at the same time
            with suppress(ModelFolderError):  # a damaged manifest is replaced
                before = _entries(folder)
            replace_together(folder, before, {name: write}, kind=DataError)
    except OSError as error:
        raise unwritable(folder, error, DataError) from None
    return folder / name
