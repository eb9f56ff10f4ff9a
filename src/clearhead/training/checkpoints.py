"""Where a run is."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.checkpoint import (
    CHECKPOINTS,
    WEIGHTS,
    load_parameters,
    parameters_of,
    read_tensors,
    write_json,
    write_tensors,
)
from clearhead.errors import ModelFolderError, TrainingError
from clearhead.training.step import SLOWER
from clearhead.training.task import Evaluation


@dataclass
class State:
    """Where a run is: with the weights and the optimizer, all that resuming needs."""

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

    def note_best(self, score: float, evaluation: Evaluation) -> None:
        """The weights of now are the best so far, by this score."""
        self.best_score, self.best_step = score, self.step
        self.best_scores = dict(evaluation.scores)
        self.best_signatures = dict(evaluation.signatures)

    def is_best(self, score: float, higher_is_better: bool) -> bool:
        """Whether a score is better than the best so far; one that is not finite never is."""
        if not math.isfinite(score):
            return False
        if self.best_score is None or not math.isfinite(self.best_score):
            return True
        return score > self.best_score if higher_is_better else score < self.best_score

    def refuse_unscored(self, measure: str, folder: Path) -> None:
        """Refuse to end a run in which no weights were ever kept.

        Raises:
            TrainingError: no validation had a finite score, so there is no model.
        """
        if self.best_score is None:
            raise TrainingError(
                f"no validation had a finite {measure}: there is no model to keep",
                where=folder,
                todo=SLOWER,
            )


# ---- training.keeper
# The files of a run: its best weights, the last few, and the state to go on from.


class Keeper:
    """Writes and reads what a run keeps in its folder.

    Args:
        folder: the model folder; the state lies apart in its `training/`.
        average_last: how many recent checkpoints are kept.
        provenance: facts on where the weights come from, written beside them.
    """

    def __init__(self, folder: Path, average_last: int, provenance: dict[str, Any]) -> None:
        self.folder = folder
        self.average_last = average_last
        self.provenance = provenance

    @property
    def state_path(self) -> Path:
        """The file of the state to go on from."""
        return self.folder / "training" / "state.safetensors"

    def write_state(self, model: nn.Module, optimizer: torch.optim.Optimizer, state: State) -> None:
        """Write weights, optimizer and progress as one file, wholly or not at all."""
        tensors = {f"model.{name}": tensor for name, tensor in parameters_of(model).items()}
        for index, slots in optimizer.state_dict()["state"].items():
            for slot, value in slots.items():
                if value is not None:
                    tensors[f"optimizer.{index}.{slot}"] = value
        write_tensors(self.state_path, tensors, dataclasses.asdict(state))

    def read_state(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> State | None:
        """Put model and optimizer where they were; the state, or None if the run is new.

        Raises:
            ModelFolderError: the state is damaged, of another model or of another version of
                clearhead, or missing beside a model, or the model is missing beside it.
        """
        has_model = (self.folder / "weights.safetensors").exists()
        if not self.state_path.exists():
            if has_model:
                # A new run would take the place of these weights with its first score.
                raise ModelFolderError(
                    "the state to go on from is missing",
                    where=self.state_path,
                    why="the folder has a model already",
                    todo="bring the file back, choose another folder, or begin anew: --restart",
                )
            return None
        tensors, fields = read_tensors(self.state_path)
        state = self._state(fields)
        if state.best_score is not None and not has_model:
            # Only what scores better would take its place, and perhaps nothing will.
            raise ModelFolderError(
                "the weights that this run kept as its model are missing",
                where=self.folder / "weights.safetensors",
                todo="bring the file back, choose another folder, or begin anew: --restart",
            )
        load_parameters(model, _part(tensors, "model."), self.state_path)
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _part(tensors, "optimizer.").items():
            index, slot = name.split(".")
            slots.setdefault(int(index), {})[slot] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": slots, "param_groups": groups})
        return state

    def _state(self, fields: dict[str, Any]) -> State:
        try:
            return State(**fields)
        except TypeError as error:
            raise ModelFolderError(
                "the state to go on from is of another version of clearhead",
                where=self.state_path,
                why=str(error),
                todo="go on with the version that provenance.json names, or begin anew: --restart",
            ) from None

    def keep_best(self, model: nn.Module, evaluation: Evaluation, step: int, weights: str) -> None:
        """Make these the weights of the model folder, with their scores.

        If they are not an average, they stay beside the checkpoints too, where that may follow.
        A run may be killed between two files: by the checksum it is seen that scores are of others.
        """
        if weights == "current":
            self._keep("best", model, step)
        digest = write_tensors(self.folder / WEIGHTS, parameters_of(model), {"step": step})
        write_json(
            self.folder / "scores.json",
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
        """Keep a checkpoint, and only the last few of them."""
        self._keep(f"step-{step:08d}", model, step)
        for old in self._recent()[: -self.average_last]:
            old.unlink()

    def average_recent(self, model: nn.Module, step: int) -> int:
        """Put the mean of the recent checkpoints into the model, and keep it; of how many it is."""
        recent = self._recent()[-self.average_last :]
        mean: dict[str, Tensor] = {}
        for path in recent:
            tensors, _ = read_tensors(path)
            for name, tensor in tensors.items():
                # In float64: a sum of many nearly equal numbers.
                mean[name] = mean.get(name, 0) + tensor.double() / len(recent)
        if recent:
            load_parameters(model, mean, self.folder)
        if len(recent) > 1:
            self._keep("average", model, step)
        return len(recent)

    def restore_current(self, model: nn.Module) -> None:
        """Put the weights of the last written state back into the model."""
        tensors, _ = read_tensors(self.state_path)
        load_parameters(model, _part(tensors, "model."), self.state_path)

    def _recent(self) -> list[Path]:
        return sorted(self.folder.joinpath(*CHECKPOINTS).glob("step-*.safetensors"))

    def _keep(self, name: str, model: nn.Module, step: int) -> None:
        path = self.folder.joinpath(*CHECKPOINTS, f"{name}.safetensors")
        write_tensors(path, parameters_of(model), {"step": step})


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
