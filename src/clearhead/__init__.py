"""Clearhead: a Transformer whose heads you can see.

import clearhead
translator = clearhead.load("runs/my-model")
translator.translate(["A man rides a bicycle."], beam_size=5, n_best=3)
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from clearhead.version import __version__ as __version__

if TYPE_CHECKING:
    from clearhead import nn
    from clearhead.api.classifier import Classifier, Prediction
    from clearhead.api.exporting import export_model
    from clearhead.api.feature_classifier import FeatureClassifier
    from clearhead.api.loading import LoadOptions, load
    from clearhead.api.proposing import propose
    from clearhead.api.service import Limits, Service
    from clearhead.api.text_classifier import TextClassifier
    from clearhead.api.training import dry_run, train
    from clearhead.api.translator import Translator
    from clearhead.decoding.engine import Hypothesis
    from clearhead.errors import (
        ClearheadError,
        ConfigError,
        DataError,
        ExportError,
        ModelFolderError,
        SearchError,
        TextWarning,
        TrainingError,
    )
    from clearhead.evaluation.evaluate import Report
    from clearhead.formats.huggingface.reading import import_model
    from clearhead.inspect.alignment import Alignment, align
    from clearhead.inspect.edit import Edit, edit
    from clearhead.inspect.explanation import Explanation, explain
    from clearhead.inspect.lens import Lens, PatchMap, lens, patch_map
    from clearhead.inspect.pictures import figures
    from clearhead.inspect.prune import prune
    from clearhead.inspect.record import Record
    from clearhead.inspect.recording import record
    from clearhead.inspect.report.writing import write_report
    from clearhead.model.build import build_model
    from clearhead.settings import (
        ClassifierConfig,
        DataConfig,
        DropoutConfig,
        EvaluationConfig,
        FineTuningConfig,
        ModelConfig,
        OptimizerConfig,
        RunConfig,
        ScheduleConfig,
        SearchConfig,
        TokenizerConfig,
        TrainingConfig,
        read_config,
    )
    from clearhead.tokenizer import Tokenizer
    from clearhead.training.dry_run import DryRun
    from clearhead.training.events import Observer, Progress, RunEnded, RunStarted, Validated

PROCESS = os.getpid()
"""The process that has imported clearhead; one that is forked from it has another id."""

_WHERE = {
    "Alignment": "inspect.alignment",
    "Classifier": "api.classifier",
    "ClassifierConfig": "settings",
    "ClearheadError": "errors",
    "ConfigError": "errors",
    "DataConfig": "settings",
    "DataError": "errors",
    "DropoutConfig": "settings",
    "DryRun": "training.dry_run",
    "Edit": "inspect.edit",
    "EvaluationConfig": "settings",
    "Explanation": "inspect.explanation",
    "ExportError": "errors",
    "FeatureClassifier": "api.feature_classifier",
    "FineTuningConfig": "settings",
    "Hypothesis": "decoding.engine",
    "Lens": "inspect.lens",
    "Limits": "api.service",
    "LoadOptions": "api.loading",
    "ModelConfig": "settings",
    "ModelFolderError": "errors",
    "Observer": "training.events",
    "OptimizerConfig": "settings",
    "PatchMap": "inspect.lens",
    "Prediction": "api.classifier",
    "Progress": "training.events",
    "Record": "inspect.record",
    "Report": "evaluation.evaluate",
    "RunConfig": "settings",
    "RunEnded": "training.events",
    "RunStarted": "training.events",
    "ScheduleConfig": "settings",
    "SearchConfig": "settings",
    "SearchError": "errors",
    "Service": "api.service",
    "TextClassifier": "api.text_classifier",
    "TextWarning": "errors",
    "Tokenizer": "tokenizer",
    "TokenizerConfig": "settings",
    "TrainingConfig": "settings",
    "TrainingError": "errors",
    "Translator": "api.translator",
    "Validated": "training.events",
    "align": "inspect.alignment",
    "build_model": "model.build",
    "dry_run": "api.training",
    "edit": "inspect.edit",
    "explain": "inspect.explanation",
    "export_model": "api.exporting",
    "figures": "inspect.pictures",
    "import_model": "formats.huggingface.reading",
    "lens": "inspect.lens",
    "load": "api.loading",
    "patch_map": "inspect.lens",
    "propose": "api.proposing",
    "prune": "inspect.prune",
    "read_config": "settings",
    "record": "inspect.recording",
    "train": "api.training",
    "write_report": "inspect.report.writing",
}

__all__ = [
    "Alignment",
    "Classifier",
    "ClassifierConfig",
    "ClearheadError",
    "ConfigError",
    "DataConfig",
    "DataError",
    "DropoutConfig",
    "DryRun",
    "Edit",
    "EvaluationConfig",
    "Explanation",
    "ExportError",
    "FeatureClassifier",
    "FineTuningConfig",
    "Hypothesis",
    "Lens",
    "Limits",
    "LoadOptions",
    "ModelConfig",
    "ModelFolderError",
    "Observer",
    "OptimizerConfig",
    "PatchMap",
    "Prediction",
    "Progress",
    "Record",
    "Report",
    "RunConfig",
    "RunEnded",
    "RunStarted",
    "ScheduleConfig",
    "SearchConfig",
    "SearchError",
    "Service",
    "TextClassifier",
    "TextWarning",
    "Tokenizer",
    "TokenizerConfig",
    "TrainingConfig",
    "TrainingError",
    "Translator",
    "Validated",
    "align",
    "build_model",
    "dry_run",
    "edit",
    "explain",
    "export_model",
    "figures",
    "import_model",
    "lens",
    "load",
    "nn",
    "patch_map",
    "propose",
    "prune",
    "read_config",
    "record",
    "train",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562), so that importing clearhead is fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from clearhead.device import short_waits

    with short_waits():
        if name == "nn":
            return import_module("clearhead.nn")
        return getattr(import_module(f"clearhead.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
