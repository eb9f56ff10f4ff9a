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
    from clearhead.api.classifier import Classifier, Prediction
    from clearhead.api.exporting import export_model
    from clearhead.api.loading import LoadOptions, load
    from clearhead.api.text_classifier import TextClassifier
    from clearhead.api.training import dry_run, train
    from clearhead.api.translator import Translator
    from clearhead.decoding.engine import Hypothesis
    from clearhead.errors import ClearheadError
    from clearhead.evaluation.evaluate import Report
    from clearhead.formats.huggingface.reading import import_model
    from clearhead.inspect.explanation import Explanation, explain
    from clearhead.inspect.record import Record
    from clearhead.inspect.recording import record
    from clearhead.inspect.report.writing import write_report
    from clearhead.model.build import build_model
    from clearhead.settings import ModelConfig, RunConfig, SearchConfig
    from clearhead.tokenizer import Tokenizer
    from clearhead.training.dry_run import DryRun
    from clearhead.training.events import RunEnded

PROCESS = os.getpid()
"""The process that has imported clearhead; one that is forked from it has another id."""

_WHERE = {
    "Classifier": "api.classifier",
    "ClearheadError": "errors",
    "DryRun": "training.dry_run",
    "Explanation": "inspect.explanation",
    "Hypothesis": "decoding.engine",
    "LoadOptions": "api.loading",
    "ModelConfig": "settings",
    "Prediction": "api.classifier",
    "Record": "inspect.record",
    "Report": "evaluation.evaluate",
    "RunConfig": "settings",
    "RunEnded": "training.events",
    "SearchConfig": "settings",
    "TextClassifier": "api.text_classifier",
    "Tokenizer": "tokenizer",
    "Translator": "api.translator",
    "build_model": "model.build",
    "dry_run": "api.training",
    "explain": "inspect.explanation",
    "export_model": "api.exporting",
    "import_model": "formats.huggingface.reading",
    "load": "api.loading",
    "record": "inspect.recording",
    "train": "api.training",
    "write_report": "inspect.report.writing",
}

__all__ = [
    "Classifier",
    "ClearheadError",
    "DryRun",
    "Explanation",
    "Hypothesis",
    "LoadOptions",
    "ModelConfig",
    "Prediction",
    "Record",
    "Report",
    "RunConfig",
    "RunEnded",
    "SearchConfig",
    "TextClassifier",
    "Tokenizer",
    "Translator",
    "build_model",
    "dry_run",
    "explain",
    "export_model",
    "import_model",
    "load",
    "record",
    "train",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562), so that importing clearhead is fast."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from clearhead.device import short_waits

    with short_waits():
        return getattr(import_module(f"clearhead.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
