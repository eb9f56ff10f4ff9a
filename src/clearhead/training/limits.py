"""When a run ends, and how long it will be until then."""

from __future__ import annotations

from clearhead.config import TrainingConfig
from clearhead.training.state import State


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
