"""The trained model that a run starts from: its settings, its vocabulary and its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from clearhead.data.corpus import Tokenizers
from clearhead.data.inputs import read_inputs
from clearhead.data.judging.text_style import TextStyles
from clearhead.data.labels import Labels
from clearhead.data.proposing.settings import Brought
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.model_folder import ModelFolder, folder_of, open_folder
from clearhead.folder.tensors import check_shapes, load_parameters, parameters_of
from clearhead.formats.huggingface.reading import import_model, settings_of_files
from clearhead.formats.huggingface.sources import check_exists, is_huggingface
from clearhead.model.build import build_classifier, build_model
from clearhead.model.transformer import EncoderClassifier
from clearhead.settings import (
    DataConfig,
    ModelConfig,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
    config_from,
)
from clearhead.settings.data import HUB
from clearhead.settings.declare import Runs, as_toml
from clearhead.settings.reading import located
from clearhead.tokenizer import Tokenizer, read_tokenizers, with_form
from clearhead.tokenizer.extension import extended, has_symbols
from clearhead.training.checkpoints import PREVIOUS_STATE, STATE

ENCODER_PREFIXES = {"source_input.": "input.", "input.": "input.", "encoder.": "encoder."}
"""Prefixes of the parameters of a translator or classifier, and of the same in a classifier."""

LINEAR = "linear."
"""Prefix of the parameters of a classifier's linear model."""

FREE = {
    *("model.dropout", "tokenizer.new_words", "tokenizer.protect"),
    *("tokenizer.protect_patterns", "tokenizer.accelerator"),
    *(f"search.{field.name}" for field in fields(SearchConfig)),
}
"""Settings that a run may choose, whatever model it starts from."""


@contextmanager
def starting_point(
    config: RunConfig, restart: bool, note: Callable[[str], None]
) -> Iterator[tuple[RunConfig, ModelFolder | None]]:
    """The run with the settings of the model that it starts from, and that model.

    A run that resumes takes the settings from its own folder; if it has a state, it needs no other
    model. A model of Hugging Face is imported into a folder that exists in the context only.

    Raises:
        ConfigError: the run sets something else than the model brings.
        ModelFolderError: the model cannot be read, or is none for the task.
    """
    if not config.start_from:
        yield config, None
        return
    own = Path(config.folder)
    if config.folder and folder_of(config.start_from).resolve() == own.resolve():
        raise ConfigError(
            "start_from is the folder that the run writes",
            setting="start_from",
            where=config.start_from,
            why="the run would replace the model that it starts from",
            todo="choose another folder: --set folder=runs/other",
        )
    if bool(config.folder) and not restart and (own / "config.json").exists():
        old = open_folder(own, trained=False).config
        words = config.tokenizer.new_words or _new_words_of(config.start_from, old)
        config = _with_settings_of(old, config)
        # The words of the run itself may not be left out.
        config = replace(config, tokenizer=replace(config.tokenizer, new_words=words))
        if (own / STATE).exists() or (own / PREVIOUS_STATE).exists():
            yield config, None
            return
    with TemporaryDirectory() as scratch:
        check_exists(folder_of(config.start_from))
        folder = Path(config.start_from)
        if is_huggingface(config.start_from):
            note(f"importing {config.start_from}")
            folder = Path(scratch) / "start"
            import_model(config.start_from, folder)
        start = open_folder(folder)
        _check_task(start.config, config)
        settings = _with_settings_of(start.config, config)
        check_shapes(_maker(start), start.weights_path)
        yield settings, start


def _maker(start: ModelFolder) -> Callable[[], nn.Module]:
    config = start.config
    if config.task == "translation":
        source, target = read_tokenizers(start)
        return lambda: build_model(config.model, len(source), len(target))
    width, labels = read_inputs(start).width, len(Labels.of(start))
    return lambda: build_classifier(config, width, labels)


def _new_words_of(source: str, otherwise: RunConfig) -> tuple[str, ...]:
    """`tokenizer.new_words` of a model to start from, or of another run if the model is gone."""
    if is_huggingface(source):
        return ()
    folder = folder_of(source)
    exists = (folder / "config.json").exists()
    found = open_folder(folder, trained=False).config if exists else otherwise
    return found.tokenizer.new_words if otherwise.task == "translation" else ()


def brought_by(source: str, task: str, input: str) -> Brought | None:
    """What a model brings to a run of this task and input, read without its weights.

    `source` is an absolute path; or a name on the Hugging Face hub, from where nothing is read: the
    result is None.

    Raises:
        ModelFolderError: there is no model, it cannot be read, or it is none for the task.
    """
    check_exists(folder_of(source))
    if source.startswith(HUB):
        return None
    tokenizers: tuple[Tokenizer, ...] = ()
    languages = "", ""
    if is_huggingface(source):
        trained, labels = settings_of_files(source)
    else:
        found = open_folder(source)
        trained, labels = found.config, Labels(())
        if trained.task == "classification":
            labels = Labels.of(found)
        if trained.task == "translation":
            tokenizers = read_tokenizers(found)[: 1 + (task == "translation")]
            if styles := TextStyles.of(found):
                languages = styles.sides["source"].language, styles.sides["target"].language
        elif trained.input == "text":
            tokenizers = read_tokenizers(found)[:1]
    run = config_from({"task": task, "input": input, "start_from": source})
    _check_task(trained, run)
    shape = {"model": trained.model, "tokenizer": trained.tokenizer}
    run = replace(run, **shape, data=DataConfig(max_length=1))
    head, search = trained.classifier, trained.search
    return Brought(run.longest_example, head, search, labels.names, tokenizers, languages)


def _check_task(trained: RunConfig, config: RunConfig) -> None:
    where = config.start_from
    if trained.input != config.input:
        what = f"this model reads {trained.input}, not {config.input}"
        raise ModelFolderError(what, where=where, todo="name another model in start_from")
    if config.task == "translation" and trained.task != "translation":
        raise ModelFolderError(
            "a translator cannot start from a classifier, which has no decoder",
            where=where,
            todo='name a translator in start_from; for a classifier, set task = "classification" '
            "(init: --task classification)",
        )


def _with_settings_of(trained: RunConfig, config: RunConfig) -> RunConfig:
    """The run with the settings of a trained model, in place of those at their defaults."""
    default = _settings(RunConfig(task=config.task, input=config.input))
    new, old = _settings(config), _settings(trained, config.kind)
    differing = [
        path for path in new if path not in FREE and new[path] not in (default[path], old[path])
    ]
    if differing:
        raise ConfigError(
            "start_from brings its own model and vocabulary",
            where=differing[0],
            setting=differing[0],
            why=", ".join(
                f"{p} = {as_toml(new[p])}, and there it is {as_toml(old[p])}" for p in differing
            ),
            todo=f"leave {' and '.join(differing)} out, or train without start_from",
        )
    sections: dict[str, dict[str, Any]] = {}
    for path, value in old.items():
        section, name = path.split(".")
        if path not in FREE or new[path] == default[path]:
            sections.setdefault(section, {})[name] = value
    try:
        changed = {s: replace(getattr(config, s), **values) for s, values in sections.items()}
        return replace(config, **changed)
    except ConfigError as error:  # for example data.max_length and the learned positions
        raise located(error, config.start_from) from None


def _settings(config: RunConfig, kind: Runs | None = None) -> dict[str, Any]:
    """The settings, by path, that a trained model brings to a run of this kind."""
    kind = kind or config.kind
    sections: dict[str, type] = {"model": ModelConfig}
    if kind in Runs.TEXT:
        sections["tokenizer"] = TokenizerConfig
    if kind in Runs.TRANSLATION:
        sections["search"] = SearchConfig
    found = {
        f"{section}.{field.name}": getattr(getattr(config, section), field.name)
        for section, type_ in sections.items()
        for field in fields(type_)
        if kind in field.metadata["declaration"].runs
    }
    del found["model.initialisation"]  # of what the trained model lacks, such as an output layer
    return found if kind in Runs.TEXT else found | {"data.normalise": config.data.normalise}


Rows = Sequence[Sequence[int]]
"""For each token of a new vocabulary, the tokens of the old one that it consists of."""


def extend_tokenizers(
    old: Tokenizers, config: RunConfig
) -> tuple[Tokenizers, tuple[Rows, Rows] | None]:
    """The tokenizers of source and target with new words and symbols, and their rows if any."""
    source, target = old
    words = config.tokenizer.new_words
    symbols = config.tokenizer.has_symbols and not has_symbols(source)
    if not words and not symbols:
        return old, None
    new_source, source_rows = extended(source, words, symbols)
    if config.tokenizer.joint:
        return (new_source, with_form(new_source, target.form)), (source_rows, source_rows)
    new_target, target_rows = extended(target, words, symbols)
    return (new_source, new_target), (source_rows, target_rows)


def copy_translator(
    model: nn.Module, start: ModelFolder, rows: tuple[Rows, Rows] | None = None
) -> None:
    """Copy all weights of a trained translator into a model of the same shape.

    With `rows` of source and target, the vector of a new word is the mean of the vectors of the
    tokens that it was.
    """
    tensors = start.weights()
    for name in tensors:
        if rows and (name.endswith("embedding.weight") or name.startswith("output.")):
            of_side = rows[0 if name.startswith("source_input.") else 1]
            tensors[name] = torch.stack([tensors[name][list(old)].mean(0) for old in of_side])
    load_parameters(model, tensors, start.weights_path)


def copy_classifier(
    model: EncoderClassifier, start: ModelFolder, config: RunConfig, labels: Labels
) -> bool:
    """Copy the input and the encoder of a trained model into a classifier.

    The rest but the linear model is copied too, and the result is True, if it is that of a
    classifier with the same head and the same labels, in any order.
    """
    tensors = start.weights()
    if start.config.task == "classification" and _same_head(start.config, config):
        names = Labels.of(start).names
        if set(names) == set(labels.names):
            order = [names.index(name) for name in labels.names]
            for name, tensor in tensors.items():
                if name.startswith("output."):
                    tensors[name] = tensor[order]
            # The linear model is that of the new examples.
            kept = {n: t for n, t in tensors.items() if not n.startswith(LINEAR)}
            own = {n: t for n, t in parameters_of(model).items() if n.startswith(LINEAR)}
            load_parameters(model, kept | own, start.weights_path)
            return True
    encoder = {
        new + name.removeprefix(old): tensor
        for name, tensor in tensors.items()
        for old, new in ENCODER_PREFIXES.items()
        if name.startswith(old)
    }
    own = nn.ModuleDict({"input": model.input, "encoder": model.encoder})
    load_parameters(own, encoder, start.weights_path)
    return False


def _same_head(trained: RunConfig, config: RunConfig) -> bool:
    head = attrgetter("pooling", "hidden", "multi_label")
    return head(trained.classifier) == head(config.classifier)
