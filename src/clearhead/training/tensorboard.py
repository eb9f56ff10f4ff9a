"""The figures of a run as TensorBoard shows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.errors import TrainingError
from clearhead.training.events import Event, Progress, RunStarted, Validated

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter


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
