"""Tensors in safetensors files, with a checksum and facts about them; torch is imported late."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ModelFolderError, UnreadableError, reason
from clearhead.folder.files import COPY_AGAIN, READABLE, atomic_file
from clearhead.folder.manifest import WEIGHTS as WEIGHTS
from clearhead.folder.manifest import Entry, check

if TYPE_CHECKING:
    from torch import Tensor, nn

SCORES = "scores.json"
"""Name of the scores of these weights in a model folder."""

STATE = "training/state.safetensors"
"""Path of the training state in a model folder."""

PREVIOUS_STATE = "training/state.previous.safetensors"
"""Path of the training state before."""

SHARDS = "training/shards"
"""Path of the parts of the training state, if each process has a part."""

EARLY_DIGITS = 32
"""The length of the checksum that early versions of clearhead wrote."""

CHECKPOINTS = ("training", "checkpoints")
"""Path of the checkpoints in a model folder."""


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name; a shared matrix has the first of its names."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    """Write tensors and facts about them as one safetensors file; it appears when complete.

    Returns:
        The SHA-256 hash of the tensors (names, types, shapes and numbers) and the facts, which
        `read_digest` reads from the file.

    Raises:
        ModelFolderError: it cannot be written, e.g. because the disk is full.
    """
    with atomic_file(path) as unfinished:
        return save_tensors(unfinished, tensors, facts)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    """The same as `write_tensors`, for a path that `atomic_file` has yielded."""
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    known = json.dumps(facts)
    digest = _digest(tensors, known)
    metadata = {"facts": known, "digest": digest}
    save_file(tensors, path, metadata=metadata)
    _order_metadata(path)
    return digest


def _order_metadata(path: Path) -> None:
    """Put the metadata of a file, which safetensors writes in a random order, into a fixed one."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        ordered = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(ordered.ljust(size))


def read_tensors(
    path: Path, expected: Entry | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that `write_tensors` wrote.

    Args:
        path: the file.
        expected: the entry of the file in a manifest. Without one, the hash in the file itself is
            compared.

    Raises:
        ModelFolderError: the file is missing, cut off or altered.
        UnreadableError: the system cannot read it.
    """
    if expected is not None:
        check(path, expected)
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() or {}
    facts = _facts_in(metadata, path)
    if expected is None:
        if "digest" not in metadata:
            raise _damaged(path, "the metadata lack 'digest'")
        digest = metadata["digest"]
        if digest != _digest_like(digest, tensors, metadata["facts"]):
            raise _damaged(path, "their checksum is not the one in the file")
    return tensors, facts


def _facts_in(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(metadata["facts"])
        if not isinstance(facts, dict):
            raise ValueError("the facts are no object")
        return facts
    except KeyError as error:
        raise _damaged(path, f"the metadata lack {error}") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"the metadata cannot be read: {error}") from None


def _damaged(path: Path, why: str) -> ModelFolderError:
    return ModelFolderError("the weights are damaged", where=path, why=why, todo=COPY_AGAIN)


def read_digest(path: Path) -> str:
    """The checksum in a file of tensors, without reading the tensors.

    Raises:
        ModelFolderError: the file is missing or damaged.
    """
    with _opened(path) as file:
        return (file.metadata() or {}).get("digest", "")


def read_facts(path: Path) -> dict[str, Any]:
    """The facts in a file of tensors, without reading the tensors or comparing their checksum.

    Raises:
        ModelFolderError: the file is missing or damaged.
    """
    with _opened(path) as file:
        metadata = file.metadata() or {}
    return _facts_in(metadata, path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder, a pipe or a device")
        path.open("rb").close()  # safetensors calls every error a missing file
        with safe_open(path, framework="pt") as file:
            yield file
    except (FileNotFoundError, SafetensorError) as error:
        what = "the weights cannot be read: the file is missing or damaged"
        raise ModelFolderError(what, where=path, why=reason(error), todo=COPY_AGAIN) from None
    except OSError as error:
        what = "the file cannot be read"
        raise UnreadableError(what, where=path, why=reason(error), todo=READABLE) from None


def check_shapes(make_model: Callable[[], nn.Module], path: Path) -> None:
    """Compare the parameters of a model with the header of a file, before memory is allocated.

    The settings of a folder from someone else may describe a model of any size.

    Args:
        make_model: builds the model; it is called once, for tensors without memory.
        path: the file of the weights.

    Raises:
        ModelFolderError: names or shapes differ, or the file is missing or damaged.
    """
    import torch

    with _opened(path) as file:
        headers = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        found = {name: tuple(header.get_shape()) for name, header in headers.items()}
        types = {header.get_dtype() for header in headers.values()}
    if others := types - {"F64", "F32", "F16", "BF16"}:
        raise _damaged(path, f"they are of the type {min(others)}")
    with torch.device("meta"):
        planned = make_model()
    _compare({name: tuple(each.shape) for name, each in planned.named_parameters()}, found, path)


def _compare(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], where: Path
) -> None:
    """Compare the shapes of parameters by name; a ModelFolderError if they differ."""
    names = sorted(expected.keys() | found.keys())
    if wrong := [name for name in names if expected.get(name) != found.get(name)]:
        first = wrong[0]
        there, needed = found.get(first, "missing"), expected.get(first)
        is_extra = first not in expected
        needs = "the model has no such parameter" if is_extra else f"the model needs {needed}"
        raise ModelFolderError(
            "the weights do not belong to the model of the configuration",
            where=where,
            why=f"{first} is {there}, {needs} (differences in name or shape: {len(wrong)})",
            todo=COPY_AGAIN,
        )


def load_parameters(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Copy parameters into a model with the same names and shapes, whole or shared out.

    Raises:
        ModelFolderError: names or shapes differ, so the weights are of another model.
    """
    import torch

    from clearhead.sharding import shared_like

    parameters = dict(model.named_parameters())
    shapes, found = ({k: tuple(v.shape) for k, v in e.items()} for e in (parameters, tensors))
    _compare(shapes, found, where)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(shared_like(tensors[name], parameter))


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def _digest_like(digest: str, tensors: Mapping[str, Tensor], facts: str) -> str:
    """The digest of the same kind: early versions of clearhead left out facts, types and shapes."""
    if len(digest) != EARLY_DIGITS:
        return _digest(tensors, facts)
    early = hashlib.blake2b(digest_size=EARLY_DIGITS // 2)
    for name in sorted(tensors):
        early.update(name.encode())
        early.update(_bytes_of(tensors[name]))
    return early.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy().data
