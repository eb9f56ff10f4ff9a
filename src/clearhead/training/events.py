"""The events of a run, and the observers that write them to files: JSON lines and TensorBoard."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clearhead.errors import DISK_ERRORS, TrainingError, reason
from clearhead.folder.files import open_to_append
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
class StepLeftOut:
    """The loss or the gradient of a step was not finite, so it changed no weight.

    Attributes:
        step: its number.
        epoch: from 0.
        gradient_norm: NaN if the loss was not finite.
        in_a_row: steps left out since the last good one.
        in_all: steps left out in the run.
        examples: the file and line of each example, of the batches whose loss was not finite if
            there are any.
    """

    step: int
    epoch: int
    gradient_norm: float
    in_a_row: int
    in_all: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class WentBack:
    """The run went back from `from_step` to the saved state of `step`, for the nth `attempt`."""

    step: int
    from_step: int
    attempt: int


@dataclass(frozen=True)
class Note:
    """A message for people in one line, e.g. a finding in the data."""

    text: str


Event = RunStarted | Progress | Validated | RunEnded | StepLeftOut | WentBack | Note


class Observer(Protocol):
    """Receives the events of a run.

        class Printer:
            def observe(self, event):
                match event:
                    case clearhead.RunStarted():
                        print(event.device, event.parameters)
                    case clearhead.Progress():
                        print(event.step, event.loss)
                    case clearhead.Validated():
                        print(event.scores, event.is_best)
                    case clearhead.RunEnded():
                        print(event.reason)

            def close(self):
                pass

        clearhead.train("my.toml", observers=[Printer()])

    `close` is called however the run ends.
    """

    def observe(self, event: Event) -> None:
        """Handle an event."""

    def close(self) -> None:
        """Release what is open."""


class UnwritableLogError(TrainingError):
    """A log cannot be written. The run continues without it."""


def notify(observers: Sequence[Observer], event: Event) -> None:
    """Pass an event to every observer."""
    # If one is a log that cannot be written, the others get a warning.
    for observer in observers:
        try:
            observer.observe(event)
        except UnwritableLogError as error:
            others = [each for each in observers if each is not observer]
            text = f"warning: {error.where}: {error.what}: {error.why}; {error.todo}"
            notify(others, Note(text))


class JsonLog:
    """Appends each event as a line: `{"event": "Progress", "time": 1763640000.0, "step": …}`.

    `time` is in seconds since 1970. Numbers that JSON cannot write (infinity, NaN) become null.
    Each line is written at once, in one call. If a run is killed while it writes, the next run
    removes the incomplete last line, so every line stays readable. What cannot be written, e.g.
    because the disk is full, is written with the next event; likewise if the file cannot be opened.

    Args:
        path: the file. It is created with its folder if needed.
        clock: returns the time.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._pending = b""
        self._failed = False
        self._lock = threading.Lock()  # the note of an interruption comes from another thread
        self._file: FileIO | None = None
        with suppress(OSError):  # the first event tries again and reports it
            self._file = _opened(path)

    def observe(self, event: Event) -> None:
        """Append the event."""
        record = {"event": type(event).__name__, "time": self._clock(), **asdict(event)}
        line = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, default=str)
        content = line.encode("utf-8", errors="replace") + b"\n"
        with self._lock:
            self._pending += content
            try:
                self._write_pending()
            except OSError as error:
                if not self._failed:
                    self._failed = True
                    raise _unwritable("the log", self._path, error) from None

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            try:
                self._write_pending()
            finally:
                if self._file is not None:
                    self._file.close()

    def _write_pending(self) -> None:
        """Write what is pending. On a disk that becomes full, a write may store a part of it."""
        if self._file is None:
            self._file = _opened(self._path)
        while self._pending:
            written = self._file.write(self._pending)
            self._pending = self._pending[written:]


def _unwritable(what: str, path: Path, error: OSError) -> UnwritableLogError:
    helps = DISK_ERRORS.get(error.errno or 0, "check the permissions of the file")
    return UnwritableLogError(
        f"{what} cannot be written",
        where=path,
        why=reason(error),
        todo=f"training continues and tries again; {helps}",
    )


def _opened(path: Path) -> FileIO:
    """The file of a log after its last whole line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Unbuffered: each line is one write, and a killed run loses nothing.
    file = open_to_append(path)
    try:
        _complete_last_line(file)
    except OSError:
        file.close()
        raise
    return file


def _complete_last_line(file: FileIO) -> None:
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
    """Writes progress, scores and samples as TensorBoard's event files, from the first event on.

    If they cannot be written, new files are tried with the next event.

    Args:
        folder: of the files, e.g. `runs/my-model/training/tensorboard`.

    Raises:
        TrainingError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed = False
        self._writer: SummaryWriter | None = None
        require_tensorboard()

    def observe(self, event: Event) -> None:
        """Write the figures of the event."""
        try:
            if isinstance(event, WentBack) or (isinstance(event, RunStarted) and event.step):
                # Hide the steps after the saved state, which the run makes again.
                self.close()
                self._writer = require_tensorboard()(str(self._folder), purge_step=event.step + 1)
            elif self._writer is None:
                self._writer = require_tensorboard()(str(self._folder))
            self._write(self._writer, event)
        except OSError as error:
            # A writer whose thread has failed writes nothing more.
            self.close()
            if not self._failed:
                self._failed = True
                raise _unwritable("a file of TensorBoard", self._folder, error) from None

    def close(self) -> None:
        """Write what is buffered and close the files."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):
                writer.close()

    def _write(self, writer: SummaryWriter, event: Event) -> None:
        match event:
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
                    writer.add_scalar(name, value, event.step)
            case Validated():
                for name, value in event.scores.items():
                    writer.add_scalar(f"validation/{name}", value, event.step)
                for number, sample in enumerate(event.samples, start=1):
                    lines = (sample.source, sample.reference, sample.output)
                    text = "\n".join(f"    {line}" for line in lines)
                    writer.add_text(f"sample {number}", text, event.step)
                writer.flush()


def require_tensorboard() -> type[SummaryWriter]:
    """The class that writes TensorBoard's files."""
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        raise TrainingError(
            "training.tensorboard = true, but TensorBoard is not installed",
            todo="pip install tensorboard, or set training.tensorboard = false",
        ) from None
    return SummaryWriter
