"""What the trainer knows of a task: batches, a loss, and how good the model is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn


class Loss(NamedTuple):
    """Sums over the units of a batch (target tokens, examples), so that unequal batches add up.

    `total` is what is minimised, `plain` the negative log-likelihood alone, `units` how many
    there are.
    """

    total: Tensor
    plain: Tensor
    units: int


@dataclass(frozen=True)
class Sample:
    """A fixed validation example and what the model makes of it."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Evaluation:
    """Scores by name (`loss` among them), their signatures, and the fixed samples."""

    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    samples: tuple[Sample, ...]


def diverged(measure: str) -> Evaluation:
    """What weights are worth with which the loss is no finite number: nothing is picked by it."""
    return Evaluation({"loss": math.nan, measure: math.nan}, {}, ())


class Task(Protocol):
    """What is learned, from which data, and by which measure it is judged."""

    measure: str
    """The name of the score that picks the best model."""

    higher_is_better: bool

    def batch_count(self, epoch: int) -> int:
        """Batches in an epoch."""
        ...

    def batches(self, epoch: int, first: int) -> Iterator[Any]:
        """The batches of an epoch from index `first` on; a function of (seed, epoch, index)."""
        ...

    def largest_batch(self) -> Any:
        """A batch of the rows of the first epoch's largest: that with the most places."""
        ...

    def counts(self, batch: Any) -> Mapping[str, int]:
        """What to count in a batch: tokens of each kind by name, no padding among them.

        `places`, if it is there, counts all places of the padded batch instead: those that the
        other counts together leave are the padding.
        """
        ...

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """The summed loss of a batch."""
        ...

    def evaluate(self, model: nn.Module) -> Evaluation:
        """Scores of the model on the validation data."""
        ...
