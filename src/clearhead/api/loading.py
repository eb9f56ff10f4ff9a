"""Which engine runs a translator: what was asked for, or what is there and fits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.api.classifier import Classifier
from clearhead.api.translator import Translator
from clearhead.checkpoint import ModelFolder, read_digest, read_json, read_model_folder
from clearhead.decoding.engine import Engine, check_device
from clearhead.errors import ConfigError, ExportError, ModelFolderError, warn
from clearhead.settings.nearest import meant

if TYPE_CHECKING:
    from clearhead.ctranslate2.engine import CTranslate2Engine
    from clearhead.decoding.torch_engine import TorchEngine


ENGINES = ("auto", "torch", "ctranslate2")


@dataclass(frozen=True)
class EngineChoice:
    """What is asked for.

    Attributes:
        engine: `torch`, `ctranslate2`, or `auto` for the faster one that is there.
        device: `cpu`, `cuda`, or `auto` for the GPU where there is one.
        threads: of the CPU (0: as the engine chooses).
        compute_type: in what weights are multiplied; empty: float32.
        scores: whether the scores of hypotheses are wanted.

    Raises:
        ConfigError: there is no such engine, the threads are fewer than none, or a compute type is
            named without an engine.
    """

    engine: str = "auto"
    device: str = "auto"
    threads: int = 0
    compute_type: str = ""
    scores: bool = True

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ConfigError(
                f"engine = {self.engine!r} is not the name of an engine",
                todo=meant("engine", self.engine, ENGINES) or f"choose one of {', '.join(ENGINES)}",
            )
        if self.threads < 0:
            raise ConfigError(
                f"threads = {self.threads}, which is less than 0",
                todo="give a number, or 0 for as many as the engine chooses",
            )
        if self.compute_type and self.engine == "auto":
            raise ConfigError(
                f"compute_type = {self.compute_type!r}, but no engine is named",
                why="not every engine has every type",
                todo="choose one too: --engine torch or --engine ctranslate2",
            )


def engine_for(found: ModelFolder, choice: EngineChoice) -> Engine:
    """The engine of a translator; torch is imported only if it will run, or may.

    `auto` takes CTranslate2 where it is installed, an export of these very weights lies in the
    model folder, and no GPU is to be used. What then translates is decided search by search.

    Raises:
        ConfigError: the device is not there, or cannot do what is asked.
        ExportError: CTranslate2 is asked for, and it or a fitting export is not there.
        ModelFolderError: the model folder is damaged.

    Warns:
        UserWarning: `auto` passes over an export because it is damaged or of other weights, or
            because CTranslate2 is not installed.
    """
    check_device(choice.device)
    if choice.engine == "ctranslate2":
        return _ctranslate2_engine(found, choice, choice.device)
    if choice.engine == "torch" or not _may_be_faster(found, choice.device):
        return _torch_engine(found, choice)
    try:
        fast = _ctranslate2_engine(found, choice, "cpu")
    except ExportError as error:
        warn(f"PyTorch translates, since an export is of no use: {error}")
        return _torch_engine(found, choice)
    from clearhead.api.auto_engine import AutoEngine

    return AutoEngine(fast, lambda: _torch_engine(found, choice))


def _may_be_faster(found: ModelFolder, device: str) -> bool:
    """Whether there is an export to look at, and it would run on a CPU, where it was measured."""
    from clearhead.ctranslate2.folder import NAME

    if device == "cuda" or found.is_checkpoint or not (found.path / NAME).is_dir():
        return False
    return device == "cpu" or not _gpu_is_here()


def _gpu_is_here() -> bool:
    """Whether there is a GPU, asked of CTranslate2, since asking PyTorch would load it."""
    try:
        import ctranslate2
    except ImportError:
        # It is PyTorch that will translate, so that it is loaded anyhow.
        import torch

        return torch.cuda.is_available()
    return ctranslate2.get_cuda_device_count() > 0


def _ctranslate2_engine(found: ModelFolder, choice: EngineChoice, device: str) -> CTranslate2Engine:
    from clearhead.ctranslate2.engine import CTranslate2Engine
    from clearhead.ctranslate2.folder import NAME, read_export

    if found.is_checkpoint:
        raise ExportError(
            "a checkpoint has no export for CTranslate2, which is of the folder's own weights",
            where=found.weights,
            todo="use engine = 'torch'",
        )
    return CTranslate2Engine(
        read_export(found.path / NAME, found),
        device=device,
        threads=choice.threads,
        compute_type=choice.compute_type or "float32",
        scores=choice.scores,
    )


def _torch_engine(found: ModelFolder, choice: EngineChoice) -> TorchEngine:
    from clearhead.decoding.device import set_up_torch
    from clearhead.decoding.products import lay_out
    from clearhead.decoding.torch_engine import TorchEngine, trained_translator

    device = set_up_torch(choice.device, choice.threads)
    products = lay_out(choice.compute_type or "float32", device)
    return TorchEngine(trained_translator(found, device), products, scores=choice.scores)


# ---- api.loading
# From a model folder to what it was trained for.


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
    the system, which makes decoding on a CPU faster (`decoding/device.py`).

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
        ModelFolderError: the folder is missing, damaged, or of another version.
        ConfigError: the device or the engine is not there, or a classifier is to run with
            CTranslate2 or in a compute type, which are for translators.
        ExportError: there is no export for CTranslate2, or it is of other weights.
        ClearheadError: the device failed, e.g. because the memory of the GPU is full.

    Warns:
        UserWarning: `auto` passes over an export because it is damaged or of other weights.
    """
    found = read_model_folder(folder)
    choice = EngineChoice(engine, device, threads, compute_type, scores)
    if found.config.task == "classification":
        return _classifier(found, choice)
    return Translator(found, engine_for(found, choice))


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
    from clearhead.api.preparation import LABELS, read_inputs
    from clearhead.data.labels import Labels
    from clearhead.decoding.classifier_engine import ClassifierEngine
    from clearhead.decoding.device import set_up_torch
    from clearhead.decoding.torch_engine import with_weights
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
    inputs, labels = read_inputs(found.path, config), Labels.load(found.path, LABELS)
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
