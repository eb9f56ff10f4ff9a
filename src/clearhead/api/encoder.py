"""A classifier that starts with the encoder of another model (`classifier.encoder_from`)."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint import folder_of, read_folder_config, read_model_folder, read_tensors
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    from torch import nn

SAME_MODEL = "give the classifier the same [model] settings as the model it begins with"

PARTS = {"source_input.": "input.", "input.": "input.", "encoder.": "encoder."}
"""Prefixes of a translator's or a classifier's parameters, and what they become here."""

MEANINGS = (
    *("n_heads", "norm", "final_norm", "norm_form", "norm_epsilon", "activation", "positions"),
    "scale_embeddings",
)
"""Settings that change what an encoder's parameters mean, but perhaps not their shapes."""


def with_encoders_settings(config: RunConfig, restart: bool) -> RunConfig:
    """The run with the vocabulary settings, or the scale of features, that `encoder_from` brings.

    A run that resumes takes them from its own folder. Settings at their defaults are replaced.

    Raises:
        ConfigError: the run asks for another vocabulary or scale.
        ModelFolderError: the folder cannot be read.
    """
    if not config.classifier.encoder_from:
        return config
    own = Path(config.folder)
    resumes = bool(config.folder) and not restart and (own / "config.json").exists()
    found = read_folder_config(own if resumes else folder_of(config.classifier.encoder_from))
    if found.input != config.input:
        return config  # preparing the data raises the error
    brought = _scale if config.input == "features" else _vocabulary
    default, asked, there = brought(RunConfig()), brought(config), brought(found)
    others = [name for name in asked if asked[name] not in (default[name], there[name])]
    if others:
        what = "vocabulary" if config.input == "text" else "scale of the features"
        raise ConfigError(
            f"classifier.encoder_from brings its own {what}",
            where=others[0],
            why=", ".join(f"{n} = {asked[n]!r}, and there it is {there[n]!r}" for n in others),
            todo=f"leave {' and '.join(others)} out, or train without encoder_from",
        )
    if config.input == "features":
        return replace(config, data=replace(config.data, normalise=found.data.normalise))
    return replace(config, tokenizer=replace(found.tokenizer, joint=config.tokenizer.joint))


def _scale(config: RunConfig) -> dict[str, Any]:
    return {"data.normalise": config.data.normalise}


def _vocabulary(config: RunConfig) -> dict[str, Any]:
    settings = asdict(config.tokenizer)
    del settings["joint"]  # that of two languages, where here there is one
    # The shape of the model does not depend on the lengths of n-grams, but what they mean does.
    ngrams = {"model.character_ngrams": config.model.character_ngrams}
    return {f"tokenizer.{name}": value for name, value in settings.items()} | ngrams


def begin_with_encoder(model: nn.Module, trained: Path, config: RunConfig) -> None:
    """Copy the input and the encoder of a trained model into a classifier.

    Args:
        model: the classifier.
        trained: the folder of the other model, or one of the checkpoints in it.
        config: the classifier's run.

    Raises:
        ModelFolderError: the folder cannot be read, or its encoder has another shape, or settings
            under which the same parameters mean something else.
    """
    import torch

    folder = read_model_folder(trained)
    _refuse_other_meanings(folder.config, config, trained)
    tensors, _ = read_tensors(folder.weights)
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
            "its encoder is not of the shape of the classifier's configuration",
            where=trained,
            why=f"{len(wrong)} parameters differ in name or shape, the first is {wrong[0]}",
            todo=SAME_MODEL,
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(taken[name])


def _refuse_other_meanings(found: RunConfig, config: RunConfig, trained: Path) -> None:
    theirs, own = asdict(found.model), asdict(config.model)
    unused = set() if config.input == "text" else {"scale_embeddings"}
    unused |= {"final_norm"} if theirs["norm"] == own["norm"] == "post" else set()
    others = [name for name in MEANINGS if name not in unused and theirs[name] != own[name]]
    if others:
        differ = (f"model.{n} is {own[n]!r} here and {theirs[n]!r} there" for n in others)
        raise ModelFolderError(
            "its encoder is not that of the classifier's configuration",
            where=trained,
            why="; ".join(differ),
            todo=SAME_MODEL,
        )
