"""The sections of a configuration, and the dotted paths of all settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from clearhead.config.classifier import ClassifierConfig, ReconstructionConfig
from clearhead.config.data import DataConfig, TokenizerConfig
from clearhead.config.model import DropoutConfig, Learned, ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.search import EvaluationConfig, SearchConfig
from clearhead.config.training import OptimizerConfig, ScheduleConfig, TrainingConfig

SECTIONS: dict[str, type] = {
    part.__name__: part
    for part in (
        *(DataConfig, TokenizerConfig, ModelConfig, TrainingConfig, SearchConfig),
        *(ClassifierConfig, ReconstructionConfig),
        *(EvaluationConfig, OptimizerConfig, ScheduleConfig, DropoutConfig),
    )
} | {"Positions": Learned}
"""The dataclass of a section, by the type that is written at its field; of the kinds of positions
the one that has all settings that any of them has."""

SHORTHANDS: dict[type, tuple[str, ...]] = {ModelConfig: ("size",)}
"""Settings of a section that stand for several others of it."""


def paths(kind: type = RunConfig, section: str = "") -> Iterator[str]:
    """The dotted paths of all settings of a section, and of those within it."""
    for field in dataclasses.fields(kind):
        path = f"{section}.{field.name}".lstrip(".")
        yield path
        if part := SECTIONS.get(str(field.type)):
            yield from paths(part, path)
    yield from (f"{section}.{name}" for name in SHORTHANDS.get(kind, ()))
