"""Where a run is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.errors import TrainingError
from clearhead.tasks.task import Evaluation
from clearhead.training.schedule import SLOWER


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
