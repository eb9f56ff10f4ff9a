"""The settings of a run: frozen dataclasses that pydantic checks, read from TOML.

`read_config` reads a file, applies `--set path=value` and returns a `RunConfig`, in which
shorthands (`model.size`, `model.dropout = 0.1`) are expanded.
"""

from clearhead.settings.data import DataConfig, TokenizerConfig
from clearhead.settings.model import (
    SIZES,
    DropoutConfig,
    Learned,
    ModelConfig,
    NoPositions,
    Positions,
    Sinusoidal,
)
from clearhead.settings.reading import config_from, read_config, with_absolute_paths
from clearhead.settings.run import ClassifierConfig, RunConfig
from clearhead.settings.search import EvaluationConfig, SearchConfig
from clearhead.settings.training import (
    FineTuningConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)

__all__ = [
    "SIZES",
    "ClassifierConfig",
    "DataConfig",
    "DropoutConfig",
    "EvaluationConfig",
    "FineTuningConfig",
    "Learned",
    "ModelConfig",
    "NoPositions",
    "OptimizerConfig",
    "Positions",
    "RunConfig",
    "ScheduleConfig",
    "SearchConfig",
    "Sinusoidal",
    "TokenizerConfig",
    "TrainingConfig",
    "config_from",
    "read_config",
    "with_absolute_paths",
]
