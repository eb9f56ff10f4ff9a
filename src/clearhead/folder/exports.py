"""What exports of all formats share: written aside, compared, then moved into place.

An export is a folder with the files of another program and `clearhead.json`, its description:

    format, version         the name of the format, and the version of the description
    origin                  hashes of what the export was made of: weights, settings, …
    files                   size and SHA-256 hash of every file of the export, by name
    sha256                  a hash of the description itself
    comparison              sentences about the comparison with the model

Imports no torch, like everything that the CTranslate2 engine needs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.errors import ExportError, ModelFolderError, is_of_system
from clearhead.folder.files import LARGEST_FILE, make_folder, refuse_links, unwritable
from clearhead.folder.manifest import (
    Entries,
    Entry,
    check,
    is_leftover,
    read_manifest,
    replace_together,
)
from clearhead.folder.model_folder import PREPARED, SCORES, ModelFolder
from clearhead.settings import RunConfig
from clearhead.settings.declare import values_by_path

DESCRIPTION = "clearhead.json"

MOST_SIZE = 4
"""The largest file of an export, in sizes of the file of weights."""

VERSION = 1

CLASSIFIER_SETTINGS = (
    *("input", "data.max_length", "data.missing"),
    *("classifier.pooling", "classifier.hidden", "classifier.multi_label"),
    *("classifier.kernels", "classifier.kernel_reach", "classifier.ngrams"),
)
"""Settings besides those of the model that change what a classifier computes."""

Build = Callable[[Path], list[str]]
"""Writes the files of an export into an empty folder and compares it with the model; returns
sentences about the comparison, or raises an ExportError if the export is not equal."""


def write_export(found: ModelFolder, format: str, output: Path, build: Build) -> list[str]:
    """Write an export, and put it in the place of a previous one; returns what `build` returns.

    The export is built in a temporary folder. Only if `build` returns it is moved into place. Files
    in the folder that are not of the previous export are kept.

    Args:
        found: the model.
        format: the name of the format.
        output: the folder of the export.
        build: writes the files, and compares the export with the model.

    Raises:
        ExportError: `build` has raised it, or the folder contains other files that are in the way,
            or it cannot be written.
        ModelFolderError: the model folder cannot be read.
    """
    refuse_links(found.path, output, ExportError)
    output = output.resolve() if output.is_symlink() else output
    previous, is_new = _previous_export(output), not output.exists()
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        origin = origin_of(found)  # first: if the weights change meanwhile, the export is stale
        comparison = build(unfinished)
        built = sorted(unfinished.iterdir())
        _refuse_other_files(built, output, previous)
        make_folder(output)
        facts = dict(format=format, version=VERSION, origin=origin, comparison=comparison)
        replace_together(
            output,
            previous,
            {file.name: partial(os.replace, file) for file in built},
            removed=previous,
            manifest=DESCRIPTION,
            facts=facts,
            kind=ExportError,
        )
        return comparison
    except Exception as error:
        if not is_of_system(error):
            raise
        raise unwritable(output, error, ExportError) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new:
            with suppress(OSError):
                output.rmdir()  # fails if the folder has files, which is intended


def _previous_export(output: Path) -> Entries:
    """The entries of the previous export in a folder."""
    # None if the first export into this folder was killed.
    if not output.exists() or (output.is_dir() and all(map(is_leftover, output.iterdir()))):
        return {}
    try:
        return read_manifest(output, DESCRIPTION)[1]
    except ModelFolderError:
        raise ExportError(
            "there is something else where the export should be; nothing was changed",
            where=output,
            todo="remove it, or name another folder: --output FOLDER",
        ) from None


def _refuse_other_files(built: Sequence[Path], output: Path, previous: Entries) -> None:
    """Check that no new file has the name of a file that is not of the previous export."""
    for path in (output / file.name for file in built):
        if os.path.lexists(path) and (path.name not in previous or path.is_dir()):
            raise ExportError(
                "a file that is not of the previous export is in the way; nothing was changed",
                where=path,
                todo="move it, or name another folder for the export: --output FOLDER",
            )


def read_export(path: Path, format: str, found: ModelFolder) -> dict[str, Any]:
    """The description of the export in a folder, checked to be complete and of the model as it is.

    Raises:
        ExportError: there is none, it is damaged, or it is of another format or model.
        ModelFolderError: the model folder cannot be read.
    """
    again = f"export the model again: {command(found, format)}"
    if not (path / DESCRIPTION).is_file():
        todo = f"export the model: {command(found, format)}"
        raise ExportError(f"there is no export in the format {format}", where=path, todo=todo)
    tree, entries = _description(path, format, f"remove this folder, then {again}")
    origin, now = tree["origin"], origin_of(found)
    if changed := [name for name, sha256 in now.items() if origin.get(name) != sha256]:
        raise ExportError(
            f"the export is of another model: its {' and '.join(changed)} differ",
            where=path,
            why="the model was trained or changed after it was exported",
            todo=again,
        )
    # A sparse file takes no space, and reading it could take for ever.
    most = MOST_SIZE * (found.opened or found.weights_path).stat().st_size + LARGEST_FILE
    try:
        for name, entry in entries.items():
            if entry.size > most:
                raise damaged(path, f"{name} has {entry.size:,} bytes", again)
            check(path / name, entry)
    except ModelFolderError as error:
        if _description(path, format, again)[0] != tree:
            return read_export(path, format, found)  # it was replaced meanwhile
        what = f"the export is damaged: {error.what}"
        raise ExportError(what, where=error.where, why=error.why, todo=again) from None
    return tree


def command(found: ModelFolder, format: str) -> str:
    """The command that exports a model."""
    return f"clearhead export {found.path} --format {format}"


def damaged(path: Path, why: str, todo: str) -> ExportError:
    """The error of an export whose description lacks something, or has something else."""
    what = "the description of the export is damaged"
    return ExportError(what, where=path / DESCRIPTION, why=why, todo=todo)


def _description(path: Path, format: str, todo: str) -> tuple[dict[str, Any], Entries]:
    """The description in a folder, and the entries of the files."""
    try:
        tree, entries = read_manifest(path, DESCRIPTION)
    except ModelFolderError as error:
        raise ExportError(error.what, where=error.where, why=error.why, todo=todo) from None
    if tree.get("format") != format or tree.get("version") != VERSION:
        has = f"{tree.get('format')!r}, version {tree.get('version')!r}"
        what = f"the export has format {has}; this clearhead reads {format!r}, version {VERSION}"
        raise ExportError(what, where=path, todo=todo)
    if not isinstance(tree.get("origin"), dict):
        raise damaged(path, "it has no origin", todo)
    return tree, entries


# What an export is made of


def origin_of(found: ModelFolder) -> dict[str, str]:
    """The SHA-256 hashes of what an export is made of, by name.

    A translator has weights, settings and tokenizers; a classifier also labels, scores (with the
    temperature of its probabilities), and the normaliser of its features.

    Raises:
        ModelFolderError: a file cannot be read.
    """
    settings = json.dumps(dict(_changed_settings(found.config)), sort_keys=True)
    files = [name for name in PREPARED if name in found.content and name != "text_style.json"]
    if found.config.task == "classification" and not found.is_checkpoint:
        files.append(SCORES)
    return {
        "weights": found.weights_sha256,
        "settings": Entry.of(settings.encode()).sha256,
        **{name: found.sha256(name) for name in files},
    }


def _changed_settings(config: RunConfig) -> Iterator[tuple[str, Any]]:
    """The settings that change what a model computes and are not the default."""
    # Without the defaults, an export stays valid if a new version adds a setting.
    values, defaults = (values_by_path(asdict(each)) for each in (config, RunConfig()))
    for path, value in values.items():
        counts = path.startswith("model.")
        counts |= config.task == "classification" and path in CLASSIFIER_SETTINGS
        if counts and value != defaults.get(path):
            yield path, value
