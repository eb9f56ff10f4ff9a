"""What a run needs before its first step: checked and encoded data, the task, the first weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from clearhead.api.start import Rows, copy_classifier, copy_translator, extend_tokenizers
from clearhead.data.corpus import Tokenizers
from clearhead.data.inputs import Inputs, read_inputs
from clearhead.data.judging.agreement import check_agreement
from clearhead.data.judging.report import DataReport
from clearhead.data.judging.text_style import (
    TEXT_STYLE,
    Extent,
    ExtentCounts,
    TextStyles,
    style_of_texts,
    styles_of_pairs,
)
from clearhead.data.labels import LABELS
from clearhead.data.preparation import (
    FEWEST,
    learn_inputs,
    learn_tokenizers,
    prepare_labelled,
    prepare_pairs,
)
from clearhead.data.proposing.survey import survey_side
from clearhead.data.proposing.translation import MOST_SHORT
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.pairs import left_out
from clearhead.data.reading.parts import Parts
from clearhead.data.trainable import check_weights, read_labelled
from clearhead.folder.model_folder import ModelFolder, Stored
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import RunConfig
from clearhead.tasks.classification import ClassificationTask
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import read_tokenizers, tokenizer_files
from clearhead.training.display import INTERVAL_S
from clearhead.training.events import Note, Observer, notify
from clearhead.training.task import Task


@dataclass(frozen=True)
class Run:
    """A run whose settings are complete.

    Attributes:
        config: with the settings of the model that it starts from.
        parts: the data.
        corpus: where encoded training pairs are kept.
        start: the model that the run starts from, see `starting_point`.
        resumed: the folder of the run that is resumed, which has the vocabulary or scale.
        observers: get notes about what is done.
        ranks: share out the validation; only rank 0 reports on the data.
    """

    config: RunConfig
    parts: Parts
    corpus: Path
    start: ModelFolder | None = None
    resumed: ModelFolder | None = None
    observers: list[Observer] = field(default_factory=list)
    ranks: Ranks = ALONE

    def note(self, line: str) -> None:
        """Show and log a line."""
        notify(self.observers, Note(line))


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to begin.

    Attributes:
        task: what is trained.
        build_model: makes the model to train, with its initial weights.
        files: what is saved in the model folder besides the weights, by name.
        reports: on each part of the data.
        findings: files with all places, of those reports that have only the first ones.
        keep: the weights to keep, `average` or `best`, if `training.keep = "auto"`.
    """

    task: Task
    build_model: Callable[[], nn.Module]
    files: Mapping[str, Stored]
    reports: Sequence[DataReport]
    findings: Sequence[Path] = ()
    keep: str = "best"

    def report_lines(self) -> tuple[str, ...]:
        """The lines of all reports."""
        return tuple(line for report in self.reports for line in report.lines())


def prepare(run: Run) -> Prepared:
    """Read the data, learn the vocabulary or scale, check and encode."""
    is_translation = run.config.task == "translation"
    return _prepare_translation(run) if is_translation else _prepare_classification(run)


def _prepare_translation(run: Run) -> Prepared:
    config = run.config
    check_weights(config)
    # First, so that their errors come early. The training pairs are read as a stream.
    validation, test = run.parts.validation.read(config), run.parts.test.read(config)
    parts = run.parts._replace(validation=validation, test=test)
    if run.resumed is None:
        for part in parts:
            for line in left_out(part.files, config.data.languages):
                run.note(f"{part.name}: {line}")
        _note_doubts(run, parts)
        _note_short_references(run, [pair.target for pair in validation.examples])
    tokenizers, rows = _tokenizers(run, parts)
    encoding = EncodingProgress(run.note)
    data = prepare_pairs(
        config,
        parts,
        tokenizers,
        run.corpus,
        progress=encoding.update,
        note=run.note,
        checks=run.ranks.is_first,
    )
    encoding.end()
    task = TranslationTask(config, data, run.ranks)
    extents = data.corpus.extents
    if data.replay is not None:
        extents = list(map(Extent.joined, extents, data.replay.extents))
    sides = _with_earlier(dict(zip(("source", "target"), extents, strict=True)), run)
    styles = styles_of_pairs(parts.train.pairs(), config.data.languages, sides)
    files = {**tokenizer_files(*tokenizers, config.tokenizer.joint), TEXT_STYLE: styles}

    def build_model() -> nn.Module:
        model = task.build_model()
        if run.start is not None:
            copy_translator(model, run.start, rows)
        return model

    return Prepared(task, build_model, files, data.reports, data.findings)


def _tokenizers(run: Run, parts: Parts) -> tuple[Tokenizers, tuple[Rows, Rows] | None]:
    """The tokenizers, and with new words their rows in the model that the run starts from."""
    config, start = run.config, run.start
    if start is None:
        if run.resumed is not None:
            return read_tokenizers(run.resumed), None
        run.note(f"learning the vocabulary ({config.tokenizer.kind})")
        return learn_tokenizers(config, parts), None
    tokenizers, rows = extend_tokenizers(read_tokenizers(start), config)
    if run.resumed is not None:
        return read_tokenizers(run.resumed), rows
    run.note(f"using the vocabulary of {config.start_from}")
    return tokenizers, rows


def _with_earlier(extents: Mapping[str, Extent], run: Run) -> Mapping[str, Extent]:
    """The extent of each side, with that of the texts from which the first model has learned."""
    # The folder of a resumed run has both already.
    folder = run.start or (run.resumed if run.config.start_from else None)
    if folder is None:
        return extents
    earlier = TextStyles.of(folder)
    return {
        side: extent.joined(earlier and earlier.sides.get(side)) for side, extent in extents.items()
    }


def _prepare_classification(run: Run) -> Prepared:
    config, start = run.config, run.start
    learned = "scale" if config.input == "features" else "vocabulary"

    def make_inputs(train: Sequence[Labelled]) -> Inputs:
        if run.resumed is not None:
            return read_inputs(run.resumed)
        if start is not None:
            run.note(f"using the {learned} of {config.start_from}")
            return read_inputs(start, config)
        run.note(f"learning the {learned}")
        return learn_inputs(config, train)

    parts = read_labelled(config, run.parts)
    if run.resumed is None:
        _note_doubts(run, parts)
    data = prepare_labelled(config, parts, make_inputs)
    task = ClassificationTask(config, data, run.ranks, is_split=not run.parts.validation)

    def build_model() -> nn.Module:
        if config.has_linear:
            run.note(f"fitting the linear model of {task.features}")
        model = task.build_model()
        if start is not None and copy_classifier(model, start, config, data.labels):
            run.note(f"using the output layer of {config.start_from}")
        return model

    files: dict[str, Stored] = {**data.inputs.files, LABELS: data.labels}
    if config.input == "text":
        # A share that is held out is training text, too.
        held_out = () if run.parts.validation else data.validation
        texts = [example.input for example in (*data.train, *held_out)]
        counts = ExtentCounts()
        counts.add(texts)
        extent = _with_earlier({"text": counts.extent()}, run)["text"]
        files[TEXT_STYLE] = style_of_texts(texts, config.data.languages[0], extent)
    keep = "average" if len(data.validation) < FEWEST else "best"
    return Prepared(task, build_model, files, data.reports, keep=keep)


def _note_doubts(run: Run, parts: Parts) -> None:
    for line in check_agreement(run.config, parts):
        run.note(f"warning: {line}")


def _note_short_references(run: Run, references: Sequence[str]) -> None:
    """Warn of references that are too short for BLEU, if that is to choose the weights."""
    references = references[: run.config.evaluation.max_sentences or None]
    if run.config.measure == "bleu" and (short := survey_side(references).short) > MOST_SHORT:
        run.note(
            f"warning: {100 * short:.0f} % of the validation references have fewer than four "
            "tokens, so BLEU hardly shows which weights are better: set "
            'evaluation.measure = "chrf"'
        )


class EncodingProgress:
    """Notes the number of encoded pairs once an interval, and at the end if it has changed."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._note, self._clock = note, clock
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
            self._note(f"encoded {self._pairs:,} pairs")
            self._noted, self._noted_at = self._pairs, self._clock()
