"""Export a translator for CTranslate2: write it, compare it with the model, move it into place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.checkpoint.folder import ModelFolder, read_model_folder, read_tokenizers
from clearhead.ctranslate2 import folder as layout
from clearhead.errors import ExportError, ModelFolderError, meant, reason
from clearhead.files import move_into_place, read_json, sync, write_json
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

if TYPE_CHECKING:
    from clearhead.ctranslate2.equality import Equality

FORMATS = ("ctranslate2",)
SPECIALS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>"}
UNKNOWN = "<unk>"


def export_model(
    folder: str | Path,
    format: str = "ctranslate2",
    output: str | Path | None = None,
    *,
    report: Callable[[str], None] | None = None,
) -> Path:
    """Write a trained translator in the format of another program; returns the export's folder.

    The export is loaded and compared with the model first: greedy outputs must be the same,
    except for ties, and log-probabilities within 0.001. Only then it replaces a previous export.
    Files in its folder that are not of the previous export are kept.

    Args:
        folder: written by training.
        format: `ctranslate2`.
        output: the folder of the export; by default a folder with the name of the format in the
            model folder, where `load` finds it.
        report: called with a sentence about the result of the comparison.

    Raises:
        ExportError: the format does not support a setting of the model, the package is not
            installed, the export differs from the model, or the output contains other files that
            are in the way, or cannot be written.
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
            todo="use it as it is: clearhead classify",
        )
    if found.is_checkpoint and output is None:
        raise ExportError(
            "these are the weights of a checkpoint; the folder's export is of its final weights",
            where=folder,
            todo="name another folder for the export: --output FOLDER",
        )
    output = (
        found.path / layout.NAME if output is None else Path(os.path.expanduser(output)).resolve()
    )
    equality = _export(found, output, _previous_files(output))
    if report is not None:
        report(str(equality))
    return output


def _previous_files(output: Path) -> set[str]:
    """The names of the files of the previous export in a folder, its description included.

    Raises:
        ExportError: the folder contains other files and no export.
    """
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return set()
    try:
        files = read_json(output / layout.DESCRIPTION).get("files")
    except ModelFolderError:
        files = None
    if not isinstance(files, dict):
        raise ExportError(
            "there is something else where the export should be; nothing was changed",
            where=output,
            todo="remove it, or name another folder: --output FOLDER",
        )
    # Only names of files in this folder: "../x" is not one.
    return {layout.DESCRIPTION, *(name for name in files if Path(name).name == name)}


def _export(found: ModelFolder, output: Path, previous: set[str]) -> Equality:
    """Write the export in a temporary folder, compare it, and move it into place."""
    from clearhead.ctranslate2.spec import check_exportable

    check_exportable(found.config.model)
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        equality = _write(found, unfinished)
        _put_into_place(unfinished, output, previous)
    except OSError as error:
        raise ExportError(
            "the export cannot be written",
            where=output,
            why=reason(error),
            todo="free some space if the disk is full, then export again",
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return equality


def _write(found: ModelFolder, folder: Path) -> Equality:
    """Write all files of the export, and compare it with the model."""
    import torch

    from clearhead.ctranslate2.engine import CTranslate2Engine
    from clearhead.ctranslate2.equality import check_equal
    from clearhead.ctranslate2.runtime import installed
    from clearhead.ctranslate2.spec import transformer_spec
    from clearhead.decoding.torch_engine import TorchEngine, trained_translator

    installed()
    # Stamp, digest, model, in this order: if the weights change meanwhile, the export is stale.
    stamp = layout.stamp_of(found.weights)
    origin = layout.origin_of(found)
    model = trained_translator(found, torch.device("cpu"))
    tokenizers = read_tokenizers(found.path, found.config)
    spec = transformer_spec(model, found.config.model)
    source_names, target_names = map(token_names, tokenizers)
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.eos_token = SPECIALS[EOS]
    spec.config.unk_token = UNKNOWN
    # The encoder reads the tokens of the source and nothing else.
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    exported = layout.exported_model(folder, found.config.model)
    equality = check_equal(TorchEngine(model), CTranslate2Engine(exported), len(tokenizers[0]))
    description = {
        "format": layout.FORMAT,
        "origin": origin,
        "weights_file": stamp,
        "limits": {name: limit for name, limit in asdict(exported).items() if name != "path"},
        "files": files,
        "equality": asdict(equality),
    }
    write_json(folder / layout.DESCRIPTION, description)
    return equality


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


def _put_into_place(unfinished: Path, output: Path, previous: set[str]) -> None:
    """Move a finished export into its folder, in place of the files of the previous one.

    All other files in the folder stay as they are. The description is replaced last: if the
    machine stops before that, the folder is found to be stale or damaged, or is the same as before,
    and exporting again completes it.

    Raises:
        ExportError: a file that is not of the previous export has the name of a new one.
    """
    names = sorted(path.name for path in unfinished.iterdir() if path.name != layout.DESCRIPTION)
    for name in (*names, layout.DESCRIPTION):
        sync(unfinished / name)
        path = output / name
        if os.path.lexists(path) and (name not in previous or path.is_dir()):
            raise ExportError(
                "a file that is not of the previous export is in the way; nothing was changed",
                where=path,
                todo="move it, or name another folder for the export: --output FOLDER",
            )
    if not previous:
        move_into_place(unfinished, output)
        return
    for name in names:
        os.replace(unfinished / name, output / name)
    sync(output)
    move_into_place(unfinished / layout.DESCRIPTION, output / layout.DESCRIPTION)
    for name in previous - {*names, layout.DESCRIPTION}:
        if (output / name).is_file():
            (output / name).unlink()
