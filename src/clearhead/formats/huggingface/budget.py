"""What is checked of files of Hugging Face before `transformers` reads them or builds anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.device import memory_of_process
from clearhead.errors import ModelFolderError
from clearhead.folder.files import LARGEST_FILE, read_json
from clearhead.settings.data import HUB

if TYPE_CHECKING:
    from torch import nn

LIMITS = (("layers", 1_000), ("vocab_size", 10_000_000), ("", 1_000_000))
"""The largest whole number of a setting in `config.json`, by the ending of its name."""

MOST_POSITIONS = 2**26
"""The most numbers in a table of positions: Marian computes them one by one."""

INDEX = "model.safetensors.index.json"
"""The list of the files that have the weights, if there are several."""

READ = (".json", ".txt", ".model", ".spm", ".jinja")
"""Endings of the files that `transformers` reads besides the weights."""


def check_hub_name(source: str) -> None:
    """Check that a source with `hf:` is a name on the hub: no path, and no address."""
    name = source.removeprefix(HUB)
    todo = f"name a model as its page does, e.g. {HUB}Helsinki-NLP/opus-mt-en-de"
    if not re.fullmatch(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?", name, re.ASCII) or ".." in name:
        what = f"{name!r} is not the name of a model on the Hugging Face hub"
        raise ModelFolderError(what, where=source, todo=f"{todo}; name a folder without {HUB}")
    if Path(name).exists():
        raise ModelFolderError(
            "there is also a file or folder with this name here",
            where=source,
            why="transformers would read it instead of the model on the hub",
            todo=f"name the folder without {HUB}; for the hub, run the command in another folder",
        )


def check_files(folder: Path) -> None:
    """Check the files in a folder of Hugging Face: regular, not too large, and all inside."""
    for path in sorted(folder.iterdir()):
        if not (path.is_file() or path.is_dir()):
            raise ModelFolderError(f"{path.name} is a device, a pipe, or a link to nothing")
        if path.suffix in READ and path.stat().st_size > LARGEST_FILE:
            what = f"{path.name} has {path.stat().st_size:,} bytes"
            raise ModelFolderError(what, why=f"at most {LARGEST_FILE:,} are read")
    if not (folder / INDEX).exists():
        return
    files = read_json(folder / INDEX).get("weight_map")
    for name in files.values() if isinstance(files, dict) else [files]:
        if not isinstance(name, str) or Path(name).name != name:
            raise ModelFolderError(
                f"its index names a file outside the folder: {name!r:.200}",
                why=f"in {INDEX}, weight_map gives the name of a file beside it for each tensor",
                todo="do not use it, or download the model again",
            )


def check_settings(settings: Mapping[str, Any]) -> None:
    """Check the numbers of a `config.json`, from which `transformers` makes lists and modules."""
    for name, value in settings.items():
        most = next(most for ending, most in LIMITS if name.endswith(ending))
        if isinstance(value, int) and value > most:
            what = f"{name} in config.json is more than {most:,}"
            raise ModelFolderError(what, todo="do not use it, or correct config.json")


def check_size(kind: Any, config: Any, folder: Path) -> None:
    """Compare the size of the model that a configuration describes with its weights and memory."""
    import torch

    if config.max_position_embeddings * config.hidden_size > MOST_POSITIONS:
        raise ModelFolderError(f"its table of positions has more than {MOST_POSITIONS:,} numbers")
    with torch.device("meta"):
        planned: nn.Module = kind.from_config(config)
    numbers = sum(each.numel() for each in planned.parameters())
    if 4 * numbers > (memory := memory_of_process()):
        raise ModelFolderError(
            "the model does not fit into the memory of this machine or container",
            why=f"it has {numbers:,} numbers of 4 bytes, the memory {memory:,} bytes",
        )
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if folder.is_dir() and numbers > size:
        raise ModelFolderError(
            "config.json describes a larger model than the weights are",
            why=f"it needs {numbers:,} numbers, and the weights have {size:,} bytes",
            todo="copy config.json and the weights again from the same model",
        )
