"""The model folder: everything that is needed to use a model or to resume its training.

    config.json             the run's configuration, and the version of this layout
    weights.safetensors     the weights with the best validation score, or the average of the last
                            ones (training.keep)
    tokenizer…              turn text into numbers and back
    labels, normaliser      a classifier's labels; the scale of its features
    text_style.json         how the training texts look: case, tokenisation, quotation marks
    scores.json             validation scores of these weights, with sacreBLEU's signatures and
                            the checksum of the weights
    provenance.json         the origin of the weights: data hashes, versions, steps
    manifest.json           size and SHA-256 hash of each of these files
    training/               only needed to resume: state, corpus, log, and checkpoints (the best;
                            until the end of a run the last few, then their average)

Nothing is pickled. Files that change together are replaced together (see `manifest`), so a crash
while writing loses nothing. A file is compared with the manifest when it is read; a folder without
a manifest is that of an earlier version, and is read without it.
"""

from __future__ import annotations

import os
import shutil
import sys
import weakref
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.device import memory_of_process
from clearhead.errors import ConfigError, ModelFolderError, reason
from clearhead.folder.files import (
    COPY_AGAIN,
    Saveable,
    make_folder,
    read_bounded,
    read_json,
    unwritable,
    write_json,
)
from clearhead.folder.manifest import (
    Entry,
    check,
    checked_entries,
    replace_in_model_folder,
    settled_entries,
)
from clearhead.folder.tensors import CHECKPOINTS, SCORES, WEIGHTS, read_digest, read_tensors
from clearhead.settings import RunConfig, config_from
from clearhead.tokenizer import Tokenizer, load_tokenizer, with_form

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
"""The version of the layout."""

LOG = "training/log.jsonl"
"""Path of the log of a run in a model folder."""

TRAIN_ONE = "train a model: clearhead init writes a configuration, and clearhead train reads it"
REPEAT = "repeat its clearhead train command"
"""What to do without a model, and for a run of which only the folder is known."""

READ_LATER = (WEIGHTS, SCORES, "provenance.json")
"""Files that are large, or that a translation does not need. Who reads them checks them."""

SOURCE_TOKENIZER, TARGET_TOKENIZER, JOINT_TOKENIZER = "source", "target", "tokenizer"


@dataclass(frozen=True)
class ModelFolder:
    """A trained model on disk; its weights are not yet loaded.

    Attributes:
        path: its folder.
        config: its configuration.
        weights: the file of its weights.
        expected: the entry of this file in the manifest of the folder; a checkpoint has none.
    """

    path: Path
    config: RunConfig
    weights: Path
    expected: Entry | None = None

    @property
    def is_checkpoint(self) -> bool:
        """Whether the weights are those of a checkpoint instead of the folder's own."""
        return self.weights.parts[-3:-1] == CHECKPOINTS

    def kept_open(self) -> ModelFolder:
        """The same model; its weights stay readable after other weights have replaced them."""
        try:
            number = os.open(self.weights, os.O_RDONLY)
        except OSError:
            return self  # whoever reads them gets the error
        kept = replace(self, weights=Path(f"/dev/fd/{number}"))
        weakref.finalize(kept, os.close, number)
        return kept


def write_model_folder(path: Path, config: RunConfig, files: Mapping[str, Saveable]) -> None:
    """Write a model folder without weights and scores: the configuration, and files by name.

    Raises:
        ModelFolderError: it cannot be written, e.g. because the disk is full.
    """
    unfinished = path / ".unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)  # a symbolic link stays
        make_folder(path)
        unfinished.mkdir()
        for name, content in files.items():
            content.save(unfinished, name)
        write_json(unfinished / "config.json", {"format": FORMAT, "config": asdict(config)})
        written = sorted(unfinished.iterdir())
        replace_in_model_folder(path, {file.name: partial(os.replace, file) for file in written})
    except OSError as error:
        raise unwritable(path, error) from None
    except ModelFolderError as error:
        where = path / Path(error.where or "").name
        raise ModelFolderError(error.what, where=where, why=error.why, todo=error.todo) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read_model_folder(path: str | Path) -> ModelFolder:
    """Read and check a model folder; torch is not needed.

    Args:
        path: the folder; or one of the checkpoints in it, to use the weights of the checkpoint:
            `FOLDER/training/checkpoints/average.safetensors`.

    Raises:
        ModelFolderError: it is missing, unreadable, damaged, of another version, or has no weights
            or more than fit into memory.
    """
    named, path = Path(os.path.expanduser(path)), folder_of(path)
    weights = path / WEIGHTS if named == path else named
    try:
        found = path.is_dir()
    except OSError as error:  # no permission for a folder above it, or the name is too long
        raise ModelFolderError(
            "the model folder cannot be read", where=path, why=reason(error)
        ) from None
    if not found:
        if path.is_file():
            what, todo = "this is a file, not a model folder", "name a folder such as runs/my-model"
            if (path.parent / "config.json").exists():
                todo = f"did you mean {path.parent}?"
        else:
            what, todo = "there is no such model folder", f"check the path, or {TRAIN_ONE}"
        raise ModelFolderError(what, where=path, todo=todo)
    config = read_folder_config(path)
    if not os.path.isfile(weights):
        raise _missing_weights(weights, path)
    _check_size(weights)
    expected = settled_entries(path).get(WEIGHTS) if named == path else None
    return ModelFolder(path, config, weights, expected)


def _check_size(weights: Path) -> None:
    """Check that weights fit into memory, before they are read: a sparse file may have any size.

    Raises:
        ModelFolderError: they do not.
    """
    size, memory = weights.stat().st_size, memory_of_process()
    if size > memory:
        raise ModelFolderError(
            "the weights do not fit into the memory of this machine or container",
            where=weights,
            why=f"they have {size:,} bytes, the memory {memory:,}",
            todo=f"use one with more memory; if they should be smaller, {COPY_AGAIN}",
        )


def read_weights(found: ModelFolder) -> dict[str, Tensor]:
    """The weights of a model.

    Raises:
        ModelFolderError: the file is missing or damaged.
    """
    tensors, _ = read_tensors(found.weights, found.expected)
    return tensors


IMPORTED_FROM = "imported from"
"""The fact in `provenance.json` of an imported model: its source."""


def is_imported(path: Path) -> bool:
    """Whether a model folder has a model that `clearhead import` wrote and no run has trained."""
    try:
        return IMPORTED_FROM in read_json(path / "provenance.json")
    except ModelFolderError:  # missing or damaged
        return False


def folder_of(path: str | Path) -> Path:
    """The model folder of a path, which is the folder or one of its checkpoints."""
    path = Path(os.path.expanduser(path))
    is_checkpoint = path.suffix == ".safetensors" and path.parts[-3:-1] == CHECKPOINTS
    return path.parents[2] if is_checkpoint else path


def _missing_weights(weights: Path, path: Path) -> ModelFolderError:
    checkpoints = path.joinpath(*CHECKPOINTS)
    others = ", ".join(sorted(file.name for file in checkpoints.glob("*.safetensors")))
    if weights.parent != path and others:
        return ModelFolderError(
            "there is no such checkpoint", where=weights, todo=f"name one of these: {others}"
        )
    why = "no validation of its training had a finite score, or the file was removed"
    todo = f"resume the run: {REPEAT}"
    try:
        validated = b'"event": "Validated"' in read_bounded(path / LOG)
    except (OSError, ValueError):  # no log, or one of many validations
        validated = (path / LOG).exists()
    if not validated and (path / "training").is_dir():
        why = "its run has not finished its first validation"
        todo = f"wait for it, or {todo}"
    if others:
        todo = f"name a checkpoint in {checkpoints} instead: {others}; or {todo}"
    what = f"the model folder has no weights ({WEIGHTS})"
    return ModelFolderError(what, where=path, why=why, todo=todo)


def tokenizer_files(source: Tokenizer, target: Tokenizer, config: RunConfig) -> dict[str, Saveable]:
    """The tokenizers of a translator by their names in its folder."""
    if config.tokenizer.joint:
        return {JOINT_TOKENIZER: source}
    return {SOURCE_TOKENIZER: source, TARGET_TOKENIZER: target}


def read_tokenizers(path: Path, config: RunConfig) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target; with a joint vocabulary they share it."""
    if config.tokenizer.joint:
        source = load_tokenizer(path, JOINT_TOKENIZER)
        return source, with_form(source, source.form.of_target())
    return load_tokenizer(path, SOURCE_TOKENIZER), load_tokenizer(path, TARGET_TOKENIZER)


def read_folder_config(path: Path, unread: Collection[str] = READ_LATER) -> RunConfig:
    """The configuration of a model folder, whose other files are checked too.

    Args:
        path: the folder.
        unread: names of files that are not checked, because they are large or not needed.

    Raises:
        ModelFolderError: it is missing, damaged, of another version or of another program; or
            another file is not the one in the manifest.
    """
    file = path / "config.json"
    with suppress(ModelFolderError):  # raised below, if it is a folder of clearhead
        settled_entries(path)
    # Without access to the folder, nothing is known about its files.
    if os.access(path, os.X_OK) and not file.exists():
        raise ModelFolderError(
            "this is not a model folder: it has no config.json",
            where=path,
            todo=f"name another folder, such as runs/my-model, or {TRAIN_ONE}",
        )
    tree = read_json(file)
    if "format" not in tree:
        raise ModelFolderError(
            "this config.json was not written by clearhead",
            where=file,
            why='it has no "format"',
            todo="name the folder of a model that clearhead has trained",
        )
    if (found := tree["format"]) != FORMAT:
        raise ModelFolderError(
            f"the model folder has format {found!r}, this clearhead reads format {FORMAT}",
            where=path,
            todo="use the version of clearhead that wrote it, or train the model again",
        )
    checked_entries(path, unread)
    return _config_in(tree, file)


def _config_in(tree: dict[str, Any], file: Path) -> RunConfig:
    """The configuration in the tree of a `config.json`.

    Raises:
        ModelFolderError: it is damaged, or of another version.
    """
    try:
        settings = tree.get("config")
        if not isinstance(settings, dict):
            raise ConfigError("it has no settings")
        # Earlier versions wrote this section into every folder, for a task that no longer exists.
        settings.pop("reconstruction", None)
        # The earlier name of `start_from`, which then was for classifiers alone.
        classifier = settings.get("classifier")
        is_section = isinstance(classifier, dict)
        encoder_from = classifier.pop("encoder_from", "") if is_section else ""
        settings.setdefault("start_from", encoder_from)
        return config_from(settings, where=str(file))
    except ConfigError as error:
        raise ModelFolderError(
            "the configuration is damaged, or of another version of clearhead",
            where=file.parent,
            why=str(error),
            todo="use the clearhead that provenance.json names, or copy the folder again",
        ) from None


def read_temperature(folder: ModelFolder) -> float:
    """The temperature of a classifier, fitted on the validation data when its weights were kept.

    Every classifier has one: training writes the weights and then their scores.

    Raises:
        ModelFolderError: it is missing, not a positive number, or of other weights.
    """
    path = folder.path / SCORES
    todo = (
        "restore the file from a copy, resume the run if it was interrupted, or start it again "
        f"with --restart: {REPEAT}"
    )
    try:
        tree = read_json(path)
        if expected := settled_entries(folder.path).get(SCORES):
            check(path, expected)
    except ModelFolderError as error:
        raise ModelFolderError(error.what, where=path, why=error.why, todo=todo) from None
    digest = read_digest(folder.weights)
    if tree.get("digest", digest) != digest:
        what = "the scores are not those of these weights, which were replaced without them"
        raise ModelFolderError(what, where=path, todo=todo)
    scores = tree.get("scores")
    found = scores.get("temperature") if isinstance(scores, dict) else None
    number = found if isinstance(found, int | float) and not isinstance(found, bool) else 0
    if 0 < number <= sys.float_info.max:
        return float(number)
    problem = "is missing" if found is None else f"is {found!r}"
    why = f"scores.temperature {problem}, and should be a positive number"
    raise ModelFolderError("the scores are damaged", where=path, why=why, todo=todo)
