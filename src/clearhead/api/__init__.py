"""The Python interface: train a model, load it, use it."""

from clearhead.api.classifier import Classifier
from clearhead.api.exporting import export_model
from clearhead.api.loading import LoadOptions, load, load_classifier, load_translator
from clearhead.api.training import dry_run, train
from clearhead.api.translator import Translator

__all__ = [
    "Classifier",
    "LoadOptions",
    "Translator",
    "dry_run",
    "export_model",
    "load",
    "load_classifier",
    "load_translator",
    "train",
]
