"""One event of each kind, and a clock that tests set."""

from __future__ import annotations

from clearhead.training.events import Event, Note, Progress, RunEnded, RunStarted, Validated
from clearhead.training.task import Sample

STARTED = RunStarted("runs/m", "cpu", "float32", 3_012_864, 0, 12_000, 112, "bleu")
PROGRESS = Progress(
    step=4_200,
    epoch=37,
    loss=2.314,
    learning_rate=2.4e-3,
    gradient_norm=0.81,
    rates={"source tokens": 9_210.4, "target tokens": 9_110.7},
    shares={"padding": 0.061},
    memory_mb=812.0,
    elapsed_s=100.0,
    remaining_s=4_320.0,
)
SAMPLES = tuple(
    Sample(f"source {n} " + "word " * 30, f"reference {n}", f"output {n} [bold]as it is[/bold]")
    for n in range(3)
)
VALIDATED = Validated(
    step=4_000,
    epoch=35,
    scores={"loss": 1.812, "bleu": 38.21, "chrf2": 62.1, "exact": 3.25},
    signatures={"bleu": "nrefs:1"},
    measure="bleu",
    is_best=False,
    best_score=38.4,
    best_step=3_500,
    samples=SAMPLES,
    elapsed_s=99.0,
)
ENDED = RunEnded(12_000, "60 epochs are done", True, "runs/m", {"bleu": 38.4}, 5_000.0, {}, "bleu")
EVENTS: tuple[Event, ...] = (Note("a note"), STARTED, PROGRESS, VALIDATED, ENDED)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
