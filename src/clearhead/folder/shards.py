"""Tensors that are shared out over processes: each writes its part, and reads only its part.

PyTorch's distributed checkpoint does both. A folder has one safetensors file for each process that
wrote it, and can be read by any number of processes, which may share out the tensors in another
way.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from clearhead.errors import ModelFolderError, is_of_system, reason
from clearhead.folder.files import COPY_AGAIN, remove_named, sync, unwritable
from clearhead.folder.manifest import Entry, entry_of
from clearhead.ranks import Ranks

WRITTEN = re.compile(r"shard-\d{5,}-model-\d{5}-of-\d{5}\.safetensors")
"""The names that PyTorch gives to the files of a folder of shards."""


def write_shards(
    above: Path, tensors: Mapping[str, Tensor], ranks: Ranks
) -> tuple[str, dict[str, Entry]]:
    """Write the parts of all processes into a new folder. All processes must call this.

    Returns:
        The name of the folder, and the entries of its files by their names.
    """
    # The folder is complete, and on the disk, when the function returns. One that a killed run left
    # unfinished has another name.
    numbers = [int(each.name) for each in _folders(above)]
    name = ranks.of_first(f"{max(numbers, default=0) + 1:06}")
    folder = above / name
    try:
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(dict(tensors), storage_writer=writer)
        # Rank 0's list for all, because a network file system may show them different ones.
        files = ranks.of_first(sorted(path.name for path in folder.iterdir()))
        entries = [(each, entry_of(folder / each)) for each in ranks.part(files)]
        for each in (folder, above, above.parent):
            sync(each)
    except CheckpointException as error:
        number, first = _first_failure(error)
        failed = unwritable(folder, first)
        where = f"{failed.where}, by process {number}"
        raise ModelFolderError(failed.what, where=where, why=failed.why, todo=failed.todo) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    return name, dict(ranks.gathered(entries))


def read_shards(
    above: Path, name: object, like: Callable[[str], Tensor | None], prefix: str = ""
) -> dict[str, Tensor]:
    """The tensors that `write_shards` wrote, or the parts of this process. Does not communicate."""
    folder = above / str(name)
    if not _is_number(str(name)) or folder not in _folders(above):
        raise _damaged(above, f"there is no folder {name!r} of parts")
    try:
        reader = HuggingFaceStorageReader(str(folder))
        tensors = dict[str, Tensor]()
        for name, plan in reader.read_metadata().state_dict_metadata.items():
            if not name.startswith(prefix):
                continue
            assert isinstance(plan, TensorStorageMetadata)  # safetensors has nothing else
            other, dtype = like(name), plan.properties.dtype
            if other is not None and other.shape == plan.size:
                tensors[name] = torch.empty_like(other, dtype=dtype)
            else:
                tensors[name] = torch.empty(plan.size, dtype=dtype)
        with warnings.catch_warnings():
            # It warns of a single process; each process reads by itself here.
            warnings.simplefilter("ignore")
            load(tensors, storage_reader=reader, no_dist=True)
    except CheckpointException as error:
        raise _damaged(folder, reason(_first_failure(error)[1])) from None
    except Exception as error:
        if not is_of_system(error):
            raise
        raise _damaged(folder, reason(error)) from None
    return tensors


def remove_shards(above: Path, kept: set[str]) -> None:
    """Remove all shards but those in folders with these names. Other files stay."""
    try:
        for folder in _folders(above):
            if folder.name not in kept:
                remove_named(folder, WRITTEN)
    except OSError as error:
        raise unwritable(above, error) from None


def _first_failure(error: CheckpointException) -> tuple[int, Exception]:
    """The first process that failed, and its error if that is one of the system."""
    # Any other error is raised: an interruption, or a fault of the program.
    number, (failure, _) = min(error.failures.items())
    if isinstance(failure, Exception) and is_of_system(failure):
        return number, failure
    raise failure from None


def _folders(above: Path) -> list[Path]:
    if above.is_symlink() or not above.is_dir():
        return []
    return [each for each in above.iterdir() if _is_number(each.name)]


def _is_number(name: str) -> bool:
    return re.fullmatch(r"\d{6,}", name) is not None


def _damaged(path: Path, why: str) -> ModelFolderError:
    what = "the parts of the training state are damaged"
    return ModelFolderError(what, where=path, why=why, todo=COPY_AGAIN)
