"""From a model folder to a model in another program's format, checked and put into place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.checkpoint import ModelFolder, read_model_folder, read_tokenizers, write_json
from clearhead.ctranslate2 import folder as layout
from clearhead.errors import ExportError
from clearhead.settings.nearest import meant
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

if TYPE_CHECKING:
    from clearhead.ctranslate2.equality import Equality
    from clearhead.model.transformer import EncoderDecoder


FORMATS = ("ctranslate2",)
SPECIALS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>"}
UNKNOWN = "<unk>"


def export_model(
    folder: str | Path,
    format: str = "ctranslate2",
    output: str | Path | None = None,
    *,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write a trained translator in another program's format; gives the folder of the export.

    The export is loaded and compared with the model first: greedy outputs must be the same and
    log-probabilities within 0.001. Only then does it take its place, whole.

    Args:
        folder: written by training.
        format: `ctranslate2`.
        output: where to; by default a folder of the format's name in the model folder, where
            `load` finds it.
        tell: told in a sentence how equal the two were found.

    Raises:
        ExportError: the format lacks a choice of the model, the package is not installed, the
            two are not equal, or the output is taken or cannot be written.
        ModelFolderError: the model folder is missing or damaged.
    """
    if format not in FORMATS:
        raise ExportError(
            f"{format!r} is not the name of a format",
            todo=meant("format", format, FORMATS) or f"choose one of {', '.join(FORMATS)}",
        )
    found = read_model_folder(folder)
    if found.config.task != "translation":
        raise ExportError(
            f"the model's task is {found.config.task}, and only translators can be exported",
            where=folder,
        )
    if found.is_checkpoint and output is None:
        raise ExportError(
            "these are the weights of a checkpoint, and the folder's export is of its own weights",
            where=folder,
            todo="name another place for the export: --output",
        )
    output = (
        found.path / layout.NAME if output is None else Path(os.path.expanduser(output)).resolve()
    )
    _check_free(output)
    equality = _export(found, output)
    if tell is not None:
        tell(str(equality))
    return output


def _export(found: ModelFolder, output: Path) -> Equality:
    """Write the export under another name, compare it, and give it its own name."""
    from clearhead.ctranslate2.spec import refuse_inexpressible

    refuse_inexpressible(found.config.model)
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        equality = _write(found, unfinished)
        _put_into_place(unfinished, output)
    except OSError as error:
        raise ExportError(
            "the export cannot be written",
            where=output,
            why=str(error),
            todo="free some space if the disk is full, then export again",
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return equality


def _write(found: ModelFolder, folder: Path) -> Equality:
    """All files of the export, compared with the model."""
    import torch

    from clearhead.ctranslate2.engine import CTranslate2Engine
    from clearhead.ctranslate2.equality import check_equal
    from clearhead.decoding.torch_engine import TorchEngine, trained_translator

    # The stamp before the digest, the digest before the model: no change goes unnoticed.
    stamp = layout.stamp_of(found.weights)
    origin = layout.origin_of(found)
    model = trained_translator(found, torch.device("cpu"))
    tokenizers = read_tokenizers(found.path, found.config)
    _write_model(model, found, tokenizers, folder)
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    config = found.config.model
    description = layout.description(origin, stamp, config, files, {})
    write_json(folder / layout.DESCRIPTION, description)
    exported = CTranslate2Engine(layout.read_export(folder, found))
    equality = check_equal(TorchEngine(model), exported, len(tokenizers[0]))
    description = layout.description(origin, stamp, config, files, vars(equality))
    write_json(folder / layout.DESCRIPTION, description)
    return equality


def _write_model(
    model: EncoderDecoder,
    found: ModelFolder,
    tokenizers: tuple[Tokenizer, Tokenizer],
    folder: Path,
) -> None:
    """CTranslate2's own files."""
    from clearhead.ctranslate2.spec import transformer_spec

    try:
        spec = transformer_spec(model, found.config.model)
    except ImportError as error:
        raise ExportError(
            "the package ctranslate2 is not installed",
            why=str(error),
            todo="install it: pip install ctranslate2",
        ) from None
    source, target = tokenizers
    spec.register_source_vocabulary(token_names(source))
    spec.register_target_vocabulary(token_names(target))
    spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.eos_token = SPECIALS[EOS]
    spec.config.unk_token = UNKNOWN
    # The encoder reads the tokens of the source and nothing else.
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def token_names(tokenizer: Tokenizer) -> list[str]:
    """A name for each id, no two the same: its piece, with # after it where that is taken."""
    ids = range(len(tokenizer))
    special = {**SPECIALS, tokenizer.unk_id: UNKNOWN}
    taken = set(special.values())
    names = []
    for i, piece in zip(ids, tokenizer.pieces(ids), strict=True):
        name = special.get(i, piece)
        if i not in special:
            while name in taken:
                name += "#"
            taken.add(name)
        names.append(name)
    return names


def _check_free(output: Path) -> None:
    """Refuse to write where something lies that is no export."""
    if not output.exists() or (output / layout.DESCRIPTION).is_file():
        return
    if not output.is_dir() or any(output.iterdir()):
        raise ExportError(
            "there is something else where the export should be, and it stays untouched",
            where=output,
            todo="remove it, or name another folder: --output DIR",
        )


def _put_into_place(unfinished: Path, output: Path) -> None:
    """Give a finished folder its name, once all of it is on the disk."""
    for path in unfinished.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    # A folder cannot replace a full one, so for a moment there is none: then PyTorch translates.
    old = output.with_name(f".{output.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    with suppress(FileNotFoundError):
        os.replace(output, old)
    try:
        os.replace(unfinished, output)
    except OSError:
        with suppress(OSError):
            os.replace(old, output)
        raise
    shutil.rmtree(old, ignore_errors=True)
