"""The settings of training: optimizer, schedule, limits, and what is kept."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clearhead.settings.declare import (
    STRICT,
    AboveZero,
    Amount,
    Natural,
    Positive,
    Rate,
    Runs,
    Section,
    require,
    setting,
)

MOST_THREADS = 1024
"""More threads than processors are of no use, and too many cannot be started."""


@dataclass(frozen=True, config=STRICT)
class OptimizerConfig(Section):
    """Adam (Kingma and Ba 2015; betas of Vaswani et al. 2017, section 5.3) or SGD with momentum."""

    kind: Literal["adam", "sgd"] = setting("adam", "optimizer")
    beta1: Rate = setting(
        0.9, "decay of Adam's running mean of the gradients", only_with=("kind", "adam")
    )
    beta2: Rate = setting(
        0.98, "decay of Adam's running mean of the squared gradients", only_with=("kind", "adam")
    )
    epsilon: AboveZero = setting(1e-9, "Adam's ε", only_with=("kind", "adam"))
    momentum: Rate = setting(0.9, "momentum of SGD", only_with=("kind", "sgd"))
    weight_decay: Amount = setting(
        0.0, "weight decay; with Adam, decoupled from the gradient (AdamW)"
    )


@dataclass(frozen=True, config=STRICT)
class ScheduleConfig(Section):
    """The learning rate at each step: a linear rise to `peak` over `warmup` steps, then `kind`."""

    kind: Literal["paper", "inverse_sqrt", "cosine", "linear", "constant"] = setting(
        "inverse_sqrt",
        "decay after warm-up",
        details='`"inverse_sqrt"`: falls as 1/√step; `"cosine"`, '
        '`"linear"`: fall to zero at the end of `max_steps`, `max_epochs` or `max_minutes`; '
        '`"constant"`: stays at the peak; '
        '`"paper"`: like `"inverse_sqrt"` with peak = 1/√(d_model · warmup) (Vaswani et al. 2017, '
        "section 5.3).",
        init=Runs.ALL,
    )
    peak: AboveZero = setting(
        1e-3, "highest learning rate", details='Not used with `kind = "paper"`.', init=Runs.ALL
    )
    warmup: Natural = setting(4000, "steps of the warm-up", init=Runs.ALL)

    @property
    def falls_to_zero(self) -> bool:
        """Whether the rate is zero at the end of the run."""
        return self.kind in ("cosine", "linear")

    def learning_rate(self, step: int, d_model: int, total_steps: int) -> float:
        """The learning rate of a step."""
        warmup = max(1, self.warmup)
        if self.kind == "paper":
            # Vaswani et al. 2017, equation 3.
            return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        if step < warmup:
            return self.peak * step / warmup
        remaining = 1.0
        if total_steps:
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


def warmup_of(steps: int, part: int = 3) -> int:
    """The longest warm-up that suits a run: 1 / `part` of its steps."""
    return max(1, steps // part)


@dataclass(frozen=True, config=STRICT)
class FineTuningConfig(Section):
    """Learning rates by layer for a run that starts from a trained model (`start_from`)."""

    layer_decay: Annotated[float, Field(gt=0, le=1)] = setting(
        1.0,
        "factor of the learning rate from each layer to the one below",
        details="The top layer has the full rate, the input one more factor than the lowest layer "
        "(Howard and Ruder 2018, section 3.2).",
        init_if_changed=Runs.ALL,
    )
    head_rate: AboveZero = setting(
        1.0,
        "factor of the learning rate after the encoder of a classifier",
        runs=Runs.LABELLED,
        init_if_changed=Runs.LABELLED,
    )
    frozen_layers: Natural = setting(
        0,
        "lowest layers of each stack that are not trained",
        details="Embeddings and positions are not trained then, either. 0: everything is trained.",
        init_if_changed=Runs.ALL,
    )


@dataclass(frozen=True, config=STRICT)
class TrainingConfig(Section):
    """How a run trains, when it ends, and what it keeps.

    The run ends at the first limit that it reaches: `max_steps`, `max_epochs`, `max_minutes` or
    `patience`; 0 is no limit. `max_steps` is 100,000 if the file has no `[training]` section, and 0
    otherwise.
    """

    max_steps: Natural = setting(0, "maximum number of steps; 0: no limit", init=Runs.ALL)
    max_epochs: Natural = setting(
        0, "maximum passes through the training data; 0: no limit", init=Runs.ALL
    )
    max_minutes: Amount = setting(
        0.0,
        "maximum minutes of training, summed over resumed runs; 0: no limit",
        details='With `schedule.kind = "cosine"` or `"linear"`, a tenth of the time shows how many '
        "steps fit into it. The run then ends after these steps, where the learning rate is zero.",
        init=Runs.ALL,
    )
    patience: Natural = setting(
        0, "maximum validations in a row without a better score; 0: no limit", init=Runs.ALL
    )
    validate_every: Positive = setting(
        500, "steps between validations, which also write checkpoints", init=Runs.ALL
    )
    report_every: Natural = setting(0, "steps between progress reports; 0: every two seconds")
    checkpoint_minutes: Amount = setting(
        5.0,
        "minutes between saves of the training state, besides those before validations",
        details="A killed run loses at most this much work and one step. 0: saves before "
        "validations only.",
    )
    average_last: Positive = setting(
        5,
        "number of recent checkpoints that are averaged at the end",
        details="They are removed after the end of the run.",
        init=Runs.ALL,
    )
    keep: Literal["auto", "best", "average"] = setting(
        "auto",
        "weights of the final model",
        details='`"best"`: those with the best validation score, the average of the last '
        'checkpoints included; `"average"`: that average, whatever its score (except NaN). Choose '
        '`"average"` if scores are noisy: few validation examples, or a high learning rate. With '
        '`average_last = 1` the average is the last checkpoint. `"auto"`: `"average"` for a '
        'classification with fewer than 20 validation examples, otherwise `"best"`.',
        init=Runs.ALL,
    )
    batch_tokens: Positive = setting(
        4096,
        "maximum tokens or frames per batch and side, padding included",
        details="With subword sampling, tokens are counted before sampling.",
        init=Runs.ALL,
    )
    accumulate: Positive = setting(
        1,
        "batches per step: to save memory, raise it and lower `batch_tokens`",
        details="The gradient of a step is that of all tokens of its batches together. Several "
        "processes share the batches.",
        init=Runs.ALL,
    )
    word_dropout: Rate = setting(
        0.0,
        "share of input tokens or frames hidden in training",
        details="For translation, on both sides.",
        init=Runs.ALL,
    )
    label_smoothing: Rate = setting(
        0.1,
        "label smoothing: probability spread evenly over all tokens or labels",
        details="With `classifier.multi_label`, targets are moved towards one half.",
        init=Runs.ALL,
    )
    clip_norm: Amount = setting(1.0, "maximum norm of the gradient; 0: no limit")
    r_drop: Amount = setting(
        0.0,
        "weight of R-Drop, which doubles the training time; 0: off",
        details="The divergence between two passes with different dropout (Liang et al. 2021).",
        init=Runs.TRANSLATION,
    )
    precision: Literal["auto", "float32", "bf16"] = setting(
        "float32",
        "number format of matrix products",
        details='`"auto"`: bf16 if the processor supports it in hardware, otherwise float32. A run '
        "that is resumed on another processor may then give other bits.",
        init=Runs.ALL,
    )
    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto", "device", details='`"auto"`: a GPU if there is one.', init=Runs.ALL
    )
    compile: bool = setting(
        False,
        "compile the layers for the GPU; a step then takes about a seventh less time",
        details="The first steps and the first validation take about half a minute longer. PyTorch "
        'needs Triton and a C compiler for this. Ignored on a CPU, and with `parallel = "fsdp"`.',
    )
    threads: Annotated[int, Field(ge=0, le=MOST_THREADS)] = setting(
        0, "processor threads; 0: PyTorch's default, one per core", init=Runs.ALL
    )
    parallel: Literal["ddp", "fsdp"] = setting(
        "ddp",
        "what several processes share: the batches of a step, or also the model",
        details='`"ddp"`: each holds the whole model. `"fsdp"`: each holds a part of the weights, '
        "the gradients and the moments, for models that are too large for one device; a step takes "
        "longer. The result is the same but for the order of sums. A single process ignores this.",
    )
    tensorboard: bool = setting(False, "also write a log for TensorBoard", init=Runs.ALL)
    watch_attention: Natural = setting(
        0,
        "validation examples whose attention is kept at the start and at each validation; 0: none",
        details="Their records are in `training/attention/`; `clearhead figures` draws how they "
        "change. Examples with 64 or more tokens or frames are left out. The weights of the run "
        "stay the same.",
    )
    export: bool = setting(
        True,
        "export the finished model to CTranslate2, if that is installed",
        details="The export is in the model folder, where `clearhead translate` finds it. If the "
        "model cannot be exported, the run prints the reason.",
        runs=Runs.TRANSLATION,
    )
    optimizer: OptimizerConfig = setting(OptimizerConfig, "")
    schedule: ScheduleConfig = setting(ScheduleConfig, "")
    fine_tuning: FineTuningConfig = setting(FineTuningConfig, "")

    @property
    def least_averaged(self) -> int:
        """The fewest checkpoints that are averaged. The average of one is that checkpoint."""
        return 1 if self.keep == "average" else 2

    def __post_init__(self) -> None:
        require(
            self.max_steps > 0 or self.max_epochs > 0 or self.max_minutes > 0 or self.patience > 0,
            "",
            "the run would never end: give max_steps, max_epochs, max_minutes or patience",
        )
        require(
            not self.schedule.falls_to_zero
            or self.max_steps + self.max_epochs + self.max_minutes > 0,
            "schedule.kind",
            f"= {self.schedule.kind!r} falls to zero at the end of the run, "
            "so it needs max_steps, max_epochs or max_minutes",
        )
