"""From TOML and `--set path=value` to a checked `RunConfig`."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clearhead.errors import ConfigError, meant, nearest, reason
from clearhead.settings.data import PARTS, DataConfig, absolute_path, as_files
from clearhead.settings.declare import (
    BOUNDS,
    Setting,
    WrongSettingError,
    as_toml,
    in_words,
    reject_without_effect,
    settings_of,
    unwrapped,
)
from clearhead.settings.model import expanded_dropout
from clearhead.settings.run import RunConfig

MOST_BYTES, DEEPEST = 2**20, 10
"""The most bytes of a TOML file, and the most levels of nested values in it."""

STRING_OR_COMMENT = re.compile(
    r'''
    """ [^"\\]*+ (?: (?: \\. | "{1,2}(?!") ) [^"\\]*+ )*+ "{3,5}
    | \'{3} [^']*+ (?: '{1,2}(?!') [^']*+ )*+ '{3,5}
    | " [^"\\\n]*+ (?: \\. [^"\\\n]*+ )*+ "
    | ' [^'\n]*+ '
    | \# [^\n]*+
    | ["'] .*+  # a string without an end, where the parser stops
    ''',
    re.VERBOSE | re.DOTALL,
)
"""A string or comment of TOML, whose dots join no keys."""


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML file and apply overrides, `path=value`.

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
    _check_depth(tree, str(path))
    tree = _with_environment(tree, "", str(path))
    overridden = {override.partition("=")[0].strip() for override in overrides}
    if "start_from" not in overridden and isinstance(start := tree.get("start_from"), str):
        tree["start_from"] = absolute_path(start, path.parent)
    if "data" not in overridden:
        of_file = [name for name in PARTS if f"data.{name}" not in overridden]
        _make_absolute(tree.get("data"), of_file, path.parent)
    try:
        config = config_from(tree)
        # Not in config_from: a model folder of an earlier version may hold such settings.
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
        return _parsed(text)
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
        if re.match("Cannot (overwrite|declare)", str(error)):
            todo = "the same setting or section is there twice: remove one of the two"
        elif unquoted:
            todo = f'put a string into quotation marks: {unquoted[1]} = "{unquoted[2]}"'
        raise ConfigError("this is not valid TOML", where=path, why=str(error), todo=todo) from None
    except (RecursionError, ValueError) as error:
        nested = isinstance(error, RecursionError)
        why = "values are nested too deeply" if nested else "a number has too many digits"
        todo = "clearhead init NAME writes a file as an example"
        raise ConfigError("this TOML cannot be read", where=path, why=why, todo=todo) from None


def _parsed(text: str) -> dict[str, Any]:
    """The tree of a TOML text."""
    # The parser takes time and memory in the square of the parts of a dotted key, so such a key is
    # refused before it is parsed.
    bare = STRING_OR_COMMENT.sub(lambda found: "" if found[0][0] == "#" else "s", text)
    if any(key.count(".") >= DEEPEST for key in re.findall(r"[\w. \t-]+", bare)):
        raise RecursionError(f"a key has more than {DEEPEST} parts")
    return tomllib.loads(text)


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
    _check_depth(tree, where)
    try:
        return RunConfig(**tree)
    except ConfigError as error:
        raise located(error, where) from None


def _check_depth(tree: Any, where: str) -> None:
    """Check that values are not nested more deeply than any settings are, level by level."""
    values = [tree]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, Mapping) else each for each in values]
        values = [v for each in inner for v in each if isinstance(v, Mapping | list | tuple)]
    if values:
        raise ConfigError("the settings are nested too deeply", where=where)


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
        value = _parsed(f"value = {text}")["value"]
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


TYPES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a string",
    "string_unicode": "a string of characters of Unicode",
    "invalid_key": "a setting with a name",
    "tuple_type": "a list",
    "dataclass_type": "a table of settings",
    "model_attributes_type": "a table of settings",
}
"""What is expected, by the type of pydantic's error."""

UNQUOTED = {
    "int_type": r"-?[\d_]+",
    "float_type": r"-?\d+(\.\d+)?(e-?\d+)?",
    "bool_type": "true|false",
}
"""The form of a value that would be right without quotation marks, by the type of the error."""


def section_error(error: ValidationError, checked: type) -> ConfigError:
    """The first of pydantic's errors, unknown settings before all others, as one of ours."""
    where, section = checked.__name__, _section_of(checked)
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda each: each["type"] != "unexpected_keyword_argument")
    path, tag = _path((*section, *first["loc"]))
    kind, context, got = first["type"], first.get("ctx", {}), first["input"]
    if kind == "unexpected_keyword_argument":
        what, todo = f"{path}: there is no such setting", _suggestion(path, tag, bool(section))
        if path == "model.size":  # a setting of files, which stands for several
            todo = f"make a model of this size: ModelConfig.of_size({first['input']!r:.100})"
        return ConfigError(what, where=where, setting=path, todo=todo)
    if isinstance(wrong := context.get("error"), WrongSettingError):
        about = ".".join(filter(None, (path, wrong.setting)))
        what = f"{about}{'' if wrong.setting else ':'} {wrong.problem}"
        return ConfigError(what, where=where, setting=about, todo=wrong.todo)
    if kind.startswith("union_tag"):
        path, got = f"{path}.kind", got.get("kind") if isinstance(got, Mapping) else got
    # The path of an item of a list is that of the list and a number.
    setting = _known().get(path) or _known().get(path.rpartition(".")[0])
    expected, todo = TYPES.get(kind), None
    if setting and (kind == "literal_error" or kind.startswith("union_tag")):
        words = [c if isinstance(c, str) else json.dumps(c) for c in setting.choices]
        expected = f"one of {', '.join(words)}"
        todo = meant(path, got, [c for c in setting.choices if isinstance(c, str)])
    elif passed := {name: bound for name, bound in context.items() if name in BOUNDS}:
        expected = in_words((setting and setting.declaration.bounds) or passed)
    elif setting and kind in ("tuple_type", "dataclass_type", "model_attributes_type"):
        also = setting.declaration.also
        expected = f"a {also} or {expected}" if also else expected
        todo = _in_place_of(setting, got)
    elif kind in UNQUOTED and isinstance(got, str) and re.fullmatch(UNQUOTED[kind], got):
        todo = f"write it without quotation marks: {path} = {got}"
    problem = f"must be {expected}" if expected else f"is wrong ({first['msg']})"
    got = text if len(text := repr(got)) <= 100 else f"{text[:97]}..."
    what = f"{path or 'the configuration'} {problem}; got {got}"
    return ConfigError(what, where=where, setting=path, todo=todo)


def _section_of(kind: Any) -> tuple[str, ...]:
    """The location of the section of a class; empty for a whole run."""
    for each in _known().values():
        if found := next((s for s in each.sections if issubclass(kind, s)), None):
            tag = (found.kind,) if len(each.sections) > 1 else ()
            return (*each.path.split("."), *tag)
    return ()


def _in_place_of(setting: Setting, got: Any) -> str | None:
    """What to do about a single value where a list or a table is expected."""
    path = setting.path
    if not setting.sections:
        if unwrapped(setting.annotation)[0] is int:
            return f"e.g. {path} = [3, 4, 5]"
        items = got.split(",") if isinstance(got, str) else [*setting.choices[:1]] or ["NAME"]
        value = json.dumps(items, ensure_ascii=False)
        return f"write a list: {path} = {value} (option: --set '{path}={value}')"
    for name in ("size", "kind"):  # the settings that choose between tables
        if chooses := _known().get(f"{path}.{name}"):
            choices = chooses.choices
            return (
                meant(chooses.path, got, choices)
                or f"{chooses.path} is one of {', '.join(choices)}"
            )
    return f"e.g. {path} = 0.1" if setting.declaration.also else None


def _path(location: Iterable[int | str]) -> tuple[str, str]:
    """The dotted path of a location, and the kind of section that pydantic names within it."""
    names: list[str] = []
    tag = ""
    for part in location:
        around = _known().get(".".join(names))
        if around and len(around.sections) > 1 and not tag:
            tag = str(part)
        else:
            names.append(str(part))
    return ".".join(names), tag


RENAMED = {"classifier.encoder_from": "start_from"}
"""Settings of earlier versions, with their present names."""


def _suggestion(path: str, tag: str, only_here: bool) -> str:
    """What may have been meant by an unknown setting, in a section of the kind `tag` if any."""
    if path in RENAMED:
        return f"did you mean {RENAMED[path]}?"
    section, _, name = path.rpartition(".")
    around = _known().get(section)
    sections = around.sections if around else (RunConfig,)
    elsewhere = [known for known in _known() if known.rpartition(".")[2] == name]
    if tag:  # settings of other kinds, and of other sections, are of no use here
        sections = [each for each in sections if each.kind == tag]
    elif elsewhere and not only_here:
        elsewhere.sort(key=lambda known: not known.startswith(f"{section}."))
        return f"did you mean {' or '.join(elsewhere)}?"
    here = [s.path for each in sections for s in settings_of(each) if "." not in s.path]
    if close := nearest(name, here):
        return f"did you mean {f'{section}.{close}'.lstrip('.')}?"
    return f"the settings here are {', '.join(here)}"


@functools.cache
def _known() -> dict[str, Setting]:
    """All settings by dotted path, sections included."""
    return {each.path: each for each in settings_of(RunConfig)}
