"""Argos Translate: a package of a CTranslate2 export and a SentencePiece model.

Argos Translate gives the pieces of a text to CTranslate2 by their names, and joins the pieces of a
translation with the same SentencePiece model.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from clearhead.errors import ExportError
from clearhead.folder.model_folder import ModelFolder
from clearhead.formats import ctranslate2
from clearhead.formats.registry import check_settings
from clearhead.text.languages import base, name_of
from clearhead.tokenizer import SentencePieceTokenizer, read_tokenizers

HAS = {
    "tokenizer.kind": ["bpe", "unigram"],
    "tokenizer.joint": [True],
    "tokenizer.lower": [False],
}
"""The settings of a tokenizer for which Argos Translate reads the same tokens."""


def check(found: ModelFolder) -> None:
    """Check that Argos Translate can run a model as it is; see `Exporter`."""
    check_settings(found.config, "Argos Translate", HAS)
    ctranslate2.check(found)
    if not all(found.config.data.languages):
        raise ExportError(
            "a package of Argos Translate names its languages, and those of the model are unknown",
            where=found.path,
            todo="set data.source_language and data.target_language, and train the model",
        )


def build(found: ModelFolder, folder: Path) -> list[str]:
    """Write the package, whose CTranslate2 export is compared with the model; see `Exporter`."""
    tokenizer, _ = read_tokenizers(found)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    pieces = tokenizer.pieces(range(len(tokenizer)))
    if (names := ctranslate2.token_names(tokenizer)) != pieces:
        name = next(piece for piece, name in zip(pieces, names, strict=True) if piece != name)
        raise ExportError(f"the vocabulary has two pieces {name!r}", where=found.path)
    source, target = found.config.data.languages
    name = f"translate-{base(source)}_{base(target)}"
    metadata = {
        "package_version": "1.0",
        "argos_version": "1.9",
        "from_code": base(source),
        "from_name": name_of(source),
        "to_code": base(target),
        "to_name": name_of(target),
    }
    with (
        TemporaryDirectory(dir=folder) as temporary,
        zipfile.ZipFile(folder / f"{name}.argosmodel", "w") as package,
    ):
        comparison = ctranslate2.build(found, Path(temporary))
        package.writestr(f"{name}/metadata.json", json.dumps(metadata, indent=2))
        package.writestr(f"{name}/sentencepiece.model", tokenizer.model)
        for path in sorted(Path(temporary).iterdir()):
            package.write(path, f"{name}/model/{path.name}")
    return comparison
