"""Export a trained model to one of the formats in `clearhead.formats.registry`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clearhead.api.card import is_replaceable
from clearhead.data.labels import Labels
from clearhead.decoding.ctranslate2_library import NAME as CTRANSLATE2
from clearhead.errors import ClearheadError, ExportError, meant, reason, type_of
from clearhead.folder.exports import DESCRIPTION, command, read_export
from clearhead.folder.files import write_bytes
from clearhead.folder.model_folder import CARD, ModelFolder, open_folder
from clearhead.formats.registry import FORMATS, export
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    from clearhead.api.classifier import Classifier
    from clearhead.api.estimator import Estimator
    from clearhead.api.translator import Translator


def export_model(
    model: str | Path | Translator | Classifier | Estimator,
    format: str | None = None,
    output: str | Path | None = None,
    *,
    int8: bool = False,
    report: Callable[[str], None] | None = None,
) -> Path:
    """Write a trained model in the format of another program; returns the export's folder.

        clearhead.export_model("runs/my-model")

    The export is loaded and compared with the model first. Only if it is equal it replaces a
    previous export. Files in its folder that are not of the previous export are kept.

    Args:
        model: the folder that training has written, or a model that was loaded from it; or a fitted
            `TextClassifier` or `FeatureClassifier`.
        format: `ctranslate2`, `huggingface` or `argos` for a translator, `onnx` or `huggingface`
            for a classifier; by default the first one.
        output: the folder of the export; by default a folder with the name of the format in the
            model folder, where `load` finds it. A `TextClassifier` or `FeatureClassifier` needs
            one.
        int8: with `onnx`, also write the model with 8-bit weights, and measure its accuracy.
        report: called with each sentence about the result of the comparison.

    Raises:
        ExportError: the format does not support the model or one of its settings, the package of
            the format is not installed, the export differs from the model, or the output contains
            other files that are in the way, or cannot be written.
        ModelFolderError: the model folder is missing or damaged, or has an encoder without labels.
    """
    from clearhead.api.estimator import Estimator

    if isinstance(model, Estimator):
        if output is None:
            raise ExportError(
                "there is no folder for the export",
                why="fit keeps no folder",
                todo="name one: export_model(model, output='runs/my-export')",
            )
        with TemporaryDirectory() as temporary:
            saved = model.save(Path(temporary) / "model")
            return export_model(saved, format, output, int8=int8, report=report)
    folder = _folder_of(model)
    found = open_folder(folder)
    format = _format_for(found, format)
    if found.config.task == "classification":
        Labels.of(found).check_any(found.path)
    if found.is_checkpoint and output is None:
        raise ExportError(
            "these are the weights of a checkpoint; the folder's export is of its final weights",
            where=folder,
            todo="name another folder for the export: --output FOLDER",
        )
    path = found.path / format if output is None else Path(os.path.expanduser(output)).absolute()
    options = {"int8": True} if int8 else {}
    if int8 and format != "onnx":
        raise ExportError(
            f"the format {format} has no option int8",
            todo="leave it out; CTranslate2 converts the weights when they are used: "
            "--engine ctranslate2 --compute-type int8",
        )
    for sentence in export(found, format, path, **options):
        if report is not None:
            report(sentence)
    copy = path / ("README.md" if format == "huggingface" else CARD)
    if (card := found.path / CARD).is_file() and is_replaceable(copy):
        write_bytes(copy, card.read_bytes(), ExportError)
    return path


def _folder_of(model: object) -> str | Path:
    """The folder, or the checkpoint in it, of a model that is named, loaded or fitted."""
    if isinstance(model, str | Path):
        return model
    found = getattr(model, "folder", None)
    if not isinstance(found, ModelFolder):
        raise ExportError(
            f"this is {type_of(model)}, not the folder of a model",
            todo="give a model folder, what clearhead.load returns, or a fitted classifier",
        )
    return found.weights_path if found.is_checkpoint else found.path


def _format_for(found: ModelFolder, format: str | None) -> str:
    """The format, if the model has it; by default the first one that it has."""
    kind = found.config.kind
    possible = [name for name, each in FORMATS.items() if kind in each.runs]
    format = possible[0] if format is None else format
    if format not in possible:
        raise ExportError(
            f"this model cannot be exported to {format}",
            where=found.path,
            why=f"its task is {kind.in_words}",
            todo=meant("format", format, possible) or f"choose {' or '.join(possible)}",
        )
    return format


def can_export_after_training(config: RunConfig) -> bool:
    """Whether the model is a translator and CTranslate2 is installed."""
    return config.task == "translation" and find_spec(CTRANSLATE2) is not None


def exports_after_training(folder: Path, automatic: bool) -> Iterator[str]:
    """Write the CTranslate2 export of a model that was trained, and yield lines about its exports.

    If `automatic` is false or there can be no export, and for other formats, an export that is out
    of date is reported. One that is up to date stays as it is, without a line.
    """
    found = open_folder(folder)
    automatic &= can_export_after_training(found.config)
    for name in FORMATS:
        path, writes = found.path / name, automatic and name == CTRANSLATE2
        if not (writes or (path / DESCRIPTION).is_file()):
            continue
        try:
            read_export(path, name, found)
        except ExportError:
            out_of_date = f"the export {path} is out of date; to renew it: {command(found, name)}"
            yield _automatic_export(found, path) if writes else out_of_date


def _automatic_export(found: ModelFolder, path: Path) -> str:
    """Write the CTranslate2 export; the result is a line about it, or about why there is none."""
    try:
        export(found, CTRANSLATE2, path)
    except ClearheadError as error:
        why = "; ".join(filter(None, (error.what, error.why, error.todo)))
    except Exception as error:  # an installed package may be damaged in any way
        why = reason(error)
    except KeyboardInterrupt:
        why = f"interrupted; to write it: {command(found, CTRANSLATE2)}"
    else:
        size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
        return f"exported to CTranslate2, which translate uses: {path} ({size / 1e6:.1f} MB)"
    return f"no export to CTranslate2: {why}"
