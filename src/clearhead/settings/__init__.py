"""What a run is made of: frozen dataclasses, read from TOML and checked strictly.

`read_config` reads a file, `--set path=value` overrides it, and what comes out is a `RunConfig`
in which every choice is made. Shorthands (`model.size`, `model.dropout = 0.1`) are expanded while
reading, so nothing later has to know them.
"""

from clearhead.settings.classifier import ClassifierConfig
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
from clearhead.settings.reading import config_from, config_to_dict, read_config
from clearhead.settings.run import RunConfig
from clearhead.settings.search import EvaluationConfig, SearchConfig
from clearhead.settings.training import OptimizerConfig, ScheduleConfig, TrainingConfig

__all__ = [
    "SIZES",
    "ClassifierConfig",
    "DataConfig",
    "DropoutConfig",
    "EvaluationConfig",
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
    "config_to_dict",
    "read_config",
]
