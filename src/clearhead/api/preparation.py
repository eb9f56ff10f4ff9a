"""What a run needs before its first step: checked and encoded data, the task, the first weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from clearhead.api.start import extend_tokenizers, load_classifier, load_translator
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
    learn_inputs,
    learn_tokenizers,
    prepare_labelled,
    prepare_pairs,
)
from clearhead.data.proposing.translation import MOST_SHORT
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.pairs import Pair
from clearhead.data.reading.parts import Parts, parts_of
from clearhead.data.trainable import read_labelled
from clearhead.errors import first_few
from clearhead.evaluation.scores import share_below
from clearhead.folder.model_folder import ModelFolder, Stored
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import RunConfig
from clearhead.tasks.classification import ClassificationTask
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import read_tokenizers, tokenizer_files
from clearhead.training.display import INTERVAL_S
from clearhead.training.events import Note, Observer, notify
from clearhead.training.task import Task

SHOWN_WORDS = 10


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
    files: Mapping[str, Stored]
    reports: Sequence[DataReport]
    findings: Sequence[Path] = ()

    def report_lines(self) -> tuple[str, ...]:
        """The lines of all reports."""
        return tuple(line for report in self.reports for line in report.lines())


def prepare(
    config: RunConfig,
    resumed: ModelFolder | None,
    corpus: Path,
    observers: Sequence[Observer],
    parts: Parts | None = None,
    start: ModelFolder | None = None,
    ranks: Ranks = ALONE,
) -> Prepared:
    """Read the data, learn the vocabulary or scale, check and encode.

    Args:
        config: the run, with the settings of the model that it starts from.
        resumed: the folder of the run that is resumed, which has the vocabulary or scale.
        corpus: where encoded training pairs are kept.
        observers: get notes about what is done.
        parts: the data; by default the files that the run names.
        start: the model that the run starts from, see `starting_point`.
        ranks: share out the validation; only rank 0 reports on the data.

    Raises:
        DataError: the data cannot be used.
        ConfigError: no data are named.
        ModelFolderError: the folder of the run, or of the model to start from, cannot be used.
    """
    parts = parts or parts_of(config)
    if config.task == "translation":
        return _prepare_translation(config, parts, resumed, corpus, observers, start, ranks)
    return _prepare_classification(config, parts, resumed, observers, start, ranks)


def _prepare_translation(
    config: RunConfig,
    parts: Parts,
    resumed: ModelFolder | None,
    corpus: Path,
    observers: Sequence[Observer],
    start: ModelFolder | None,
    ranks: Ranks,
) -> Prepared:
    # First, so that their errors come early. The training pairs are read as a stream.
    validation, test = parts.validation.read(config), parts.test.read(config)
    parts = parts._replace(validation=validation, test=test)
    if resumed is None:
        _note_doubts(config, parts, observers)
        _note_short_references(config, validation.examples, observers)
    rows = None
    if resumed is not None:
        tokenizers = read_tokenizers(resumed)
        if start is not None:
            _, rows = extend_tokenizers(read_tokenizers(start), config)
    elif start is not None:
        notify(observers, Note(f"using the vocabulary of {config.start_from}"))
        old = read_tokenizers(start)
        tokenizers, rows = extend_tokenizers(old, config)
        new_words = set(config.tokenizer.new_words).difference(start.config.tokenizer.new_words)
        if known := sorted(word for word in new_words if _is_known(word, old, tokenizers)):
            listed = first_few(known, SHOWN_WORDS)
            notify(observers, Note(f"tokenizer.new_words: in the vocabulary already: {listed}"))
    else:
        notify(observers, Note(f"learning the vocabulary ({config.tokenizer.kind})"))
        tokenizers = learn_tokenizers(config, parts)
    encoding = EncodingProgress(observers)

    def note(line: str) -> None:
        notify(observers, Note(line))

    data = prepare_pairs(
        config, parts, tokenizers, corpus, encoding.update, note, checks=ranks.is_first
    )
    encoding.end()
    task = TranslationTask(config, data, ranks)
    extents = data.corpus.extents
    if data.replay is not None:
        extents = list(map(Extent.joined, extents, data.replay.extents))
    sides: dict[str, Extent] = dict(zip(("source", "target"), extents, strict=True))
    extents = _with_earlier(sides, config, start, resumed)
    styles = styles_of_pairs(parts.train.pairs(), config.data.languages, extents)
    files = {**tokenizer_files(*tokenizers, config.tokenizer.joint), TEXT_STYLE: styles}

    def build_model() -> nn.Module:
        model = task.build_model()
        if start is not None:
            load_translator(model, start, rows)
        return model

    return Prepared(task, build_model, files, data.reports, data.findings)


def _with_earlier(
    extents: Mapping[str, Extent],
    config: RunConfig,
    start: ModelFolder | None,
    resumed: ModelFolder | None,
) -> dict[str, Extent]:
    """The extent of each side, with that of the texts from which the first model has learned."""
    # The folder of a resumed run has both already.
    folder = start or (resumed if config.start_from else None)
    if folder is None:
        return dict(extents)
    earlier = TextStyles.of(folder)
    return {
        side: extent.joined(earlier and earlier.sides.get(side)) for side, extent in extents.items()
    }


def _is_known(word: str, old: Tokenizers, new: Tokenizers) -> bool:
    """Whether a word is the same tokens as without new words, on both sides."""
    pairs = zip(old, new, strict=True)
    return all(before.encode(word) == after.encode(word) for before, after in pairs)


def _prepare_classification(
    config: RunConfig,
    parts: Parts,
    resumed: ModelFolder | None,
    observers: Sequence[Observer],
    start: ModelFolder | None,
    ranks: Ranks,
) -> Prepared:
    learned = "scale" if config.input == "features" else "vocabulary"

    def make_inputs(train: Sequence[Labelled]) -> Inputs:
        if resumed is not None:
            return read_inputs(resumed)
        if start is not None:
            notify(observers, Note(f"using the {learned} of {config.start_from}"))
            return read_inputs(start, config)
        notify(observers, Note(f"learning the {learned}"))
        return learn_inputs(config, train)

    parts = read_labelled(config, parts)
    if resumed is None:
        _note_doubts(config, parts, observers)
    data = prepare_labelled(config, parts, make_inputs)
    task = ClassificationTask(config, data, ranks)

    def build_model() -> nn.Module:
        model = task.build_model()
        if start is not None and load_classifier(model, start, config, data.labels):
            notify(observers, Note(f"using the output layer of {config.start_from}"))
        return model

    files: dict[str, Stored] = {**data.inputs.files, LABELS: data.labels}
    if config.input == "text":
        texts = [example.input for example in data.train]
        counts = ExtentCounts()
        counts.add(texts)
        extents = _with_earlier({"text": counts.extent()}, config, start, resumed)
        files[TEXT_STYLE] = style_of_texts(texts, config.data.languages[0], extents["text"])
    return Prepared(task, build_model, files, data.reports)


def _note_doubts(config: RunConfig, parts: Parts, observers: Sequence[Observer]) -> None:
    for line in check_agreement(config, parts):
        notify(observers, Note(f"warning: {line}"))


def _note_short_references(
    config: RunConfig, validation: Sequence[Pair], observers: Sequence[Observer]
) -> None:
    """Warn of references that are too short for BLEU, if that is to choose the weights."""
    references = [pair.target for pair in validation[: config.evaluation.max_sentences or None]]
    if config.measure != "bleu" or not references:
        return
    if (short := share_below(references, config.evaluation.tokenize)) > MOST_SHORT:
        line = (
            f"warning: {100 * short:.0f} % of the validation references have fewer than four "
            "tokens, so BLEU hardly shows which weights are better: set "
            'evaluation.measure = "chrf"'
        )
        notify(observers, Note(line))


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
