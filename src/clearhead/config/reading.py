"""From TOML and `--set path=value` to a checked RunConfig, and back to plain values."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.config.meaning import refuse_meaningless
from clearhead.config.model import (
    SIZES,
    Learned,
    NoPositions,
    Sinusoidal,
    expanded_dropout,
    expanded_size,
)
from clearhead.config.nearest import meant, setting_meant
from clearhead.config.overrides import lay_over
from clearhead.config.run import RunConfig
from clearhead.config.schema import checked
from clearhead.config.sections import SECTIONS, SHORTHANDS, paths
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


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
        return ConfigError(what, where=where)
    choices = re.findall(r"'([^']*)'", message) if error["type"] == "literal_error" else ()
    return ConfigError(
        f"{path or 'the configuration'}: {message}",
        where=where,
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
        raise ConfigError(f"{path} must be a finite number", where=where, why=f"it says {value}")


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
