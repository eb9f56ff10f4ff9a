"""What an export for CTranslate2 says of itself: whose weights it has, and how many positions.

Free of torch, like all that the CTranslate2 engine needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint import ModelFolder, read_json
from clearhead.errors import ExportError, ModelFolderError
from clearhead.settings import Learned, ModelConfig, config_to_dict

NAME = "ctranslate2"
"""The folder of an export within its model folder, unless another was asked for."""

DESCRIPTION = "clearhead.json"
FORMAT = 1

TABLE_POSITIONS = 4096
"""Positions of an export whose model has no limit: enough for 1,024 tokens of a source to become
2,068 by default."""

LONGEST_SOURCE = 1024
"""Tokens of a source for an export whose model has no limit."""


@dataclass(frozen=True)
class Origin:
    """Which model an export was made of, as SHA-256 digests.

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
    """By what a file is known again without being read: whoever writes it changes the time.

    Attributes:
        size: in bytes.
        mtime_ns: when it was last written, in nanoseconds.
    """

    size: int
    mtime_ns: int


def stamp_of(file: Path) -> FileStamp:
    """The stamp of a file as it is now.

    Raises:
        ModelFolderError: it cannot be looked at.
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
        weights: the digest of its weights, where it is known: large files take long to read.

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


def _digest(files: list[Path]) -> str:
    try:
        if len(files) == 1:
            with files[0].open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256("".join(_digest([file]) for file in files).encode()).hexdigest()
    except OSError as error:
        raise _unreadable(files[0], error) from None


def _unreadable(file: Path, error: OSError) -> ModelFolderError:
    return ModelFolderError("it cannot be read", where=file, why=str(error))


@dataclass(frozen=True)
class ExportedModel:
    """An export on disk, read without loading its weights.

    Attributes:
        path: its folder.
        longest_source: the most tokens of a source.
        longest_output: the most tokens of an output, the end symbol counted as one.
        trained_positions: whether that limit is the model's own, and not only the export's.
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


def description(
    origin: Origin,
    weights: FileStamp,
    config: ModelConfig,
    files: Mapping[str, int],
    equality: Mapping[str, Any],
) -> dict[str, Any]:
    """What is written into an export about it.

    Args:
        origin: which model it is of.
        weights: the stamp of the weights' file, taken before it was read.
        config: the model's settings.
        files: the size in bytes of each other file of the export.
        equality: what was compared before the export took its place, and what was found.
    """
    source, output = LONGEST_SOURCE, TABLE_POSITIONS
    if isinstance(config.positions, Learned):
        source = output = config.positions.max_length
    limits = {
        "longest_source": source,
        "longest_output": output,
        "trained_positions": isinstance(config.positions, Learned),
        "d_model": config.d_model,
    }
    return {
        "format": FORMAT,
        "origin": asdict(origin),
        "weights_file": asdict(weights),
        "limits": limits,
        "files": dict(files),
        "equality": dict(equality),
    }


def read_export(path: Path, found: ModelFolder) -> ExportedModel:
    """The export in a folder, checked to be whole and of the model as it is now.

    Raises:
        ExportError: there is none, it is damaged, or it is of other weights.
        ModelFolderError: the model folder cannot be read.
    """
    todo = f"export it: clearhead export {found.path} --format ctranslate2"
    if not (path / DESCRIPTION).is_file():
        raise ExportError("there is no export for CTranslate2", where=path, todo=todo)
    again = todo.replace("export it", "export it again")
    tree = _read_description(path, again)
    for name, size in tree["files"].items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            what = "the export is damaged: a file is missing or cut off"
            raise ExportError(what, where=file, todo=again)
    # Without a stamp, or with another one, the weights are read.
    same_file = tree.get("weights_file") == asdict(stamp_of(found.weights))
    now = asdict(origin_of(found, tree["origin"]["weights"] if same_file else None))
    changed = [name for name, digest in now.items() if tree["origin"][name] != digest]
    if changed:
        raise ExportError(
            f"the export is of another model: its {' and '.join(changed)} differ",
            where=path,
            why="the model was trained on, or changed, after it was exported",
            todo=again,
        )
    return ExportedModel(path=path, **tree["limits"])


def _read_description(path: Path, todo: str) -> dict[str, Any]:
    """The description of an export, its parts there and of the right kind."""
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
