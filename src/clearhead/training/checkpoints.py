"""The state that a run resumes from, and the checkpoints that it keeps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.checkpoint.tensors import (
    CHECKPOINTS,
    SCORES,
    STATE,
    WEIGHTS,
    load_parameters,
    parameters_of,
    read_digest,
    read_tensors,
    write_tensors,
)
from clearhead.errors import ModelFolderError
from clearhead.files import link_file, write_json
from clearhead.settings.training import TrainingConfig
from clearhead.training.task import Evaluation


@dataclass
class State:
    """The progress of a run. With the weights and the optimizer, it is all that resuming needs.

    `bad_steps` counts the steps that were left out, `bad_in_a_row` those since the last good one.
    `attempt` is how often the run has gone back. `reordered` has, for each time in this epoch, the
    index of the batch from which the order was changed, and the attempt.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    elapsed_s: float = 0.0
    best_score: float | None = None
    best_step: int = 0
    best_scores: dict[str, float] = field(default_factory=dict)
    best_signatures: dict[str, str] = field(default_factory=dict)
    validations_since_best: int = 0
    validated_step: int = 0
    finished: bool = False
    bad_steps: int = 0
    bad_in_a_row: int = 0
    attempt: int = 0
    reordered: list[list[int]] = field(default_factory=list)

    def is_best(self, score: float, higher_is_better: bool) -> bool:
        """Whether a score is better than the best so far. A score that is not finite never is."""
        if not math.isfinite(score):
            return False
        if self.best_score is None or not math.isfinite(self.best_score):
            return True
        return score > self.best_score if higher_is_better else score < self.best_score

    def note_best(self, score: float, evaluation: Evaluation) -> None:
        """Record that the current weights are the best so far."""
        self.best_score, self.best_step = score, self.step
        self.best_scores = dict(evaluation.scores)
        self.best_signatures = dict(evaluation.signatures)


class Keeper:
    """Writes and reads the weights and the state in the folder of a run.

    Each file is written under another name and then renamed, so it is never half-written.

    Args:
        folder: the model folder. The state and the checkpoints are in its `training/`.
        average_last: number of recent checkpoints to keep.
        provenance: facts about the run, written beside the weights.
        resumable: whether the state is written.
    """

    def __init__(
        self, folder: Path, average_last: int, provenance: dict[str, Any], resumable: bool = True
    ) -> None:
        self.folder = folder
        self.average_last = average_last
        self.provenance = provenance
        self.resumable = resumable

    @property
    def state_path(self) -> Path:
        """The file with the state."""
        return self.folder / STATE

    def write_state(self, model: nn.Module, optimizer: torch.optim.Optimizer, state: State) -> None:
        """Write weights, optimizer and progress as one file, if the run is resumable.

        Raises:
            ModelFolderError: it cannot be written, e.g. because the disk is full.
        """
        if not self.resumable:
            return
        tensors = {f"model.{name}": tensor for name, tensor in parameters_of(model).items()}
        for index, slots in optimizer.state_dict()["state"].items():
            for slot, value in slots.items():
                if value is not None:
                    tensors[f"optimizer.{index}.{slot}"] = value
        write_tensors(self.state_path, tensors, dataclasses.asdict(state))

    def read_state(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> State | None:
        """Restore model and optimizer, and return the progress; None if the run is new.

        Raises:
            ModelFolderError: the state is damaged, or belongs to another model or another version
                of clearhead; or only one of state and weights is there.
        """
        has_weights = (self.folder / WEIGHTS).exists()
        if not self.state_path.exists():
            if has_weights:
                # A new run would replace these weights at its first validation.
                raise ModelFolderError(
                    "the state to resume from is missing",
                    where=self.state_path,
                    why="the folder has a model already",
                    todo="restore the file, choose another folder, or start over: --restart",
                )
            return None
        tensors, fields = read_tensors(self.state_path)
        try:
            state = State(**fields)
        except TypeError as error:
            raise ModelFolderError(
                "the state was written by another version of clearhead",
                where=self.state_path,
                why=str(error),
                todo="resume with the version in provenance.json, or start over: --restart",
            ) from None
        if state.best_score is not None and not has_weights:
            # Only a better score would replace them, and there may never be one.
            raise ModelFolderError(
                "the weights that this run kept as its model are missing",
                where=self.folder / WEIGHTS,
                todo="restore the file, choose another folder, or start over: --restart",
            )
        load_parameters(model, _part(tensors, "model."), self.state_path)
        _load_optimizer(optimizer, _part(tensors, "optimizer."))
        return state

    def keep_best(self, model: nn.Module, evaluation: Evaluation, step: int, weights: str) -> None:
        """Write the weights of the model folder with their scores and provenance.

        If a run is killed between these files, the checksum in `scores.json` shows that the scores
        belong to other weights. Weights that are no average are also kept as the checkpoint
        `best`, because an average may replace them in the model folder. Checkpoints with the same
        weights are one file with several names.
        """
        path = self.folder / WEIGHTS
        same = self._checkpoint("average" if weights == "average" else _recent_name(step))
        if same.exists():
            link_file(same, path)
            digest = read_digest(path)
        else:
            digest = write_tensors(path, parameters_of(model), {"step": step})
        if weights == "current":
            link_file(path, self._checkpoint("best"))
        write_json(
            self.folder / SCORES,
            {
                "data": "validation",
                "step": step,
                "weights": weights,
                "digest": digest,
                "scores": dict(evaluation.scores),
                "signatures": dict(evaluation.signatures),
            },
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {"written": now, **self.provenance, "step": step}
        write_json(self.folder / "provenance.json", facts)

    def keep_recent(self, model: nn.Module, step: int) -> None:
        """Write a checkpoint, and remove all but the last few."""
        self._keep(_recent_name(step), model, step)
        for old in self._recent()[: -self.average_last]:
            old.unlink()

    def average_recent(self, model: nn.Module, step: int, least: int) -> bool:
        """Load the mean of the recent checkpoints into the model, and keep it as `average`.

        Returns:
            False if there are fewer checkpoints than `least`. Then nothing is changed.
        """
        recent = self._recent()[-self.average_last :]
        if len(recent) < least:
            return False
        mean: dict[str, Tensor] = {}
        for path in recent:
            tensors, _ = read_tensors(path)
            for name, tensor in tensors.items():
                # In float64, because this sums many nearly equal numbers.
                mean[name] = mean.get(name, 0) + tensor.double() / len(recent)
        load_parameters(model, mean, self.folder)
        self._keep("average", model, step)
        return True

    def forget_recent(self) -> None:
        """Remove the recent checkpoints, which nothing needs after the end of the run."""
        for path in self._recent():
            path.unlink()

    def forget_average(self) -> None:
        """Remove the average at the end of a run that continues, and checkpoints from before.

        The weights in the model folder stay, also if they are that average.
        """
        self.forget_recent()
        self._checkpoint("average").unlink(missing_ok=True)

    def restore_current(self, model: nn.Module) -> None:
        """Load the weights of the last saved state into the model, if the run is resumable."""
        if not self.resumable:
            return
        tensors, _ = read_tensors(self.state_path)
        load_parameters(model, _part(tensors, "model."), self.state_path)

    def _recent(self) -> list[Path]:
        return sorted(self.folder.joinpath(*CHECKPOINTS).glob("step-*.safetensors"))

    def _keep(self, name: str, model: nn.Module, step: int) -> None:
        write_tensors(self._checkpoint(name), parameters_of(model), {"step": step})

    def _checkpoint(self, name: str) -> Path:
        return self.folder.joinpath(*CHECKPOINTS, f"{name}.safetensors")


def disk_needed(
    model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainingConfig, validations: int
) -> tuple[int, int]:
    """The bytes of the weights, the checkpoints and the state of a run: the peak, and at its end.

    Args:
        model: of the run.
        optimizer: after its first step.
        config: of the training.
        validations: of the whole run.
    """
    slots = (each for slots in optimizer.state_dict()["state"].values() for each in slots.values())
    weights = _bytes_of(parameters_of(model).values())
    state = weights + _bytes_of(each for each in slots if each is not None)
    recent = min(config.average_last, validations)
    average = weights if recent >= config.least_averaged else 0
    # The peak is at the end of the run: the new state is written before the old one is replaced,
    # and then the recent checkpoints are removed. The best one may be older than these.
    older = weights if validations > recent else 0
    return 2 * state + recent * weights + older + average, state + weights + average


def _bytes_of(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _recent_name(step: int) -> str:
    return f"step-{step:08d}"


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, slot = name.split(".")
        slots.setdefault(int(index), {})[slot] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": slots, "param_groups": groups})


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
