"""Files of Hugging Face, checked before `transformers` reads them or builds anything.

A source is a folder, or `hf:` and a name on the hub. Imports `transformers` only to read one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.device import memory_of_process
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.files import LARGEST_FILE, read_bounded, read_json
from clearhead.formats.huggingface.library import quiet
from clearhead.formats.huggingface.weights import FAMILIES, MARIAN
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

MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
"""The files of a translator's tokenizer."""

NO_CODE = {"trust_remote_code": False}
"""Without it, `transformers` asks whether to run Python files of a model."""

DOWNLOAD = "check the network and the name, or download the model and name its folder"
"""What to do if a name on the hub cannot be read."""

AGAIN = "if a file is damaged or missing, download the model again; otherwise name another model"
"""What to do if a folder cannot be read."""


# Names


def is_huggingface(source: str | Path) -> bool:
    """Whether a source names files of Hugging Face instead of a model folder of clearhead."""
    if str(source).startswith(HUB):
        return True
    config = Path(source).expanduser() / "config.json"
    try:
        return config.is_file() and b'"model_type"' in read_bounded(config)
    except (OSError, ValueError):
        return False  # reading the model folder raises the error


def check_exists(source: str | Path) -> None:
    """Raise a `ModelFolderError` if there is nothing at a path, or the name is not one of the hub.

    The model folders of clearhead are checked, too.
    """
    if str(source).startswith(HUB):
        _check_hub_name(str(source))
        return
    path = Path(os.path.abspath(os.path.expanduser(source)))
    if os.path.lexists(path):
        return
    # Below a folder without access, nothing is known.
    known = next(parent for parent in path.parents if os.path.lexists(parent))
    if not os.access(known, os.X_OK):
        return
    name = path.relative_to(known).as_posix()
    is_name = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
    raise ModelFolderError(
        "there is no such model folder",
        where=path,
        todo="check the path; a model on the Hugging Face hub is named "
        f"{HUB}{name if is_name else 'NAME'}",
    )


def _check_hub_name(source: str) -> None:
    """Check that a source with `hf:` is a name on the hub: no path, and no address."""
    name = source.removeprefix(HUB)
    if not re.fullmatch(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?", name, re.ASCII) or ".." in name:
        what = f"{name!r} is not the name of a model on the Hugging Face hub"
    elif Path(name).exists():
        what = "transformers would read the file or folder with this name here, not the hub"
    else:
        return
    todo = f"name a model as its page does, e.g. {HUB}Helsinki-NLP/opus-mt-en-de, or a folder"
    raise ModelFolderError(what, where=source, todo=f"{todo} without {HUB}")


def check_config(source: str | Path) -> None:
    """Check that a source has a config.json of Hugging Face."""
    if is_huggingface(source):
        return
    try:
        config = read_json(Path(source).expanduser() / "config.json")
    except ModelFolderError as error:
        error.todo = "name a folder with config.json, weights and tokenizer"
        raise
    if "format" in config:
        raise ModelFolderError(
            "this is a model folder of clearhead already",
            where=source,
            todo=f'use it as it is; to train it further, set start_from = "{source}"',
        )


def _name(source: str | Path) -> str:
    """The name of a model for `transformers`: on the hub, or an absolute path."""
    if str(source).startswith(HUB):
        return str(source).removeprefix(HUB)
    return str(Path(source).expanduser().absolute())


# Reading


@contextmanager
def naming(source: str | Path) -> Iterator[None]:
    """Errors name the source."""
    try:
        yield
    except (ModelFolderError, ConfigError) as error:  # a setting may be beyond our limits
        todo = error.todo or "name another model"
        raise ModelFolderError(
            f"the model cannot be imported: {error.what}", where=source, why=error.why, todo=todo
        ) from None


@contextmanager
def _reading(source: str | Path) -> Iterator[None]:
    """What `transformers` raises becomes a ModelFolderError, and it prints only errors."""
    try:
        with quiet():
            yield
    except ModelFolderError:
        raise
    except Exception as error:  # damaged files raise errors of many libraries
        if "trust_remote_code" in str(error):
            why = "clearhead does not run the code of a model"
            raise ModelFolderError("it needs Python code of its own", why=why) from None
        first = str(error).strip().partition("\n")[0]
        todo = DOWNLOAD if str(source).startswith(HUB) else AGAIN
        raise ModelFolderError("transformers cannot read it", why=first, todo=todo) from None


def has_head(config: Any) -> bool:
    """Whether a `PretrainedConfig` is that of a classifier."""
    return any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


def read_config(source: str | Path) -> Any:
    """The `PretrainedConfig` of a model of a type that clearhead imports."""
    try:
        import transformers
    except ImportError:
        what = "the package transformers is not installed"
        raise ModelFolderError(what, todo="pip install transformers tokenizers") from None

    with _reading(source):
        if (folder := Path(_name(source))).is_dir():
            _check_files(folder)
        _check_numbers(transformers.PretrainedConfig.get_config_dict(_name(source), **NO_CODE)[0])
        config: Any = transformers.AutoConfig.from_pretrained(_name(source), **NO_CODE)
    if config.model_type not in (*FAMILIES, MARIAN):
        what = f"the model is of the type {config.model_type!r}"
        known = ", ".join(sorted([*FAMILIES, MARIAN]))
        raise ModelFolderError(what, why=f"clearhead imports {known}")
    return config


def read_original(source: str | Path, config: Any) -> tuple[Any, Any]:
    """The model and its tokenizer, with the head if it is a classifier or a translator."""
    import torch
    import transformers

    name = _name(source)
    _refuse_pickle(Path(name))
    with _reading(source):
        kind = transformers.AutoModel
        if config.model_type == MARIAN:
            kind = transformers.AutoModelForSeq2SeqLM
        elif has_head(config):
            kind = transformers.AutoModelForSequenceClassification
        _check_size(kind, config, Path(name))
        options = {"dtype": torch.float32, "attn_implementation": "eager"}
        options |= {"use_safetensors": True, **NO_CODE}
        model, facts = kind.from_pretrained(name, **options, output_loading_info=True)
        tokenizer = _read_tokenizer(name, config.model_type)
    # `transformers` draws at random what is missing. Only a head uses the pooler of an encoder.
    unused = () if has_head(config) else ("pooler.",)
    if missing := sorted(name for name in facts["missing_keys"] if not name.startswith(unused)):
        what = f"its file of weights lacks {len(missing)} tensors"
        raise ModelFolderError(what, why=f"the first is {missing[0]}")
    return model.eval(), tokenizer


def _read_tokenizer(name: str, model_type: str) -> Any:
    """The tokenizer of a folder or of a name on the hub."""
    import transformers

    if model_type == MARIAN:
        _check_tokenizer_files(name, [MARIAN_FILES])
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **NO_CODE)
    if model_type in FAMILIES:
        # Without its files, `transformers` gives a tokenizer that has special tokens only.
        files = dict(tokenizer.vocab_files_names)
        whole = files.pop("tokenizer_file", "tokenizer.json")
        is_empty = len(tokenizer) <= len(tokenizer.all_special_tokens)
        _check_tokenizer_files(name, [[whole], list(files.values())], is_empty)
    return tokenizer


def _check_tokenizer_files(
    name: str, choices: Sequence[Sequence[str]], is_empty: bool = False
) -> None:
    """Check that a folder has all files of one of the choices."""
    folder = Path(name)
    complete = any(all((folder / file).is_file() for file in files) for files in choices)
    if is_empty or (folder.is_dir() and not complete):
        raise ModelFolderError(
            "the files of its tokenizer are missing",
            why=f"it needs {', or '.join(' and '.join(files) for files in choices)}",
            todo="put them beside config.json: copy them from the original model, or write them "
            'with tokenizer.save_pretrained("FOLDER")',
        )


# What strangers may have written


def _check_files(folder: Path) -> None:
    """Check the files in a folder: regular, not too large, and all inside."""
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


def _refuse_pickle(folder: Path) -> None:
    """Refuse a folder whose weights are in a pickle only."""
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):
        raise ModelFolderError(
            "its weights are in a pickle",
            why="a pickle may run any code when it is read; clearhead reads model.safetensors",
            todo="if you trust it, load it with transformers and write it again: "
            'model.save_pretrained("FOLDER")',
        )


def _check_numbers(settings: Mapping[str, Any]) -> None:
    """Check the numbers of a `config.json`, from which `transformers` makes lists and modules."""
    for name, value in settings.items():
        most = next(most for ending, most in LIMITS if name.endswith(ending))
        if isinstance(value, int) and value > most:
            what = f"{name} in config.json is more than {most:,}"
            raise ModelFolderError(what, todo="do not use it, or correct config.json")


def _check_size(kind: Any, config: Any, folder: Path) -> None:
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
