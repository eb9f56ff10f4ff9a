"""A classifier's encoder that begins where another model's ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.checkpoint import read_model_folder, read_tensors
from clearhead.errors import ModelFolderError

if TYPE_CHECKING:
    from torch import nn

PARTS = {"source_input.": "input.", "input.": "input.", "encoder.": "encoder."}
"""How a translator's or an encoder's parameters begin, and how a classifier's do."""


def begin_with_encoder(model: nn.Module, folder: Path) -> None:
    """Put the input and the encoder of a trained model in place of the classifier's own.

    Raises:
        ModelFolderError: the folder cannot be read, or its encoder has another shape.
    """
    import torch

    tensors, _ = read_tensors(read_model_folder(folder).weights)
    taken = {
        after + name.removeprefix(before): tensor
        for name, tensor in tensors.items()
        for before, after in PARTS.items()
        if name.startswith(before)
    }
    own = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.startswith(("input.", "encoder."))
    }
    wrong = [
        name
        for name in sorted(own.keys() | taken.keys())
        if name not in own or name not in taken or own[name].shape != taken[name].shape
    ]
    if wrong:
        raise ModelFolderError(
            "its encoder is not of the shape that the classifier's configuration asks for",
            where=folder,
            why=f"{len(wrong)} parameters differ in name or shape, the first is {wrong[0]}",
            todo="give the classifier the same [model] settings as the model it begins with",
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(taken[name])
