"""A model with one input and its output, and samples of them: what all measures start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, cast

import numpy as np

from clearhead.data.labels import Labels
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.pairs import read_pairs
from clearhead.data.reading.parts import DataPart, check_recorded, read_examples
from clearhead.decoding.engine import Hypothesis, Sentence
from clearhead.decoding.torch_engine import TorchEngine
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.record import Array, Record
from clearhead.inspect.recording import (
    ClassifierLike,
    TranslatorLike,
    check_length,
    has_target,
    ids_of,
    record_classification,
    record_translation,
)
from clearhead.inspect.replay import ClassificationReplay, Replay, TranslationReplay
from clearhead.inspect.words import Word, words_of
from clearhead.model.pooling import AttentionPooling, FirstPooling
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS
from clearhead.tokenizer.normal_form import is_blank


class Subject:
    """A model, which does not change, with one input and its output.

    `source` are ids without start and end symbols, or the row of a classifier; `target` likewise.
    The labels of a classifier may be independent (`multi_label`); `temperature` divides its logits.
    """

    def __init__(
        self,
        model: EncoderDecoder | EncoderClassifier,
        source: Any,
        target: Sequence[int] = (),
        *,
        finished: bool = True,
        multi_label: bool = False,
        temperature: float = 1.0,
    ) -> None:
        self.model = model
        self._source, self._target = source, target
        check_length("source", len(source))
        self.replay: Replay
        if isinstance(model, EncoderDecoder):
            check_length("output", len(target) + finished)
            self.replay = TranslationReplay(model, source, target, finished)
            # The decoder does not read the last token of an output without an end symbol.
            self._target = target[: self.replay.n_prefix - 1]
        else:
            self.replay = ClassificationReplay(model, source, multi_label, temperature)
        # The positions of padding and of start and end symbols, and the names of all positions, of
        # the source, of what the decoder reads, and of what is explained.
        if isinstance(model, EncoderDecoder):
            special = model.pad_id, model.bos_id, model.eos_id
            read: Sequence[int] = (model.bos_id, *target)
        else:
            special, read = (model.pad_id, BOS, EOS), ()
        self.source_special = _special(source, special)
        self.target_special = _special(read, special)
        outcome = self.replay.outcome[:, 0] if self.is_translation else ()
        self.output_special = _special(outcome, special)
        self.source_pieces = tuple(map(str, range(self.replay.n_source)))
        self.target_pieces = tuple(map(str, range(self.replay.n_prefix)))
        self.outputs = tuple(map(str, self.replay.outcome[:, 0]))
        self.names_of: Callable[[list[int]], Sequence[str]] = lambda ids: list(map(str, ids))

    @classmethod
    def of(cls, model: Any, source: Any, target: Any, where: str) -> Subject:
        """The input and output of a translator or a classifier that a user gives.

        Raises:
            ConfigError: a translator has no target, a classifier has one, or it is neither.
        """
        if has_target(model, target, where):
            return cls.translation(model, source, target)
        return cls.classification(model, source)

    @classmethod
    def translation(cls, translator: TranslatorLike, source: Any, target: Any) -> Subject:
        """A source and its translation, or any other target."""
        source_ids, target_ids = ids_of(translator, source, target)
        tokenizer, read = translator.target_tokenizer, [translator.model.bos_id, *target_ids]
        finished = target.finished if isinstance(target, Hypothesis) else True
        found = cls(translator.model, source_ids, target_ids, finished=finished)
        found.source_pieces = tuple(translator.source_tokenizer.pieces(source_ids))
        found.target_pieces = tuple(tokenizer.pieces(read))[: found.replay.n_prefix]
        found.names_of = tokenizer.pieces
        found.outputs = tuple(tokenizer.pieces(found.replay.outcome[:, 0].tolist()))
        return found

    @classmethod
    def classification(
        cls,
        classifier: ClassifierLike,
        source: Any,
        labels: Iterable[str] | None = None,
        needs_labels: bool = True,
    ) -> Subject:
        """An input and what the classifier gives for it, or its correct labels.

        If labels are independent, each label of the classifier is an outcome then, or its absence,
        so that the sum of the log-probabilities is that of all of them. An encoder without labels
        has no outcome.
        """
        if needs_labels and not classifier.labels:
            raise ConfigError(
                "the model is an encoder without labels, so there is no output to explain",
                todo="look at its attention instead: clearhead.record",
            )
        if isinstance(source, str) and is_blank(source):
            raise DataError("the source is empty", todo="give a text")
        row, names = classifier.encode(source)
        found = cls(
            classifier.model,
            row,
            multi_label=classifier.multi_label,
            temperature=classifier.temperature,
        )
        known = classifier.labels
        if labels is not None:
            correct = Labels(tuple(known)).encode(labels)
            every = [i if i in correct else len(known) + i for i in range(len(known))]
            found.replay.outcome = np.array(every if found.multi_label else correct[:1])[:, None]
        found.source_pieces = tuple(names)
        shown = (*known, *(f"not {name}" for name in known))
        found.names_of = lambda ids: [shown[i] for i in ids]
        found.outputs = tuple(found.names_of(found.replay.outcome[:, 0].tolist()))
        return found

    def reading(self, other: Subject) -> Replay:
        """A replay of this source with the output of another translation by the same model."""
        assert isinstance(self.model, EncoderDecoder)
        output = other.replay.outcome[:, 0].tolist()
        return TranslationReplay(self.model, self._source, output, finished=False)

    @property
    def places(self) -> int:
        """The number of outputs."""
        return len(self.replay.outcome)

    @property
    def is_translation(self) -> bool:
        """Whether the model has a decoder."""
        return self.replay.n_prefix > 0

    @property
    def multi_label(self) -> bool:
        """Whether the outputs are independent labels, which do not exclude each other."""
        return isinstance(self.replay, ClassificationReplay) and self.replay.multi_label

    @cached_property
    def source_words(self) -> list[Word]:
        """The words of the source, or its frames."""
        if self.record.unit == "frame":
            return [Word(name, (i,)) for i, name in enumerate(self.source_pieces)]
        return words_of(self.source_pieces, self.source_special)

    @cached_property
    def target_words(self) -> list[Word]:
        """The words that the decoder reads; the start symbol is none of them."""
        return words_of(self.target_pieces, self.target_special)

    @cached_property
    def output_words(self) -> list[Word]:
        """The words of the output; the end symbol is none of them."""
        if not self.is_translation:
            return [Word(name, (place,)) for place, name in enumerate(self.outputs)]
        return words_of(self.outputs, self.output_special)

    @cached_property
    def record(self) -> Record:
        """The record, with the values of each head."""
        return self.recorded(frozenset({"values"}))

    def recorded(self, keep: frozenset[str]) -> Record:
        """The record, with details."""
        if isinstance(self.model, EncoderDecoder):
            found = record_translation(self.model, self._source, self._target, keep)
        else:
            found = record_classification(self.model, self._source, keep)
        return dataclasses.replace(
            found,
            source=self.source_pieces,
            target=self.target_pieces,
            predicted=self.outputs if self.is_translation else (),
        )

    def given(self) -> list[int]:
        """The ids that the model gives for the input as it is now, by greedy search; or labels."""
        if isinstance(self.model, EncoderDecoder):
            search = SearchConfig(beam_size=1)
            ((best,),) = TorchEngine(self.model).translate([Sentence(self._source)], search)
            return list(best.tokens)
        logits = self.recorded(frozenset()).logits
        several = np.flatnonzero(logits >= 0).tolist() if self.multi_label else []
        return several or [int(logits.argmax())]

    @property
    def pooled(self) -> Array:
        """(length,) the share of each position in the pooled vector; a maximum counts as a mean."""
        assert isinstance(self.model, EncoderClassifier)
        length, shares = len(self.record.memory), []
        for pooling in self.model.pooling.poolings:
            if isinstance(pooling, AttentionPooling):
                shares.append(cast(Array, self.record.pooling_weights))
            elif isinstance(pooling, FirstPooling):
                shares.append(np.eye(1, length)[0])
            else:
                shares.append(np.full(length, 1 / length))
        return np.mean(shares, axis=0)


def _special(ids: Any, special: Sequence[int]) -> tuple[int, ...]:
    """The positions of padding and of start and end symbols; none in features."""
    found = np.asarray(ids)
    if found.dtype.kind == "f":
        return ()
    words = found if found.ndim == 1 else found[:, 0]
    return tuple(np.flatnonzero(np.isin(words, special)).tolist())


Counting = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
"""Shows progress: from the number of things and their name to a function of how many are done."""


def uncounted(total: int, what: str) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda done: None)


def pairs_of(
    translator: TranslatorLike, files: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """The pairs with words on both sides of files (default: of the validation data of the run)."""
    files = _sample_files(translator, files, "--source FILE --reference FILE")
    pairs = read_pairs(files, "validation")
    return ((p.source, p.target) for p in pairs if not (is_blank(p.source) or is_blank(p.target)))


def examples_of(
    classifier: ClassifierLike, files: Sequence[str] | None = None
) -> Iterator[Labelled[Any]]:
    """The examples that are not empty of files (default: of the validation data of the run)."""
    Labels(classifier.labels).check_any(classifier.folder.path)
    files = _sample_files(classifier, files, "--data FILE")
    examples = (
        each for file in files for each in read_examples(file, classifier.config, classifier.labels)
    )
    return (e for e in examples if not (isinstance(e.input, str) and is_blank(e.input)))


def _sample_files(
    model: TranslatorLike | ClassifierLike, files: Sequence[str] | None, options: str
) -> Sequence[str]:
    if files is not None:
        return files
    files = model.config.data.validation
    if not files:
        raise ConfigError(
            "the run has no validation data to study", todo=f"name a sample: {options}"
        )
    check_recorded(model.folder.path, DataPart("validation", files))
    return files
