"""Hugging Face: a translator or a classifier of texts becomes files that `transformers` loads.

`AutoModelForSeq2SeqLM` or `AutoModelForSequenceClassification`, and `AutoTokenizer` load them.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import torch
import transformers

from clearhead.errors import ExportError
from clearhead.folder.model_folder import ModelFolder
from clearhead.formats.equality import UNEQUAL_EXPORT, Comparison
from clearhead.formats.huggingface import encoders, translators
from clearhead.formats.huggingface.library import TOLERANCE, quiet


def _kind(found: ModelFolder) -> ModuleType:
    """What translators and classifiers do differently."""
    return translators if found.config.task == "translation" else encoders


def check(found: ModelFolder) -> None:
    """Check that `transformers` has such a model; see `Exporter`."""
    instead = "the model as it is" if found.config.task == "translation" else "the format onnx"
    for setting, why in _kind(found).unsupported(found):
        raise ExportError(
            f"{setting} cannot be exported to Hugging Face",
            why=why,
            todo=f"use {instead}, or train one with another setting",
        )


def build(found: ModelFolder, folder: Path) -> list[str]:
    """Write the files of the export, load them, and compare them; see `Exporter`."""
    kind, comparison = _kind(found), Comparison(UNEQUAL_EXPORT, TOLERANCE)
    model, parts = kind.read(found)
    with quiet():
        kind.write(model, found.config, parts, folder)
        loaded, facts = getattr(transformers, kind.AUTO).from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32
        )
        wrong = [name for names in facts.values() for name in names]
        comparison.same("the names of tensors", [], wrong)
        tokens = transformers.AutoTokenizer.from_pretrained(folder)
        return [kind.compare_export(comparison, model, parts, loaded.eval(), tokens)]
