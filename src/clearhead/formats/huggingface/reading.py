"""Import: files of Hugging Face, read by `transformers`, become a model folder.

An import is verified: the imported model must give the same ids, hidden states and logits for
`SENTENCES` as the original. Only then does its folder take its place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from clearhead.data.labels import LABELS, Labels
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.files import json_bytes, move_into_place, read_bounded, read_json, unwritable
from clearhead.folder.model_folder import (
    IMPORTED_FROM,
    PROVENANCE,
    SCORES,
    WEIGHTS,
    replace_files,
    write_folder,
    written,
)
from clearhead.folder.tensors import load_parameters, save_tensors
from clearhead.formats.huggingface.budget import (
    check_files,
    check_hub_name,
    check_settings,
    check_size,
)
from clearhead.formats.huggingface.encoders import (
    FAMILIES,
    classifier_settings,
    model_settings,
    parameters_from,
)
from clearhead.formats.huggingface.imported import Imported, compare
from clearhead.formats.huggingface.library import SENTENCES, quiet, require_transformers
from clearhead.formats.huggingface.translators import imported_translator, verify_translator
from clearhead.model.build import build_classifier
from clearhead.settings import DataConfig, Learned, RunConfig, TokenizerConfig
from clearhead.settings.data import HUB
from clearhead.tokenizer import JsonTokenizer
from clearhead.tokenizer.pretrained import Numbering
from clearhead.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MARIAN = "marian"
"""The `model_type` of a translator's configuration."""

MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
"""The files of a translator's tokenizer."""

NO_CODE = {"trust_remote_code": False}
"""Without it, `transformers` asks whether to run Python files of a model."""

DOWNLOAD = "check the network and the name, or download the model and name its folder"
"""What to do if a name on the hub cannot be read."""

AGAIN = "if a file is damaged or missing, download the model again; otherwise name another model"
"""What to do if a folder cannot be read."""


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
    """Check that there is something at a path, or that it is a name on the hub.

    Raises:
        ModelFolderError: there is nothing, or the name cannot be one on the hub.
    """
    if str(source).startswith(HUB):
        check_hub_name(str(source))
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


def _check_config(source: str | Path) -> None:
    """Check that a source has a config.json of Hugging Face.

    Raises:
        ModelFolderError: it has none, or that of clearhead, or it cannot be read.
    """
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


def import_model(source: str | Path, folder: str | Path) -> Path:
    """Write the model folder of a Hugging Face model, which then is used like a trained one.

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
    if folder.exists():
        raise ModelFolderError(
            "the folder exists", where=folder, todo="choose another folder, or remove it"
        )
    check_exists(source)
    _check_config(source)
    with _naming(source):
        original, tokenizer = _read(source)
        if original.config.model_type == MARIAN:
            imported = imported_translator(original, tokenizer, folder)
            verify_translator(imported, original, tokenizer)
        else:
            imported = _imported_encoder(original, tokenizer, folder)
            _verify_encoder(imported, original, tokenizer)
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # left by an import that was killed
        partial.mkdir(parents=True)
        _write(imported, partial, str(source))
        move_into_place(partial, folder)
    except OSError as error:
        raise unwritable(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def settings_of_files(source: str | Path) -> tuple[RunConfig, Labels]:
    """The settings and labels of a folder of Hugging Face files, without reading the weights.

    Of a translator only the task is read.

    Raises:
        ModelFolderError: a file cannot be read, or the model has parts that clearhead lacks.
    """
    with _naming(source):
        config = _read_config(source)
        if config.model_type == MARIAN:
            return RunConfig(task="translation"), Labels(())
        return _encoder_settings(config)


def _read_config(source: str | Path) -> Any:
    """The configuration of a model of a type that clearhead imports."""
    require_transformers(ModelFolderError)
    import transformers

    with _reading(source):
        if (folder := Path(_name(source))).is_dir():
            check_files(folder)
        check_settings(transformers.PretrainedConfig.get_config_dict(_name(source), **NO_CODE)[0])
        config: Any = transformers.AutoConfig.from_pretrained(_name(source), **NO_CODE)
    if config.model_type not in (*FAMILIES, MARIAN):
        what = f"the model is of the type {config.model_type!r}"
        known = ", ".join(sorted([*FAMILIES, MARIAN]))
        raise ModelFolderError(what, why=f"clearhead imports {known}")
    if config.model_type != MARIAN:
        _encoder_settings(config)  # whose errors need no weights
    return config


def _refuse_pickle(folder: Path) -> None:
    """Refuse a folder whose weights are in a pickle only."""
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):
        raise ModelFolderError(
            "its weights are in a pickle",
            why="a pickle may run any code when it is read; clearhead reads model.safetensors",
            todo="if you trust it, load it with transformers and write it again: "
            'model.save_pretrained("FOLDER")',
        )


@contextmanager
def _naming(source: str | Path) -> Iterator[None]:
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


def _name(source: str | Path) -> str:
    """The name of a model for `transformers`: on the hub, or an absolute path."""
    if str(source).startswith(HUB):
        return str(source).removeprefix(HUB)
    return str(Path(source).expanduser().absolute())


def _read(source: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and its tokenizer, with the head if it is a classifier or a translator."""
    config = _read_config(source)
    import transformers

    name = _name(source)
    _refuse_pickle(Path(name))
    with _reading(source):
        kind = transformers.AutoModel
        if config.model_type == MARIAN:
            kind = transformers.AutoModelForSeq2SeqLM
        elif _has_head(config):
            kind = transformers.AutoModelForSequenceClassification
        check_size(kind, config, Path(name))
        options = {"dtype": torch.float32, "attn_implementation": "eager"}
        options |= {"use_safetensors": True, **NO_CODE}
        model, facts = kind.from_pretrained(name, **options, output_loading_info=True)
        tokenizer = _read_tokenizer(name, config.model_type)
    # `transformers` draws at random what is missing. Only a head uses the pooler of an encoder.
    unused = () if _has_head(config) else ("pooler.",)
    if missing := sorted(name for name in facts["missing_keys"] if not name.startswith(unused)):
        what = f"its file of weights lacks {len(missing)} tensors"
        raise ModelFolderError(what, why=f"the first is {missing[0]}")
    return model.eval(), tokenizer


def _read_tokenizer(name: str, model_type: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or of a name on the hub.

    Raises:
        ModelFolderError: its files are missing.
    """
    import transformers

    def check(*choices: tuple[str, ...], is_empty: bool = False) -> None:
        folder = Path(name)
        complete = any(all((folder / file).is_file() for file in files) for files in choices)
        if is_empty or (folder.is_dir() and not complete):
            needed = ", or ".join(" and ".join(files) for files in choices)
            raise ModelFolderError(
                "the files of its tokenizer are missing",
                why=f"it needs {needed}",
                todo="put them beside config.json: copy them from the original model, or write "
                'them with tokenizer.save_pretrained("FOLDER")',
            )

    if model_type == MARIAN:
        check(MARIAN_FILES)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **NO_CODE)
    if model_type in FAMILIES:
        # Without its files, `transformers` gives a tokenizer that has special tokens only.
        files = dict(tokenizer.vocab_files_names)
        whole = files.pop("tokenizer_file", "tokenizer.json")
        is_empty = len(tokenizer) <= len(tokenizer.all_special_tokens)
        check((whole,), tuple(files.values()), is_empty=is_empty)
    return tokenizer


def _has_head(config: Any) -> bool:
    return any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


def _imported_encoder(
    original: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> Imported:
    """The import of an encoder of the BERT family, with its head if it has one."""
    config: Any = original.config
    run, labels = _encoder_settings(config)
    tokens = _json_tokenizer(tokenizer, config.vocab_size)
    family, state = FAMILIES[config.model_type], original.state_dict()
    parameters = parameters_from(family, config, state, tokens.numbering, _has_head(config))
    files = {"tokenizer": tokens, LABELS: labels}
    return Imported(replace(run, folder=str(folder)), parameters, files)


def _encoder_settings(config: Any) -> tuple[RunConfig, Labels]:
    """The settings and labels of an encoder of the BERT family, by its `PretrainedConfig`."""
    family, has_head = FAMILIES[config.model_type], _has_head(config)
    model = model_settings(family, config)
    assert isinstance(model.positions, Learned)
    names = [str(config.id2label[i]) for i in range(config.num_labels)] if has_head else []
    try:
        labels = Labels(tuple(names))
    except ValueError as error:
        raise ModelFolderError("its labels cannot be used", why=str(error)) from None
    run = RunConfig(
        task="classification",
        data=DataConfig(max_length=model.positions.max_length),
        tokenizer=TokenizerConfig(kind="pretrained"),
        model=model,
        classifier=classifier_settings(family, config, has_head),
    )
    return run, labels


def _json_tokenizer(tokenizer: PreTrainedTokenizerBase, embeddings: int) -> JsonTokenizer:
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelFolderError(f"its tokenizer, {type(tokenizer).__name__}, has no tokenizer.json")
    named: Any = tokenizer
    # The start and end of a text have different names in the tokenizers of the family.
    bos = named.cls_token_id if named.bos_token_id is None else named.bos_token_id
    eos = named.sep_token_id if named.eos_token_id is None else named.eos_token_id
    special = {"padding": named.pad_token_id, "start": bos, "end": eos, "unk": named.unk_token_id}
    if missing := [name for name, token in special.items() if token is None]:
        raise ModelFolderError(f"its tokenizer has no token for {' and '.join(missing)}")
    try:
        numbering = Numbering(embeddings, special["padding"], bos, eos)
        unk_id = int(numbering.ours[special["unk"]])
        return JsonTokenizer(json.loads(backend.to_str()), numbering, unk_id)
    except ValueError as error:
        raise ModelFolderError("its tokenizer cannot be used", why=str(error)) from None


@torch.inference_mode()
def _verify_encoder(
    imported: Imported, original: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Compare ids, last hidden states, and logits if there is a head.

    Raises:
        ModelFolderError: they differ.
    """
    tokens, labels = imported.files["tokenizer"], imported.files[LABELS]
    assert isinstance(tokens, JsonTokenizer)
    assert isinstance(labels, Labels)
    config = imported.config
    model = build_classifier(config.model, config.classifier, len(tokens), len(labels)).eval()
    load_parameters(model, imported.parameters, Path(config.folder))
    theirs: Any = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    ids, mask = theirs["input_ids"], theirs["attention_mask"].bool()
    padded = torch.from_numpy(tokens.numbering.ours[ids])
    rows = [row[real].tolist() for row, real in zip(padded, mask, strict=True)]
    if rows != tokens.encode_batch(SENTENCES):
        raise ModelFolderError("the imported tokenizer gives other ids")
    # In float64, because rounding alone may exceed the tolerance in a deep model.
    model, original = model.double(), original.double()
    longest = config.data.max_length  # a small model may have fewer positions
    ids, mask, padded = ids[:, :longest], mask[:, :longest], padded[:, :longest]
    arguments = {"input_ids": ids, "attention_mask": mask}
    their_encoder = getattr(original, original.base_model_prefix, original)
    compare("hidden states", model.encode(padded)[0], their_encoder(**arguments)[0], mask)
    if len(labels):
        compare("logits", model(padded), original(**arguments).logits)


def _write(imported: Imported, folder: Path, source: str) -> None:
    write_folder(folder, imported.config, imported.files)
    facts = {IMPORTED_FROM: source, "clearhead": __version__}
    # A temperature of 1 leaves the probabilities as the original has them.
    scores = {"scores": {"temperature": 1.0}}
    replace_files(
        folder,
        {
            WEIGHTS: partial(save_tensors, tensors=imported.parameters, facts=facts),
            SCORES: written(json_bytes(scores)),
            PROVENANCE: written(json_bytes(facts)),
        },
    )
