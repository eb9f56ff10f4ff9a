"""Tensors in safetensors files, with facts about them; torch is imported late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from clearhead.errors import ModelFolderError, reason
from clearhead.folder.files import COPY_AGAIN, unreadable
from clearhead.folder.manifest import Entry, check

if TYPE_CHECKING:
    from torch import Tensor, nn

Model = TypeVar("Model", bound="nn.Module")


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name; a shared matrix has the first of its names."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts about them as one safetensors file, to a path of `atomic_file`."""
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # With a second key the file would not always have the same bytes: their order is random.
    save_file(tensors, path, metadata={"facts": json.dumps(facts)})


def read_tensors(
    path: Path, entry: Entry | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that `save_tensors` wrote, compared with the entry of the file."""
    if entry is not None:
        check(path, entry)
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, _facts_in(file, path)


def read_facts(path: Path) -> dict[str, Any]:
    """The facts in a file of tensors, without reading the tensors; errors as `read_tensors`."""
    with _opened(path) as file:
        return _facts_in(file, path)


def _facts_in(file: Any, path: Path) -> dict[str, Any]:
    try:
        facts = json.loads((file.metadata() or {})["facts"])
        if not isinstance(facts, dict):
            raise ValueError("the facts are no object")
        return facts
    except (KeyError, ValueError, RecursionError) as error:
        raise _damaged(path, f"the metadata cannot be read: {error}") from None


def _damaged(path: Path, why: str) -> ModelFolderError:
    return ModelFolderError("the weights are damaged", where=path, why=why, todo=COPY_AGAIN)


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
        raise unreadable(path, error) from None


def check_shapes(make_model: Callable[[], nn.Module], path: Path) -> None:
    """Compare the parameters of a model with the header of a file, without reading the tensors."""
    with _opened(path) as file:
        _check_header(file, make_model, path)


def load_model(make_model: Callable[[], Model], path: Path, entry: Entry | None) -> Model:
    """A model with the weights of a file, after these have proved to be its own.

    First the size and the hash of the file are compared with its entry, then the names, shapes and
    types in its header with a model without memory: the settings of a folder from someone else may
    describe a model of any size. Only then is memory allocated.

    Args:
        make_model: builds the model; it is called twice, the first time for tensors without memory.
        path: the file of the weights.
        entry: of the file in a manifest, if it has one.

    Raises:
        ModelFolderError: the file is missing, damaged, or of another model.
    """
    import torch

    if entry is not None:
        check(path, entry)
    with _opened(path) as file:
        _check_header(file, make_model, path)
        model = make_model()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(file.get_tensor(name))
    return model


def _check_header(file: Any, make_model: Callable[[], nn.Module], path: Path) -> None:
    import torch

    headers = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    types = {header.get_dtype() for header in headers.values()}
    if others := types - {"F64", "F32", "F16", "BF16"}:
        raise _damaged(path, f"they are of the type {min(others)}")
    with torch.device("meta"):
        planned = make_model()
    found = {name: tuple(header.get_shape()) for name, header in headers.items()}
    compare_shapes(shapes_of(planned.named_parameters()), found, path)


def shapes_of(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by name."""
    return {name: tuple(tensor.shape) for name, tensor in tensors}


def compare_shapes(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], where: Path
) -> None:
    """Compare the shapes of tensors by name; a ModelFolderError if they differ."""
    names = sorted(expected.keys() | found.keys())
    if wrong := [name for name in names if expected.get(name) != found.get(name)]:
        first = wrong[0]
        there, needed = found.get(first, "missing"), expected.get(first)
        needs = f"the model needs {needed}" if first in expected else "the model has no such tensor"
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
    compare_shapes(shapes_of(parameters.items()), shapes_of(tensors.items()), where)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(shared_like(tensors[name], parameter))
