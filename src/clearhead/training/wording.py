"""How the figures of a run are written for people, on the screen and in plain lines."""

from __future__ import annotations

import math
from collections.abc import Mapping

from clearhead.training.events import Progress, RunEnded, RunStarted, Validated


def duration(seconds: float) -> str:
    """A time in its two largest units: `45 s`, `3 min 20 s`, `1 h 12 min`, `2 d 3 h`."""
    if not math.isfinite(seconds):
        return "unknown"
    left = max(0, round(seconds))
    minutes, s = divmod(left, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {s} s" if minutes else f"{s} s"


def score(name: str, value: float) -> str:
    """A score with the decimals that mean something: `38.21`, but `1.812` for a loss."""
    return f"{value:.3f}" if name == "loss" else f"{value:.2f}"


def scores(values: Mapping[str, float], first: str = "") -> str:
    """Scores by name, the most telling one first: `bleu 38.21, chrf 62.10, loss 1.812`."""
    names = sorted(values, key=lambda name: (name != first, name))
    return ", ".join(f"{name} {score(name, values[name])}" for name in names)


def rate(value: float) -> str:
    """So many a second."""
    return f"{value:,.0f}/s"


def share(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def megabytes(value: float) -> str:
    """An amount of memory given in megabytes."""
    return f"{value / 1000:.1f} GB" if value >= 10_000 else f"{value:,.0f} MB"


def steps(step: int, max_steps: int | None) -> str:
    """`step 4,200 of 30,000`, or without the end where it is not known."""
    return f"step {step:,}" + (f" of {max_steps:,}" if max_steps else "")


def best(measure: str, value: float, step: int) -> str:
    """The best score so far, and when it was reached: `bleu 38.40 at step 3,500`."""
    return f"{measure} {score(measure, value)} at step {step:,}"


def started_line(event: RunStarted) -> str:
    """What begins, in one line."""
    doing = f"goes on from step {event.step:,}" if event.step else "begins"
    line = (
        f"{event.folder} {doing}: {event.parameters:,} parameters, {event.device} "
        f"{event.precision}, {event.batches_per_epoch:,} batches an epoch"
    )
    if event.best_score is not None:
        line += f"; best {best(event.measure, event.best_score, event.best_step)}"
    return line


def progress_line(event: Progress, max_steps: int | None) -> str:
    """The state of the training in one line."""
    parts = [
        steps(event.step, max_steps),
        f"epoch {event.epoch}",
        f"loss {event.loss:.3f}",
        f"rate {event.learning_rate:.2e}",
        f"gradient {event.gradient_norm:.2f}",
        *(f"{name} {rate(value)}" for name, value in event.rates.items()),
        *(f"{name} {share(value)}" for name, value in event.shares.items()),
        f"memory {megabytes(event.memory_mb)}",
    ]
    if event.remaining_s is not None:
        parts.append(f"left {duration(event.remaining_s)}")
    return "  ".join(parts)


def validation_line(event: Validated) -> str:
    """The scores of a validation in one line."""
    verdict = f"best {best(event.measure, event.best_score, event.best_step)}"
    if event.is_best:
        verdict = "the best so far" if event.weights == "current" else "kept as the model"
    weights = "" if event.weights == "current" else f", {event.weights} weights"
    return (
        f"validation at step {event.step:,} (epoch {event.epoch}{weights}): "
        f"{scores(event.scores, event.measure)}; {verdict}"
    )


def ended_lines(event: RunEnded) -> list[str]:
    """How a run ended, in one line, and one for the signature of each score that has one."""
    ended = "finished" if event.finished else "stopped"
    line = f"{ended} at step {event.step:,} after {duration(event.elapsed_s)} ({event.reason})"
    if event.scores:
        line += f": {scores(event.scores)}"
    signatures = [f"{name}: {text}" for name, text in event.signatures.items()]
    return [f"{line}; {event.folder}", *signatures]
