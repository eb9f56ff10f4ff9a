"""What `--set path=value` lays over the tree of a configuration file."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ConfigError
from clearhead.settings.classifier import ClassifierConfig
from clearhead.settings.data import DataConfig, TokenizerConfig
from clearhead.settings.meaning import refuse_meaningless
from clearhead.settings.model import (
    SIZES,
    DropoutConfig,
    Learned,
    ModelConfig,
    NoPositions,
    Sinusoidal,
    expanded_dropout,
    expanded_size,
)
from clearhead.settings.nearest import meant, setting_meant
from clearhead.settings.run import RunConfig
from clearhead.settings.search import EvaluationConfig, SearchConfig
from clearhead.settings.training import OptimizerConfig, ScheduleConfig, TrainingConfig

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails


UNSAID: dict[tuple[str, ...], dict[str, Any]] = {
    ("training",): {"max_steps": RunConfig().training.max_steps},
    ("model", "dropout"): dataclasses.asdict(ModelConfig().dropout),
}
"""What holds where a section is not there at all, and would not if a single value of it were."""


def lay_over(tree: dict[str, Any], override: str) -> None:
    """Lay `path=value` over the tree; the value is read as TOML, or else as a plain string.

    Raises:
        ConfigError: it is not `path=value`, or the path goes on beyond a single value.
    """
    dotted, separator, text = override.partition("=")
    if not separator or not dotted.strip():
        raise ConfigError(
            f"--set {override}: this is not path=value", todo="e.g. --set training.max_steps=1000"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, name = dotted.strip().split(".")
    for section, unsaid in UNSAID.items():
        if sections[: len(section)] == [*section]:
            _lay_under(tree, section, unsaid)
    for depth, section in enumerate(sections, start=1):
        inner = tree.setdefault(section, {})
        if sections[:depth] == ["model", "dropout"]:
            inner = tree[section] = expanded_dropout(inner)
        if not isinstance(inner, dict):
            raise ConfigError(
                f"--set {override}: {section} is a single value here",
                todo=f"give the parts of {section} in the file, each by name",
            )
        tree = inner
    tree[name] = value


def _lay_under(tree: dict[str, Any], section: Sequence[str], unsaid: dict[str, Any]) -> None:
    """Write out a section that is not there, so that an override changes nothing else of it."""
    *outer, last = section
    for name in outer:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            return
    tree.setdefault(last, dict(unsaid))


# ---- config.schema
# Types checked by pydantic, whose schema takes far longer to build than to use.


def checked(tree: Mapping[str, Any]) -> RunConfig:
    """The run that a tree of plain values describes.

    Raises:
        pydantic.ValidationError: a type or a value is wrong.
    """
    # Through JSON, pydantic's strict mode takes a list for a tuple but no "3" for a 3.
    return _adapter().validate_json(json.dumps(tree, default=str), strict=True)


@functools.cache
def _adapter() -> TypeAdapter[RunConfig]:
    """Built once: each translation checks its search by it."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunConfig)


# ---- config.sections
# The sections of a configuration, and the dotted paths of all settings.

SECTIONS: dict[str, type] = {
    part.__name__: part
    for part in (
        *(DataConfig, TokenizerConfig, ModelConfig, TrainingConfig, SearchConfig),
        ClassifierConfig,
        *(EvaluationConfig, OptimizerConfig, ScheduleConfig, DropoutConfig),
    )
} | {"Positions": Learned}
"""The dataclass of a section, by the type that is written at its field; of the kinds of positions
the one that has all settings that any of them has."""

SHORTHANDS: dict[type, tuple[str, ...]] = {ModelConfig: ("size",)}
"""Settings of a section that stand for several others of it."""


def paths(kind: type = RunConfig, section: str = "") -> Iterator[str]:
    """The dotted paths of all settings of a section, and of those within it."""
    for field in dataclasses.fields(kind):
        path = f"{section}.{field.name}".lstrip(".")
        yield path
        if part := SECTIONS.get(str(field.type)):
            yield from paths(part, path)
    yield from (f"{section}.{name}" for name in SHORTHANDS.get(kind, ()))


# ---- config.reading
# From TOML and `--set path=value` to a checked RunConfig, and back to plain values.


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The run that a TOML file describes, with `path=value` overrides laid over it.

    Raises:
        ConfigError: the file is missing or not TOML, or a key, type or value in it is wrong, or a
            setting does nothing for such a run.
    """
    path = Path(path)
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(
            "there is no such file", where=path, todo="write one with `clearhead init NAME`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("the file cannot be read", where=path, why=str(error)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("this is not valid TOML", where=path, why=str(error)) from None
    for override in overrides:
        lay_over(tree, override)
    config = config_from(tree, where=str(path))
    # Not in config_from: a model folder of an earlier version may well hold such settings.
    refuse_meaningless(config, path, overrides)
    return config if config.folder else dataclasses.replace(config, folder=f"runs/{path.stem}")


def config_from(tree: Mapping[str, Any], where: str = "configuration") -> RunConfig:
    """The checked `RunConfig` of a tree of plain values, as TOML or JSON give it.

    Raises:
        ConfigError: names the dotted path of the first wrong key, type or value.
    """
    from pydantic import ValidationError

    tree = _with_environment(_with_shorthands(tree, where), "", where)
    _refuse_unknown_keys(RunConfig, tree, "", where)
    _refuse_infinite(tree, "", where)
    try:
        return checked(tree)
    except ValidationError as error:
        # A table of positions is tried as each of their kinds: what the wrong ones say comes last.
        first = min(error.errors(), key=lambda e: e["loc"][1::2] == ("positions", "kind"))
        raise _refusal(first, where) from None


def _refusal(error: ErrorDetails, where: str) -> ConfigError:
    """What pydantic, or a check of ours within it, found wrong."""
    names = [str(part) for part in error["loc"] if not str(part)[:1].isupper()]
    path = ".".join(names)
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        # Most checks begin with the name of a setting of their own section.
        begins = message.replace(" ", ".").partition(".")[0]
        own = begins in {field.name for field in dataclasses.fields(_section(names))}
        what = f"{path}.{message}" if path and own else f"{path}: {message}" if path else message
        about = ".".join(filter(None, (path, begins if own else "")))
        return ConfigError(what, where=where, setting=about)
    choices = re.findall(r"'([^']*)'", message) if error["type"] == "literal_error" else ()
    return ConfigError(
        f"{path or 'the configuration'}: {message}",
        where=where,
        setting=path,
        why=f"it says {error['input']!r}",
        todo=meant(path, error["input"], choices),
    )


def _section(names: Sequence[str]) -> type:
    """The dataclass of a section, by the names on the way to it."""
    kind: type = RunConfig
    for name in names:
        written = next(str(f.type) for f in dataclasses.fields(kind) if f.name == name)
        kind = SECTIONS.get(written, Learned)  # of the kinds of positions, the only one with checks
    return kind


def config_to_dict(config: RunConfig) -> dict[str, Any]:
    """The plain tree of a config; `config_from` reads it back to an equal config."""
    return dataclasses.asdict(config)


def _with_shorthands(tree: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`model.size`, a single dropout, width or pooling written out; what is explicit wins."""
    tree = dict(tree)
    classifier = tree.get("classifier")
    if isinstance(classifier, Mapping) and isinstance(classifier.get("pooling"), str):
        tree["classifier"] = {**classifier, "pooling": [classifier["pooling"]]}
    model = tree.get("model")
    if isinstance(model, str):
        raise ConfigError(
            "model: this is a section of settings, not one value",
            where=where,
            why=f"it says {model!r}",
            todo=meant("model.size", model, SIZES) or f"a size is one of {', '.join(SIZES)}",
        )
    if not isinstance(model, Mapping):
        return tree
    model = dict(model)
    size = model.pop("size", None)
    if size is not None:
        model = {**expanded_size(size, where), **model}
    if "dropout" in model:
        model["dropout"] = expanded_dropout(model["dropout"])
    width = model.get("input_convolution")
    if isinstance(width, int) and not isinstance(width, bool):
        model["input_convolution"] = [width] if width else []
    tree["model"] = model
    return tree


def _with_environment(value: Any, path: str, where: str) -> Any:
    """`${NAME}` in every string replaced by the environment variable."""
    if isinstance(value, Mapping):
        return {k: _with_environment(v, f"{path}.{k}".lstrip("."), where) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_with_environment(item, path, where) for item in value]
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise ConfigError(
                f"{path}: the environment variable {name} is not set",
                where=where,
                todo=f"set it: export {name}=/the/folder",
            )
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", look_up, value)


def _refuse_unknown_keys(
    kind: type,
    tree: Mapping[str, Any],
    path: str,
    where: str,
    everywhere: Collection[str] = tuple(paths()),
) -> None:
    """Walk the tree beside the dataclasses: a wrong key is met with the nearest right one."""
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key, value in tree.items():
        dotted = f"{path}.{key}".lstrip(".")
        if key not in fields:
            raise ConfigError(
                f"{dotted}: there is no such setting",
                where=where,
                todo=setting_meant(key, path, [*fields, *SHORTHANDS.get(kind, ())], everywhere),
            )
        if not isinstance(value, Mapping):
            continue
        if fields[key].type == "Positions":
            # What another kind has, or another section, is of no use to this one.
            _refuse_unknown_keys(_positions(value, dotted, where), value, dotted, where, ())
        elif part := SECTIONS.get(str(fields[key].type)):
            _refuse_unknown_keys(part, value, dotted, where)


def _refuse_infinite(value: Any, path: str, where: str) -> None:
    """TOML can write inf and nan, which no setting means."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_infinite(inner, f"{path}.{key}".lstrip("."), where)
    elif isinstance(value, float) and not math.isfinite(value):
        what = f"{path} must be a finite number"
        raise ConfigError(what, where=where, setting=path, why=f"it says {value}")


def _positions(value: Mapping[str, Any], path: str, where: str) -> type:
    kinds = {"sinusoidal": Sinusoidal, "learned": Learned, "none": NoPositions}
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ConfigError(
            f"{path}.kind: {kind!r} is not one of {', '.join(kinds)}",
            where=where,
            todo=meant(f"{path}.kind", kind, kinds),
        )
    return kinds[kind]
