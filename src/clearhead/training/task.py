"""The Task protocol: all that the trainer knows of what it trains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn


class Loss(NamedTuple):
    """Loss of a batch, summed over its units (target tokens or examples).

    Sums of unequal batches can be added up; averages cannot. `total` is minimised. `plain` is the
    negative log-likelihood alone. Both are scalar tensors.
    """

    total: Tensor
    plain: Tensor
    units: int


@dataclass(frozen=True)
class Sample:
    """A fixed validation example with the output of the model."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Evaluation:
    """Scores by name (always with `loss`), their signatures, and samples.

    `fitted` is what was fitted to the validation data besides: plain values for `scores.json`.
    """

    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    samples: tuple[Sample, ...]
    fitted: Mapping[str, Any] = field(default_factory=dict)


def diverged(measure: str) -> Evaluation:
    """The evaluation of weights whose loss is not finite. It is never the best."""
    return Evaluation({"loss": math.nan, measure: math.nan}, {}, ())


class Task(Protocol):
    """The data, the loss and the evaluation of what is trained."""

    measure: str
    """Name of the score that selects the best model."""

    higher_is_better: bool
    """Whether a higher value of `measure` is better."""

    def build_model(self) -> nn.Module:
        """A new model of the run's configuration."""
        ...

    def batch_count(self, epoch: int) -> int:
        """Number of batches in an epoch."""
        ...

    def batches(self, epoch: int, first: int, every: int = 1) -> Iterator[Any]:
        """The batches of an epoch from index `first` on, or every n-th of them.

        They depend only on the seed, the epoch and the index, so that a run can be resumed.
        """
        ...

    def largest_batch(self, epoch: int = 0) -> Any:
        """The batch of an epoch with the most positions, padding included."""
        ...

    def split(self, batch: Any) -> Sequence[Any]:
        """The two halves of a batch, or the batch alone if it has one example."""
        ...

    def counts(self, batch: Any) -> Mapping[str, int]:
        """Numbers of tokens by kind, without padding.

        The key `positions` counts all positions of the padded batch. What the other counts do not
        cover is padding.
        """
        ...

    def places(self, batch: Any, epoch: int) -> list[str]:
        """The file and line of each example of a batch of the epoch, e.g. `train.de:17`."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """The summed loss of a batch."""
        ...

    def evaluate(self, model: nn.Module) -> Evaluation:
        """Scores of the model on the validation data."""
        ...
