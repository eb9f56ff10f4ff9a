"""The model folder: everything that is needed to use a model or to resume its training.

    config.json             the run's configuration, and the version of this layout
    weights.safetensors     the weights with the best validation score, or the average of the last
                            ones (training.keep)
    tokenizer…              turn text into numbers and back
    labels, normaliser      a classifier's labels; the scale of its features
    text_style.json         how the training texts look: case, tokenisation, quotation marks
    scores.json             validation scores of these weights, with sacreBLEU's signatures; how
                            to estimate the confidence in a translation
    provenance.json         the origin of the weights: data hashes, versions, steps
    card.md                 the above for people
    training/               only needed to resume: state, corpus, log, and checkpoints (the best;
                            until the end of a run the last few, then their average)
    manifest.json           size and SHA-256 hash of each of these files but the card, the corpus
                            and the log

Nothing is pickled. Files that change together are replaced together (see `manifest`), so a crash
while writing loses nothing. `open_folder` gives a `ModelFolder`: a value whose files were compared
with the manifest, and which stays the same if a run replaces the files.
"""

from __future__ import annotations

import os
import shutil
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from clearhead.device import memory_of_process
from clearhead.errors import ConfigError, ModelFolderError, reason
from clearhead.folder.files import (
    COPY_AGAIN,
    Write,
    json_bytes,
    make_folder,
    move_into_place,
    parse_object,
    read_file,
    read_json,
    unreadable,
    unwritable,
)
from clearhead.folder.manifest import (
    Entries,
    Entry,
    differs,
    entry_of,
    read_entries,
    replace_together,
)
from clearhead.folder.tensors import Model, load_model, parameters_of, read_tensors, save_tensors
from clearhead.settings import RunConfig, config_from

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 1
"""The version of the layout."""

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
SCORES, PROVENANCE, CARD = "scores.json", "provenance.json", "card.md"

PREPARED = tuple(
    f"{name}.{ending}"
    for name in ("tokenizer", "source", "target", "labels", "normaliser", "text_style")
    for ending in ("json", "model")
)
"""Files of a model that are written before training: vocabularies, labels, scale, text style."""

LARGEST_REST = 2**29
"""The size in bytes of all of these files together: four times that of one."""

CHECKPOINTS = "training/checkpoints"
"""Path of the checkpoints in a model folder."""

IMPORTED_FROM = "imported from"
"""The fact in `provenance.json` of an imported model: its source."""

TRAIN_ONE = "train a model: clearhead init writes a configuration, and clearhead train reads it"
REPEAT = "repeat its clearhead train command"
"""What to do without a model, and for a run of which only the folder is known."""

T = TypeVar("T")


class Stored(Protocol):
    """What a model needs besides its weights: a tokenizer, a label set, a normaliser."""

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.json`, and perhaps of other files with this name."""
        ...


@dataclass(frozen=True)
class ModelFolder:
    """A trained model on disk; its weights are not yet loaded.

    Attributes:
        path: its folder.
        config: its configuration.
        weights_name: the path of its weights in the folder: `weights.safetensors`, or a checkpoint.
        entries: what the manifest has about its files; empty without a manifest.
        content: of the small files, as they were when the folder was opened.
        opened: another path of the weights, of `kept_open`.
    """

    path: Path
    config: RunConfig
    weights_name: str
    entries: Entries
    content: Mapping[str, bytes] = field(repr=False)
    opened: Path | None = None

    @property
    def weights_path(self) -> Path:
        """The file of its weights."""
        return self.path / self.weights_name

    @property
    def is_checkpoint(self) -> bool:
        """Whether the weights are those of a checkpoint instead of the folder's own."""
        return self.weights_name != WEIGHTS

    def read(self, name: str) -> bytes:
        """The content of a file, which is the one in the manifest."""
        found = self.content.get(name)
        return _read(self.path, name, self.entries) if found is None else found

    def with_files(self, *names: str) -> ModelFolder:
        """The same model with the content of these files, too, in memory."""
        return replace(self, content={**self.content, **{name: self.read(name) for name in names}})

    def tree(self, name: str) -> dict[str, Any]:
        """The JSON object in a file; it raises the same errors."""
        return parse_object(self.read(name), self.path / name)

    def built(self, name: str, what: str, build: Callable[[dict[str, Any]], T]) -> T:
        """An object from the tree in `name.json`."""
        try:
            return build(self.tree(f"{name}.json"))
        except ModelFolderError:
            raise
        except KeyError as error:
            why = f"it has no {error}"
        except (ValueError, TypeError, AttributeError, RuntimeError, ArithmeticError) as error:
            why = reason(error)
        where = self.path / f"{name}.json"
        raise ModelFolderError(f"{what} is damaged", where=where, why=why, todo=COPY_AGAIN)

    def sha256(self, name: str) -> str:
        """The hash of a file, as the manifest has it; it raises the same errors as `read`."""
        listed = self.entries.get(name)
        return Entry.of(self.read(name)).sha256 if listed is None else listed.sha256

    @property
    def weights_entry(self) -> Entry | None:
        """The entry of the weights; None for a file that the manifest does not have."""
        return self.entries.get(self.weights_name)

    @cached_property
    def weights_sha256(self) -> str:
        """The hash of the file of the weights."""
        try:
            return (self.weights_entry or entry_of(self.weights_path)).sha256
        except OSError as error:
            raise unreadable(self.weights_path, error) from None

    def model(self, make_model: Callable[[], Model]) -> Model:
        """The model with its weights, after these have proved to be its own; see `load_model`."""
        return self._from_weights(lambda path: load_model(make_model, path, self.weights_entry))

    def weights(self) -> dict[str, Tensor]:
        """The weights by the names of the parameters, after a comparison with the manifest."""
        return self._from_weights(lambda path: read_tensors(path, self.weights_entry)[0])

    def _from_weights(self, read: Callable[[Path], T]) -> T:
        kept = self.kept_open()  # so that the file that is compared is the one that is read
        try:
            return read(kept.opened or self.weights_path)
        except ModelFolderError as error:
            error.where = str(self.weights_path)
            raise

    def kept_open(self) -> ModelFolder:
        """The same model; its weights stay readable after other weights have replaced them."""
        try:
            number = os.open(self.opened or self.weights_path, os.O_RDONLY)
        except OSError:
            return self  # whoever reads them gets the error
        kept = replace(self, opened=Path(f"/dev/fd/{number}"))
        weakref.finalize(kept, os.close, number)
        return kept


def open_folder(path: str | Path, *, trained: bool = True) -> ModelFolder:
    """Open a model folder and check it, without its weights; torch is not needed.

    Args:
        path: the folder; or one of the checkpoints in it, to use the weights of the checkpoint:
            `FOLDER/training/checkpoints/average.safetensors`.
        trained: whether there must be weights. A run that was interrupted early has none.

    Raises:
        ModelFolderError: it is missing, unreadable, damaged, of another version, or has no weights
            or more than fit into memory.
    """
    named, path = Path(os.path.expanduser(path)), folder_of(path)
    _check_is_folder(path)
    entries = _entries_of_model(path)
    while True:
        try:
            names = [CONFIG, *PREPARED]
            present = [name for name in names if name in entries or (path / name).exists()]
            content = _read_all(path, present, entries)
            break
        except ModelFolderError:
            before, entries = entries, read_entries(path)
            if before == entries:
                raise
            # A run has replaced the files meanwhile.
    config = _config_in(parse_object(content[CONFIG], path / CONFIG), path)
    weights = WEIGHTS if named == path else f"{CHECKPOINTS}/{named.name}"
    if trained:
        _check_weights(path / weights, path)
    return ModelFolder(path, config, weights, entries, content)


def _entries_of_model(path: Path) -> Entries:
    """The entries of a folder, which is a model folder: it has a `config.json`."""
    try:
        entries = read_entries(path)
    except ModelFolderError:
        if (path / CONFIG).exists():
            raise
        entries = {}  # the manifest is that of another program
    # Without access to the folder, nothing is known about its files.
    known = CONFIG in entries or (path / CONFIG).exists()
    if os.access(path, os.X_OK) and not known:
        raise ModelFolderError(
            f"this is not a model folder: it has no {CONFIG}",
            where=path,
            todo=f"name another folder, such as runs/my-model, or {TRAIN_ONE}",
        )
    return entries


def _read_all(path: Path, names: Iterable[str], entries: Entries) -> dict[str, bytes]:
    """The content of the small files; a ModelFolderError if they are not small together."""
    content = dict[str, bytes]()
    for name in names:
        content[name] = _read(path, name, entries)
        if sum(map(len, content.values())) > LARGEST_REST:
            what = f"the files besides the weights have more than {LARGEST_REST:,} bytes"
            raise ModelFolderError(what, where=path, todo=COPY_AGAIN)
    return content


def _read(path: Path, name: str, entries: Entries) -> bytes:
    """The content of a file, which must be that of its entry, if it has one."""
    content = read_file(path / name)
    if name in entries and Entry.of(content) != entries[name]:
        raise differs(path / name)
    return content


def _check_is_folder(path: Path) -> None:
    try:
        found = path.is_dir()
    except OSError as error:  # no permission for a folder above it, or the name is too long
        what = "the model folder cannot be read"
        raise ModelFolderError(what, where=path, why=reason(error)) from None
    if not found:
        if path.is_file():
            what, todo = "this is a file, not a model folder", "name a folder such as runs/my-model"
            if (path.parent / CONFIG).exists():
                todo = f"did you mean {path.parent}?"
        else:
            what, todo = "there is no such model folder", f"check the path, or {TRAIN_ONE}"
        raise ModelFolderError(what, where=path, todo=todo)


def _config_in(tree: dict[str, Any], path: Path) -> RunConfig:
    """The configuration in the tree of a `config.json`."""
    if "format" not in tree:
        raise ModelFolderError(
            f"this {CONFIG} was not written by clearhead",
            where=path / CONFIG,
            why='it has no "format"',
            todo="name the folder of a model that clearhead has trained",
        )
    if (found := tree["format"]) != FORMAT:
        raise ModelFolderError(
            f"the model folder has format {found!r}, this clearhead reads format {FORMAT}",
            where=path,
            todo="use the version of clearhead that wrote it, or train the model again",
        )
    try:
        settings = tree.get("config")
        if not isinstance(settings, dict):
            raise ConfigError("it has no settings")
        return config_from(settings, where=str(path / CONFIG))
    except (ConfigError, RecursionError) as error:
        raise ModelFolderError(
            "the configuration is damaged, or of another version of clearhead",
            where=path,
            why=str(error),
            todo=f"use the clearhead that {PROVENANCE} names, or copy the folder again",
        ) from None


def _check_weights(weights: Path, path: Path) -> None:
    """Check that there are weights, and that they fit into memory before they are read."""
    # A sparse file may have any size.
    if not weights.is_file():
        others = [file.name for file in (path / CHECKPOINTS).glob("*.safetensors")]
        named = ", ".join(sorted(others))
        if weights.parent != path and others:
            what, todo = "there is no such checkpoint", f"name one of these: {named}"
            raise ModelFolderError(what, where=weights, todo=todo)
        resume = f"resume the run: {REPEAT}"
        raise ModelFolderError(
            f"the model folder has no weights ({WEIGHTS})",
            where=path,
            why="no validation of its run has ended yet with a finite score, or the file was "
            "removed",
            todo=f"name a checkpoint instead: {named}; or {resume}" if others else resume,
        )
    size, memory = weights.stat().st_size, memory_of_process()
    if size > memory:
        raise ModelFolderError(
            "the weights do not fit into the memory of this machine or container",
            where=weights,
            why=f"they have {size:,} bytes, the memory {memory:,}",
            todo=f"use one with more memory; if they should be smaller, {COPY_AGAIN}",
        )


def folder_of(path: str | Path) -> Path:
    """The model folder of a path, which is the folder or one of its checkpoints."""
    path = Path(os.path.expanduser(path))
    is_checkpoint = path.suffix == ".safetensors" and path.parent.parts[-2:] == tuple(
        CHECKPOINTS.split("/")
    )
    return path.parents[2] if is_checkpoint else path


def write_folder(path: Path, config: RunConfig, parts: Mapping[str, Stored]) -> None:
    """Write a model folder without weights and scores: the configuration, and parts by name."""
    try:
        make_folder(path)
    except OSError as error:
        raise unwritable(path, error) from None
    content = {CONFIG: _config_bytes(config)}
    for name, part in parts.items():
        content |= part.files(name)
    replace_files(path, {name: written(each) for name, each in content.items()})


def write_model(path: Path, found: ModelFolder, model: nn.Module) -> None:
    """Write a model to a new folder, with the files of `found` that are in memory.

    Raises:
        ModelFolderError: the folder exists, or cannot be written.
    """
    check_is_new(path)
    config = replace(found.config, folder=str(path))
    content = {**found.content, CONFIG: _config_bytes(config)}
    files: dict[str, Write | str] = {name: written(each) for name, each in content.items()}
    files[WEIGHTS] = partial(save_tensors, tensors=parameters_of(model), facts={})
    with new_folder(path) as unfinished:
        replace_files(unfinished, files)


def _config_bytes(config: RunConfig) -> bytes:
    return json_bytes({"format": FORMAT, "config": asdict(config)})


def check_is_new(path: Path) -> None:
    """Raise a ModelFolderError if there is something at the path already."""
    if path.exists():
        todo = "choose another folder, or remove it"
        raise ModelFolderError("the folder exists", where=path, todo=todo)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write a new model to, which takes its place when all is written.

    Raises:
        ModelFolderError: it cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.partial")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
        unfinished.mkdir(parents=True)
        yield unfinished
        move_into_place(unfinished, path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def written(content: bytes) -> Write:
    """Writes this content to a file."""
    return methodcaller("write_bytes", content)


def replace_files(path: Path, files: Mapping[str, Write | str]) -> None:
    """Replace files of a model folder, all or none; see `replace_together`.

    Raises:
        ModelFolderError: a file cannot be written.
    """
    replace_together(path, read_entries(path), files)


def is_imported(path: Path) -> bool:
    """Whether a model folder has a model that `clearhead import` wrote and no run has trained."""
    try:
        return IMPORTED_FROM in read_json(path / PROVENANCE)
    except ModelFolderError:  # missing or damaged
        return False


def read_temperature(folder: ModelFolder) -> float:
    """The temperature of a classifier, fitted on the validation data when its weights were kept."""

    def temperature(tree: dict[str, Any]) -> float:
        found = tree["scores"]["temperature"]
        if isinstance(found, bool) or not 0 < found <= sys.float_info.max:
            raise ValueError(f"the temperature is {found!r}, and should be a positive number")
        return float(found)

    if folder.is_checkpoint:
        return 1.0
    try:
        return folder.built("scores", "the file of scores", temperature)
    except ModelFolderError as error:
        error.todo = (
            "restore the file from a copy, resume the run if it was interrupted, or start it again "
            f"with --restart: {REPEAT}"
        )
        raise


def read_thresholds(folder: ModelFolder, labels: int) -> list[float]:
    """The probability from which a classifier of several labels predicts each of them.

    They are fitted on the validation data, like the temperature; without any, all are one half.
    """

    def thresholds(tree: dict[str, Any]) -> list[float]:
        found = tree.get("thresholds", usual)
        if not isinstance(found, list) or len(found) != labels:
            raise ValueError(f"the thresholds are not a list of {labels} numbers")
        if not all(isinstance(each, float | int) and 0 <= each <= 1 for each in found):
            raise ValueError("the thresholds are not numbers from 0 to 1")
        return found

    usual = [0.5] * labels
    if folder.is_checkpoint or not folder.config.classifier.multi_label:
        return usual
    return folder.built("scores", "the file of scores", thresholds)
