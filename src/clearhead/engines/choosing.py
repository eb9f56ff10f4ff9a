"""Which engine runs a translator: what was asked for, or what is there and fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.checkpoint import ModelFolder
from clearhead.config.nearest import meant
from clearhead.engines.device_names import check_device
from clearhead.engines.engine import Engine
from clearhead.errors import ConfigError, ExportError, warn

if TYPE_CHECKING:
    from clearhead.engines.ctranslate2.engine import CTranslate2Engine
    from clearhead.engines.torch_engine import TorchEngine

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
    from clearhead.engines.auto_engine import AutoEngine

    return AutoEngine(fast, lambda: _torch_engine(found, choice))


def _may_be_faster(found: ModelFolder, device: str) -> bool:
    """Whether there is an export to look at, and it would run on a CPU, where it was measured."""
    from clearhead.engines.ctranslate2.folder import NAME

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
    from clearhead.engines.ctranslate2.engine import CTranslate2Engine
    from clearhead.engines.ctranslate2.folder import NAME, read_export

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
    from clearhead.engines.device import set_up_torch
    from clearhead.engines.products import lay_out
    from clearhead.engines.torch_engine import TorchEngine
    from clearhead.engines.trained import trained_translator

    device = set_up_torch(choice.device, choice.threads)
    products = lay_out(choice.compute_type or "float32", device)
    return TorchEngine(trained_translator(found, device), products, scores=choice.scores)
