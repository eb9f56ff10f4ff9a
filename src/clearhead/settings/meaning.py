"""For which runs a setting means something; said of another run, it would be ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead.errors import ConfigError
from clearhead.settings.model import SIZES
from clearhead.settings.run import RunConfig

Kind = tuple[str, str]
"""The task and the input of a run."""

TRANSLATION: Kind = ("translation", "text")
TEXTS: Kind = ("classification", "text")
SEQUENCES: Kind = ("classification", "features")

MEANT_FOR: dict[str, tuple[Kind, ...]] = {
    "data.max_length_ratio": (TRANSLATION,),
    "data.text_column": (TEXTS,),
    "data.label_column": (TEXTS, SEQUENCES),
    "data.validation_share": (TEXTS, SEQUENCES),
    "data.smallest_class": (TEXTS, SEQUENCES),
    "data.missing": (SEQUENCES,),
    "data.normalise": (SEQUENCES,),
    "tokenizer": (TRANSLATION, TEXTS),
    "tokenizer.joint": (TRANSLATION,),
    "tokenizer.split_punctuation": (TEXTS,),
    "model.decoder_layers": (TRANSLATION,),
    "model.output_bias": (TRANSLATION,),
    "model.share_embeddings": (TRANSLATION,),
    "model.scale_embeddings": (TRANSLATION, TEXTS),
    "model.character_ngrams": (TEXTS,),
    "model.ngram_vectors": (TEXTS,),
    "classifier": (TEXTS, SEQUENCES),
    "search": (TRANSLATION,),
    "evaluation.tokenize": (TRANSLATION,),
    "evaluation.lowercase": (TRANSLATION,),
    "evaluation.max_sentences": (TRANSLATION,),
}
"""The kinds of runs for which a setting, or every setting of a section, does something.

What is not named here, and in no section named here, does something for all of them.
"""

NEEDS = {"model.ngram_vectors": "model.character_ngrams"}
"""Settings that do something only beside another one, which by default is not there."""

ONLY_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "training.optimizer.momentum": ("training.optimizer.kind", ("sgd",)),
    "training.optimizer.beta1": ("training.optimizer.kind", ("adam",)),
    "training.optimizer.beta2": ("training.optimizer.kind", ("adam",)),
    "training.optimizer.epsilon": ("training.optimizer.kind", ("adam",)),
    "tokenizer.byte_fallback": ("tokenizer.kind", ("bpe", "unigram")),
}
"""Settings that do something only with some choices of another one, and these choices.

What `clearhead init` writes is not among them: who edits `schedule.kind` in such a file may leave
`peak` there. Neither is how to search: a trained model is asked for the other method, too.
"""


def meaningless(config: RunConfig) -> dict[str, tuple[Kind, ...]]:
    """The settings, by dotted path, that do nothing for a run, and the runs that they are for."""
    run = (config.task, config.input)
    return {
        setting: kinds
        for path, kinds in MEANT_FOR.items()
        if run not in kinds
        for setting in _settings(path)
    }


def refuse_meaningless(config: RunConfig, where: str | Path, overrides: Sequence[str] = ()) -> None:
    """Refuse a run in which something is set that does nothing for it.

    A setting that stands at its default asks for nothing, and neither does one that a ready-made
    size of a model brings along, or that stands in a file whose choice was overridden.

    Args:
        config: the run.
        where: what the message names as its place.
        overrides: what was laid over the file, as `path=value`.

    Raises:
        ConfigError: names all settings that are for other runs; or one that needs another, or
            another choice.
    """
    _refuse_those_for_others(config, where)
    _refuse_those_that_need_another(config, where)
    overridden = {override.partition("=")[0].strip() for override in overrides}
    _refuse_those_of_another_choice(config, where, overridden)


def _refuse_those_for_others(config: RunConfig, where: str | Path) -> None:
    defaults = RunConfig()
    usual = {"model.decoder_layers": {size["decoder_layers"] for size in SIZES.values()}}
    said = {
        path: kinds
        for path, kinds in meaningless(config).items()
        if _value(config, path) not in {_value(defaults, path), *usual.get(path, ())}
    }
    if not said:
        return
    several = len(said) > 1
    settings = (f"{path} = {_value(config, path)!r}" for path in said)
    raise ConfigError(
        f"{' and '.join(settings)} {'mean' if several else 'means'} nothing "
        f"for a {config.task} of {config.input}",
        where=where,
        why="; ".join(f"{path} is for a {_named(kinds)}" for path, kinds in said.items()),
        todo=f"leave {'them' if several else 'it'} out",
    )


def _refuse_those_that_need_another(config: RunConfig, where: str | Path) -> None:
    defaults = RunConfig()
    for path, other in NEEDS.items():
        value = _value(config, path)
        if not _value(config, other) and value != _value(defaults, path):
            raise ConfigError(
                f"{path} = {value!r} means nothing without {other}",
                where=where,
                todo=f"set {other} too, or leave {path} out",
            )


def _refuse_those_of_another_choice(
    config: RunConfig, where: str | Path, overridden: set[str]
) -> None:
    defaults = RunConfig()
    for path, (other, choices) in ONLY_WITH.items():
        value, choice = _value(config, path), _value(config, other)
        # Who tries another choice over a file need not take out what goes with the file's own.
        tried = other in overridden and path not in overridden
        if choice not in choices and value != _value(defaults, path) and not tried:
            raise ConfigError(
                f"{path} = {value!r} means nothing with {other} = {choice!r}",
                where=where,
                todo=f"set {other} = {' or '.join(map(repr, choices))}, or leave {path} out",
            )


def _settings(path: str) -> Iterator[str]:
    """The setting itself, or all settings of the section that the path names."""
    value = _value(RunConfig(), path)
    if not dataclasses.is_dataclass(value):
        yield path
        return
    for field in dataclasses.fields(value):
        yield f"{path}.{field.name}"


def _value(config: RunConfig, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _named(kinds: tuple[Kind, ...]) -> str:
    return " or a ".join(f"{task} of {kind}" for task, kind in kinds)
