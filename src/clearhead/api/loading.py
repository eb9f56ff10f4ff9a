"""Load a trained model, and choose the engine that runs a translator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from clearhead.api.classifier import Classifier
from clearhead.api.translator import Translator
from clearhead.decoding.engine import Engine, Hypothesis
from clearhead.device import check_device, imported, set_up_torch, threads_of_process
from clearhead.errors import ConfigError, ExportError, ModelFolderError, meant, warn
from clearhead.folder.model_folder import (
    ModelFolder,
    read_model_folder,
    read_temperature,
    read_tokenizers,
)
from clearhead.formats.ctranslate2.engine import CTranslate2Engine
from clearhead.formats.ctranslate2.folder import NAME, read_ctranslate2
from clearhead.formats.ctranslate2.runtime import installed
from clearhead.inspect.heads import listed
from clearhead.settings import SearchConfig
from clearhead.settings.training import MOST_THREADS

if TYPE_CHECKING:
    from torch import nn

    from clearhead.decoding.torch_engine import TorchEngine
    from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
    from clearhead.tokenizer import Tokenizer

Model = TypeVar("Model", bound="nn.Module")

ENGINES = ("auto", "torch", "ctranslate2")


def load(
    folder: str | Path,
    *,
    device: str = "auto",
    threads: int = 0,
    engine: str = "auto",
    compute_type: str = "",
    scores: bool = True,
    ablate: str | Iterable[str] = (),
    ablate_by: str = "zero",
) -> Translator | Classifier:
    """Load the translator or classifier of a model folder; needs no data and no network.

    PyTorch is set up for the whole process: the number of threads, and denormal numbers as zero.
    The loaded model stays the same if a run replaces the one in the folder. A process that is
    forked later can use it: CTranslate2 then loads it again, and PyTorch has one thread there.

    Args:
        folder: written by training.
        device: `cpu`, `cuda`, or `auto` for a GPU if there is one.
        threads: threads on the CPU (0: the default of the engine).
        engine: what runs a translator: `torch`, `ctranslate2` (see `export_model`), or `auto`,
            which uses the CTranslate2 export if there is one that fits, otherwise PyTorch.
        compute_type: the number type of matrix products, which needs a named engine: `float32`,
            `int8`, … (empty: float32).
        scores: False if scores are not needed. CTranslate2 then skips the second pass that computes
            them, and PyTorch the sum over all logits in greedy search; scores may be NaN.
        ablate: names of heads to switch off, as a list or separated by commas:
            `decoder.3.cross.5`, or the beginning of such names, `decoder.3`, for all heads below.
            Layers and heads count from 1. PyTorch then runs a translator.
        ablate_by: what replaces the output of these heads: `zero`, or its `mean` over the sample of
            `clearhead study`.

    Raises:
        ModelFolderError: the folder is missing, damaged, or of another version; or the means of
            heads are needed and are not there.
        ConfigError: there is no such device, engine or head, or an option for translators is given
            for a classifier.
        ExportError: CTranslate2 is requested, but there is no export, or it is of other weights.
        ClearheadError: the device failed, e.g. because the memory of the GPU is full.

    Warns:
        UserWarning: `auto` cannot use the export, because it is damaged or of other weights, or
            because CTranslate2 is not installed; or the library that computes with several threads
            was imported before, so that its threads wait long for each other.
    """
    _check_options(device, threads, engine, compute_type)
    threads = threads or threads_of_process()
    off = _Ablation(tuple(filter(None, listed(ablate))), ablate_by)
    if not off.heads and ablate_by != "zero":
        raise ConfigError(
            f"ablate_by = {ablate_by!r} has no effect without heads that are switched off",
            todo="name some in ablate, e.g. decoder.3.cross.5, or leave ablate_by out",
        )
    if off.heads and engine == "ctranslate2":
        raise ConfigError(
            "CTranslate2 cannot switch off heads", todo="set the engine to torch, or leave it out"
        )
    found = read_model_folder(folder)
    try:
        return _loaded(found, device, threads, engine, compute_type, scores, off)
    except ModelFolderError:
        if (now := read_model_folder(folder)) == found:
            raise
        # A run has replaced the weights meanwhile.
        return _loaded(now, device, threads, engine, compute_type, scores, off)


class _Ablation(NamedTuple):
    """The heads to switch off by name, and what replaces their outputs."""

    heads: tuple[str, ...]
    by: str

    @property
    def title(self) -> str:
        """What is off, for people; empty if nothing is."""
        if not self.heads:
            return ""
        return f"without {', '.join(self.heads)} ({self.by} instead)"

    def applied(self, model: Model, found: ModelFolder) -> Model:
        """The model without these heads.

        Raises:
            ConfigError: it has no such head, or there is no such replacement.
            ModelFolderError: the means are not known.
        """
        if not self.heads:
            return model
        from clearhead.inspect.heads import chosen_heads
        from clearhead.inspect.view import heads_of, replacements, without_heads

        heads = chosen_heads(self.heads, heads_of(model))
        return without_heads(model, heads, replacements(self.by, model, found))


def _loaded(
    found: ModelFolder,
    device: str,
    threads: int,
    engine: str,
    compute_type: str,
    scores: bool,
    off: _Ablation,
) -> Translator | Classifier:
    if found.config.task == "translation":
        engine = "torch" if off.heads else engine
        # PyTorch may be needed when a run has replaced the weights.
        kept = found if engine == "torch" or found.is_checkpoint else found.kept_open()
        tokenizers = read_tokenizers(found.path, found.config)
        made = _engine(kept, tokenizers, device, threads, engine, compute_type, scores, off)
        exported = made.exported if isinstance(made, AutoEngine) else made
        if not isinstance(exported, CTranslate2Engine):
            return Translator(found, tokenizers, made, off.title)
        exported.check_vocabularies(tokenizers)
        return Translator(kept, tokenizers, made, off.title)
    if engine == "ctranslate2":
        raise ConfigError(
            "this model is a classifier, and CTranslate2 runs translators only",
            where=found.path,
            todo="set the engine to torch",
        )
    if compute_type:
        raise ConfigError(
            f"the compute type {compute_type!r} is given, but this model is a classifier",
            where=found.path,
            why="compute types are for translators; a classifier computes in float32",
            todo="leave the compute type out",
        )
    return _classifier(found, device, threads, off)


def load_translator(
    folder: str | Path,
    *,
    device: str = "auto",
    threads: int = 0,
    engine: str = "auto",
    compute_type: str = "",
    scores: bool = True,
    ablate: str | Iterable[str] = (),
    ablate_by: str = "zero",
) -> Translator:
    """Same as `load`, for a translator.

    Raises:
        ModelFolderError: the model is a classifier; or as in `load`.
    """
    model = load(
        folder,
        device=device,
        threads=threads,
        engine=engine,
        compute_type=compute_type,
        scores=scores,
        ablate=ablate,
        ablate_by=ablate_by,
    )
    if not isinstance(model, Translator):
        raise ModelFolderError(
            "this model is a classifier, not a translator",
            where=folder,
            todo="use it with: clearhead classify",
        )
    return model


def load_classifier(
    folder: str | Path,
    *,
    device: str = "auto",
    threads: int = 0,
    ablate: str | Iterable[str] = (),
    ablate_by: str = "zero",
) -> Classifier:
    """Same as `load`, for a classifier.

    Raises:
        ModelFolderError: the model is a translator; or as in `load`.
    """
    model = load(folder, device=device, threads=threads, ablate=ablate, ablate_by=ablate_by)
    if not isinstance(model, Classifier):
        raise ModelFolderError(
            "this model is a translator, not a classifier",
            where=folder,
            todo="use it with: clearhead translate",
        )
    return model


def _check_options(device: str, threads: int, engine: str, compute_type: str) -> None:
    check_device(device)
    if engine not in ENGINES:
        raise ConfigError(
            f"{engine!r} is not the name of an engine",
            todo=meant("engine", engine, ENGINES) or f"choose one of {', '.join(ENGINES)}",
        )
    if not 0 <= threads <= MOST_THREADS:
        raise ConfigError(
            f"the number of threads is {threads}, which is less than 0 or more than {MOST_THREADS}",
            todo="give a number of threads, or 0 for the default of the engine",
        )
    if compute_type and engine == "auto":
        raise ConfigError(
            f"the compute type {compute_type!r} is given without an engine",
            why="the engines support different compute types",
            todo="also set the engine to torch or ctranslate2",
        )


def _engine(
    found: ModelFolder,
    tokenizers: tuple[Tokenizer, Tokenizer],
    device: str,
    threads: int,
    engine: str,
    compute_type: str,
    scores: bool,
    off: _Ablation,
) -> Engine:
    """The engine of a translator.

    `auto` uses the CTranslate2 export if there is one of exactly these weights, CTranslate2 is
    installed, and no GPU is used. Searches that CTranslate2 lacks then run with PyTorch (see
    `AutoEngine`). In all other cases `auto` is PyTorch. torch is imported when it is first needed.
    """
    compute_type = compute_type or "float32"

    def torch_engine() -> TorchEngine:
        where = set_up_torch(device, threads)  # first, because it imports torch

        from clearhead.decoding.products import choose_product
        from clearhead.decoding.torch_engine import TorchEngine, trained_translator

        products = choose_product(compute_type, where)
        model = off.applied(trained_translator(found, where, tokenizers), found)
        return TorchEngine(model, products, scores=scores)

    def ctranslate2_engine(device: str) -> CTranslate2Engine:
        if found.is_checkpoint:
            raise ExportError(
                "a checkpoint has no export for CTranslate2; the export has the final weights",
                where=found.weights,
                todo="set the engine to torch",
            )
        export = read_ctranslate2(found.path / NAME, found)
        return CTranslate2Engine(
            export, device=device, threads=threads, compute_type=compute_type, scores=scores
        )

    if engine == "ctranslate2":
        return ctranslate2_engine(device)
    has_export = not found.is_checkpoint and (found.path / NAME).is_dir()
    if engine == "torch" or not has_export or _uses_gpu(device):
        return torch_engine()
    try:
        return AutoEngine(ctranslate2_engine("cpu"), torch_engine)
    except ExportError as error:
        # On one line: while a run trains, every call meets its old export.
        parts = "; ".join(filter(None, (error.what, error.todo)))
        warn(f"PyTorch translates, because the export cannot be used: {parts}")
        return torch_engine()


class AutoEngine:
    """Runs CTranslate2 for every search that it supports, and PyTorch for the others.

    Which of the two runs a call depends only on the arguments of that call. PyTorch is loaded when
    it is needed first.

    Args:
        exported: the CTranslate2 engine.
        make_torch: makes the PyTorch engine of the same model.
    """

    def __init__(self, exported: CTranslate2Engine, make_torch: Callable[[], TorchEngine]) -> None:
        self.exported = exported
        self._make_torch = make_torch

    @cached_property
    def torch(self) -> TorchEngine:
        """The PyTorch engine."""
        return self._make_torch()

    @property
    def model(self) -> EncoderDecoder:
        """The PyTorch model."""
        return self.torch.model

    @property
    def longest_source(self) -> int | None:
        """The most tokens of a source, with either engine."""
        return self.exported.longest_source

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        **options: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in the order of the sources; see `Engine`."""
        longest_prefix = max(map(len, prefixes or ()), default=0)
        longest_source = max(map(len, sources), default=0)
        lacks = self.exported.unsupported(search, longest_prefix, longest_source)
        engine = self.torch if lacks else self.exported
        return engine.translate(sources, search, prefixes=prefixes, **options)


def _uses_gpu(device: str) -> bool:
    if device != "auto":
        return device == "cuda"
    try:
        return installed().get_cuda_device_count() > 0
    except ExportError:
        # PyTorch will translate, so it is loaded anyway.
        return imported("torch").cuda.is_available()


def _classifier(found: ModelFolder, device: str, threads: int, off: _Ablation) -> Classifier:
    where = set_up_torch(device, threads)  # first, because it imports torch

    from clearhead.data.inputs import read_inputs
    from clearhead.data.labels import LABELS, Labels
    from clearhead.decoding.torch_engine import ClassifierEngine, with_weights
    from clearhead.model.build import build_classifier

    if found.is_checkpoint:
        temperature = 1.0
        warn(
            f"{found.weights} is a checkpoint, for which no temperature was fitted: its "
            "probabilities are not calibrated"
        )
    else:
        temperature = read_temperature(found)
    config = found.config
    inputs, labels = read_inputs(found.path, config), Labels.load(found.path, LABELS)

    def make_model() -> EncoderClassifier:
        features = config.input == "features"
        return build_classifier(
            config.model, config.classifier, inputs.width, len(labels), features
        )

    engine = ClassifierEngine(off.applied(with_weights(make_model, found, where), found))
    return Classifier(found, inputs, labels, engine, temperature, off.title)
