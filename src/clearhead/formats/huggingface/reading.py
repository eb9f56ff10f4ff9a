"""Import: files of Hugging Face, read by `transformers`, become a model folder.

The imported model must compute what the original computes. Only then does its folder take its
place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.data.labels import Labels
from clearhead.folder.files import json_bytes
from clearhead.folder.model_folder import (
    IMPORTED_FROM,
    PROVENANCE,
    SCORES,
    WEIGHTS,
    Stored,
    check_is_new,
    new_folder,
    replace_files,
    write_folder,
    written,
)
from clearhead.folder.tensors import parameters_of, save_tensors
from clearhead.formats.equality import UNEQUAL_IMPORT, Comparison
from clearhead.formats.huggingface.library import TOLERANCE
from clearhead.formats.huggingface.sources import (
    check_config,
    check_exists,
    naming,
    read_config,
    read_original,
)
from clearhead.formats.huggingface.weights import MARIAN
from clearhead.settings import RunConfig
from clearhead.version import __version__


def import_model(source: str | Path, folder: str | Path) -> Path:
    """Write the model folder of a Hugging Face model, which then is used like a trained one.

        clearhead.import_model("hf:Helsinki-NLP/opus-mt-en-de", "runs/opus")

    Translators and classifiers can be used at once. An encoder without a head is a model to start
    from.

    Args:
        source: a folder of Hugging Face files, or `hf:` and a name on the hub.
        folder: the model folder, which must not exist.

    Returns:
        The model folder.

    Raises:
        ModelFolderError: the source is missing or cannot be read, needs Python code of its own, or
            has parts that clearhead lacks; the import does not compute the same; or the folder
            exists or cannot be written.
    """
    folder = Path(os.path.expanduser(folder))
    check_is_new(folder)
    check_exists(source)
    check_config(source)
    with naming(source):
        config = read_config(source)

        from clearhead.formats.huggingface import encoders, translators

        kind: Any = translators if config.model_type == MARIAN else encoders
        if kind is encoders:
            encoders.settings_of(config)  # whose errors need no weights
        original, tokenizer = read_original(source, config)
        run, model, files = kind.imported(original, tokenizer)
        # Before the comparison, which is in float64.
        parameters = parameters_of(model)
        comparison = Comparison(UNEQUAL_IMPORT, TOLERANCE)
        kind.compare_import(comparison, model, files, original, tokenizer)
    with new_folder(folder) as unfinished:
        _write(replace(run, folder=str(folder)), parameters, files, unfinished, str(source))
    return folder


def settings_of_files(source: str | Path) -> tuple[RunConfig, Labels]:
    """The settings and labels of a source, without reading the weights; errors as `import_model`.

    Of a translator only the task is read.
    """
    with naming(source):
        config = read_config(source)
        if config.model_type == MARIAN:
            return RunConfig(task="translation"), Labels(())

        from clearhead.formats.huggingface.encoders import settings_of

        return settings_of(config)


def _write(
    config: RunConfig,
    parameters: Mapping[str, Any],
    files: Mapping[str, Stored],
    folder: Path,
    source: str,
) -> None:
    write_folder(folder, config, files)
    facts = {IMPORTED_FROM: source, "clearhead": __version__}
    # A temperature of 1 leaves the probabilities as the original has them.
    scores = {"scores": {"temperature": 1.0}}
    replace_files(
        folder,
        {
            WEIGHTS: partial(save_tensors, tensors=parameters, facts=facts),
            SCORES: written(json_bytes(scores)),
            PROVENANCE: written(json_bytes(facts)),
        },
    )
