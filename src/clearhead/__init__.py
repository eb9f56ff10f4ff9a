"""Clearhead: a Transformer whose heads you can see.

import clearhead
translator = clearhead.load("runs/my-model")
translator.translate(["A man rides a bicycle."], beam_size=5, n_best=3)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.api import Classifier, Translator, export_model, load, train
    from clearhead.api.text_classifier import TextClassifier
    from clearhead.decoding.engine import Hypothesis
    from clearhead.inspect.record import Record
    from clearhead.inspect.recording import record
    from clearhead.model.build import build_model
    from clearhead.settings import ModelConfig, RunConfig, SearchConfig
    from clearhead.tokenizer import Tokenizer

__version__ = "0.1.0"

_WHERE = {
    "Classifier": "clearhead.api",
    "Hypothesis": "clearhead.decoding.engine",
    "ModelConfig": "clearhead.settings",
    "Record": "clearhead.inspect.record",
    "RunConfig": "clearhead.settings",
    "SearchConfig": "clearhead.settings",
    "TextClassifier": "clearhead.api.text_classifier",
    "Tokenizer": "clearhead.tokenizer",
    "Translator": "clearhead.api",
    "build_model": "clearhead.model.build",
    "export_model": "clearhead.api",
    "load": "clearhead.api",
    "record": "clearhead.inspect.recording",
    "train": "clearhead.api",
}

__all__ = [
    "Classifier",
    "Hypothesis",
    "ModelConfig",
    "Record",
    "RunConfig",
    "SearchConfig",
    "TextClassifier",
    "Tokenizer",
    "Translator",
    "build_model",
    "export_model",
    "load",
    "record",
    "train",
]


def __getattr__(name: str) -> Any:
    """Each public name is imported when it is first used (PEP 562), so that torch can wait."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
