"""What a run is made of: frozen dataclasses, read from TOML and checked strictly.

`read_config` reads a file, `--set path=value` overrides it, and what comes out is a `RunConfig`
in which every choice is made. Shorthands (`model.size`, `model.dropout = 0.1`) are expanded while
reading, so nothing later has to know them.
"""

from clearhead.config.classifier import ClassifierConfig, ReconstructionConfig
from clearhead.config.data import DataConfig, TokenizerConfig
from clearhead.config.model import (
    SIZES,
    DropoutConfig,
    Learned,
    ModelConfig,
    NoPositions,
    Positions,
    Sinusoidal,
)
from clearhead.config.reading import config_from, config_to_dict, read_config
from clearhead.config.run import RunConfig
from clearhead.config.search import EvaluationConfig, SearchConfig
from clearhead.config.training import OptimizerConfig, ScheduleConfig, TrainingConfig

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
    "ReconstructionConfig",
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
