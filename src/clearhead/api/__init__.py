"""Train a model, load it, use it: what composes the rooms."""

from clearhead.api.classifier import Classifier
from clearhead.api.loading import load, load_classifier, load_translator
from clearhead.api.training import dry_run, train
from clearhead.api.translator import Translator

__all__ = [
    "Classifier",
    "Translator",
    "dry_run",
    "load",
    "load_classifier",
    "load_translator",
    "train",
]
