"""Hugging Face: a translator or a classifier of texts becomes files that `transformers` loads.

`AutoModelForSeq2SeqLM` or `AutoModelForSequenceClassification`, and `AutoTokenizer` load them.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import torch
import transformers

from clearhead.folder.model_folder import ModelFolder
from clearhead.formats.equality import UNEQUAL_EXPORT, Comparison
from clearhead.formats.huggingface import encoders, translators
from clearhead.formats.huggingface.library import TOLERANCE, quiet
from clearhead.formats.registry import check_settings


def _kind(found: ModelFolder) -> ModuleType:
    """What translators and classifiers do differently."""
    return translators if found.config.task == "translation" else encoders


def check(found: ModelFolder) -> None:
    """Check that `transformers` has such a model; see `Exporter`."""
    config = found.config
    # A head has the width d_model / n_heads.
    width = config.model.d_model // config.model.n_heads
    has = {
        "tokenizer.kind": ["bpe", "unigram", "pretrained"],
        "model.norm_form": ["standard"],
        "model.input_convolution": [()],
        "model.d_k": [0, width],
        "model.d_v": [0, width],
    }
    check_settings(config, "Hugging Face", has | _kind(found).settings_it_has(config))


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
