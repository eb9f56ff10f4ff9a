"""The library `transformers`: the names of activation functions, and its messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "swish",
    "silu": "swish",
}
"""The activation functions of `transformers` that clearhead has, with its names for them."""

ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
"""The names of clearhead's activation functions in `transformers`; of several the first."""

TOLERANCE = 1e-4
"""The largest difference of hidden states or logits that is rounding, in float64: in float32,
rounding alone may exceed it in a deep model or one with large numbers."""


@contextmanager
def quiet() -> Iterator[None]:
    """`transformers` and its downloads print only errors, and show no progress bars."""
    from huggingface_hub.utils import logging as downloads
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    level_of_downloads = downloads.get_verbosity()
    logging.set_verbosity_error()
    downloads.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        downloads.set_verbosity(level_of_downloads)
        if bars:
            logging.enable_progress_bar()
