"""From a model folder to what it was trained for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clearhead.api.classifier import Classifier
from clearhead.api.translator import Translator
from clearhead.checkpoint import (
    ModelFolder,
    load_parameters,
    read_model_folder,
    read_tensors,
    read_tokenizers,
)
from clearhead.errors import ModelFolderError

if TYPE_CHECKING:
    import torch
    from torch import nn

Model = TypeVar("Model", bound="nn.Module")


def load(folder: str | Path, *, device: str = "auto", threads: int = 0) -> Translator | Classifier:
    """The translator or classifier of a model folder; no data and no network is needed.

    Args:
        folder: written by training.
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        threads: of the CPU (0: as PyTorch chooses).

    Raises:
        ModelFolderError: the folder is missing, damaged, or of another version, or holds an
            encoder that was only pre-trained.
        ConfigError: the device is not there.
    """
    from clearhead.engines.device import set_up_torch

    found = read_model_folder(folder)
    where = set_up_torch(device, threads)
    match found.config.task:
        case "translation":
            return _translator(found, where)
        case "classification":
            return _classifier(found, where)
    raise ModelFolderError(
        "this model fills in features: it neither translates nor classifies",
        where=folder,
        todo="train a classifier that begins with its encoder: classifier.encoder_from",
    )


def load_translator(folder: str | Path, *, device: str = "auto", threads: int = 0) -> Translator:
    """As `load`, where only a translator will do.

    Raises:
        ModelFolderError: it is a classifier; or as in `load`.
    """
    model = load(folder, device=device, threads=threads)
    if not isinstance(model, Translator):
        raise ModelFolderError(
            "this model classifies, it does not translate",
            where=folder,
            todo="use it with: clearhead classify",
        )
    return model


def load_classifier(folder: str | Path, *, device: str = "auto", threads: int = 0) -> Classifier:
    """As `load`, where only a classifier will do.

    Raises:
        ModelFolderError: it is a translator; or as in `load`.
    """
    model = load(folder, device=device, threads=threads)
    if not isinstance(model, Classifier):
        raise ModelFolderError(
            "this model translates, it does not classify",
            where=folder,
            todo="use it with: clearhead translate",
        )
    return model


def _translator(found: ModelFolder, device: torch.device) -> Translator:
    from clearhead.engines.torch_engine import TorchEngine
    from clearhead.model.build import build_model

    source, target = read_tokenizers(found.path, found.config)
    model = build_model(found.config.model, len(source), len(target))
    return Translator(found, TorchEngine(_with_weights(model, found, device)))


def _classifier(found: ModelFolder, device: torch.device) -> Classifier:
    from clearhead.api.preparation import read_inputs, read_labels
    from clearhead.engines.classifier_engine import ClassifierEngine
    from clearhead.model.build import build_classifier

    config = found.config
    inputs, labels = read_inputs(found.path, config), read_labels(found.path)
    model = build_classifier(
        config.model, config.classifier, inputs.width, len(labels), config.input == "features"
    )
    engine = ClassifierEngine(_with_weights(model, found, device))
    return Classifier(found, inputs, labels, engine)


def _with_weights(model: Model, found: ModelFolder, device: torch.device) -> Model:
    tensors, _ = read_tensors(found.weights)
    load_parameters(model, tensors, found.weights)
    return model.to(device).eval()
