"""The package `transformers`: its names, its messages, and the texts that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clearhead.errors import ClearheadError

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
"""Largest difference, in float64, of hidden states or logits between a model and its original."""

SENTENCES = (
    "Two dogs play in the snow.",
    "How many people lived in Madrid in 1987?",
    "  The quick brown fox, 23,481 others and a \u2581 look on; none of them moves. ",
    "Das hätte ich nicht gedacht: Straßen, Brücken, überall Wasser!",
    "¿Qué hora es? — No lo sé; pregúntale a Íñigo.",
    "中文句子也可以。 Ещё одно предложение. 🙂 x² + y² ≠ z²",
    "a",
)
"""Texts for which an import or an export is compared with the original."""


def require_transformers(kind: type[ClearheadError]) -> None:
    """Raise an error of this kind if `transformers` is not installed."""
    try:
        import transformers  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        what = "the package transformers is not installed"
        raise kind(what, todo="pip install transformers tokenizers") from None


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
