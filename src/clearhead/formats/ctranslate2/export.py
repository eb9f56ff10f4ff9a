"""Export a translator for CTranslate2."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.folder.exports import write_export
from clearhead.folder.model_folder import ModelFolder
from clearhead.formats.ctranslate2.folder import NAME, SPECIALS, TOKENS, UNKNOWN, exported_model
from clearhead.tokenizer import Tokenizer, read_tokenizers


def export_ctranslate2(found: ModelFolder, output: Path) -> list[str]:
    """Write a translator for CTranslate2; returns a sentence on how equal it is.

    The export is loaded and compared first: greedy outputs must be the same, except for ties, and
    log-probabilities within 0.001.

    Raises:
        ExportError: CTranslate2 does not support a setting of the model or is not installed, the
            export differs from the model, or as in `write_export`.
        ModelFolderError: the model folder is damaged.
    """
    from clearhead.formats.ctranslate2.equality import Equality
    from clearhead.formats.ctranslate2.runtime import installed
    from clearhead.formats.ctranslate2.spec import check_exportable

    check_exportable(found.config.model)
    installed()
    description = write_export(found, NAME, output, partial(_build, found))
    return [str(Equality(**description["equality"]))]


def _build(found: ModelFolder, folder: Path) -> dict[str, Any]:
    """Write all files of the export, and compare it with the model."""
    import torch

    from clearhead.decoding.torch_engine import TorchEngine, trained_translator
    from clearhead.formats.ctranslate2.engine import CTranslate2Engine
    from clearhead.formats.ctranslate2.equality import check_equal
    from clearhead.formats.ctranslate2.spec import transformer_spec

    model = trained_translator(found, torch.device("cpu"))
    tokenizers = read_tokenizers(found)
    spec = transformer_spec(model, found.config.model)
    source_names, target_names = map(token_names, tokenizers)
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    for name, value in TOKENS.items():
        setattr(spec.config, name, value)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    exported = exported_model(folder, found.config.model)
    equality = check_equal(TorchEngine(model), CTranslate2Engine(exported), len(tokenizers[0]))
    limits = {name: limit for name, limit in asdict(exported).items() if name != "path"}
    return {"limits": limits, "equality": asdict(equality)}


def token_names(tokenizer: Tokenizer) -> list[str]:
    """A unique name for each id: its piece, with # appended while that name is taken."""
    special = {**SPECIALS, tokenizer.unk_id: UNKNOWN}
    taken = set(special.values())
    names = []
    for i, name in enumerate(tokenizer.pieces(range(len(tokenizer)))):
        if i in special:
            names.append(special[i])
            continue
        while name in taken:
            name += "#"
        taken.add(name)
        names.append(name)
    return names
