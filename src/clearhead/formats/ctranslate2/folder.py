"""The folder of a CTranslate2 export: its vocabularies, and the limits of its model.

Imports no torch, like everything that the CTranslate2 engine needs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from clearhead.decoding.engine import LONGEST_SOURCE
from clearhead.errors import ExportError, ModelFolderError, reason, type_of
from clearhead.folder.exports import command, damaged, read_export
from clearhead.folder.files import parse_json, read_bounded, read_json
from clearhead.folder.model_folder import ModelFolder
from clearhead.settings import Learned, ModelConfig
from clearhead.tokenizer import BOS, EOS, PAD

NAME = "ctranslate2"
"""The name of the format, and of an export's folder within its model folder."""

SPECIALS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>"}
"""The names of the special tokens in an export, by their ids."""

UNKNOWN = "<unk>"
"""The name of the token for unknown words."""

TOKENS = {
    **dict.fromkeys(("bos_token", "decoder_start_token"), SPECIALS[BOS]),
    **{"eos_token": SPECIALS[EOS], "unk_token": UNKNOWN},
    # The encoder reads the tokens of the source and nothing else.
    **dict.fromkeys(("add_source_bos", "add_source_eos"), False),
}
"""What `config.json` of an export says about special tokens."""

TABLE_POSITIONS = 4096
"""Positions of an export whose model has no limit. By default 1,024 source tokens need 2,068."""


@dataclass(frozen=True)
class ExportedModel:
    """An export on disk; its weights are not loaded.

    Attributes:
        path: its folder.
        longest_source: the maximum number of tokens of a source.
        longest_output: the maximum number of tokens of an output, the end symbol included.
        trained_positions: whether this limit is the model's, not only the export's.
        d_model: the width of the model.
    """

    path: Path
    longest_source: int
    longest_output: int
    trained_positions: bool
    d_model: int

    def vocabularies(self) -> tuple[list[str], list[str]]:
        """The name of each source id and of each target id.

        Raises:
            ExportError: a file is missing or damaged.
        """
        shared = (self.path / "shared_vocabulary.json").exists()
        found = []
        for side in ("shared", "shared") if shared else ("source", "target"):
            path = self.path / f"{side}_vocabulary.json"
            try:
                names = [str(token) for token in parse_json(read_bounded(path))]
                if any(names[i : i + 1] != [name] for i, name in SPECIALS.items()):
                    raise ValueError("it does not begin with the special tokens")
                found.append(names)
            except (OSError, ValueError, TypeError, RecursionError) as error:
                raise ExportError("the export is damaged", where=path, why=reason(error)) from None
        return found[0], found[1]


def exported_model(path: Path, config: ModelConfig) -> ExportedModel:
    """The export of a model with these settings."""
    if isinstance(config.positions, Learned):
        longest = config.positions.max_length
        return ExportedModel(path, longest, longest, True, config.d_model)
    return ExportedModel(path, LONGEST_SOURCE, TABLE_POSITIONS, False, config.d_model)


def size_of_export(config: ModelConfig, parameters: int) -> int:
    """About how many bytes the export of a model with so many parameters has, in float32."""
    trained = isinstance(config.positions, Learned)  # then they are among the parameters
    table = 0 if trained else TABLE_POSITIONS * config.d_model  # the same for both sides
    return 4 * (parameters + table)


def read_ctranslate2(path: Path, found: ModelFolder) -> ExportedModel:
    """The export in a folder, checked to be complete and of the model as it is now.

    Raises:
        ExportError: there is none, it is damaged, or it is of another model.
        ModelFolderError: the model folder cannot be read.
    """
    limits = read_export(path, NAME, found).get("limits")
    _check_tokens(path / "config.json")
    try:
        exported = ExportedModel(path=path, **cast("dict[str, Any]", limits))
        for name, value in asdict(exported_model(path, found.config.model)).items():
            if type(getattr(exported, name)) is not type(value):
                raise TypeError(f"{name} is not {type_of(value)}")
        return exported
    except TypeError as error:
        todo = f"remove this folder, then export the model again: {command(found, NAME)}"
        raise damaged(path, str(error), todo) from None


def _check_tokens(config: Path) -> None:
    """Check what CTranslate2 reads about special tokens.

    Raises:
        ExportError: something differs, or the file cannot be read.
    """
    try:
        tree = read_json(config)
    except ModelFolderError as error:
        raise ExportError(error.what, where=error.where, why=error.why) from None
    for name, value in TOKENS.items():
        if tree.get(name) != value:
            why = f"its {name} is {tree.get(name)!r}, not {value!r}"
            raise ExportError("the export is damaged", where=config, why=why)
