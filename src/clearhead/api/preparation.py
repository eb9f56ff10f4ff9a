"""What a run needs before its first step: its data, checked and encoded, and the task."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.api.encoder import begin_with_encoder
from clearhead.checkpoint import folder_of, read_tokenizers, tokenizer_files
from clearhead.files import Saveable
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    from torch import nn

    from clearhead.data.inputs import Inputs
    from clearhead.data.labelled import Labelled
    from clearhead.data.parts import Parts
    from clearhead.data.report import DataReport
    from clearhead.training.events import Observer
    from clearhead.training.task import Task

Tell = Callable[[str], None]


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

    def found(self) -> tuple[str, ...]:
        """The lines of all reports."""
        return tuple(line for report in self.reports for line in report.lines())


def teller(observers: Sequence[Observer]) -> Tell:
    """A function that shows a line to all observers."""
    from clearhead.training.events import Note

    def tell(text: str) -> None:
        for observer in observers:
            observer.observe(Note(text))

    return tell


def prepare(
    config: RunConfig,
    begun: Path | None,
    corpus: Path,
    observers: Sequence[Observer],
    parts: Parts | None = None,
) -> Prepared:
    """Reads the data, learns the vocabulary or scale, checks and encodes.

    Args:
        config: the run.
        begun: the folder of the same run, started before, to take the vocabulary or scale from.
        corpus: where encoded training pairs are kept.
        observers: are shown what happens.
        parts: the data; by default the files that the run names.

    Raises:
        DataError: the data cannot be used.
        ConfigError: no data are named.
        ModelFolderError: the folder of the run, or of `encoder_from`, cannot be used.
    """
    from clearhead.data.parts import parts_of

    prepare_task = _translation if config.task == "translation" else _classification
    return prepare_task(config, parts or parts_of(config), begun, corpus, teller(observers))


def _translation(
    config: RunConfig, parts: Parts, begun: Path | None, corpus: Path, tell: Tell
) -> Prepared:
    from clearhead.data.preparation import learn_tokenizers, prepare_pairs
    from clearhead.tasks.translation import TranslationTask

    # First, so that their errors come early. The training pairs are read as a stream.
    validation, test = parts.validation.read(config), parts.test.read(config)
    parts = parts._replace(validation=validation, test=test)
    if begun is not None:
        tokenizers = read_tokenizers(begun, config)
    else:
        tell(f"learning the vocabulary ({config.tokenizer.kind})")
        tokenizers = learn_tokenizers(config, parts)
    encoding = Encoding(tell)
    data = prepare_pairs(config, parts, tokenizers, corpus, encoding.tell)
    encoding.end()
    task = TranslationTask(config, data)
    files = tokenizer_files(*tokenizers, config)
    return Prepared(task, task.build_model, files, data.reports, data.findings)


def _classification(
    config: RunConfig, parts: Parts, begun: Path | None, _: Path, tell: Tell
) -> Prepared:
    from clearhead.data.inputs import read_inputs
    from clearhead.data.labels import LABELS
    from clearhead.data.preparation import learn_inputs, prepare_labelled, read_labelled
    from clearhead.tasks.classification import ClassificationTask

    encoder_from = Path(config.classifier.encoder_from) if config.classifier.encoder_from else None
    made = "scale" if config.input == "features" else "vocabulary"

    def make_inputs(train: Sequence[Labelled]) -> Inputs:
        if begun is not None:
            return read_inputs(begun, config)
        if encoder_from is not None:
            tell(f"using the {made} of {encoder_from}")
            return read_inputs(folder_of(encoder_from), config)
        tell(f"learning the {made}")
        return learn_inputs(config, train)

    data = prepare_labelled(config, read_labelled(config, parts), make_inputs)
    task = ClassificationTask(config, data)

    def build_model() -> nn.Module:
        model = task.build_model()
        # A run that resumes reads all weights from its own state.
        resumes = begun is not None and (begun / "training" / "state.safetensors").exists()
        if encoder_from is not None and not resumes:
            begin_with_encoder(model, encoder_from, config)
        return model

    return Prepared(task, build_model, {**data.inputs.files, LABELS: data.labels}, data.reports)


class Encoding:
    """Shows the progress of encoding: a line an interval, and the last count if it is new.

    Args:
        tell: is called with each line.
        clock: returns seconds that never go back.
    """

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._told_at = clock()
        self._pairs = self._told = 0

    def tell(self, pairs: int) -> None:
        """Report the number of encoded pairs, at most once an interval."""
        from clearhead.training.display import INTERVAL_S

        self._pairs = pairs
        if self._clock() - self._told_at >= INTERVAL_S:
            self.end()

    def end(self) -> None:
        """Show the last count, unless it was shown or there was none."""
        if self._pairs != self._told:
            self._tell(f"encoded {self._pairs:,} pairs")
            self._told, self._told_at = self._pairs, self._clock()
