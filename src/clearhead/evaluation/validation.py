"""The loss of a model on batches it does not learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import nn

from clearhead.model.transformer import evaluating
from clearhead.training.task import Loss

Batch = TypeVar("Batch")
Model = TypeVar("Model", bound=nn.Module)


@torch.inference_mode()
def mean_loss(
    loss: Callable[[Model, Batch], Loss], model: Model, batches: Iterable[Batch]
) -> float:
    """The mean plain loss a unit over all batches, without dropout."""
    total, units = 0.0, 0
    with evaluating(model):
        for batch in batches:
            found = loss(model, batch)
            total += float(found.plain)
            units += found.units
    return total / units
