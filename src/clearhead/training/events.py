"""The events of a run, and the observers that write them to files: JSON lines and TensorBoard."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from clearhead.errors import TrainingError, reason
from clearhead.training.task import Sample

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter


@dataclass(frozen=True)
class RunStarted:
    """A run starts, or resumes at `step`. `best_score` is the best so far, or None."""

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
    """The steps since the last report. Rates are per second, memory is in megabytes.

    `loss` is the mean over units, in nats: the negative log-likelihood of a target token or of the
    labels of an example. It leaves out label smoothing and class weights, so it compares with the
    validation loss.
    `rates` and `shares` follow the counts of the task, e.g. "source tokens" and "padding".
    `remaining_s` is the time to the first limit in steps or minutes, or None without one.
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
    """Scores on the validation data, always with `loss`.

    `is_best` means that these weights are now the model. `weights` is "current" or "average".
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
    """The run ended or was interrupted.

    Attributes:
        step: the number of steps that are done.
        reason: why it ended, in words.
        finished: False if the run was interrupted and can be resumed.
        folder: the model folder.
        scores: of the best model, by name.
        elapsed_s: seconds, those of resumed parts included.
        signatures: how the scores of the best model were computed, by name.
        measure: name of the score that selected the model.
    """

    step: int
    reason: str
    finished: bool
    folder: str
    scores: Mapping[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    signatures: Mapping[str, str] = field(default_factory=dict)
    measure: str = "loss"


@dataclass(frozen=True)
class Note:
    """A message for people in one line, e.g. a finding in the data."""

    text: str


Event = RunStarted | Progress | Validated | RunEnded | Note


class Observer(Protocol):
    """Receives the events of a run. `close` is called however the run ends."""

    def observe(self, event: Event) -> None:
        """Handle an event."""

    def close(self) -> None:
        """Release what is open."""


def notify(observers: Iterable[Observer], event: Event) -> None:
    """Pass an event to every observer."""
    for observer in observers:
        observer.observe(event)


class JsonLog:
    """Appends each event as a line: `{"event": "Progress", "time": 1763640000.0, "step": …}`.

    `time` is in seconds since 1970. Numbers that JSON cannot write (infinity, NaN) become null.
    Each line is written at once, in one call. If a run is killed while it writes, the next run
    removes the incomplete last line, so every line stays readable.

    Args:
        path: the file. It is created with its folder if needed.
        clock: returns the time.

    Raises:
        TrainingError: the file cannot be written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: each line is one write, and a killed run loses nothing.
            self._file = path.open("a+b", buffering=0)
            _complete_last_line(self._file)
        except OSError as error:
            raise self._failure(error) from None

    def observe(self, event: Event) -> None:
        """Append the event.

        Raises:
            TrainingError: the file cannot be written, e.g. because the disk is full.
        """
        record = {"event": type(event).__name__, "time": self._clock(), **asdict(event)}
        line = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, default=str)
        try:
            self._file.write(line.encode("utf-8", errors="replace") + b"\n")
        except OSError as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _failure(self, error: OSError) -> TrainingError:
        return TrainingError("the log cannot be written", where=self._path, why=reason(error))


def _complete_last_line(file: BinaryIO) -> None:
    """Add a missing line break at the end of the file, or remove an incomplete line."""
    file.seek(0)
    content = file.read()
    last = content.rpartition(b"\n")[2]
    if last:
        try:
            json.loads(last)
            file.write(b"\n")
        except ValueError:
            file.truncate(len(content) - len(last))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


class TensorBoardLog:
    """Writes progress, scores and samples as TensorBoard's event files.

    Args:
        folder: of the files, e.g. `runs/my-model/training/tensorboard`.

    Raises:
        TrainingError: TensorBoard is not installed, or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open(purge_step=None)

    def observe(self, event: Event) -> None:
        """Write the figures of the event."""
        match event:
            case RunStarted() if event.step:
                # Hide the steps after the saved state, which the resumed run makes again.
                self._writer.close()
                self._open(purge_step=event.step + 1)
            case Progress():
                figures = {
                    "training/loss": event.loss,
                    "training/learning rate": event.learning_rate,
                    "training/gradient norm": event.gradient_norm,
                    "training/epoch": event.epoch,
                    "speed/memory MB": event.memory_mb,
                    **{f"speed/{name} per second": value for name, value in event.rates.items()},
                    **{f"speed/{name}": value for name, value in event.shares.items()},
                }
                for name, value in figures.items():
                    self._writer.add_scalar(name, value, event.step)
            case Validated():
                for name, value in event.scores.items():
                    self._writer.add_scalar(f"validation/{name}", value, event.step)
                for number, sample in enumerate(event.samples, start=1):
                    lines = (sample.source, sample.reference, sample.output)
                    text = "\n".join(f"    {line}" for line in lines)
                    self._writer.add_text(f"sample {number}", text, event.step)
                self._writer.flush()

    def close(self) -> None:
        """Write what is buffered and close the files."""
        self._writer.close()

    def _open(self, purge_step: int | None) -> None:
        make_writer = require_tensorboard()
        try:
            self._writer = make_writer(str(self._folder), purge_step=purge_step)
        except OSError as error:
            raise TrainingError(
                "TensorBoard's files cannot be written", where=self._folder, why=reason(error)
            ) from None


def require_tensorboard() -> type[SummaryWriter]:
    """The class that writes TensorBoard's files.

    Raises:
        TrainingError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        raise TrainingError(
            "training.tensorboard = true, but TensorBoard is not installed",
            todo="pip install tensorboard, or set training.tensorboard = false",
        ) from None
    return SummaryWriter
