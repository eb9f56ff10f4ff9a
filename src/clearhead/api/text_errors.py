"""What a run finds wrong, in the words of whoever called `TextClassifier.fit`.

The run has settings and reads a file; the caller has arguments and a list of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import ClearheadError

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
    # What a run can be told, and a classifier of texts cannot.
    "--set folder=runs/other": "folder='runs/other'",
    "name validation files, ": "",
    ", or give d_k": "",
}
"""The argument of the constructor behind each setting that a message may speak of."""

_SETTING = re.compile("|".join(re.escape(each) for each in sorted(ARGUMENTS, key=len)[::-1]))


@contextmanager
def told_of_texts(data: Path) -> Iterator[None]:
    """Errors within speak of texts by their number, from 1, and of arguments by their names.

    Args:
        data: the file whose line N has text N.

    Raises:
        ClearheadError: of the kind that was raised within.
    """
    try:
        yield
    except ClearheadError as error:
        what, where, why, todo = (
            part and _told(part, data) for part in (error.what, error.where, error.why, error.todo)
        )
        raise type(error)(what or "", where=where, why=why, todo=todo) from None


def _told(message: str, data: Path) -> str:
    # A finding calls the file by its name alone.
    for name in (str(data), data.name):
        message = re.sub(re.escape(name) + r":(\d+)", r"text \1", message)
    message = message.replace(str(data), "fit")
    return _SETTING.sub(lambda setting: ARGUMENTS[setting[0]], message)
