"""What a run needs before its first step: data, vocabulary, labels, and the task made of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clearhead.api.encoder import begin_with_encoder
from clearhead.checkpoint import (
    JOINT_TOKENIZER,
    FolderPart,
    folder_of,
    read_folder_config,
    read_tokenizers,
    tokenizer_parts,
)
from clearhead.errors import ModelFolderError
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    from torch import nn

    from clearhead.data.inputs import Inputs
    from clearhead.data.labelled import Labelled
    from clearhead.data.labels import Labels
    from clearhead.training.events import Observer
    from clearhead.training.task import Task

Tell = Callable[[str], None]


class Report(Protocol):
    """What was found in a part of the data."""

    def lines(self) -> list[str]:
        """For people."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to begin.

    `parts` belong into the model folder beside the weights; `build_model` makes the model that is
    to be trained, with the weights it begins with. `findings` are files of all findings in a part
    of the data, where its report has only the first places.
    """

    task: Task
    build_model: Callable[[], nn.Module]
    parts: Mapping[str, FolderPart]
    reports: Sequence[Report]
    findings: Sequence[Path] = ()

    def found(self) -> tuple[str, ...]:
        """The lines of all reports."""
        return tuple(line for report in self.reports for line in report.lines())


def teller(observers: Sequence[Observer]) -> Tell:
    """Tells all observers a line."""
    from clearhead.training.events import Note

    def tell(text: str) -> None:
        for observer in observers:
            observer.observe(Note(text))

    return tell


def prepare(
    config: RunConfig, begun: Path | None, corpus: Path, observers: Sequence[Observer]
) -> Prepared:
    """Learn, or read from the folder of a run that has begun, what turns data into numbers.

    Args:
        config: the run.
        begun: the folder of the same run, begun before; None: a new one.
        corpus: where encoded training data are kept.
        observers: told what happens.

    Raises:
        DataError: the data cannot be used.
        ConfigError: no data are named.
    """
    if config.task == "translation":
        return _translation(config, begun, corpus, teller(observers))
    return _labelled(config, begun, teller(observers))


def _translation(config: RunConfig, begun: Path | None, corpus: Path, tell: Tell) -> Prepared:
    from clearhead.data.translation_data import learn_tokenizers, prepare_data, read_held_out
    from clearhead.tasks.translation import TranslationTask

    held_out = read_held_out(config)
    if begun is not None:
        tokenizers = read_tokenizers(begun, config)
    else:
        tell(f"learning the vocabulary ({config.tokenizer.kind})")
        tokenizers = learn_tokenizers(config, held_out)
    encoding = Encoding(tell)
    data = prepare_data(config, corpus, tokenizers, held_out, encoding.tell)
    encoding.end()
    task = TranslationTask(config, data)
    parts = tokenizer_parts(*tokenizers, config)
    return Prepared(task, task.build_model, parts, data.reports, data.findings)


class Encoding:
    """Tells how far the encoding is: one line an interval, and the last count whenever it came.

    Args:
        tell: is given the lines.
        clock: tells seconds that never go back.
    """

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._told_at = clock()
        self._pairs = self._told = 0

    def tell(self, pairs: int) -> None:
        """So many pairs are encoded."""
        from clearhead.training.display import INTERVAL_S

        self._pairs = pairs
        if self._clock() - self._told_at >= INTERVAL_S:
            self.end()

    def end(self) -> None:
        """Tell the last count, unless it was told or there was none."""
        if self._pairs != self._told:
            self._tell(f"encoded {self._pairs:,} pairs")
            self._told, self._told_at = self._pairs, self._clock()


def _labelled(config: RunConfig, begun: Path | None, tell: Tell) -> Prepared:
    from clearhead.data.labelled_data import checked, learn_inputs, read_parts
    from clearhead.tasks.classification import ClassificationTask

    encoder_from = Path(config.classifier.encoder_from) if config.classifier.encoder_from else None
    made = "scale" if config.input == "features" else "vocabulary"

    def make_inputs(train: Sequence[Labelled]) -> Inputs:
        if begun is not None:
            return read_inputs(begun, config)
        if encoder_from is not None:
            tell(f"the {made} is that of {encoder_from}")
            return read_inputs(folder_of(encoder_from), config)
        tell(f"learning the {made}")
        return learn_inputs(config, train)

    data = checked(config, read_parts(config), make_inputs)
    task = ClassificationTask(config, data)

    def build_model() -> nn.Module:
        model = task.build_model()
        if encoder_from is not None and not has_state(begun):
            begin_with_encoder(model, encoder_from, config)
        return model

    parts = {**data.inputs.parts, LABELS: data.labels}
    return Prepared(task, build_model, parts, data.reports)


def has_state(begun: Path | None) -> bool:
    """Whether there is a state from which a run will go on, which overwrites all weights."""
    return begun is not None and (begun / "training" / "state.safetensors").exists()


def read_inputs(folder: Path, config: RunConfig) -> Inputs:
    """What makes numbers of the examples, from the folder of a model.

    Raises:
        ModelFolderError: it is not there, damaged, or made for another kind of input.
    """
    from clearhead.data.inputs import NORMALISER
    from clearhead.data.labelled_data import feature_inputs, text_inputs
    from clearhead.data.normaliser import Normaliser
    from clearhead.tokenizer import load_tokenizer

    found = read_folder_config(folder)
    if found.input != config.input:
        raise ModelFolderError(f"this model reads {found.input}, not {config.input}", where=folder)
    if config.input == "features":
        return feature_inputs(config, Normaliser.load(folder, NORMALISER))
    if found.task == "translation":
        return text_inputs(config, read_tokenizers(folder, found)[0])
    return text_inputs(config, load_tokenizer(folder, JOINT_TOKENIZER))


def read_labels(folder: Path) -> Labels:
    """The labels that a classifier knows.

    Raises:
        ModelFolderError: they are not there, or damaged.
    """
    from clearhead.data.labels import Labels

    return Labels.load(folder, LABELS)


LABELS = "labels"
