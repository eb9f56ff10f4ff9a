"""The state that a run resumes from, and the checkpoints that it keeps."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import ModelFolderError, TrainingError, UnreadableError
from clearhead.folder.files import Write, json_bytes
from clearhead.folder.manifest import Entries, Entry, check, read_entries, replace_together
from clearhead.folder.model_folder import CHECKPOINTS, PROVENANCE, SCORES, WEIGHTS, written
from clearhead.folder.tensors import (
    compare_shapes,
    load_parameters,
    parameters_of,
    read_facts,
    read_tensors,
    save_tensors,
    shapes_of,
)
from clearhead.ranks import ALONE, Ranks
from clearhead.settings.training import TrainingConfig
from clearhead.sharding import is_shared, shared_like
from clearhead.training.task import Evaluation


@dataclass
class State:
    """The progress of a run. With the weights and the optimizer, it is all that resuming needs.

    `bad_steps` counts the steps that were left out, `bad_in_a_row` those since the last good one.
    `attempt` is how often the run has gone back, the last time from the step `back_from`, and
    `attempts_before` how often before the last good state after such a step. `reordered` has, for
    each time in this epoch, the index of the batch from which the order was changed, and the
    attempt. Batches with at least `split_from` positions are split, if it is not 0, because the
    memory is too small for them. `planned_steps` fit into `planned_minutes`, as far as the speed of
    the run has shown.
    `environment` has the versions, the device and so on that the state was computed with.
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
    attempts_before: int = 0
    back_from: int = 0
    split_from: int = 0
    planned_steps: int = 0
    planned_minutes: float = 0.0
    reordered: list[list[int]] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)

    def is_best(self, score: float, loss: float, higher_is_better: bool) -> bool:
        """Whether a score is better than the best so far; the loss decides between equal scores."""
        # A score that is not finite is never better.
        if not math.isfinite(score):
            return False
        if self.best_score is None or not math.isfinite(self.best_score):
            return True
        if score == self.best_score:
            return loss < self.best_scores.get("loss", math.inf)
        return score > self.best_score if higher_is_better else score < self.best_score

    def forget_best(self) -> None:
        """Record that no weights are kept, so that the next validation keeps its own."""
        self.best_score, self.best_step = None, 0
        self.best_scores, self.best_signatures = {}, {}
        self.validated_step = 0

    def note_best(self, score: float, evaluation: Evaluation) -> None:
        """Record that the current weights are the best so far."""
        self.best_score, self.best_step = score, self.step
        self.best_scores = dict(evaluation.scores)
        self.best_signatures = dict(evaluation.signatures)


STATE, PREVIOUS_STATE = "training/state.safetensors", "training/state.previous.safetensors"
"""Paths of the training state, and of the state before, in a model folder."""

SHARDS = "training/shards"
"""Path of the parts of the training state, if each process has a part."""

RECENT = re.compile(r"step-\d{8,}\.safetensors")
"""The name of a recent checkpoint. A copy that a user has named otherwise is not removed."""

ENVIRONMENT = (
    *("clearhead", "torch", "numpy", "sentencepiece"),
    *("device", "hardware", "precision", "threads", "processes"),
)
"""Facts of the provenance that change the last bits of a result."""


class Keeper:
    """Writes and reads the weights and the state in the folder of a run.

    Files that change together are replaced together. There are two generations of the state: if the
    file of the last one is damaged, the run goes on from the one before. If each process has a part
    of the tensors, it writes this part itself, and the file of the state names the parts.

    Of several processes only rank 0 writes anything else.

    Args:
        folder: the model folder. The state and the checkpoints are in its `training/`.
        average_last: number of recent checkpoints to keep.
        provenance: facts about the run, written beside the weights.
        resumable: whether the state is written.
        ranks: the processes that train together.
    """

    def __init__(
        self,
        folder: Path,
        average_last: int,
        provenance: dict[str, Any],
        resumable: bool = True,
        ranks: Ranks = ALONE,
    ) -> None:
        self.folder = folder
        self.ranks = ranks
        self.average_last = average_last
        self.provenance = provenance
        self.resumable = resumable
        self.environment = {name: provenance.get(name) for name in ENVIRONMENT}
        self._place = _identity(folder / "training")

    @cached_property
    def _entries(self) -> Entries:
        """The entries of the manifest, which nobody else replaces while the run has its lock."""
        # Rank 0 alone compares files with them, before the others read the same files.
        return read_entries(self.folder) if self.ranks.is_first else {}

    def _replace(
        self,
        files: Mapping[str, Write | str],
        removed: Sequence[str] = (),
        placed: Entries | None = None,
    ) -> None:
        """Replace and remove files of the folder, all or none; only rank 0 does anything."""
        # The files in `placed` have been written already.
        if self.ranks.is_first and (files or removed):
            before = {**self._entries, **(placed or {})}
            del self._entries  # if this fails, they are read again
            self._entries = replace_together(self.folder, before, files, removed)

    def _check_place(self) -> None:
        """Check that the folder is the one in which the run began."""
        if self._place not in (None, _identity(self.folder / "training")):
            raise TrainingError(
                "the folder of the run is gone, so the run cannot be saved",
                where=self.folder / "training",
                why="it was removed, moved or replaced while the run was training",
                todo="put the folder back and run the command again, which resumes at the last "
                "saved state; otherwise run it again to start anew",
            )

    def write_state(self, model: nn.Module, optimizer: torch.optim.Optimizer, state: State) -> None:
        """Write weights, optimizer and progress as one file, if the run is resumable.

        All processes must call this, because each may hold a part of the tensors. The state before
        is kept, until the run is finished.

        Raises:
            ModelFolderError: it cannot be written, e.g. because the disk is full.
            TrainingError: the folder is gone.
        """
        self._check_place()
        if not self.resumable:
            return
        tensors, placed = dict(_of_state(model, optimizer)), dict[str, Entry]()
        state.environment = self.environment
        facts = dataclasses.asdict(state)
        if any(map(is_shared, tensors.values())):
            from clearhead.folder.shards import write_shards

            self._remove_unused_shards()  # an unfinished one, if the disk was full
            name, entries = write_shards(self.folder / SHARDS, tensors, self.ranks)
            facts["shards"] = name
            placed = {f"{SHARDS}/{name}/{file}": entry for file, entry in entries.items()}
            tensors.clear()
        files: dict[str, Write | str] = {STATE: partial(save_tensors, tensors=tensors, facts=facts)}
        if not state.finished and self._has(STATE):
            files[PREVIOUS_STATE] = STATE
        self._replace(files, [PREVIOUS_STATE] if state.finished else [], placed)
        self._remove_unused_shards()

    def _has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def _remove_unused_shards(self) -> None:
        if not (self.ranks.is_first and self._has(SHARDS)):
            return
        from clearhead.folder.shards import remove_shards

        names = filter(self._has, (STATE, PREVIOUS_STATE))
        with suppress(ModelFolderError):  # one is damaged: it is not known what it needs
            kept = {str(read_facts(self.folder / name).get("shards")) for name in names}
            paths = [name for name in self._entries if name.startswith(f"{SHARDS}/")]
            self._replace({}, [path for path in paths if Path(path).parent.name not in kept])
            remove_shards(self.folder / SHARDS, kept)

    def read_state(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        note: Callable[[str], None] = lambda line: None,
    ) -> State | None:
        """Restore model and optimizer, and return the progress; None if the run is new.

        Args:
            model: of the run, with any weights.
            optimizer: of this model.
            note: receives lines for the user: that the state before is used, or that the result can
                differ from that of an uninterrupted run.

        Raises:
            ModelFolderError: both states are damaged, or the state belongs to another model or
                another version of clearhead; or only one of state and weights is there.
            UnreadableError: the system cannot read the state or the weights. Nothing is changed.
        """
        if not (self._has(STATE) or self._has(PREVIOUS_STATE)):
            if self._has(WEIGHTS):
                # A new run would replace these weights at its first validation.
                raise ModelFolderError(
                    "the state to resume from is missing",
                    where=self.folder / STATE,
                    why="the folder has a model already",
                    todo="restore the file, choose another folder, or start over: --restart",
                )
            return None
        tensors, fields = self._read_tensors(model, note)
        try:
            state = State(**fields)
        except TypeError as error:
            raise ModelFolderError(
                "the state was written by another version of clearhead",
                where=self.folder / STATE,
                why=str(error),
                todo="resume with the version in provenance.json, or start over: --restart",
            ) from None
        if self.ranks.is_first:
            self._check_model(state, note)
        _load_state(model, optimizer, tensors, self.folder / STATE)
        if line := self._changes(state.environment):
            note(line)
        return state

    def _read_tensors(
        self, model: nn.Module, note: Callable[[str], None]
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and fields of the state, or of the state before if that one is damaged."""
        # Only rank 0 may take the state before, so that all ranks have the same.
        try:
            return self._read_generation(STATE, model)
        except ModelFolderError as error:
            # A file that the system cannot read now may be good.
            if isinstance(error, UnreadableError) or not self.ranks.is_first:
                raise
            try:
                found = self._read_generation(PREVIOUS_STATE, model)
            except ModelFolderError:
                raise error from None
            note(
                f"warning: the last state is damaged ({error.where}: {error.why}); the run "
                f"goes on from the state before, at step {found[1].get('step', 0):,}"
            )
            # The next state that is written must not replace the only good one.
            self._replace({STATE: PREVIOUS_STATE}, [PREVIOUS_STATE])
            return found

    def _read_generation(
        self, name: str, model: nn.Module, prefix: str = ""
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The fields of a state and its tensors: whole, or those of a model if it has shards."""
        # The names of the tensors have the prefix, if there are shards.
        tensors, fields = read_tensors(self.folder / name, self._entries.get(name))
        shards = fields.pop("shards", None)
        if shards is not None:
            from clearhead.folder.shards import read_shards

            for path, entry in self._entries.items():
                if path.startswith(f"{SHARDS}/{shards}/"):
                    check(self.folder / path, entry)
            like = partial(_like, parameters_of(model))
            tensors = read_shards(self.folder / SHARDS, shards, like, prefix)
        return tensors, fields

    def _check_model(self, state: State, note: Callable[[str], None]) -> None:
        """Check that the weights of the folder are those that the run has kept as its model."""
        # If they are damaged, or their scores are, the run forgets them and goes on: its next
        # validation replaces them.
        path = self.folder / WEIGHTS
        todo = "restore the file, choose another folder, or start over: --restart"
        if state.best_score is not None and not path.exists():
            # Only a better score would replace them, and there may never be one.
            what = "the weights that this run kept as its model are missing"
            raise ModelFolderError(what, where=path, todo=todo)
        if not path.exists():
            return
        try:
            read_facts(path)
            for name in self._entries.keys() & {WEIGHTS, SCORES, PROVENANCE}:
                check(self.folder / name, self._entries[name])
        except UnreadableError:
            raise
        except ModelFolderError as error:
            what = "the model that this run kept is damaged"
            if state.finished:
                raise ModelFolderError(what, where=error.where, why=error.why, todo=todo) from None
            note(f"warning: {what} ({error.where}: {error.why}); the next validation replaces it")
            state.forget_best()

    def _changes(self, before: Mapping[str, Any]) -> str | None:
        """A line about what differs from the environment that the state was computed with."""
        changed = [
            f"{name} was {before[name]}, now {now}"
            for name, now in self.environment.items()
            if before.get(name) not in (None, now)
        ]
        if not changed:
            return None
        return (
            f"warning: {'; '.join(changed)}: the result can differ from that of a run without an "
            "interruption, usually in the last digits"
        )

    def keep_best(self, model: nn.Module, evaluation: Evaluation, step: int, weights: str) -> None:
        """Replace the weights of the model folder, their scores and their provenance together."""
        # Weights that are no average are also kept as the checkpoint `best`, because an average may
        # replace them in the model folder. Checkpoints with the same weights are one file with
        # several names.
        self._check_place()
        same = _checkpoint("average" if weights == "average" else _recent_name(step))
        kept = same if weights == "average" else _checkpoint("best")
        if not self._has(same):
            self._keep(kept, model, step)
        elif kept != same:
            self._replace({kept: same})
        scores = {
            "data": "validation",
            "step": step,
            "weights": weights,
            "scores": dict(evaluation.scores),
            "signatures": dict(evaluation.signatures),
            **evaluation.fitted,
        }
        # Without the time, the same run gives the same bytes; the log has the time of each event.
        facts = {**self.provenance, "step": step}
        self._replace(
            {
                WEIGHTS: kept,
                SCORES: written(json_bytes(scores)),
                PROVENANCE: written(json_bytes(facts)),
            }
        )

    def keep_recent(self, model: nn.Module, step: int) -> None:
        """Write a checkpoint, and remove all but the last few."""
        self._check_place()
        self._keep(_checkpoint(_recent_name(step)), model, step)
        self._replace({}, self._recent()[: -self.average_last])

    def average_recent(
        self, model: nn.Module, step: int, least: int, note: Callable[[str], None]
    ) -> bool:
        """Load the mean of the recent checkpoints into the model, and keep it as `average`."""
        if not self.ranks.is_first:
            return False
        total: dict[str, Tensor] = {}
        count = 0
        for name in self._recent()[-self.average_last :]:
            path = self.folder / name
            try:
                tensors, _ = read_tensors(path, self._entries.get(name))
            except ModelFolderError as error:
                why = f"{error.what}: {error.why}"
                note(f"warning: {path}: {why}; this checkpoint is left out of the average")
                continue
            count += 1
            for name, tensor in tensors.items():
                # In float64, because this sums many nearly equal numbers.
                total[name] = total.get(name, 0) + tensor.double()
        if count < least:
            return False
        mean = {name: tensor / count for name, tensor in total.items()}
        load_parameters(model, mean, self.folder)
        self._keep(_checkpoint("average"), model, step)
        return True

    def forget_recent(self) -> None:
        """Remove the recent checkpoints, which nothing needs after the end of the run."""
        self._replace({}, self._recent())

    def forget_average(self) -> None:
        """Remove the average at the end of a run that continues, and checkpoints from before."""
        # The weights in the model folder stay, also if they are that average.
        self._replace({}, [*self._recent(), _checkpoint("average")])

    def restore_current(self, model: nn.Module) -> None:
        """Load the weights of the last saved state into the model, if the run is resumable."""
        if not self.resumable:
            return
        tensors, _ = self._read_generation(STATE, model, "model.")
        load_parameters(model, _part(tensors, "model."), self.folder / STATE)

    def _recent(self) -> list[str]:
        found = (self.folder / CHECKPOINTS).glob("step-*.safetensors")
        return sorted(_checkpoint(path.stem) for path in found if RECENT.fullmatch(path.name))

    def _keep(self, name: str, model: nn.Module, step: int) -> None:
        tensors, facts = parameters_of(model), {"step": step}
        self._replace({name: partial(save_tensors, tensors=tensors, facts=facts)})


def _checkpoint(name: str) -> str:
    return f"{CHECKPOINTS}/{name}.safetensors"


def disk_needed(
    model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainingConfig, validations: int
) -> int:
    """The most bytes that the weights, checkpoints and states of a run take."""
    slots = (each for slots in optimizer.state_dict()["state"].values() for each in slots.values())
    weights = _bytes_of(parameters_of(model).values())
    state = weights + _bytes_of(each for each in slots if each is not None)
    recent = min(config.average_last, validations)
    average = weights if recent >= config.least_averaged else 0
    # The peak is at the end of the run: the new state is written beside the last two, and then the
    # recent checkpoints are removed. The best one may be older than these.
    older = weights if validations > recent else 0
    previous = state if validations > 1 else weights  # the first state has no moments
    return 2 * state + previous + recent * weights + older + average


def _bytes_of(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _identity(folder: Path) -> tuple[int, int] | None:
    """What distinguishes a folder from all others; None if there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _recent_name(step: int) -> str:
    return f"step-{step:08d}"


def _of_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """The name in the file and the tensor, of each parameter and of its moments."""
    for name, tensor in parameters_of(model).items():
        yield f"model.{name}", tensor
    for name, parameter in _trained(model, optimizer):
        for slot, value in optimizer.state.get(parameter, {}).items():
            if value is not None:
                yield f"optimizer.{name}.{slot}", value


def _like(parameters: Mapping[str, Tensor], name: str) -> Tensor | None:
    """The parameter that a tensor of the state belongs to, by the name in the file."""
    kind, _, rest = name.partition(".")
    return parameters.get(rest if kind == "model" else rest.rpartition(".")[0])


def _trained(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Iterator[tuple[str, nn.Parameter]]:
    """The name of each parameter of the optimizer and the parameter, in the optimizer's order."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            yield names[parameter], parameter


def _load_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], where: Path
) -> None:
    """Restore the weights, and the moments by the name of their parameter."""
    trained = list(_trained(model, optimizer))
    # SGD without momentum has none, and all parameters of an optimizer have the same ones.
    slots = {name.rpartition(".")[2] for name in tensors if name.startswith("optimizer.")}
    expected = shapes_of((f"model.{name}", each) for name, each in parameters_of(model).items())
    for name, parameter in trained:
        shape = tuple(parameter.shape)
        expected |= {f"optimizer.{name}.{s}": () if s == "step" else shape for s in slots}
    compare_shapes(expected, shapes_of(tensors.items()), where)
    load_parameters(model, _part(tensors, "model."), where)
    moments = dict[int, dict[str, Tensor]]()
    for index, (name, parameter) in enumerate(trained if slots else ()):
        own = {slot: tensors[f"optimizer.{name}.{slot}"] for slot in slots}
        moments[index] = {s: shared_like(t, parameter) if t.shape else t for s, t in own.items()}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
