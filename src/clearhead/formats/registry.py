"""The formats that models can be exported to.

A new format is a module of this package with `check` and `build` (see `Exporter`), and an entry in
`FORMATS`. Importing this module imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from clearhead.device import imported
from clearhead.errors import ExportError
from clearhead.folder.exports import write_export
from clearhead.folder.model_folder import ModelFolder
from clearhead.settings import RunConfig
from clearhead.settings.declare import Runs, value_at


class Exporter(Protocol):
    """What the module of a format has."""

    def check(self, found: ModelFolder) -> None:
        """Check, before anything is written, that the format can compute what the model computes.

        Raises:
            ExportError: it cannot; the error names the setting.
        """
        ...

    def build(self, found: ModelFolder, folder: Path, **options: Any) -> list[str]:
        """Write the files of the export into an empty folder, and compare it with the model.

        Args:
            found: the model, which `check` accepts.
            folder: of the new export.
            options: of `export_model`; only ONNX has one.

        Returns:
            Sentences about the comparison.

        Raises:
            ExportError: the model cannot be converted, or the export differs from it (see
                `equality.Comparison`).
            ModelFolderError: the model folder is damaged.
        """
        ...


def check_settings(config: RunConfig, program: str, has: Mapping[str, Sequence[Any]]) -> None:
    """Check that settings have values for which a program computes the same; `has` lists them.

    Raises:
        ExportError: a setting has another value.
    """
    for path, values in has.items():
        if (value := value_at(config, path)) not in values:
            possible = " or ".join(map(_in_words, values))
            raise ExportError(
                f"{path} = {_in_words(value)} cannot be exported to {program}",
                why=f"{program} computes as with {path} = {possible}",
                todo="use the model as it is, or another format, or train one with that setting",
            )


def _in_words(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


class ExportFormat(NamedTuple):
    """A format that models can be exported to.

    Attributes:
        runs: the kinds of models that it has.
        module: the `Exporter`, by its name in this package.
        packages: what `pip install` needs, by the names of the modules.
    """

    runs: Runs
    module: str
    packages: tuple[str, ...]


FORMATS = {
    "ctranslate2": ExportFormat(Runs.TRANSLATION, "ctranslate2", ("ctranslate2",)),
    "onnx": ExportFormat(Runs.LABELLED, "onnx.export", ("onnx", "onnxruntime", "onnxscript")),
    "huggingface": ExportFormat(Runs.TEXT, "huggingface.export", ("transformers", "tokenizers")),
    "argos": ExportFormat(Runs.TRANSLATION, "argos", ("ctranslate2",)),
}
"""The formats by name. The first one that a kind of model has is its default."""


def export(found: ModelFolder, format: str, output: Path, **options: Any) -> list[str]:
    """Write an export that equals the model; returns sentences about the comparison.

    Raises:
        ExportError: a package is not installed, or as in `Exporter` and `write_export`.
        ModelFolderError: the model folder is damaged.
    """
    imported("torch")
    exporter = _exporter(format)
    exporter.check(found)

    build = partial(exporter.build, found, **options)
    return write_export(found, format, output, build)


def _exporter(format: str) -> Exporter:
    """The module of a format, whose packages are installed."""
    _, module, packages = FORMATS[format]
    try:
        for package in packages:
            imported(package)
    except ImportError as error:
        raise ExportError(
            f"the export to the format {format} needs the packages {', '.join(packages)}",
            why=str(error),
            todo=f"pip install {' '.join(packages)}",
        ) from None
    return cast(Exporter, import_module(f"clearhead.formats.{module}"))
