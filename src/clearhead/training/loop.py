"""When a run ends, and how long it will be until then."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import nn

from clearhead.errors import TrainingError
from clearhead.settings import TrainingConfig
from clearhead.training.checkpoints import Keeper, State
from clearhead.training.events import Event, Note, Observer, RunEnded, RunStarted, Validated
from clearhead.training.interruption import Interruption
from clearhead.training.progress import Meter
from clearhead.training.step import Stepper, Updater, choose_precision
from clearhead.training.task import Task


class Limits:
    """The limits of a run; the first one reached ends it.

    Args:
        config: names the limits.
        steps_per_epoch: of the first epoch; those of others differ by very few.
        measure: the name of the score that patience waits for.
    """

    def __init__(self, config: TrainingConfig, steps_per_epoch: int, measure: str) -> None:
        self.config = config
        self.measure = measure
        by_epochs = config.max_epochs * steps_per_epoch
        self.total_steps = min((n for n in (config.max_steps, by_epochs) if n > 0), default=0)

    def reached(self, state: State, elapsed_s: float) -> str | None:
        """Why the run ends here, or None."""
        config = self.config
        if 0 < config.max_steps <= state.step:
            return f"{config.max_steps} steps are done"
        if 0 < config.max_epochs <= state.epoch:
            return f"{config.max_epochs} epochs are done"
        if 0 < config.max_minutes <= elapsed_s / 60:
            return f"{config.max_minutes:g} minutes are over"
        if 0 < config.patience <= state.validations_since_best:
            return f"no better {self.measure} in {config.patience} validations"
        return None

    def remaining_s(self, step: int, elapsed_s: float, seconds_per_step: float) -> float | None:
        """Seconds to the first limit that is known ahead."""
        times = []
        if self.total_steps:
            times.append((self.total_steps - step) * seconds_per_step)
        if self.config.max_minutes:
            times.append(self.config.max_minutes * 60 - elapsed_s)
        return max(0.0, min(times)) if times else None


# ---- training.trainer
# The one trainer: steps, validations, checkpoints, and going on where it stopped.

REPORT_SECONDS = 2.0  # between two reports of progress, unless `report_every` says otherwise
ADVICE = "in [training]: lower batch_tokens and raise accumulate (--restart), or use device = 'cpu'"
"""What to do where the memory of the GPU does not hold a step."""
NO_AVERAGE = "one checkpoint is the model, no average; for more lower validate_every (--restart)"


class Trainer:
    """Trains a model on a task, until a limit is reached or somebody interrupts.

    Args:
        task: batches, loss and evaluation.
        model: on the device it is to be trained on.
        config: how to train.
        seed: all that is random follows from it, the epoch and the step.
        d_model: the width of the model, for the paper's schedule.
        keeper: what writes and reads the run's files.
        observers: told of every event.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        config: TrainingConfig,
        seed: int,
        d_model: int,
        keeper: Keeper,
        observers: Sequence[Observer],
    ) -> None:
        self.task = task
        self.model = model
        self.config = config
        self.keeper = keeper
        self.observers = observers
        self.device = next(model.parameters()).device
        self.precision = choose_precision(config.precision, self.device)
        self.state = State()
        self.steps_per_epoch = -(-task.batch_count(0) // config.accumulate)
        self.limits = Limits(config, self.steps_per_epoch, task.measure)
        self.updater = Updater(model, config, d_model, self.limits.total_steps)
        self.meter = Meter(self.device)
        self.stepper = Stepper(task, self.updater, self.meter, self.precision, seed)
        self.interruption = Interruption(self._tell)
        self._resumed_at = self._saved_at = time.monotonic()
        self._elapsed_before = 0.0
        self._saved_step = 0

    def run(self) -> RunEnded:
        """Train from the state of the last checkpoint, or from the beginning.

        Raises:
            TrainingError: the loss diverged, or the memory of the GPU is full.
        """
        self._resume()
        self._tell(self._started())
        if self.state.finished and (reason := self.limits.reached(self.state, self._elapsed())):
            return self._end(f"it was finished before: {reason}", finished=True)
        self.state.finished = False
        try:
            with self.interruption:
                reason = self._train()
                if reason is None:
                    self._save()
                    return self._end("interrupted", finished=False)
                self._finish()
        except KeyboardInterrupt:
            # A second Ctrl-C: what happened since the last checkpoint is given up.
            return self._end(f"interrupted; step {self._saved_step} is saved", finished=False)
        except torch.OutOfMemoryError as error:
            what, where = "the memory of the GPU is full", f"step {self.state.step}"
            raise TrainingError(what, where=where, why=str(error), todo=ADVICE) from None
        return self._end(reason, finished=True)

    def _resume(self) -> None:
        if saved := self.keeper.read_state(self.model, self.updater.optimizer):
            self.state = saved
        self._elapsed_before, self._saved_step = self.state.elapsed_s, self.state.step
        self._resumed_at = self._saved_at = time.monotonic()
        if not saved:
            self._save()  # so that weights without a state are of a run whose state is lost

    def _train(self) -> str | None:
        """Step until a limit is reached; which one, or None if somebody interrupted."""
        self.model.train()
        while not (reason := self.limits.reached(self.state, self._elapsed())):
            for batches in self._groups():
                self._step(batches)
                self._after_step()
                if self.interruption.wanted:
                    return None
                if reason := self.limits.reached(self.state, self._elapsed()):
                    return reason
            self.state.epoch += 1
            self.state.batch = 0
        return reason

    def _groups(self) -> Iterator[list[Any]]:
        """The batches of each step left in the epoch: `accumulate` of them, fewer in the last."""
        batches = self.task.batches(self.state.epoch, self.state.batch)
        while group := list(islice(batches, self.config.accumulate)):
            yield group

    def _step(self, batches: list[Any]) -> None:
        """One update; that none was made is told."""
        state = self.state
        state.step += 1
        state.batch += len(batches)
        norm = self.stepper.step(state.step, batches)
        if not math.isfinite(norm):
            self._tell(Note(f"step {state.step}: gradient norm {norm}, no update made"))

    def _after_step(self) -> None:
        every = self.config.report_every
        if self.state.step % every == 0 if every else self.meter.seconds >= REPORT_SECONDS:
            self._report()
        if self.state.step % self.config.validate_every == 0:
            self._validate()
        minutes = (time.monotonic() - self._saved_at) / 60
        if 0 < self.config.checkpoint_minutes <= minutes:
            self._save()

    def _validate(self) -> None:
        """Score the model; keep it among the last, and as the best if it is."""
        state = self.state
        if self.meter.steps:
            self._report()
        evaluation = self.task.evaluate(self.model)
        state.validated_step = state.step
        self.keeper.keep_recent(self.model, state.step)
        self._judge(evaluation, "current")
        self._save()
        self.meter.restart()

    def _judge(self, evaluation: Any, weights: str) -> None:
        state = self.state
        score = evaluation.scores[self.task.measure]
        is_best = state.is_best(score, self.task.higher_is_better)
        is_best |= weights == self.config.keep and math.isfinite(score)
        if is_best:
            state.note_best(score, evaluation)
            self.keeper.keep_best(self.model, evaluation, state.step, weights)
        if weights == "current":
            state.validations_since_best = 0 if is_best else state.validations_since_best + 1
        self._tell(
            Validated(
                step=state.step,
                epoch=state.epoch,
                scores=evaluation.scores,
                signatures=evaluation.signatures,
                measure=self.task.measure,
                is_best=is_best,
                best_score=score if state.best_score is None else state.best_score,
                best_step=state.best_step,
                samples=evaluation.samples,
                weights=weights,
                elapsed_s=self._elapsed(),
            )
        )

    def _finish(self) -> None:
        """A last validation, then the average of the last checkpoints, kept if it is better.

        Raises:
            TrainingError: no validation had a finite score, so there is no model to keep.
        """
        if self.state.validated_step != self.state.step:
            self._validate()
        if self.keeper.average_recent(self.model, self.state.step) > 1:
            self._judge(self.task.evaluate(self.model), "average")
            self.keeper.restore_current(self.model)
        elif self.config.keep == "average" and self.state.best_score is not None:
            self._tell(Note(NO_AVERAGE))
        self.state.refuse_unscored(self.task.measure, self.keeper.folder)
        self.state.finished = True
        self._save()

    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._resumed_at

    def _report(self) -> None:
        elapsed = self._elapsed()
        each = (elapsed - self._elapsed_before) / max(1, self.meter.steps_in_all)
        remaining = self.limits.remaining_s(self.state.step, elapsed, each)
        self._tell(self.meter.report(self.state.step, self.state.epoch, elapsed, remaining))

    def _save(self) -> None:
        self.state.elapsed_s = self._elapsed()
        self.keeper.write_state(self.model, self.updater.optimizer, self.state)
        self._saved_at = time.monotonic()
        self._saved_step = self.state.step

    def _started(self) -> RunStarted:
        return RunStarted(
            folder=str(self.keeper.folder),
            device=str(self.device),
            precision=self.precision,
            parameters=sum(p.numel() for p in self.model.parameters()),
            step=self.state.step,
            max_steps=self.limits.total_steps or None,
            batches_per_epoch=self.steps_per_epoch * self.config.accumulate,
            measure=self.task.measure,
            best_score=self.state.best_score,
            best_step=self.state.best_step,
        )

    def _end(self, reason: str, finished: bool) -> RunEnded:
        state = self.state
        ended = RunEnded(
            step=state.step,
            reason=reason,
            finished=finished,
            folder=str(self.keeper.folder),
            scores=state.best_scores,
            elapsed_s=self._elapsed(),
            signatures=state.best_signatures,
        )
        self._tell(ended)
        return ended

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            observer.observe(event)
