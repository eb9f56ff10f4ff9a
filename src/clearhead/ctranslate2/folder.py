"""The folder of an export and its description: of which weights it is, and its limits.

Imports no torch, like everything that the CTranslate2 engine needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint import ModelFolder
from clearhead.errors import ExportError, ModelFolderError
from clearhead.files import read_json
from clearhead.settings import Learned, ModelConfig, config_to_dict

NAME = "ctranslate2"
"""The folder of an export within its model folder, by default."""

DESCRIPTION = "clearhead.json"
FORMAT = 1

TABLE_POSITIONS = 4096
"""Positions of an export whose model has no limit. By default 1,024 source tokens need 2,068."""

LONGEST_SOURCE = 1024
"""Source tokens of an export whose model has no limit."""


@dataclass(frozen=True)
class ExportedModel:
    """An export on disk; its weights are not loaded.

    Attributes:
        path: its folder.
        longest_source: the most tokens of a source.
        longest_output: the most tokens of an output, the end symbol counted as one.
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
        shared = self.path / "shared_vocabulary.json"
        if shared.exists():
            both = _read_vocabulary(shared)
            return both, both
        sides = ("source", "target")
        source, target = (_read_vocabulary(self.path / f"{s}_vocabulary.json") for s in sides)
        return source, target


def exported_model(path: Path, config: ModelConfig) -> ExportedModel:
    """The export of a model with these settings."""
    if isinstance(config.positions, Learned):
        most = config.positions.max_length
        return ExportedModel(path, most, most, trained_positions=True, d_model=config.d_model)
    return ExportedModel(
        path, LONGEST_SOURCE, TABLE_POSITIONS, trained_positions=False, d_model=config.d_model
    )


@dataclass(frozen=True)
class Origin:
    """The model that an export was made of, as SHA-256 digests.

    Attributes:
        weights: of the file of the weights.
        settings: of the model's settings.
        tokenizers: of the tokenizers' files.
    """

    weights: str
    settings: str
    tokenizers: str


@dataclass(frozen=True)
class FileStamp:
    """Identifies a version of a file without reading it.

    Attributes:
        size: in bytes.
        mtime_ns: the time of the last write, in nanoseconds.
    """

    size: int
    mtime_ns: int


def stamp_of(file: Path) -> FileStamp:
    """The stamp of a file as it is now.

    Raises:
        ModelFolderError: the file is missing or not accessible.
    """
    try:
        found = file.stat()
    except OSError as error:
        raise _unreadable(file, error) from None
    return FileStamp(found.st_size, found.st_mtime_ns)


def origin_of(found: ModelFolder, weights: str | None = None) -> Origin:
    """The digests of a model folder as it is now.

    Args:
        found: the model folder.
        weights: the digest of its weights, if it is known: large files take long to read.

    Raises:
        ModelFolderError: a file cannot be read.
    """
    names = ("tokenizer",) if found.config.tokenizer.joint else ("source", "target")
    files = [found.path / f"{name}{ending}" for name in names for ending in (".json", ".model")]
    settings = json.dumps(config_to_dict(found.config)["model"], sort_keys=True)
    return Origin(
        weights=_digest([found.weights]) if weights is None else weights,
        settings=hashlib.sha256(settings.encode()).hexdigest(),
        tokenizers=_digest([file for file in files if file.exists()]),
    )


def description(
    exported: ExportedModel,
    origin: Origin,
    weights: FileStamp,
    files: Mapping[str, int],
    equality: Mapping[str, Any],
) -> dict[str, Any]:
    """The content of an export's description.

    Args:
        exported: the export.
        origin: the model that it was made of.
        weights: the stamp of the file of the weights, taken before it was read.
        files: the size in bytes of each other file of the export.
        equality: the result of the comparison with the model.
    """
    limits = asdict(exported)
    del limits["path"]
    return {
        "format": FORMAT,
        "origin": asdict(origin),
        "weights_file": asdict(weights),
        "limits": limits,
        "files": dict(files),
        "equality": dict(equality),
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
    tree = _read_description(path, f"remove this folder, then {again}")
    for name, size in tree["files"].items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            what = "the export is damaged: a file is missing or has another size"
            raise ExportError(what, where=file, todo=again)
    # If the stamp is missing or differs, the weights are read.
    same_file = tree.get("weights_file") == asdict(stamp_of(found.weights))
    now = asdict(origin_of(found, tree["origin"]["weights"] if same_file else None))
    changed = [name for name, digest in now.items() if tree["origin"][name] != digest]
    if changed:
        raise ExportError(
            f"the export is of another model: its {' and '.join(changed)} differ",
            where=path,
            why="the model was trained or changed after it was exported",
            todo=again,
        )
    return ExportedModel(path=path, **tree["limits"])


def exported_files(path: Path) -> set[str] | None:
    """The names of the files of the export in a folder, its description included.

    None if there is no description, or none that can be read.
    """
    try:
        files = read_json(path / DESCRIPTION).get("files")
    except ModelFolderError:
        return None
    if not isinstance(files, dict):
        return None
    # Only names of files in this folder: "../x" is not one.
    return {DESCRIPTION, *(name for name in files if Path(name).name == name)}


def _read_description(path: Path, todo: str) -> dict[str, Any]:
    """The description of an export, with all its parts."""
    try:
        tree = read_json(path / DESCRIPTION)
    except ModelFolderError as error:
        raise ExportError(error.what, where=error.where, why=error.why, todo=todo) from None
    if tree.get("format") != FORMAT:
        what = f"the export has format {tree.get('format')!r}, this clearhead reads {FORMAT}"
        raise ExportError(what, where=path, todo=todo)
    try:
        ExportedModel(path=path, **tree["limits"])
        Origin(**tree["origin"])
        dict(tree["files"])
    except (KeyError, TypeError, ValueError) as error:
        what = "the description of the export is damaged"
        raise ExportError(what, where=path / DESCRIPTION, why=repr(error), todo=todo) from None
    return tree


def _read_vocabulary(path: Path) -> list[str]:
    try:
        return [str(token) for token in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise ExportError("the export is damaged", where=path, why=str(error)) from None


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
    return ModelFolderError("the file cannot be read", where=file, why=str(error))
