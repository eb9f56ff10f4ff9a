"""How a run trains: optimizer, schedule, and when it stops."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from clearhead.settings.require import require


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam (Kingma and Ba 2015; betas of Vaswani et al. 2017, section 5.3) or SGD with momentum."""

    kind: Literal["adam", "sgd"] = "adam"
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2", "momentum"):
            require(0.0 <= getattr(self, name) < 1.0, f"{name} lies in [0, 1)")
        require(self.weight_decay >= 0, "weight_decay must not be negative")
        require(self.epsilon > 0, "epsilon must be greater than 0")


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate at each step: a linear rise to `peak` over `warmup` steps, then `kind`.

    `inverse_sqrt` falls with the root of the step (the paper's schedule, section 5.3, in which
    peak = 1/sqrt(d_model * warmup): `kind = "paper"` computes just that and ignores `peak`);
    `cosine` and `linear` fall to zero at the end of the run; `constant` stays.
    """

    kind: Literal["paper", "inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    peak: float = 1e-3
    warmup: int = 4000

    def __post_init__(self) -> None:
        require(self.peak > 0, "peak must be greater than 0")
        require(self.warmup >= 0, "warmup must not be negative")

    def learning_rate(self, step: int, d_model: int, total_steps: int) -> float:
        """The learning rate of a step.

        Args:
            step: counted from 1.
            d_model: width of the model, for `paper`.
            total_steps: the step at which `cosine` and `linear` reach zero.
        """
        warmup = max(1, self.warmup)
        if self.kind == "paper":
            # Vaswani et al. 2017, equation 3.
            return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        if step < warmup:
            return self.peak * step / warmup
        remaining = max(0.0, (total_steps - step) / max(1, total_steps - warmup))
        match self.kind:
            case "inverse_sqrt":
                return self.peak * math.sqrt(warmup / step)
            case "cosine":
                return self.peak * (1 - math.cos(math.pi * remaining)) / 2
            case "linear":
                return self.peak * remaining
            case "constant":
                return self.peak


@dataclass(frozen=True)
class TrainingConfig:
    """How a run trains, when it stops, and what it keeps.

    `batch_tokens` bounds the padded tokens of a batch on each side (in the usual segmentation,
    where others are drawn), and a step takes `accumulate` batches. A limit of 0 means
    none; the first limit reached ends the run.
    `patience` counts validations without a better score. `r_drop` is the weight of the
    divergence between two passes with different dropout (Liang et al. 2021, R-Drop);
    `report_every` is in steps (0: every two seconds);
    `word_dropout` the share of input tokens hidden from the model.
    `keep` says which weights are the model in the end: those with the best validation score, the
    average of the last `average_last` checkpoints among them, or that average whatever it scores
    (but NaN), where scores are too uncertain to tell by: of few examples, or at a high rate.
    `precision = "auto"` is bf16 where the processor multiplies it and float32 elsewhere, so that
    the bits of a run continued on another kind of processor may differ.
    """

    batch_tokens: int = 4096
    accumulate: int = 1
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    r_drop: float = 0.0
    word_dropout: float = 0.0
    max_steps: int = 0
    max_epochs: int = 0
    max_minutes: float = 0.0
    patience: int = 0
    validate_every: int = 500
    report_every: int = 0
    checkpoint_minutes: float = 5.0
    average_last: int = 5
    keep: Literal["best", "average"] = "best"
    precision: Literal["auto", "float32", "bf16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = 0
    tensorboard: bool = False
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "accumulate", "validate_every", "average_last"):
            require(getattr(self, name) > 0, f"{name} must be at least 1")
        for name in ("label_smoothing", "word_dropout"):
            require(0.0 <= getattr(self, name) < 1.0, f"{name} lies in [0, 1)")
        for name in (
            *("clip_norm", "r_drop", "max_steps", "max_epochs", "max_minutes"),
            *("patience", "checkpoint_minutes", "threads", "report_every"),
        ):
            require(getattr(self, name) >= 0, f"{name} must not be negative")
        require(
            self.keep == "best" or self.average_last > 1,
            f"keep = 'average' of average_last = {self.average_last} is no average: give 2 or more",
        )
        require(
            self.max_steps > 0 or self.max_epochs > 0 or self.max_minutes > 0 or self.patience > 0,
            "the run would never end: give max_steps, max_epochs, max_minutes or patience",
        )
        require(
            self.schedule.kind not in ("cosine", "linear") or self.max_steps + self.max_epochs > 0,
            f"schedule.kind = {self.schedule.kind!r} falls to zero at the end of the run, "
            "so it needs max_steps or max_epochs",
        )
