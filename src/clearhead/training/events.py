"""What a training run tells whoever watches it: the log file, the screen, TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from clearhead.tasks.task import Sample


@dataclass(frozen=True)
class RunStarted:
    """A run begins, or goes on from `step` with the best score so far; None: there is none yet."""

    folder: str
    device: str
    precision: str
    parameters: int
    step: int
    max_steps: int | None
    batches_per_epoch: int
    measure: str
    best_score: float | None = None
    best_step: int = 0


@dataclass(frozen=True)
class Progress:
    """The steps since the last report; rates are per second, memory in megabytes.

    `loss` is a mean over units: the negative log-likelihood of a target token, or of the labels of
    an example, in nats, or the squared error of a hidden value. Neither smoothing nor the weights
    of classes are in it, so that it compares with the loss on the validation data.
    `rates` and `shares` are the task's own counts: "source tokens", "target tokens"; "padding".
    `remaining_s` is the time left to the first limit that is known ahead, else None.
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    gradient_norm: float
    rates: Mapping[str, float]
    shares: Mapping[str, float]
    memory_mb: float
    elapsed_s: float
    remaining_s: float | None


@dataclass(frozen=True)
class Validated:
    """Scores on the validation data; `scores["loss"]` is always among them.

    `is_best` says that these weights were kept as the model; the best score is that of those kept.
    """

    step: int
    epoch: int
    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    measure: str
    is_best: bool
    best_score: float
    best_step: int
    samples: tuple[Sample, ...] = ()
    weights: str = "current"
    elapsed_s: float = 0.0


@dataclass(frozen=True)
class RunEnded:
    """The run is over, or was interrupted; `reason` says why.

    The scores and their signatures are those of the best model.
    """

    step: int
    reason: str
    finished: bool
    folder: str
    scores: Mapping[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    signatures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """A line to show: what is being prepared, what was found in the data."""

    text: str


Event = RunStarted | Progress | Validated | RunEnded | Note


class Observer(Protocol):
    """Watches a run; `close` is called whatever happened."""

    def observe(self, event: Event) -> None:
        """Something happened."""
        ...

    def close(self) -> None:
        """The run is over, or has failed."""
        ...
