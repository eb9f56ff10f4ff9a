"""A classifier's encoder that begins where another model's ended."""

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
"""How a translator's or an encoder's parameters begin, and how a classifier's do."""

MEANINGS = (
    *("n_heads", "norm", "final_norm", "norm_form", "norm_epsilon", "activation", "positions"),
    "scale_embeddings",
)
"""Settings that change what an encoder's parameters mean, though they may leave their shapes."""


def with_encoders_settings(config: RunConfig, restart: bool) -> RunConfig:
    """The run with the settings of the vocabulary, or of the features' scale, that it takes over.

    They are those of `encoder_from`, or of a run that has begun with it, whose folder is enough to
    go on. A setting that stands at its default asks for nothing.

    Raises:
        ConfigError: the run asks for another vocabulary or scale.
        ModelFolderError: the folder cannot be read.
    """
    if not config.classifier.encoder_from:
        return config
    begun = Path(config.folder)
    goes_on = bool(config.folder) and not restart and (begun / "config.json").exists()
    found = read_folder_config(begun if goes_on else folder_of(config.classifier.encoder_from))
    if found.input != config.input:
        return config  # which preparing the data refuses
    if config.input == "features":
        _refuse_others(config, _normalise(RunConfig()), _normalise(config), _normalise(found))
        return replace(config, data=replace(config.data, normalise=found.data.normalise))
    _refuse_others(config, _vocabulary(RunConfig()), _vocabulary(config), _vocabulary(found))
    joint = config.tokenizer.joint
    return replace(config, tokenizer=replace(found.tokenizer, joint=joint))


def _normalise(config: RunConfig) -> dict[str, Any]:
    return {"data.normalise": config.data.normalise}


def _vocabulary(config: RunConfig) -> dict[str, Any]:
    settings = asdict(config.tokenizer)
    del settings["joint"]  # of two languages, where here there is one
    # The lengths of n-grams are not in the shape of the model: others would be met as strangers.
    ngrams = {"model.character_ngrams": config.model.character_ngrams}
    return {f"tokenizer.{name}": value for name, value in settings.items()} | ngrams


def _refuse_others(
    config: RunConfig, default: dict[str, Any], asked: dict[str, Any], found: dict[str, Any]
) -> None:
    others = [name for name in asked if asked[name] not in (default[name], found[name])]
    if others:
        what = "vocabulary" if config.input == "text" else "scale of the features"
        raise ConfigError(
            f"classifier.encoder_from brings its own {what}",
            where=others[0],
            why=", ".join(f"{n} = {asked[n]!r}, and there it is {found[n]!r}" for n in others),
            todo=f"leave {' and '.join(others)} out, or train without encoder_from",
        )


def begin_with_encoder(model: nn.Module, trained: Path, config: RunConfig) -> None:
    """Put the input and the encoder of a trained model in place of the classifier's own.

    Args:
        model: the classifier.
        trained: the folder of the other model, or one of the checkpoints in it.
        config: the classifier's run.

    Raises:
        ModelFolderError: the folder cannot be read, or its encoder has another shape, or other
            settings under which the same numbers mean something else.
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
            "its encoder is not of the shape that the classifier's configuration asks for",
            where=trained,
            why=f"{len(wrong)} parameters differ in name or shape, the first is {wrong[0]}",
            todo=SAME_MODEL,
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(taken[name])


def _refuse_other_meanings(found: RunConfig, config: RunConfig, trained: Path) -> None:
    its, own = asdict(found.model), asdict(config.model)
    idle = set() if config.input == "text" else {"scale_embeddings"}
    idle |= {"final_norm"} if its["norm"] == own["norm"] == "post" else set()
    others = [name for name in MEANINGS if name not in idle and its[name] != own[name]]
    if others:
        differ = (f"model.{n} is {own[n]!r} here and {its[n]!r} there" for n in others)
        raise ModelFolderError(
            "its encoder is not the one that the classifier's configuration asks for",
            where=trained,
            why="; ".join(differ),
            todo=SAME_MODEL,
        )
