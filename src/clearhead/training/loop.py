"""The training loop, the limits that end a run, and its interruption by Ctrl-C or a signal.

After Ctrl-C, `Interruption` sets `wanted`. `Trainer._train` reads it after each step and returns;
then `Trainer.run` saves the state with `Keeper.write_state`.

The state is saved before each validation. A state whose validation has not been counted yet makes
the resumed run validate first, with the same result.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch import nn

from clearhead.errors import TrainingError, first_few
from clearhead.folder.tensors import parameters_of
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import RunConfig, TrainingConfig
from clearhead.settings.training import warmup_of
from clearhead.sharding import whole
from clearhead.training.bad_steps import (
    BAD_IN_A_ROW,
    IF_DIVERGED,
    MOST_ATTEMPTS,
    MOST_IN_A_ROW,
    SHOWN_EXAMPLES,
    From,
    diagnosis,
    reordered,
)
from clearhead.training.checkpoints import Keeper, State
from clearhead.training.events import (
    Note,
    Observer,
    RunEnded,
    RunStarted,
    StepLeftOut,
    Validated,
    WentBack,
    notify,
)
from clearhead.training.step import Updater
from clearhead.training.task import Evaluation, Task
from clearhead.training.watch import LossWatch, PaceWatch

REPORT_SECONDS = 2.0
"""Seconds between two reports of progress, if `report_every` is 0."""

STOPPING = (
    "interrupted: stops after this step or validation; interrupt again to stop at once, "
    "at the last saved state"
)

MOST_REMEMBERED = 100
"""Bad steps whose examples are compared in a diagnosis."""

TRIED_ON = ("cuda",)
"""Types of devices on which the largest batch of an epoch is tried before its first step."""

ALL_ZERO = 3
"""Validations with a score of 0 before a warning."""

ZERO_SCORE = (
    "warning: {measure} is 0 at all validations so far, so the loss decides which weights are "
    'kept; set evaluation.measure = "loss" or another score that changes (--restart)'
)

SPLIT = (
    "the memory of the GPU is too small for a batch with {positions:,} positions; batches as large "
    "are split, with the same gradient (lower training.batch_tokens and raise training.accumulate "
    "to avoid this: --restart)"
)

IF_MEMORY_IS_FULL_IN_ONE = (
    "lower training.batch_tokens and raise training.accumulate (--restart): one of several "
    "processes cannot make a step again with smaller batches"
)
"""What to do if a batch does not fit into the memory of a GPU, in one of several processes."""

IF_MEMORY_IS_FULL = (
    "lower data.max_length or use a smaller model (--restart), or use training.device = 'cpu'"
)
"""What to do if not even one example fits into the memory of the GPU."""

KEPT_GOING_BACK = ("split_from", "planned_steps", "planned_minutes", "bad_steps", "attempts_before")
"""What stays as it is in the state when a run goes back."""

PLANNED_AT, USED = 0.1, 0.97
"""Shares of `max_minutes`: after the first, the steps for the second are planned."""

PLANNED = (
    "about {steps:,} steps fit into {minutes:g} minutes; the learning rate falls to 0 until then"
)

CONTINUED = (
    "the run had ended at step {step} and goes on; the average at its new end contains only "
    "checkpoints after that step"
)


class Limits:
    """The limits of a run. The first one reached ends it.

    Args:
        config: sets the limits.
        batches_per_epoch: batches of the first epoch; other epochs have almost as many.
        measure: name of the score that patience watches.
    """

    def __init__(self, config: TrainingConfig, batches_per_epoch: int, measure: str) -> None:
        self.config = config
        self.measure = measure
        self.steps_per_epoch = math.ceil(batches_per_epoch / config.accumulate)
        self.planned_steps = 0
        self._steps = config.max_steps, config.max_epochs * self.steps_per_epoch

    @property
    def total_steps(self) -> int:
        """The steps of the run, as far as they are known; otherwise 0."""
        return min((n for n in (*self._steps, self.planned_steps) if n > 0), default=0)

    def plan(self, state: State, elapsed_s: float) -> bool:
        """Note in the state how many steps fit into `max_minutes`, once the speed has shown it."""
        # Only for a schedule that falls to zero at the end of the run. Returns whether the number
        # is new. From then on, the rate of a step is a function of the state.
        minutes = self.config.max_minutes
        if not minutes or not self.config.schedule.falls_to_zero:
            return False
        share = elapsed_s / (60 * minutes)
        is_new = state.planned_minutes != minutes and share >= PLANNED_AT and state.step > 0
        if is_new:
            state.planned_minutes = minutes
            state.planned_steps = state.step + int(state.step / share * max(0, USED - share))
        self.planned_steps = state.planned_steps if state.planned_minutes == minutes else 0
        return is_new

    def reached(self, state: State, elapsed_s: float) -> str | None:
        """Why the run ends now, or None if it continues."""
        config = self.config
        if 0 < config.max_steps <= state.step:
            return _done(config.max_steps, "step")
        if 0 < config.max_epochs <= state.epoch:
            return _done(config.max_epochs, "epoch")
        if 0 < self.planned_steps <= state.step:
            planned = f"as planned for {config.max_minutes:g} minutes"
            return f"{_done(self.planned_steps, 'step')}, {planned}"
        if 0 < config.max_minutes <= elapsed_s / 60:
            return f"{config.max_minutes:g} minutes are over"
        if 0 < config.patience <= state.validations_since_best:
            return f"no better {self.measure} in {config.patience} validations"
        return None

    def remaining_s(self, step: int, elapsed_s: float, seconds_per_step: float) -> float | None:
        """Seconds to the first limit in steps or minutes, or None without such a limit."""
        times = []
        if self.total_steps:
            times.append((self.total_steps - step) * seconds_per_step)
        if self.config.max_minutes:
            times.append(self.config.max_minutes * 60 - elapsed_s)
        return max(0.0, min(times)) if times else None

    def warmup_warning(self) -> str | None:
        """A warning if the warm-up takes more than half of the run."""
        warmup, steps = self.config.schedule.warmup, self.total_steps
        if not steps or 2 * warmup <= steps or warmup <= 1:
            return None
        limit = "epochs" if 0 < self.config.max_epochs * self.steps_per_epoch == steps else "steps"
        effect = "never reaches its peak" if warmup > steps else "hardly ever falls"
        return (
            f"warning: the warm-up has {warmup:,} steps, the run {steps:,} (training.max_{limit} = "
            f"{getattr(self.config, f'max_{limit}'):,}), so the learning rate {effect}; set "
            f"training.schedule.warmup = {warmup_of(steps)}, a third of the run"
        )


def _done(count: int, unit: str) -> str:
    return f"1 {unit} is done" if count == 1 else f"{count} {unit}s are done"


class Interruption:
    """Context in which the first Ctrl-C, SIGTERM or SIGHUP only sets `wanted`.

    The state is therefore never saved in the middle of a step or a validation, and a resumed run
    computes what the uninterrupted one would have. A second Ctrl-C or SIGTERM acts at once. A
    second SIGHUP does nothing, because a terminal that closes may send several.

    Args:
        observers: get a note at once, because a validation may take minutes.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.wanted = False
        self._observers = observers
        self._notifying: threading.Thread | None = None
        self._handlers_before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        # Python allows signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # Shell scripts start commands with & so that they ignore Ctrl-C, and nohup so that
                # they ignore SIGHUP; they continue to.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers_before[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        self._restore_handlers(*self._handlers_before)
        if self._notifying is not None:
            self._notifying.join()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            return
        self.wanted = True
        self._restore_handlers(signal.SIGINT, signal.SIGTERM)
        # In a thread: the main thread may be in the middle of a write, which is not reentrant.
        arguments = (self._observers, Note(STOPPING))
        self._notifying = threading.Thread(target=notify, args=arguments)
        self._notifying.start()

    def _restore_handlers(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            if number in self._handlers_before:
                signal.signal(number, self._handlers_before.pop(number))


class Trainer:
    """Trains a model on a task until a limit is reached or the run is interrupted.

    Args:
        task: batches, loss and evaluation.
        model: on the device that it is trained on.
        config: of the run; its precision is not `auto`. All random numbers depend only on its seed,
            the epoch, the step and the attempt.
        keeper: writes and reads the checkpoints and the state.
        observers: get every event.
        ranks: the processes that train together. Each takes its share of the batches of a step.
            Rank 0 decides when to save, to validate and to stop.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        config: RunConfig,
        keeper: Keeper,
        observers: Sequence[Observer],
        ranks: Ranks = ALONE,
    ) -> None:
        self.task = task
        self.model = model
        self.config, self.seed = config.training, config.seed
        self.ranks = ranks
        self.keeper = keeper
        self.observers = observers
        self.state = State()
        # Counted once an epoch: it sorts all examples into batches.
        self._counted_epoch, self._batch_count = 0, task.batch_count(0)
        self.limits = Limits(self.config, self._batch_count, task.measure)
        self.updater = Updater(task, model, config, self.limits.total_steps, ranks)
        self.meter = self.updater.meter
        self.interruption = Interruption(observers)
        self._resumed_at = self._saved_at = time.monotonic()
        self._elapsed_before = 0.0
        self._saved_step = 0
        self._bad_examples: deque[list[str]] = deque(maxlen=MOST_REMEMBERED)
        self._tried_epoch = -1
        self._loss_watch, self._pace_watch = LossWatch(), PaceWatch()

    def run(self) -> RunEnded:
        """Train from the last saved state, or from the beginning.

        If an error ends the run, the steps that are complete are saved first.

        Raises:
            TrainingError: training diverged, or the memory of the GPU is full.
            ModelFolderError: a file of the run cannot be read or written.
        """
        self.updater.connect()
        self._resume()
        reason = self.limits.reached(self.state, self.ranks.of_first(self._elapsed()))
        if reason and self.state.finished:
            self.keeper.forget_recent()  # if the run was killed between its end and this
            return self._end(f"already finished: {reason}", finished=True)
        if self.state.finished:
            self._begin_again()
        if warning := self.limits.warmup_warning():
            self._note(warning)
        try:
            with self.interruption:
                reason = self._train_to_the_end()
        except KeyboardInterrupt:
            reason = None  # the second Ctrl-C: the steps since the last saved state are given up
        except torch.OutOfMemoryError as error:
            what, where = "the memory of the GPU is full", f"after step {self.state.step}"
            todo = IF_MEMORY_IS_FULL if self.ranks.count == 1 else IF_MEMORY_IS_FULL_IN_ONE
            raise TrainingError(what, where=where, why=str(error), todo=todo) from None
        if reason is None:
            return self._end(f"interrupted; step {self._saved_step} is saved", finished=False)
        return self._end(reason, finished=True)

    def _train_to_the_end(self) -> str | None:
        """Train, then finish or save the run; returns the limit, or None after an interruption."""
        try:
            reason = self._train()
            if reason is None:
                self._save()
            else:
                self._finish()
        except Exception:
            self._save_complete_steps()
            raise
        return reason

    def _save_complete_steps(self) -> None:
        """Save the steps since the last saved state before an error ends the run.

        If the error came during the update of the weights, there is no state to save. If each
        process has a part of the state, the others may be gone.
        """
        updater = self.updater
        if self.state.step != self._saved_step and not (updater.updating or updater.is_sharded):
            with suppress(Exception):  # the user has to see the first error
                self._save()

    def _begin_again(self) -> None:
        """Continue a finished run, whose limits were raised."""
        self.state.finished = False
        self.keeper.forget_average()
        if self.config.average_last > 1:
            self._note(CONTINUED.format(step=self.state.step))

    def _resume(self) -> None:
        """Load the saved state if there is one, and announce the run."""
        saved = self._read_state()
        if saved is not None:
            self.state = saved
            self.updater.split_from = saved.split_from
        self.limits.plan(self.state, 0.0)
        self._elapsed_before, self._saved_step = self.state.elapsed_s, self.state.step
        self._resumed_at = self._saved_at = time.monotonic()
        if saved is None:
            self._save()  # from now on, weights without a state mean that the state was lost
        started = RunStarted(
            folder=str(self.keeper.folder),
            device=str(self.updater.device),
            precision=self.config.precision,
            parameters=sum(p.numel() for p in self.model.parameters()),
            step=self.state.step,
            max_steps=self.limits.total_steps or None,
            batches_per_epoch=self.limits.steps_per_epoch * self.config.accumulate,
            measure=self.task.measure,
            best_score=self.state.best_score,
            best_step=self.state.best_step,
        )
        notify(self.observers, started)

    def _read_state(self) -> State | None:
        """Restore the saved state of the run on every rank, first on rank 0, which may mend it."""

        def read() -> State | None:
            return self.keeper.read_state(self.model, self.updater.optimizer, self._note)

        return self.ranks.of_first(self.ranks.first_alone(read))

    def _train(self) -> str | None:
        """Train until a limit is reached, and return which; None if the run is interrupted."""
        self.model.train()
        batches = self._batches()
        self._pace_watch.restart()
        while True:
            # Also due after a run was killed in this validation, or went back to its step.
            is_due = self._validation_is_due()
            elapsed, unsaved, interrupted = self._agreed()
            if self.limits.plan(self.state, elapsed):
                self._save()  # a resumed run has the same plan
                minutes, steps = self.config.max_minutes, self.limits.planned_steps
                if steps == self.limits.total_steps:
                    self._note(PLANNED.format(steps=steps, minutes=minutes))
            reason = self.limits.reached(self.state, elapsed)
            if (is_due or reason) and not self.updater.weights_are_finite():
                self._go_back("the weights are not finite")
                batches = self._batches()
                continue
            if is_due:
                self._validate()
                continue
            if 0 < self.config.checkpoint_minutes <= unsaved / 60:
                self._save()
            if interrupted:
                return None
            if reason:
                return reason
            group = list(islice(batches, self.config.accumulate // self.ranks.count))
            count = self._count_of_step(group)
            if not count:
                self.state.epoch += 1
                self.state.batch, self.state.reordered = 0, []
                batches = self._batches()
                continue
            self.step(group, count)
            if self.state.bad_in_a_row >= MOST_IN_A_ROW:
                self._go_back(BAD_IN_A_ROW)
                batches = self._batches()
            elif self._report_is_due():
                self._report()

    def _agreed(self) -> tuple[float, float, bool]:
        """Seconds of training and since the last save, by rank 0; whether any rank is to stop."""
        own = [self._elapsed(), time.monotonic() - self._saved_at]
        clocks = own if self.ranks.is_first else [0.0, 0.0]
        elapsed, unsaved, wanted = self.ranks.total([*clocks, float(self.interruption.wanted)])
        return elapsed, unsaved, wanted > 0

    def _count_of_step(self, group: Sequence[Any]) -> int:
        """The number of batches of the next step, over all ranks; 0 at the end of the epoch."""
        if self.ranks.count == 1:
            return len(group)
        state = self.state
        if self._counted_epoch != state.epoch:
            self._batch_count = self.task.batch_count(state.epoch)
            self._counted_epoch = state.epoch
        return max(0, min(self.config.accumulate, self._batch_count - state.batch))

    def _batches(self) -> Iterator[Any]:
        """The remaining batches of the epoch for this rank, in the order of this attempt.

        They are every n-th one for n ranks.
        """
        epoch = self.state.epoch
        if self.updater.device.type in TRIED_ON and self._tried_epoch != epoch:
            self.updater.try_batch(self.task.largest_batch(epoch))
            self._note_split()
            self._tried_epoch = epoch
        number, every = self.ranks.number, self.ranks.count
        if not self.state.reordered:
            return self.task.batches(epoch, self.state.batch + number, every)
        batches: From = partial(self.task.batches, epoch)
        for first, attempt in self.state.reordered:
            batches = reordered(batches, first, (self.seed, epoch, attempt))
        return islice(batches(self.state.batch), number, None, every)

    def step(self, batches: Sequence[Any], count: int) -> None:
        """Make one step, from the gradients of all batches together.

        Args:
            batches: those of this rank.
            count: the number of batches of all ranks.
        """
        state = self.state
        fewer = math.ceil(count / self.ranks.count) - len(batches)
        spares = [self._smallest_spare()] * fewer if fewer else []
        self.updater.total_steps = self.limits.total_steps
        norm = self.updater.step(state.step + 1, batches, state.attempt, spares)
        state.step += 1
        state.batch += count
        self._note_split()
        if math.isfinite(norm):
            state.bad_in_a_row = 0
            return
        state.bad_in_a_row += 1
        state.bad_steps += 1
        bad = self.ranks.gathered(self._places(self.updater.bad_batches))
        places = bad or self.ranks.gathered(self._places(batches))
        self._bad_examples.append(places)
        counts = state.bad_in_a_row, state.bad_steps
        left_out = StepLeftOut(state.step, state.epoch, norm, *counts, tuple(places))
        notify(self.observers, left_out)
        text = (
            f"step {state.step:,}: the loss or the gradient is not finite, no update made "
            f"({counts[0]:,} in a row, {counts[1]:,} in all); {len(places):,} examples: "
            f"{first_few(places, SHOWN_EXAMPLES)}"
        )
        self._note(text)

    def _smallest_spare(self) -> Any:
        """A batch of one example, for passes that have no weight."""
        spare = next(self.task.batches(self.state.epoch, 0))
        while len(halves := self.task.split(spare)) > 1:
            spare = halves[0]
        return spare

    def _places(self, batches: Sequence[Any]) -> list[str]:
        return [place for each in batches for place in self.task.places(each, self.state.epoch)]

    def _note(self, line: str) -> None:
        notify(self.observers, Note(line))

    def _note_split(self) -> None:
        """Keep the size from which batches are split, and report the first time."""
        if self.state.split_from == 0 < self.updater.split_from:
            text = SPLIT.format(positions=self.updater.split_from)
            self._note(text)
        self.state.split_from = self.updater.split_from

    def _go_back(self, trouble: str) -> None:
        """Restore the last good state, and change the order of the remaining batches of its epoch.

        Args:
            trouble: why, for the user.

        Raises:
            TrainingError: the run has gone back `MOST_ATTEMPTS` times without getting further, or
                there is no good state.
        """
        left = self.state
        tried = left.attempt - left.attempts_before
        finite = self.updater.weights_are_finite()
        if not self.keeper.resumable:
            raise self._diverged(trouble, "the run is not resumable, so it cannot go back", finite)
        if tried >= MOST_ATTEMPTS:
            what = f"{tried} other orders of the data did not help"
            raise self._diverged(trouble, what, finite)
        saved = self._read_state()
        if saved is None or saved.bad_in_a_row or not self.updater.weights_are_finite():
            what = "no good state is saved to which the run could go back"
            raise self._diverged(trouble, what, finite)
        stay = KEPT_GOING_BACK
        if left.best_step > saved.step:  # these weights are in the folder
            stay += ("best_score", "best_step", "best_scores", "best_signatures")
        self.state = saved = replace(
            saved,
            **{name: getattr(left, name) for name in stay},
            attempt=left.attempt + 1,
            back_from=left.step,
            reordered=[*saved.reordered, [saved.batch, left.attempt + 1]],
        )
        self.keeper.forget_recent()  # some are of steps that are made again
        self._save()
        self.meter.restart()
        self._pace_watch.restart()
        self._loss_watch.restart()
        notify(self.observers, WentBack(saved.step, left.step, saved.attempt))
        text = (
            f"{trouble}: back from step {left.step:,} to {saved.step:,}, with another order of the "
            f"data (attempt {tried + 1} of {MOST_ATTEMPTS})"
        )
        self._note(text)

    def _diverged(self, trouble: str, attempts: str, finite: bool) -> TrainingError:
        step, rate = self.state.step, self.updater.set_rate(self.state.step)
        model = None if self.state.best_score is None else self.keeper.folder
        return diagnosis(trouble, step, rate, finite, self._bad_examples, attempts, model)

    def _complete_model(self) -> nn.Module:
        """The model, or a copy if each process has a part of its weights."""
        if not self.updater.is_sharded:
            return self.model
        model = self.task.build_model().to(self.updater.device)
        target = parameters_of(model)
        for name, part in parameters_of(self.model).items():
            target[name].copy_(whole(part))
        return model

    def _report_is_due(self) -> bool:
        if self.config.report_every:
            return self.state.step % self.config.report_every == 0
        return self.meter.seconds >= REPORT_SECONDS

    def _report(self) -> None:
        elapsed = self._elapsed()
        per_step = (elapsed - self._elapsed_before) / max(1, self.meter.steps_in_all)
        remaining = self.limits.remaining_s(self.state.step, elapsed, per_step)
        progress = self.meter.report(self.state.step, self.state.epoch, elapsed, remaining)
        notify(self.observers, progress)
        for watch in (self._loss_watch, self._pace_watch):
            if warning := watch.take(progress):
                self._note(warning)

    def _validation_is_due(self) -> bool:
        step = self.state.step
        return 0 < step != self.state.validated_step and step % self.config.validate_every == 0

    def _validate(self) -> None:
        """Save the state and evaluate the model; keep the model as a checkpoint.

        If its score is the best, it becomes the model of the folder.
        """
        if self.meter.steps:
            self._report()
        if self.state.step != self._saved_step:
            self._save()
        model = self._complete_model()
        evaluation = self.task.evaluate(model)
        self.state.validated_step = self.state.step
        self.keeper.keep_recent(model, self.state.step)
        self._judge(model, evaluation, "current")
        self.meter.restart()
        self._pace_watch.restart()

    def _judge(self, model: nn.Module, evaluation: Evaluation, weights: str) -> None:
        """Keep the `"current"` or `"average"` weights if they are the best or `keep` names them."""
        state = self.state
        score, loss = evaluation.scores[self.task.measure], evaluation.scores["loss"]
        is_best = state.is_best(score, loss, self.task.higher_is_better)
        is_best |= weights == self.config.keep and math.isfinite(score)
        if is_best:
            state.note_best(score, evaluation)
            self.keeper.keep_best(model, evaluation, state.step, weights)
        if weights == "current":
            state.validations_since_best = 0 if is_best else state.validations_since_best + 1
            if state.best_score == 0 and state.step == ALL_ZERO * self.config.validate_every:
                self._note(ZERO_SCORE.format(measure=self.task.measure))
        validated = Validated(
            step=state.step,
            epoch=state.epoch,
            scores=evaluation.scores,
            signatures=evaluation.signatures,
            measure=self.task.measure,
            is_best=is_best,
            # No score has been finite yet.
            best_score=score if state.best_score is None else state.best_score,
            best_step=state.best_step,
            samples=evaluation.samples,
            weights=weights,
            elapsed_s=self._elapsed(),
        )
        notify(self.observers, validated)

    def _finish(self) -> None:
        """Validate once more, and try the average of the last checkpoints.

        Raises:
            TrainingError: no validation had a finite score, so there is no model to keep.
        """
        state = self.state
        if state.step != self._saved_step:
            self._write_state()  # also after a bad step: `restore_current` needs this state
        if state.validated_step != state.step:
            self._validate()
        least = self.config.least_averaged
        model = self._complete_model()
        averaged = self.keeper.average_recent(model, state.step, least, self._note)
        if self.ranks.of_first(averaged):
            self.ranks.copy_weights(model)
            self._judge(model, self.task.evaluate(model), "average")
            del model  # which may be a copy
            self.keeper.restore_current(self.model)
            self.ranks.wait()  # the next state replaces the one that the others read
        if state.best_score is None:
            raise TrainingError(
                f"no validation had a finite {self.task.measure}: there is no model to keep",
                where=self.keeper.folder,
                todo=IF_DIVERGED,
            )
        state.finished = True
        self._write_state()
        self.keeper.forget_recent()

    def _save(self) -> None:
        """Save the state, unless the last step was bad or the weights are not finite.

        Then the last good state stays, to which the run may go back. A resumed run makes the steps
        after it again, with the same result.
        """
        if self.state.bad_in_a_row == 0 and self.updater.weights_are_finite():
            self._write_state()

    def _write_state(self) -> None:
        state = self.state
        state.elapsed_s = self._elapsed()
        if state.bad_in_a_row == 0 and state.step > state.back_from:
            state.attempts_before = state.attempt
        self.keeper.write_state(self.model, self.updater.optimizer, state)
        self._saved_at = time.monotonic()
        self._saved_step = state.step

    def _elapsed(self) -> float:
        """Seconds of training, those before an interruption included."""
        return self._elapsed_before + time.monotonic() - self._resumed_at

    def _end(self, reason: str, finished: bool) -> RunEnded:
        ended = RunEnded(
            step=self.state.step,
            reason=reason,
            finished=finished,
            folder=str(self.keeper.folder),
            scores=self.state.best_scores,
            elapsed_s=self._elapsed(),
            signatures=self.state.best_signatures,
            measure=self.task.measure,
        )
        notify(self.observers, ended)
        return ended
