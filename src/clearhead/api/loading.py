"""From a model folder to what it was trained for."""

from __future__ import annotations

import sys
from pathlib import Path

from clearhead.api.classifier import Classifier
from clearhead.api.translator import Translator
from clearhead.checkpoint import ModelFolder, read_digest, read_json, read_model_folder
from clearhead.engines.choosing import EngineChoice, engine_for
from clearhead.errors import ConfigError, ModelFolderError, warn


def load(
    folder: str | Path,
    *,
    device: str = "auto",
    threads: int = 0,
    engine: str = "auto",
    compute_type: str = "",
    scores: bool = True,
) -> Translator | Classifier:
    """The translator or classifier of a model folder; no data and no network is needed.

    Where PyTorch computes, it is set up for the whole process: the number of threads, denormal
    numbers as zero, and, with glibc, memory that was freed is kept instead of being given back to
    the system, which makes decoding on a CPU faster (`engines/device.py`).

    Args:
        folder: written by training.
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        threads: of the CPU (0: as the engine chooses).
        engine: what runs a translator: `torch`, `ctranslate2` (see `export_model`), or `auto` for
            the faster one that is there.
        compute_type: in what the named engine multiplies: `float32`, `int8`, … (empty: float32).
        scores: False where the scores of hypotheses are not wanted, which CTranslate2 gets in a
            second pass, and greedy search by one over all logits; they may then be NaN.

    Raises:
        ModelFolderError: the folder is missing, damaged, or of another version, or holds an
            encoder that was only pre-trained.
        ConfigError: the device or the engine is not there, or a classifier is to run with
            CTranslate2 or in a compute type, which are for translators.
        ExportError: there is no export for CTranslate2, or it is of other weights.
        ClearheadError: the device failed, e.g. because the memory of the GPU is full.

    Warns:
        UserWarning: `auto` passes over an export because it is damaged or of other weights.
    """
    found = read_model_folder(folder)
    choice = EngineChoice(engine, device, threads, compute_type, scores)
    match found.config.task:
        case "translation":
            return Translator(found, engine_for(found, choice))
        case "classification":
            return _classifier(found, choice)
    raise ModelFolderError(
        "this model fills in features: it neither translates nor classifies",
        where=folder,
        todo="train a classifier that begins with its encoder: classifier.encoder_from",
    )


def load_translator(
    folder: str | Path,
    *,
    device: str = "auto",
    threads: int = 0,
    engine: str = "auto",
    compute_type: str = "",
    scores: bool = True,
) -> Translator:
    """As `load`, where only a translator will do.

    Raises:
        ModelFolderError: it is a classifier; or as in `load`.
    """
    model = load(
        folder,
        device=device,
        threads=threads,
        engine=engine,
        compute_type=compute_type,
        scores=scores,
    )
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


def _classifier(found: ModelFolder, choice: EngineChoice) -> Classifier:
    from clearhead.api.preparation import read_inputs, read_labels
    from clearhead.engines.classifier_engine import ClassifierEngine
    from clearhead.engines.device import set_up_torch
    from clearhead.engines.trained import with_weights
    from clearhead.model.build import build_classifier

    if choice.engine == "ctranslate2":
        raise ConfigError(
            "this model classifies, and CTranslate2 runs translators only",
            where=found.path,
            todo="use engine = 'torch'",
        )
    if choice.compute_type:
        raise ConfigError(
            f"compute_type = {choice.compute_type!r}, but this model classifies",
            where=found.path,
            why="compute types are for translators; a classifier multiplies in float32",
            todo="leave compute_type out",
        )
    if found.is_checkpoint:
        temperature = 1.0
        message = f"{found.weights} is a checkpoint, for which no temperature was fitted"
        warn(f"{message}: its probabilities are not calibrated")
    else:
        temperature = _temperature(found)
    device = set_up_torch(choice.device, choice.threads)
    config = found.config
    inputs, labels = read_inputs(found.path, config), read_labels(found.path)
    model = build_classifier(
        config.model, config.classifier, inputs.width, len(labels), config.input == "features"
    )
    engine = ClassifierEngine(with_weights(model, found, device))
    return Classifier(found, inputs, labels, engine, temperature)


def _temperature(folder: ModelFolder) -> float:
    """What a classifier's logits are divided by, as it was fitted when its weights were kept.

    Every classifier has one: training writes the weights, and then their scores.

    Raises:
        ModelFolderError: it is not there, no positive number, or of other weights.
    """
    path = folder.path / "scores.json"
    todo = (
        "bring the file back from a copy, go on with the training if it was interrupted, or train "
        "anew: clearhead train RUN.toml --restart"
    )
    try:
        tree = read_json(path)
    except ModelFolderError as error:
        raise ModelFolderError(error.what, where=path, why=error.why, todo=todo) from None
    digest = read_digest(folder.weights)
    if tree.get("digest", digest) != digest:
        what = "the scores are not those of these weights, which were replaced without them"
        raise ModelFolderError(what, where=path, todo=todo)
    scores = tree.get("scores")
    found = scores.get("temperature") if isinstance(scores, dict) else None
    number = found if isinstance(found, int | float) and not isinstance(found, bool) else 0
    if 0 < number <= sys.float_info.max:
        return float(number)
    raise ModelFolderError(
        "the scores are damaged",
        where=path,
        why=f"scores.temperature is {'missing' if found is None else repr(found)}, "
        "and should be a positive number",
        todo=todo,
    )
