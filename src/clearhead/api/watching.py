"""Record the attention of a few validation examples while a model is in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import cast

from torch import nn

from clearhead.inspect.record import Record
from clearhead.inspect.recording import record_classification, record_translation
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder
from clearhead.tasks.classification import ClassificationTask
from clearhead.tasks.translation import TranslationTask
from clearhead.tokenizer import BOS
from clearhead.training.task import Task

LONGEST_WATCHED = 64
"""Positions of an example: the size of a record grows with the square. Longer ones are left out."""


def records_of(task: Task, model: nn.Module, count: int) -> Callable[[], list[Record]]:
    """A function that records the first `count` validation examples that are short enough.

    A translator replays the reference translations.
    """
    if isinstance(task, TranslationTask):
        translator = cast(EncoderDecoder, model)
        source, target = task.data.source_tokenizer, task.data.target_tokenizer
        encoded = ((source.encode(p.source), target.encode(p.target)) for p in task.validation)
        short = (pair for pair in encoded if all(0 < len(ids) < LONGEST_WATCHED for ids in pair))
        pairs = list(islice(short, count))

        def of_pair(source_ids: list[int], target_ids: list[int]) -> Record:
            record = record_translation(translator, source_ids, target_ids)
            read = target.pieces([BOS, *target_ids])[: len(record.target)]
            return replace(record, source=tuple(source.pieces(source_ids)), target=tuple(read))

        return lambda: [of_pair(*pair) for pair in pairs]
    assert isinstance(task, ClassificationTask)
    classifier, data = cast(EncoderClassifier, model), task.data
    both = zip(data.validation, data.validation_rows, strict=True)
    examples = list(islice((one for one in both if 0 < len(one[1]) < LONGEST_WATCHED), count))

    def of_row(number: int) -> Record:
        example, row = examples[number]
        record = record_classification(classifier, data.inputs.collate([row])[0])
        return replace(record, source=data.inputs.names(example, row))

    return lambda: [of_row(number) for number in range(len(examples))]
