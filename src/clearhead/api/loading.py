"""Load a trained model, and choose the engine that runs a translator."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from clearhead.api.classifier import Classifier
from clearhead.api.translator import Translator, protected, terms_for
from clearhead.data.reading.lines import Formats
from clearhead.data.reading.pairs import PAIR_FORMATS, TERM_FORMATS, ReadPairs
from clearhead.decoding.ctranslate2_engine import AutoEngine, CTranslate2Engine
from clearhead.decoding.ctranslate2_library import NAME, installed, read_ctranslate2
from clearhead.device import check_device, imported, set_up_torch, threads_of_process
from clearhead.errors import ConfigError, ExportError, ModelFolderError, meant, warn
from clearhead.folder.manifest import read_entries
from clearhead.folder.model_folder import (
    WEIGHTS,
    ModelFolder,
    open_folder,
    read_temperature,
    read_thresholds,
)
from clearhead.inspect.heads import listed
from clearhead.settings.training import MOST_THREADS
from clearhead.text.glossary import Glossary
from clearhead.text.memory import Memory
from clearhead.tokenizer import read_tokenizers

if TYPE_CHECKING:
    from torch import nn

    from clearhead.decoding.engine import Engine
    from clearhead.decoding.torch_engine import TorchEngine
    from clearhead.settings import RunConfig
    from clearhead.tokenizer import Tokenizer

Model = TypeVar("Model", bound="nn.Module")

ENGINES = ("auto", "torch", "ctranslate2")


@dataclass(frozen=True)
class LoadOptions:
    """What runs a loaded model, and how.

        options = clearhead.LoadOptions(device="cpu", threads=2)
        clearhead.load("runs/my-model", options)

    Args:
        device: `cpu`, `cuda`, or `auto` for a GPU if there is one.
        threads: threads on the CPU (0: the default of the engine).
        engine: what runs a translator: `torch`, `ctranslate2` (see `export_model`), or `auto`,
            which uses the CTranslate2 export if there is one that fits, otherwise PyTorch.
        compute_type: the number type of matrix products, which needs a named engine: `float32`,
            `int8`, … (empty: float32).
        scores: False if scores are not needed. CTranslate2 then skips the second pass that computes
            them, and PyTorch the sum over all logits in greedy search; scores may be NaN.
        glossary: the terms that a translator places: a file of pairs, such as .tsv, .tmx or .tbx,
            or a mapping from terms to their translations. Several forms are separated by `|`.
        memory: a file of earlier translations, such as .tmx, .po or .tsv, in the languages of the
            translator. It takes the translation of a text that is in the file from there.
        match: the least similarity, above 0, of a text in `memory` whose translation is taken; 1:
            only the same text, but protected spans may differ. A similar text is only used where
            the confidence in the model's own translation is lower.
        ablate: names of heads to switch off, as a list or separated by commas:
            `decoder.3.cross.5`, or the beginning of such names, `decoder.3`, for all heads below.
            Layers and heads count from 1. PyTorch then runs a translator.
        ablate_by: what replaces the output of these heads: `zero`, or its `mean` over the sample of
            `clearhead study`.

    Raises:
        ConfigError: an option has a wrong value, or no effect together with the others.
    """

    device: str = "auto"
    threads: int = 0
    engine: str = "auto"
    compute_type: str = ""
    scores: bool = True
    glossary: str | Path | Mapping[str, str] = ""
    memory: str | Path = ""
    match: float = 1.0
    ablate: str | Iterable[str] = ()
    ablate_by: str = "zero"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ablate", tuple(filter(None, listed(self.ablate))))
        object.__setattr__(self, "scores", self.scores or self.match < 1)
        check_device(self.device)
        if self.engine not in ENGINES:
            what = f"{self.engine!r} is not the name of an engine"
            todo = meant("engine", self.engine, ENGINES) or f"choose one of {', '.join(ENGINES)}"
        elif not 0 <= self.threads <= MOST_THREADS:
            what = f"threads = {self.threads} is less than 0 or more than {MOST_THREADS}"
            todo = "give a number of threads, or 0 for the default of the engine"
        elif self.compute_type and self.engine == "auto":
            what = f"the compute type {self.compute_type!r} is given without an engine"
            todo = "also set the engine to torch or ctranslate2, which have different types"
        elif self.ablate_by != "zero" and not self.ablate:
            what = f"ablate_by = {self.ablate_by!r} has no effect without heads that are off"
            todo = "name some in ablate, e.g. decoder.3.cross.5, or leave ablate_by out"
        elif self.ablate and self.engine == "ctranslate2":
            what = "CTranslate2 cannot switch off heads"
            todo = "set the engine to torch, or leave it out"
        elif not 0 < self.match <= 1:
            what = f"match = {self.match} is not above 0 and at most 1"
            todo = "give a similarity, e.g. 0.85; 1 takes the translations of the same text only"
        elif self.match < 1 and not self.memory:
            what = f"match = {self.match} has no effect without a memory"
            todo = "name a file of translations in memory, or leave match out"
        else:
            return
        raise ConfigError(what, todo=todo)

    @property
    def ablated(self) -> str:
        """Which heads are off, for people; empty if none is."""
        return f"without {', '.join(self.ablate)} ({self.ablate_by} instead)" if self.ablate else ""


def load(
    folder: str | Path | Sequence[str | Path], options: LoadOptions | None = None, **choices: Any
) -> Translator | Classifier:
    """Load the translator or classifier of a model folder; needs no data and no network.

        translator = clearhead.load("runs/my-model", device="cpu", threads=2)
        ensemble = clearhead.load(["runs/seed-1", "runs/seed-2"])

    PyTorch is set up for the whole process: the number of threads, and denormal numbers as zero.
    The loaded model stays the same if a run replaces the one in the folder. A process that is
    forked later can use it: CTranslate2 then loads it again, and PyTorch has one thread there.

    Args:
        folder: written by training; or several, of translators that then work together as an
            ensemble: at each step their log-probabilities are averaged. They have the same
            languages and vocabularies. PyTorch runs them.
        options: what runs the model, and how.
        choices: single options of `LoadOptions`, which replace those of `options`.

    Raises:
        ModelFolderError: the folder is missing, damaged, or of another version; or the means of
            heads are needed and are not there.
        ConfigError: as for `LoadOptions`; or there is no such device or head, or an option for
            translators is given for a classifier; or several models have different vocabularies
            or languages.
        ExportError: CTranslate2 is requested, but there is no export, or it is of other weights.
        ClearheadError: the device failed, e.g. because the memory of the GPU is full.

    Warns:
        UserWarning: `auto` cannot use the export, because it is damaged or of other weights, or
            because CTranslate2 is not installed; or the library that computes with several threads
            was imported before, so that its threads wait long for each other.
    """
    return _load(folder, options, choices)


def load_translator(
    folder: str | Path | Sequence[str | Path], options: LoadOptions | None = None, **choices: Any
) -> Translator:
    """Same as `load`, for a translator; a ModelFolderError if the model is a classifier."""
    return cast(Translator, _load(folder, options, choices, "translation"))


def load_classifier(
    folder: str | Path, options: LoadOptions | None = None, **choices: Any
) -> Classifier:
    """Same as `load`, for a classifier; a ModelFolderError if the model is a translator."""
    return cast(Classifier, _load(folder, options, choices, "classification"))


def _load(
    folder: str | Path | Sequence[str | Path],
    options: LoadOptions | None,
    choices: Mapping[str, Any],
    task: str | None = None,
) -> Translator | Classifier:
    """The model of the folders; loaded once more if a run has replaced one meanwhile."""
    options = replace(options or LoadOptions(), **choices)
    folders = [folder] if isinstance(folder, str | Path) else list(folder)
    if not folders:
        raise ConfigError("there is no model folder", where="load")
    found = list(map(open_folder, folders))
    try:
        return _loaded(found, options, task)
    except ModelFolderError:
        if (now := list(map(open_folder, folders))) == found:
            raise
        return _loaded(now, options, task)


def _loaded(
    found: Sequence[ModelFolder], options: LoadOptions, task: str | None
) -> Translator | Classifier:
    task = "translation" if len(found) > 1 else task or found[0].config.task
    for each in found:
        if each.config.task != task:
            kinds = {"translation": "translator", "classification": "classifier"}
            command = "classify" if task == "translation" else "translate"
            raise ModelFolderError(
                f"this model is a {kinds[each.config.task]}, not a {kinds[task]}",
                where=each.path,
                todo=f"use it with: clearhead {command}",
            )
    return _translator(found, options) if task == "translation" else _classifier(found[0], options)


def _translator(found: Sequence[ModelFolder], options: LoadOptions) -> Translator:
    """The translator of a folder, or an ensemble. All but the weights are the first one's."""
    config, tokenizers = found[0].config, read_tokenizers(found[0])
    if len(found) > 1:
        _check_ensemble(found, options)
    kept, engine = _engine(found, tokenizers, options)
    glossary = _glossary(config, tokenizers, options)
    memory = _memory(config, tokenizers[0], options)
    translator = Translator(kept, tokenizers, engine, options.ablated, glossary, memory)
    if options.match < 1 and translator.confidence is None:
        raise ConfigError(
            f"match = {options.match} has no effect on a model without a confidence",
            where=kept.path,
            why="a similar text is only used where the model is unsure",
            todo="leave match out, or use the final weights of a run with 50 validation sentences",
        )
    return translator


def _check_ensemble(found: Sequence[ModelFolder], options: LoadOptions) -> None:
    """Raise a ConfigError unless translators can be used together."""
    if options.engine == "ctranslate2":
        what = "CTranslate2 does not run several models together"
        raise ConfigError(what, todo="set the engine to torch or auto")
    first, *others = (
        ([tokenizer.files("") for tokenizer in read_tokenizers(each)], each.config.data.languages)
        for each in found
    )
    for theirs, other in zip(others, found[1:], strict=True):
        if theirs != first:
            has = "another vocabulary" if theirs[0] != first[0] else "other languages"
            raise ConfigError(
                f"the models cannot be used together: one has {has}",
                where=f"{found[0].path}, {other.path}",
                todo="train them with the same data and the same settings of [data] and "
                "[tokenizer]; their seeds and sizes may differ",
            )


def _engine(
    found: Sequence[ModelFolder], tokenizers: tuple[Tokenizer, Tokenizer], options: LoadOptions
) -> tuple[ModelFolder, Engine]:
    """What runs a translator, and its folder. torch is imported when it is first needed.

    `auto` is CTranslate2 (see `AutoEngine`) if there is an export of exactly these weights,
    CTranslate2 is installed, and no GPU is used; otherwise PyTorch.
    """
    first, is_auto = found[0], options.engine == "auto"
    has_export = len(found) == 1 and not first.is_checkpoint and (first.path / NAME).is_dir()
    if options.engine == "torch" or options.ablate:
        return first, _torch_engine(found, tokenizers, options)
    if is_auto and (not has_export or _uses_gpu(options.device)):
        return first, _torch_engine(found, tokenizers, options)
    # PyTorch may be needed when a run has replaced the weights.
    kept = first if first.is_checkpoint else first.kept_open()
    if read_entries(first.path).get(WEIGHTS) != first.entries.get(WEIGHTS):
        what = "a run has replaced the weights meanwhile"
        raise ModelFolderError(what, where=first.path, todo="load the model again")
    try:
        exported = _ctranslate2_engine(kept, options)
    except ExportError as error:
        if not is_auto:
            raise
        # On one line: while a run trains, every call meets its old export.
        parts = "; ".join(filter(None, (error.what, error.todo)))
        warn(f"PyTorch translates, because the export cannot be used: {parts}")
        return first, _torch_engine(found, tokenizers, options)
    exported.check_vocabularies(tokenizers)
    if not is_auto:
        return kept, exported
    return kept, AutoEngine(exported, lambda: _torch_engine([kept], tokenizers, options))


def _glossary(
    config: RunConfig, tokenizers: tuple[Tokenizer, Tokenizer], options: LoadOptions
) -> Glossary | None:
    """The glossary of the options, in the languages and normal forms of a model."""
    given: Any = options.glossary
    if not given:
        return None
    where = given if isinstance(given, str | Path) else "load"
    if isinstance(given, str | Path):
        entries = _pairs(given, TERM_FORMATS, "terms", config)
    elif isinstance(given, Mapping) and all(isinstance(x, str) for x in (*given, *given.values())):
        entries = given.items()
    else:
        what, todo = "the glossary is no mapping from texts to texts", "give one, or name a file"
        raise ConfigError(what, where=where, todo=todo)
    return terms_for(entries, config, tokenizers, where)


def _memory(config: RunConfig, tokenizer: Tokenizer, options: LoadOptions) -> Memory | None:
    """The memory that the options name, for the sources that a tokenizer reads."""
    if not options.memory:
        return None
    pairs = _pairs(options.memory, PAIR_FORMATS, "translations", config)
    return Memory(pairs, protected(config), tokenizer.form, options.match)


def _pairs(
    path: str | Path, formats: Formats[ReadPairs], noun: str, config: RunConfig
) -> Iterator[tuple[str, str]]:
    """The sides of each pair of a file."""
    name = os.path.expanduser(path)
    for pair in formats.reader(name, noun)(name, config.data.languages):
        yield pair.source, pair.target


def _torch_engine(
    found: Sequence[ModelFolder], tokenizers: tuple[Tokenizer, Tokenizer], options: LoadOptions
) -> TorchEngine:
    device = set_up_torch(options.device, options.threads)  # first, because it imports torch

    from clearhead.decoding.products import choose_product
    from clearhead.decoding.torch_engine import TorchEngine, trained_translator

    products = choose_product(options.compute_type or "float32", device)
    first, *others = (
        _ablated(trained_translator(each, device, tokenizers), each, options) for each in found
    )
    return TorchEngine(first, products, scores=options.scores, others=others)


def _ctranslate2_engine(found: ModelFolder, options: LoadOptions) -> CTranslate2Engine:
    if found.is_checkpoint:
        raise ExportError(
            "a checkpoint has no export for CTranslate2; the export has the final weights",
            where=found.weights_path,
            todo="set the engine to torch",
        )
    return CTranslate2Engine(
        read_ctranslate2(found.path / NAME, found),
        device="cpu" if options.engine == "auto" else options.device,
        threads=options.threads or threads_of_process(),
        compute_type=options.compute_type or "float32",
        scores=options.scores,
    )


def _ablated(model: Model, found: ModelFolder, options: LoadOptions) -> Model:
    """The model without the heads that are switched off."""
    if not options.ablate:
        return model
    from clearhead.inspect.heads import chosen_heads
    from clearhead.inspect.view import heads_of, replacements, without_heads

    heads = chosen_heads(options.ablate, heads_of(model))
    return without_heads(model, heads, replacements(options.ablate_by, model, found))


def _uses_gpu(device: str) -> bool:
    if device != "auto":
        return device == "cuda"
    try:
        return installed().get_cuda_device_count() > 0
    except ExportError:
        # PyTorch will translate, so it is loaded anyway.
        return imported("torch").cuda.is_available()


def _classifier(found: ModelFolder, options: LoadOptions) -> Classifier:
    given = {
        "engine": options.engine == "ctranslate2",
        "compute_type": options.compute_type,
        "glossary": options.glossary,
        "memory": options.memory,
    }
    if unused := [name for name, value in given.items() if value]:
        raise ConfigError(
            f"{unused[0]} = {getattr(options, unused[0])!r} has no effect on a classifier",
            where=found.path,
            why="a classifier has no translations, and runs with PyTorch in float32",
            todo="leave it out",
        )
    device = set_up_torch(options.device, options.threads)  # first, because it imports torch

    from clearhead.data.inputs import read_inputs
    from clearhead.data.labels import Labels
    from clearhead.decoding.torch_engine import ClassifierEngine, trained_classifier

    if found.is_checkpoint:
        warn(
            f"{found.weights_path} is a checkpoint, for which no temperature was fitted: its "
            "probabilities are not calibrated"
        )
    inputs, labels = read_inputs(found), Labels.of(found)
    model = trained_classifier(found, device, inputs.width, len(labels))
    engine = ClassifierEngine(_ablated(model, found, options))
    temperature = read_temperature(found)
    thresholds = read_thresholds(found, len(labels))
    return Classifier(found, inputs, labels, engine, temperature, thresholds, options.ablated)
