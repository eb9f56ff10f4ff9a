"""What a run needs before its first step: checked and encoded data, the task, the first weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from clearhead.checkpoint.folder import (
    folder_of,
    read_folder_config,
    read_model_folder,
    read_tokenizers,
    tokenizer_files,
)
from clearhead.checkpoint.tensors import STATE, load_parameters, read_tensors
from clearhead.data.inputs import Inputs, read_inputs
from clearhead.data.labelled import Labelled
from clearhead.data.labels import LABELS
from clearhead.data.parts import Parts, parts_of
from clearhead.data.preparation import (
    learn_inputs,
    learn_tokenizers,
    prepare_labelled,
    prepare_pairs,
    read_labelled,
)
from clearhead.data.report import DataReport
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.files import Saveable
from clearhead.model.transformer import EncoderClassifier
from clearhead.settings import RunConfig
from clearhead.tasks.classification import ClassificationTask
from clearhead.tasks.translation import TranslationTask
from clearhead.training.display import INTERVAL_S
from clearhead.training.events import Note, Observer, notify
from clearhead.training.task import Task

SAME_MODEL = "give the classifier the same [model] settings as the model it starts with"

ENCODER_PREFIXES = {"source_input.": "input.", "input.": "input.", "encoder.": "encoder."}
"""Prefixes of the parameters of a translator or classifier, and of the same in a classifier."""

MEANINGS = (
    *("n_heads", "norm", "final_norm", "norm_form", "norm_epsilon", "activation", "positions"),
    "scale_embeddings",
)
"""Settings that change what an encoder's parameters mean, but perhaps not their shapes."""


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to begin.

    Attributes:
        task: what is trained.
        build_model: makes the model to train, with its initial weights.
        files: what is saved in the model folder besides the weights, by name.
        reports: on each part of the data.
        findings: files with all places, of those reports that have only the first ones.
    """

    task: Task
    build_model: Callable[[], nn.Module]
    files: Mapping[str, Saveable]
    reports: Sequence[DataReport]
    findings: Sequence[Path] = ()

    def report_lines(self) -> tuple[str, ...]:
        """The lines of all reports."""
        return tuple(line for report in self.reports for line in report.lines())


def prepare(
    config: RunConfig,
    resumed: Path | None,
    corpus: Path,
    observers: Sequence[Observer],
    parts: Parts | None = None,
) -> Prepared:
    """Read the data, learn the vocabulary or scale, check and encode.

    Args:
        config: the run.
        resumed: the folder of the run that is resumed, which has the vocabulary or scale.
        corpus: where encoded training pairs are kept.
        observers: get notes about what is done.
        parts: the data; by default the files that the run names.

    Raises:
        DataError: the data cannot be used.
        ConfigError: no data are named.
        ModelFolderError: the folder of the run, or of `encoder_from`, cannot be used.
    """
    parts = parts or parts_of(config)
    if config.task == "translation":
        return _prepare_translation(config, parts, resumed, corpus, observers)
    return _prepare_classification(config, parts, resumed, observers)


def _prepare_translation(
    config: RunConfig,
    parts: Parts,
    resumed: Path | None,
    corpus: Path,
    observers: Sequence[Observer],
) -> Prepared:
    # First, so that their errors come early. The training pairs are read as a stream.
    validation, test = parts.validation.read(config), parts.test.read(config)
    parts = parts._replace(validation=validation, test=test)
    if resumed is not None:
        tokenizers = read_tokenizers(resumed, config)
    else:
        notify(observers, Note(f"learning the vocabulary ({config.tokenizer.kind})"))
        tokenizers = learn_tokenizers(config, parts)
    encoding = EncodingProgress(observers)
    data = prepare_pairs(config, parts, tokenizers, corpus, encoding.update)
    encoding.end()
    task = TranslationTask(config, data)
    files = tokenizer_files(*tokenizers, config)
    return Prepared(task, task.build_model, files, data.reports, data.findings)


def _prepare_classification(
    config: RunConfig, parts: Parts, resumed: Path | None, observers: Sequence[Observer]
) -> Prepared:
    encoder_from = Path(config.classifier.encoder_from) if config.classifier.encoder_from else None
    learned = "scale" if config.input == "features" else "vocabulary"

    def make_inputs(train: Sequence[Labelled]) -> Inputs:
        if resumed is not None:
            return read_inputs(resumed, config)
        if encoder_from is not None:
            notify(observers, Note(f"using the {learned} of {encoder_from}"))
            return read_inputs(folder_of(encoder_from), config)
        notify(observers, Note(f"learning the {learned}"))
        return learn_inputs(config, train)

    data = prepare_labelled(config, read_labelled(config, parts), make_inputs)
    task = ClassificationTask(config, data)

    def build_model() -> nn.Module:
        model = task.build_model()
        # A run that resumes reads all weights from its own state.
        has_state = resumed and (resumed / STATE).exists()
        if encoder_from is not None and not has_state:
            load_encoder(model, encoder_from, config)
        return model

    return Prepared(task, build_model, {**data.inputs.files, LABELS: data.labels}, data.reports)


class EncodingProgress:
    """Notes the number of encoded pairs once an interval, and at the end if it has changed.

    Args:
        observers: get the notes.
        clock: returns seconds that never go back.
    """

    def __init__(
        self, observers: Sequence[Observer], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._observers, self._clock = observers, clock
        self._noted_at = clock()
        self._pairs = self._noted = 0

    def update(self, pairs: int) -> None:
        """Set the number of encoded pairs."""
        self._pairs = pairs
        if self._clock() - self._noted_at >= INTERVAL_S:
            self.end()

    def end(self) -> None:
        """Note the number, unless it was noted before."""
        if self._pairs != self._noted:
            notify(self._observers, Note(f"encoded {self._pairs:,} pairs"))
            self._noted, self._noted_at = self._pairs, self._clock()


def with_encoder_settings(config: RunConfig, restart: bool) -> RunConfig:
    """The run with the settings of the vocabulary, or of the scale, of `encoder_from`.

    A run that resumes takes them from its own folder. Settings at their defaults are replaced.

    Raises:
        ConfigError: the run sets another vocabulary or scale.
        ModelFolderError: the folder cannot be read.
    """
    if not config.classifier.encoder_from:
        return config
    own = Path(config.folder)
    resumes = bool(config.folder) and not restart and (own / "config.json").exists()
    trained = read_folder_config(own if resumes else folder_of(config.classifier.encoder_from))
    if trained.input != config.input:
        return config  # preparing the data raises the error
    defaults = RunConfig(task=config.task, input=config.input)
    default, new, old = map(_input_settings, (defaults, config, trained))
    differing = [name for name in new if new[name] not in (default[name], old[name])]
    if differing:
        what = "vocabulary" if config.input == "text" else "scale of the features"
        raise ConfigError(
            f"classifier.encoder_from brings its own {what}",
            where=differing[0],
            why=", ".join(f"{n} = {new[n]!r}, and there it is {old[n]!r}" for n in differing),
            todo=f"leave {' and '.join(differing)} out, or train without encoder_from",
        )
    if config.input == "features":
        return replace(config, data=replace(config.data, normalise=trained.data.normalise))
    return replace(config, tokenizer=replace(trained.tokenizer, joint=config.tokenizer.joint))


def _input_settings(config: RunConfig) -> dict[str, Any]:
    """The settings, by path, of what turns texts or features into numbers."""
    if config.input == "features":
        return {"data.normalise": config.data.normalise}
    settings = {f"tokenizer.{name}": value for name, value in asdict(config.tokenizer).items()}
    del settings["tokenizer.joint"]  # of two languages; a classifier has one vocabulary
    # The shape of the model does not depend on the lengths of n-grams, but what they mean does.
    return settings | {"model.character_ngrams": config.model.character_ngrams}


def load_encoder(model: EncoderClassifier, trained: Path, config: RunConfig) -> None:
    """Copy the input and the encoder of a trained model into a classifier.

    Args:
        model: the classifier.
        trained: the folder of the other model, or one of the checkpoints in it.
        config: the classifier's run.

    Raises:
        ModelFolderError: the folder cannot be read, or its encoder has another shape, or settings
            under which the same parameters mean something else.
    """
    folder = read_model_folder(trained)
    _check_meanings(folder.config, config, trained)
    tensors, _ = read_tensors(folder.weights)
    encoder = {
        new + name.removeprefix(old): tensor
        for name, tensor in tensors.items()
        for old, new in ENCODER_PREFIXES.items()
        if name.startswith(old)
    }
    own = nn.ModuleDict({"input": model.input, "encoder": model.encoder})
    try:
        load_parameters(own, encoder, trained)
    except ModelFolderError as error:
        what = "its encoder is not of the shape of the classifier's configuration"
        raise ModelFolderError(what, where=trained, why=error.why, todo=SAME_MODEL) from None


def _check_meanings(trained: RunConfig, config: RunConfig, where: Path) -> None:
    old, new = asdict(trained.model), asdict(config.model)
    unused = set() if config.input == "text" else {"scale_embeddings"}
    unused |= {"final_norm"} if old["norm"] == new["norm"] == "post" else set()
    differing = [name for name in MEANINGS if name not in unused and old[name] != new[name]]
    if differing:
        raise ModelFolderError(
            "its encoder is not that of the classifier's configuration",
            where=where,
            why="; ".join(f"model.{n} is {new[n]!r} here and {old[n]!r} there" for n in differing),
            todo=SAME_MODEL,
        )
