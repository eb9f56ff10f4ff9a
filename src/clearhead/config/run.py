"""A whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from clearhead.config.data import DataConfig, TokenizerConfig
from clearhead.config.model import Learned, ModelConfig
from clearhead.config.require import require
from clearhead.config.search import EvaluationConfig, SearchConfig
from clearhead.config.training import TrainingConfig


@dataclass(frozen=True)
class RunConfig:
    """A whole run: what `clearhead train` needs to know, and nothing else.

    `folder` is the model folder that the run writes (empty: `runs/` and the file's name).
    """

    task: Literal["translation"] = "translation"
    folder: str = ""
    seed: int = 1
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(max_steps=100_000))
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, "seed lies in [0, 2^63)")
        positions = self.model.positions
        if isinstance(positions, Learned):
            needed = self.data.max_length + 1
            require(
                needed <= positions.max_length,
                f"data.max_length = {self.data.max_length} needs {needed} positions, the start "
                f"symbol's among them, and model.positions.max_length = {positions.max_length}: "
                "raise it, or lower data.max_length",
            )
