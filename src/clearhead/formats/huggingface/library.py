"""The library `transformers`: its names of settings, read in both directions, and its messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from clearhead.errors import ModelFolderError

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

Names = Mapping[str, Sequence[str]]
"""The names of settings in `transformers`, by ours. If there are several, they must be equal."""


def our_settings(names: Names, config: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings of a model, by its configuration.

    Raises:
        ModelFolderError: clearhead has no such model.
    """
    found: dict[str, Any] = {}
    for ours, theirs in names.items():
        found[ours], *others = (config[name] for name in theirs)
        if any(other != found[ours] for other in others):
            what = ", ".join(f"{name} = {config[name]}" for name in theirs)
            raise ModelFolderError(f"the model has {what}", why="in clearhead, they are equal")
        if ours == "activation":
            if found[ours] not in ACTIVATIONS:
                what = f"the model has {theirs[0]} = {found[ours]!r}"
                raise ModelFolderError(what, why=f"clearhead has {', '.join(ACTIVATIONS)}")
            found[ours] = ACTIVATIONS[found[ours]]
    return found


def their_settings(names: Names, settings: Any) -> dict[str, Any]:
    """The settings of a model of `transformers`, by ours."""
    found: dict[str, Any] = {}
    for ours, theirs in names.items():
        value = getattr(settings, ours)
        value = ACTIVATION_NAMES[value] if ours == "activation" else value
        found |= dict.fromkeys(theirs, value)
    return found


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
