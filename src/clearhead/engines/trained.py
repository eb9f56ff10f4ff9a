"""The trained model of a model folder, in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from clearhead.checkpoint import ModelFolder, load_parameters, read_tensors, read_tokenizers

if TYPE_CHECKING:
    import torch
    from torch import nn

    from clearhead.model.transformer import EncoderDecoder

Model = TypeVar("Model", bound="nn.Module")


def trained_translator(found: ModelFolder, device: torch.device) -> EncoderDecoder:
    """The encoder-decoder of a model folder, with its weights, on a device.

    Raises:
        ModelFolderError: a file is missing or damaged.
    """
    from clearhead.model.build import build_model

    source, target = read_tokenizers(found.path, found.config)
    return with_weights(build_model(found.config.model, len(source), len(target)), found, device)


def with_weights(model: Model, found: ModelFolder, device: torch.device) -> Model:
    """A model with the weights of a folder, on a device, ready to use.

    Raises:
        ModelFolderError: the weights are damaged, or of another model.
    """
    tensors, _ = read_tensors(found.weights)
    load_parameters(model, tensors, found.weights)
    return model.to(device).eval()
