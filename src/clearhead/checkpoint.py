"""The model folder: all that is needed to use a model; and beside it the state to resume from.

    config.json             the run's configuration, and the version of this layout
    weights.safetensors     the weights that scored best on the validation data
    tokenizer…              what turns text into numbers and back
    scores.json             validation scores of these weights, with sacreBLEU's signatures
    provenance.json         data hashes, versions, steps: how the weights came about
    training/               only needed to go on: state, recent checkpoints, corpus, log

Nothing is pickled. Every file is written under another name and then moved into place, so a
machine that dies while writing loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.config import RunConfig, config_from, config_to_dict
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 1
WEIGHTS = "weights.safetensors"
SOURCE_TOKENIZER, TARGET_TOKENIZER, JOINT_TOKENIZER = "source", "target", "tokenizer"


@dataclass(frozen=True)
class ModelFolder:
    """A trained model on disk, read without loading its weights."""

    path: Path
    config: RunConfig
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.path / WEIGHTS


def write_model_folder(
    path: Path, config: RunConfig, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
) -> None:
    """Write all of a model folder but its weights and scores.

    Raises:
        ModelFolderError: it cannot be written, e.g. because the disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if config.tokenizer.joint:
            source_tokenizer.save(path, JOINT_TOKENIZER)
        else:
            source_tokenizer.save(path, SOURCE_TOKENIZER)
            target_tokenizer.save(path, TARGET_TOKENIZER)
    except OSError as error:
        raise _unwritable(path, error) from None
    write_json(path / "config.json", {"format": FORMAT, "config": config_to_dict(config)})


def read_model_folder(path: str | Path) -> ModelFolder:
    """Read and check a model folder; torch is not needed.

    Raises:
        ModelFolderError: it is missing, damaged, of another version, or has no weights.
    """
    path = Path(path)
    if not path.is_dir():
        raise ModelFolderError(
            "there is no such model folder", where=path, todo="train one: clearhead train RUN.toml"
        )
    config = read_folder_config(path)
    if not (path / WEIGHTS).is_file():
        raise ModelFolderError(
            f"the model folder has no weights ({WEIGHTS})",
            where=path,
            why="its training has not reached the first validation, or the file was removed",
            todo="train on: clearhead train RUN.toml",
        )
    return ModelFolder(path, config, *read_tokenizers(path, config))


def read_tokenizers(path: Path, config: RunConfig) -> tuple[Tokenizer, Tokenizer]:
    """The source's and the target's tokenizer, which are one where the vocabulary is joint."""
    if config.tokenizer.joint:
        both = load_tokenizer(path, JOINT_TOKENIZER)
        return both, both
    return load_tokenizer(path, SOURCE_TOKENIZER), load_tokenizer(path, TARGET_TOKENIZER)


def read_folder_config(path: Path) -> RunConfig:
    """The configuration of a model folder, if this version of clearhead can read it."""
    tree = read_json(path / "config.json")
    found = tree.get("format")
    if found != FORMAT:
        raise ModelFolderError(
            f"the model folder has format {found!r}, this clearhead reads format {FORMAT}",
            where=path,
            todo="use the clearhead that wrote it, or train it anew",
        )
    try:
        if not isinstance(tree.get("config"), dict):
            raise ConfigError("it holds no settings")
        return config_from(tree["config"], where=str(path / "config.json"))
    except ConfigError as error:
        raise ModelFolderError("the configuration is damaged", where=path, why=str(error)) from None


def write_json(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a JSON file, wholly or not at all.

    Raises:
        ModelFolderError: it cannot be written, e.g. because the disk is full.
    """
    text = json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    with _written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a model folder.

    Raises:
        ModelFolderError: it is missing or not a JSON object.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = "the file is missing or damaged"
        raise ModelFolderError(what, where=path, why=str(error)) from None
    if not isinstance(tree, dict):
        raise ModelFolderError("the file is damaged", where=path, why="it is not a JSON object")
    return tree


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name; a shared matrix goes by the first of its names."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and a few facts about them as one safetensors file, wholly or not at all.

    Raises:
        ModelFolderError: it cannot be written, e.g. because the disk is full.
    """
    from safetensors.torch import save_file

    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"facts": json.dumps(facts), "digest": _digest(kept)}
    with _written_whole(path) as unfinished:
        save_file(kept, unfinished, metadata=metadata)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that `write_tensors` wrote.

    Raises:
        ModelFolderError: the file is missing, cut off or altered.
    """
    from safetensors import SafetensorError, safe_open

    todo = "copy the folder again, or train it anew"
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        what = "the weights cannot be read: the file is missing or damaged"
        raise ModelFolderError(what, where=path, why=str(error), todo=todo) from None
    if metadata.get("digest") != _digest(tensors):
        why = "their checksum is not the one written with them"
        raise ModelFolderError("the weights are damaged", where=path, why=why, todo=todo)
    return tensors, json.loads(metadata["facts"])


def load_parameters(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Copy parameters into a model of just these names and shapes.

    Raises:
        ModelFolderError: names or shapes differ: the weights are of another model.
    """
    import torch

    parameters = dict(model.named_parameters())
    wrong = [
        name
        for name in sorted(parameters.keys() | tensors.keys())
        if name not in parameters
        or name not in tensors
        or parameters[name].shape != tensors[name].shape
    ]
    if wrong:
        raise ModelFolderError(
            "the weights do not belong to the model of the configuration",
            where=where,
            why=f"{len(wrong)} parameters differ in name or shape, the first is {wrong[0]}",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


@contextmanager
def _written_whole(path: Path) -> Iterator[Path]:
    """Another name to write a file under; it gets its own once all of it is on the disk."""
    from safetensors import SafetensorError

    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except (OSError, SafetensorError) as error:
        raise _unwritable(path, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _unwritable(path: Path, error: Exception) -> ModelFolderError:
    return ModelFolderError(
        "it cannot be written",
        where=path,
        why=str(error),
        todo="free some space if the disk is full, then say the command again",
    )


def _digest(tensors: Mapping[str, Tensor]) -> str:
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
