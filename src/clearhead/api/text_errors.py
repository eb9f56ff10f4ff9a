"""What a run finds wrong, in the words of whoever called `TextClassifier.fit`.

The run has settings and reads a file; the caller has arguments and a list of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import ClearheadError
from clearhead.tasks.classification import SMALLER
from clearhead.training.schedule import SLOWER
from clearhead.training.trainer import ADVICE

MODEL = "model"
"""The model folder beside the file of the texts, where none is to be kept."""

ARGUMENTS = {
    "data.max_length": "max_length",
    "data.validation_share": "validation_share",
    "tokenizer.max_vocabulary": "vocabulary",
    "model.encoder_layers": "layers",
    "model.d_model": "d_model",
    "model.n_heads": "heads",
    "n_heads": "heads",
    "model.input_convolution": "convolution",
    "model.dropout.embeddings": "dropout",
    "model.dropout": "dropout",
    "classifier.pooling": "pooling",
    "classifier.dropout": "head_dropout",
    "classifier.class_weights": "class_weights",
    "training.max_epochs": "epochs",
    "training.batch_tokens": "batch_tokens",
    "training.schedule.peak": "learning_rate",
}
"""The argument of the constructor behind each setting that a message may speak of."""

ON_CPU = "start Python with CUDA_VISIBLE_DEVICES= for the CPU"
SENTENCES = {
    # What a run can be told, and a classifier of texts cannot.
    "--set folder=runs/other": "folder='runs/other'",
    "name validation files, ": "",
    ", or give d_k": "",
    SLOWER: "lower learning_rate",
    ADVICE: f"lower batch_tokens, or {ON_CPU}",
    SMALLER: f"lower max_length, or {ON_CPU}",
}
"""What is said to the caller instead of words that are meant for who started a run."""

# By itself: neither a part of a path or of another name, nor a value in quotes.
_SETTING = re.compile(
    r"(?<![\w./'\"])("
    + "|".join(re.escape(each) for each in sorted(ARGUMENTS, key=len)[::-1])
    + r")(?![\w'\"]|/\w|\.[^\W\d])"
)


@contextmanager
def told_of_texts(data: Path) -> Iterator[None]:
    """Errors within speak of texts by their number, from 1, and of arguments by their names.

    Args:
        data: the file whose line N has text N, in a folder that is deleted.

    Raises:
        ClearheadError: of the kind that was raised within.
    """
    try:
        yield
    except ClearheadError as error:
        what, why, todo = (
            part and _told(part, data) for part in (error.what, error.why, error.todo)
        )
        where = error.where and _placed(error.where, data)
        raise type(error)(what or "", where=where, why=why, todo=todo) from None


def _told(message: str, data: Path) -> str:
    message = _placed(message, data)
    for sentence, instead in SENTENCES.items():
        message = message.replace(sentence, instead)
    return _SETTING.sub(lambda setting: ARGUMENTS[setting[0]], message)


def _placed(message: str, data: Path) -> str:
    """The message without the files that are deleted when `fit` ends."""
    # A finding calls the file by its name alone.
    for name in (str(data), data.name):
        message = re.sub(rf"(?<![\w./]){re.escape(name)}:(\d+)", r"text \1", message)
    for path in (data, data.parent / MODEL):
        message = message.replace(str(path), "fit")
    return message
