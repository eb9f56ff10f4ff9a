"""Training or evaluation: whether dropout acts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in the mode for evaluation; each part then has its own mode again."""
    # To set all modes takes as long as a few tokens of a small model, to read them does not.
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
