"""The folder of an export and its description: the model that it was made of, and its limits.

Imports no torch, like everything that the CTranslate2 engine needs.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint.folder import ModelFolder
from clearhead.decoding.engine import LONGEST_SOURCE
from clearhead.errors import ExportError, ModelFolderError, reason
from clearhead.files import read_json
from clearhead.settings import Learned, ModelConfig

NAME = "ctranslate2"
"""The default name of an export's folder within its model folder."""

DESCRIPTION = "clearhead.json"
FORMAT = 1
ORIGIN = ("weights", "settings", "tokenizers")

TABLE_POSITIONS = 4096
"""Positions of an export whose model has no limit. By default 1,024 source tokens need 2,068."""


@dataclass(frozen=True)
class ExportedModel:
    """An export on disk; its weights are not loaded.

    Attributes:
        path: its folder.
        longest_source: the maximum number of tokens of a source.
        longest_output: the maximum number of tokens of an output, the end symbol included.
        trained_positions: whether this limit is the model's, not only the export's.
        d_model: the width of the model.
    """

    path: Path
    longest_source: int
    longest_output: int
    trained_positions: bool
    d_model: int

    def vocabularies(self) -> tuple[list[str], list[str]]:
        """The name of each source id and of each target id.

        Raises:
            ExportError: a file is missing or damaged.
        """
        shared = (self.path / "shared_vocabulary.json").exists()
        found = []
        for side in ("shared", "shared") if shared else ("source", "target"):
            path = self.path / f"{side}_vocabulary.json"
            try:
                found.append([str(token) for token in json.loads(path.read_text(encoding="utf-8"))])
            except (OSError, ValueError, TypeError) as error:
                raise ExportError("the export is damaged", where=path, why=reason(error)) from None
        return found[0], found[1]


def exported_model(path: Path, config: ModelConfig) -> ExportedModel:
    """The export of a model with these settings."""
    if isinstance(config.positions, Learned):
        longest = config.positions.max_length
        return ExportedModel(path, longest, longest, True, config.d_model)
    return ExportedModel(path, LONGEST_SOURCE, TABLE_POSITIONS, False, config.d_model)


def stamp_of(file: Path) -> dict[str, int]:
    """Size in bytes and time of the last write in nanoseconds: identify a version of a file.

    Raises:
        ModelFolderError: the file is missing or not accessible.
    """
    try:
        found = file.stat()
    except OSError as error:
        raise _unreadable(file, error) from None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}


def origin_of(found: ModelFolder, weights: str | None = None) -> dict[str, str]:
    """The SHA-256 digests of what a model folder consists of: see `ORIGIN`.

    Args:
        found: the model folder.
        weights: the digest of its weights, if it is known: large files take long to read.

    Raises:
        ModelFolderError: a file cannot be read.
    """
    names = ("tokenizer",) if found.config.tokenizer.joint else ("source", "target")
    files = [found.path / f"{name}{ending}" for name in names for ending in (".json", ".model")]
    settings = json.dumps(asdict(found.config)["model"], sort_keys=True)
    return {
        "weights": _digest([found.weights]) if weights is None else weights,
        "settings": hashlib.sha256(settings.encode()).hexdigest(),
        "tokenizers": _digest([file for file in files if file.exists()]),
    }


def read_export(path: Path, found: ModelFolder) -> ExportedModel:
    """The export in a folder, checked to be complete and of the model as it is now.

    Raises:
        ExportError: there is none, it is damaged, or it is of another model.
        ModelFolderError: the model folder cannot be read.
    """
    command = f"clearhead export {found.path} --format ctranslate2"
    if not (path / DESCRIPTION).is_file():
        todo = f"export the model: {command}"
        raise ExportError("there is no export for CTranslate2", where=path, todo=todo)
    again = f"export the model again: {command}"
    exported, tree = _read_description(path, f"remove this folder, then {again}")
    for name, size in tree["files"].items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            what = "the export is damaged: a file is missing or has another size"
            raise ExportError(what, where=file, todo=again)
    # If the stamp is missing or differs, the weights are read.
    same_file = tree.get("weights_file") == stamp_of(found.weights)
    now = origin_of(found, tree["origin"]["weights"] if same_file else None)
    changed = [name for name, digest in now.items() if tree["origin"][name] != digest]
    if changed:
        raise ExportError(
            f"the export is of another model: its {' and '.join(changed)} differ",
            where=path,
            why="the model was trained or changed after it was exported",
            todo=again,
        )
    return exported


def _read_description(path: Path, todo: str) -> tuple[ExportedModel, dict[str, Any]]:
    """The export in a folder, and its description, which has all parts."""
    file = path / DESCRIPTION
    try:
        tree = read_json(file)
        if tree.get("format") != FORMAT:
            what = f"the export has format {tree.get('format')!r}, this clearhead reads {FORMAT}"
            raise ExportError(what, where=path, todo=todo)
        tree["files"] = dict(tree["files"])
        tree["origin"] = {name: tree["origin"][name] for name in ORIGIN}
        return ExportedModel(path=path, **tree["limits"]), tree
    except ModelFolderError as error:
        raise ExportError(error.what, where=error.where, why=error.why, todo=todo) from None
    except (KeyError, TypeError, ValueError) as error:
        what = "the description of the export is damaged"
        raise ExportError(what, where=file, why=repr(error), todo=todo) from None


def _digest(files: list[Path]) -> str:
    """The SHA-256 digest of a file, or of the digests of several."""
    try:
        if len(files) == 1:
            with files[0].open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256("".join(_digest([file]) for file in files).encode()).hexdigest()
    except OSError as error:
        raise _unreadable(files[0], error) from None


def _unreadable(file: Path, error: OSError) -> ModelFolderError:
    return ModelFolderError("the file cannot be read", where=file, why=reason(error))
