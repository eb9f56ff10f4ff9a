"""From TOML and `--set path=value` to a checked `RunConfig`."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.errors import ConfigError, reason
from clearhead.settings.data import PARTS, DataConfig, absolute_path, as_files
from clearhead.settings.declare import as_toml, reject_without_effect
from clearhead.settings.model import expanded_dropout
from clearhead.settings.run import RunConfig

MOST_BYTES = 2**20
"""The most bytes of a TOML file."""


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML file and apply overrides, `path=value`.

        config = clearhead.read_config("my.toml", ["training.max_steps=100"])

    `${NAME}` in a string is replaced by the environment variable NAME. Relative paths of data and
    of `start_from` in the file start in its folder and become absolute; those in overrides do not
    change.

    Raises:
        ConfigError: the file is missing or not TOML; a key, type or value is wrong; or a setting
            has no effect on the task. The place of a wrong value is the file or the override.
    """
    path = Path(path)
    tree = _read_toml(path)
    for override in overrides:
        apply_override(tree, override)
    try:
        tree = _with_environment(tree, "", str(path))
    except RecursionError:
        raise ConfigError("the settings are nested too deeply", where=path) from None
    overridden = {override.partition("=")[0].strip() for override in overrides}
    if "start_from" not in overridden and isinstance(start := tree.get("start_from"), str):
        tree["start_from"] = absolute_path(start, path.parent)
    if "data" not in overridden:
        of_file = [name for name in PARTS if f"data.{name}" not in overridden]
        _make_absolute(tree.get("data"), of_file, path.parent)
    try:
        config = config_from(tree)
        reject_without_effect(config, overrides)
    except ConfigError as error:
        raise located(error, _place_of(error.setting or "", overrides, path)) from None
    return config if config.folder else dataclasses.replace(config, folder=f"runs/{path.stem}")


def _place_of(setting: str, overrides: Sequence[str], path: Path) -> str:
    """The last override that sets a setting or its section, or else the file."""
    for override in reversed(overrides):
        if f"{setting}.".startswith(f"{override.partition('=')[0].strip()}."):
            return f"--set {override}"
    return str(path)


def _read_toml(path: Path) -> dict[str, Any]:
    """The tree of a TOML file; `read_config` has the errors."""
    text = ""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            why = f"it has more than {MOST_BYTES:,} bytes"
            raise ConfigError("this is not a file of settings", where=path, why=why)
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        return tomllib.loads(text)
    except (FileNotFoundError, IsADirectoryError) as error:
        is_folder = isinstance(error, IsADirectoryError)
        likely = [p for p in (Path(f"{path}.toml"), Path(f"{path.name}.toml")) if p.is_file()]
        todo = f"did you mean {likely[0]}?" if likely else "write one: clearhead init NAME"
        if not likely and (path / "config.json").exists():
            todo = "name the TOML file that this model was trained with"
        raise ConfigError(
            "this is a folder, not a TOML file" if is_folder else "there is no such file",
            where=path,
            todo=todo,
        ) from None
    except UnicodeDecodeError as error:
        what, todo = "this is not a TOML file", "name one; clearhead init NAME writes one"
        raise ConfigError(what, where=path, why=reason(error), todo=todo) from None
    except OSError as error:
        raise ConfigError("the file cannot be read", where=path, why=reason(error)) from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = text.split("\n")[int(place[1]) - 1] if place else ""
        unquoted = re.fullmatch(r"\s*([\w.-]+)\s*=\s*([^\s\[{\"'#][^\"'#]*?)\s*(#.*)?", line)
        todo = "clearhead init NAME writes a file as an example"
        if unquoted:
            todo = f'put a string into quotation marks: {unquoted[1]} = "{unquoted[2]}"'
        raise ConfigError("this is not valid TOML", where=path, why=str(error), todo=todo) from None
    except (RecursionError, ValueError) as error:  # deep nesting, or a number of many digits
        raise ConfigError("this TOML cannot be read", where=path, why=reason(error)) from None


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """The run with absolute paths of data and `start_from`; they start in the current folder."""
    data = dataclasses.asdict(config.data)
    _make_absolute(data, PARTS, Path())
    start_from = absolute_path(config.start_from)
    return dataclasses.replace(config, data=DataConfig(**data), start_from=start_from)


def _make_absolute(data: Any, names: Iterable[str], folder: Path) -> None:
    """Make the data paths with these names absolute. The values may be wrong, also `data`."""
    for name in names if isinstance(data, dict) else ():
        files = as_files(data.get(name))
        if isinstance(files, list | tuple):
            data[name] = [absolute_path(f, folder) if isinstance(f, str) else f for f in files]


def config_from(tree: Mapping[str, Any], where: str = "configuration") -> RunConfig:
    """The checked `RunConfig` of a tree of plain values, such as that of a model folder.

    `dataclasses.asdict` makes such a tree of a `RunConfig`.

    Raises:
        ConfigError: names the dotted path of the first wrong key, type or value.
    """
    try:
        return RunConfig(**tree)
    except ConfigError as error:
        raise located(error, where) from None


def located(error: ConfigError, where: str) -> ConfigError:
    """The same error with another place."""
    return ConfigError(
        error.what, setting=error.setting, where=where, why=error.why, todo=error.todo
    )


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Apply `path=value` to the tree; the value is read as TOML, or else as a plain string."""
    dotted, separator, text = override.partition("=")
    if not separator or not dotted.strip():
        raise ConfigError(
            f"--set {override}: this is not path=value", todo="e.g. --set training.max_steps=1000"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
        if text.strip().startswith("["):
            items = re.findall(r"[^\s\[\],]+", text)
            raise ConfigError(
                f"--set {override}: this is not a list",
                why="a shell removes quotation marks",
                todo=f"put it into single ones: --set '{dotted.strip()}={as_toml(items)}'",
            ) from None
    *sections, name = dotted.strip().split(".")
    if sections[:1] == ["training"]:
        tree.setdefault("training", {"max_steps": RunConfig().training.max_steps})
    for depth, section in enumerate(sections, start=1):
        if sections[:depth] == ["model", "dropout"]:
            # The rates that are not named keep their values, which a table would set to 0.
            rates = tree.setdefault(section, dataclasses.asdict(RunConfig().model.dropout))
            tree[section] = expanded_dropout(rates)
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(
                f"--set {override}: {section} is a single value here",
                todo=f"set the parts of {section} in the file, each by name",
            )
        tree = inner
    tree[name] = value


def _with_environment(value: Any, path: str, where: str) -> Any:
    """`${NAME}` in every string replaced by the environment variable; TOML's dates as strings."""
    if isinstance(value, Mapping):
        return {k: _with_environment(v, f"{path}.{k}".lstrip("."), where) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_environment(item, path, where) for item in value]
    if isinstance(value, int | float):
        return value

    def look_up(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise ConfigError(
                f"{path}: the environment variable {name} is not set",
                where=where,
                setting=path,
                todo=f"set it: export {name}=/the/folder",
            )
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", look_up, str(value))
