"""The learning rate of each step."""

from __future__ import annotations

import math

from clearhead.config import ScheduleConfig

SLOWER = (
    "lower training.schedule.peak (with kind = 'paper' raise training.schedule.warmup instead), "
    "and begin anew: --restart"
)
"""What to do where the rate was too high."""


def learning_rate(step: int, schedule: ScheduleConfig, d_model: int, total_steps: int) -> float:
    """The rate of step 1, 2, …: a linear rise to the peak over the warm-up, then the schedule.

    Args:
        step: counted from 1.
        schedule: its kind, peak and warm-up.
        d_model: the width of the model, for the paper's schedule.
        total_steps: where `cosine` and `linear` reach zero.
    """
    warmup = max(1, schedule.warmup)
    if schedule.kind == "paper":
        # Vaswani et al. 2017, equation 3.
        return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    if step < warmup:
        return schedule.peak * step / warmup
    remaining = max(0.0, (total_steps - step) / max(1, total_steps - warmup))
    match schedule.kind:
        case "inverse_sqrt":
            return schedule.peak * math.sqrt(warmup / step)
        case "cosine":
            return schedule.peak * (1 - math.cos(math.pi * remaining)) / 2
        case "linear":
            return schedule.peak * remaining
        case "constant":
            return schedule.peak
