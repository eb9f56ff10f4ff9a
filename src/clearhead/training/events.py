"""What a training run tells whoever watches it: the log file, the screen, TensorBoard."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from clearhead.errors import TrainingError
from clearhead.training.task import Sample

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter


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


# ---- training.log
# The log of a run: one JSON object a line, for programs to read.


class JsonLog:
    """Appends each event as a line: `{"event": "Progress", "time": 1763640000.0, "step": …}`.

    `time` is in seconds since 1970; a number that JSON cannot write (infinite, or none at all) is
    null. Each line is written at once and whole. If a run was killed while it wrote, its torn last
    line is taken away when the next one opens the log, so every line can always be read.

    Args:
        path: the file, which is made with its folder if need be.
        clock: tells the time.

    Raises:
        TrainingError: the file cannot be written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a line is one write, and nothing is left to lose when the run is killed.
            self._file = path.open("a+b", buffering=0)
            _mend_end(self._file)
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
        return TrainingError("the log cannot be written", where=self._path, why=str(error))


def _mend_end(file: BinaryIO) -> None:
    """End the file with a whole line: add the line break that is missing, or cut a torn line."""
    size = file.seek(0, os.SEEK_END)
    end = size
    tail = b""
    while end > 0 and b"\n" not in tail:
        start = max(0, end - 65536)
        file.seek(start)
        tail = file.read(end - start) + tail
        end = start
    last = tail.rpartition(b"\n")[2]
    if not last:
        return
    try:
        json.loads(last)
    except ValueError:
        file.truncate(size - len(last))
    else:
        file.write(b"\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# ---- training.tensorboard
# The figures of a run as TensorBoard shows them.


def require_tensorboard() -> None:
    """Find that TensorBoard is installed, before a run removes or writes anything.

    Raises:
        TrainingError: it is not.
    """
    _summary_writer()


class TensorBoardLog:
    """Writes progress, scores and samples as TensorBoard's event files.

    Args:
        folder: where the files go, e.g. `runs/my-model/training/tensorboard`.

    Raises:
        TrainingError: TensorBoard is not installed, or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open(purge_step=None)

    def observe(self, event: Event) -> None:
        """Write the figures of the event; a run that goes on hides the steps it does again."""
        match event:
            case RunStarted() if event.step:
                self._writer.close()
                self._open(purge_step=event.step + 1)
            case Progress():
                self._write_progress(event)
            case Validated():
                for name, value in event.scores.items():
                    self._writer.add_scalar(f"validation/{name}", value, event.step)
                for number, sample in enumerate(event.samples, start=1):
                    text = "\n".join(
                        f"    {line}" for line in (sample.source, sample.reference, sample.output)
                    )
                    self._writer.add_text(f"sample {number}", text, event.step)
                self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the files."""
        self._writer.close()

    def _open(self, purge_step: int | None) -> None:
        make_writer = _summary_writer()
        try:
            self._writer = make_writer(str(self._folder), purge_step=purge_step)
        except OSError as error:
            raise TrainingError(
                "TensorBoard's files cannot be written", where=self._folder, why=str(error)
            ) from None

    def _write_progress(self, event: Progress) -> None:
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


def _summary_writer() -> type[SummaryWriter]:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        raise TrainingError(
            "training.tensorboard = true, but TensorBoard is not installed",
            todo="pip install tensorboard, or set training.tensorboard = false",
        ) from None
    return SummaryWriter
