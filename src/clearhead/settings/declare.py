"""How a setting is declared: once, as a field with its default, bounds, meaning and runs.

A section of settings is a frozen pydantic dataclass, each of whose fields is a `setting(...)` or
an inner section. Error messages, `docs/settings.md` and the comments that `clearhead init` writes
are generated from these declarations.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict

from clearhead.errors import ConfigError

# Building a schema takes far longer than importing a module, so it waits for the first instance.
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)

BOUNDS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
"""The bounds of a number, by their names in pydantic."""


class Runs(Flag):
    """Kinds of runs: translation, classification of texts, classification of sequences."""

    TRANSLATION = auto()
    TEXTS = auto()
    SEQUENCES = auto()
    TEXT = TRANSLATION | TEXTS
    LABELLED = TEXTS | SEQUENCES
    ALL = TRANSLATION | TEXTS | SEQUENCES
    NONE = 0

    @property
    def in_words(self) -> str:
        """For example `translation and classification of texts`."""
        return " and ".join(_NAMES[kind] for kind in self)


_NAMES = {
    Runs.TRANSLATION: "translation",
    Runs.TEXTS: "classification of texts",
    Runs.SEQUENCES: "classification of sequences",
}


@dataclass(frozen=True)
class Declaration:
    """What is declared about a setting besides its type and default.

    Attributes:
        meaning: one phrase.
        details: further sentences for the reference.
        bounds: of the value, by pydantic's names: `ge`, `gt`, `le`, `lt`.
        runs: the kinds of runs in which it has an effect.
        needs: another setting of the section that must be given for this one to have an effect.
        only_with: another setting of the section and the choices of it with which this one has
            an effect.
        tolerated: it may be set beside another choice than those of `only_with`.
        also_default: values that a ready-made size sets, which are never rejected.
        choices: by task, where the tasks allow different ones.
        init: the kinds of runs for which `clearhead init` writes it.
        init_if_changed: likewise, but only if it differs from its default.
    """

    meaning: str
    details: str = ""
    bounds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    runs: Runs = Runs.ALL
    needs: str = ""
    only_with: tuple[str, tuple[str, ...]] | None = None
    tolerated: bool = False
    also_default: tuple[Any, ...] = ()
    choices: Mapping[str, tuple[str, ...]] | None = None
    init: Runs = Runs.NONE
    init_if_changed: Runs = Runs.NONE


def setting(default: Any, meaning: str, **declared: Any) -> Any:
    """A field of a section.

    Args:
        default: its value, or a function that makes it.
        meaning: one phrase.
        declared: bounds of the value, which pydantic checks: `ge` (at least), `gt` (greater than),
            `le` (at most), `lt` (less than); and further attributes of `Declaration`.
    """
    bounds = {name: declared.pop(name) for name in BOUNDS if name in declared}
    declaration = Declaration(meaning, bounds=bounds, **declared)
    metadata = {"description": meaning, "declaration": declaration, **bounds}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    if isinstance(default, int | float):
        metadata["strict"] = True  # neither "3" nor true is a 3
    return dataclasses.field(default=default, metadata=metadata)


class WrongSettingError(ValueError):
    """A setting that contradicts another one.

    Attributes:
        setting: its name within the section that is checked; empty for the whole section.
        problem: what is wrong with it, as the rest of a sentence that begins with the setting.
        todo: what to do about it.
    """

    def __init__(self, setting: str, problem: str, todo: str | None = None) -> None:
        super().__init__(f"{setting} {problem}".strip())
        self.setting, self.problem, self.todo = setting, problem, todo


def require(condition: bool, setting: str, problem: str) -> None:
    """Raise a `WrongSettingError` unless the condition holds."""
    if not condition:
        raise WrongSettingError(setting, problem)


@dataclass(frozen=True)
class Setting:
    """A declared setting.

    Attributes:
        path: dotted, from the section that was asked about.
        annotation: its type.
        default: of the field; None if it is a function, or a shorthand.
        declaration: what is declared about it.
        runs: the kinds of runs in which it, and the sections around it, have an effect.
    """

    path: str
    annotation: Any
    default: Any
    declaration: Declaration
    runs: Runs

    @property
    def sections(self) -> tuple[type, ...]:
        """The class of a section, or the classes that it may have; none for a single value."""
        kind, _ = plain(self.annotation)
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        return tuple(k for k in kinds if isinstance(k, type) and dataclasses.is_dataclass(k))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that a choice, or an item of a list of choices, allows."""
        kind, _ = plain(self.annotation)
        return get_args(kind) if get_origin(kind) is Literal else ()

    def sibling(self, name: str) -> str:
        """The path of another setting of the same section."""
        return f"{self.path.rpartition('.')[0]}.{name}".lstrip(".")


def settings_of(section: type, path: str = "", runs: Runs = Runs.ALL) -> Iterator[Setting]:
    """All settings of a section and of the sections within it, in the order of declaration."""
    for name, (annotation, declaration) in getattr(section, "SHORTHANDS", {}).items():
        yield Setting(f"{path}.{name}".lstrip("."), annotation, None, declaration, runs)
    hints = get_type_hints(section, include_extras=True)
    for field in dataclasses.fields(section):
        declaration = field.metadata["declaration"]
        dotted = f"{path}.{field.name}".lstrip(".")
        default = None if field.default is dataclasses.MISSING else field.default
        found = Setting(dotted, hints[field.name], default, declaration, declaration.runs & runs)
        yield found
        inner = [s for each in found.sections for s in settings_of(each, dotted, found.runs)]
        if len(found.sections) > 1:  # several kinds, whose `kind` is one setting
            tag, kinds = f"{dotted}.kind", tuple(map(tag_of, found.sections))
            first = next(each for each in inner if each.path == tag)
            yield dataclasses.replace(first, annotation=Literal[kinds])  # pyright: ignore[reportInvalidTypeForm]
            inner = [each for each in inner if each.path != tag]
        yield from inner


def plain(annotation: Any) -> tuple[Any, bool]:
    """A type without annotations, or that of the items of a list; and whether it is a list."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return plain(args[0])
    return (plain(args[0])[0], True) if origin is tuple else (annotation, False)


def tag_of(section: type) -> str:
    """The `kind` of a section that has several forms."""
    return vars(section)["kind"]


def in_words(bounds: Mapping[str, float]) -> str:
    """For example `at least 0 and less than 1`."""
    return " and ".join(f"{BOUNDS[name]} {value:,}" for name, value in bounds.items())


def value_at(config: Any, path: str) -> Any:
    """The value of a setting, by its dotted path."""
    for name in path.split("."):
        config = getattr(config, name)
    return config


def without_effect(config: Any) -> dict[str, Runs]:
    """The settings, by dotted path, that a run of this kind ignores, and the runs they affect."""
    return {
        each.path: each.runs
        for each in settings_of(type(config))
        if config.kind not in each.runs and not each.sections
    }


def reject_without_effect(
    config: Any, where: str | Path | None = None, overrides: Sequence[str] = ()
) -> None:
    """Raise an error if a setting is not at its default although the run ignores it.

    Values that come with a ready-made model size are accepted, and so are settings of a file that
    go with a choice which an override replaces.

    Args:
        config: the `RunConfig`.
        where: the file, for the error.
        overrides: what is laid over the file, as `path=value`.

    Raises:
        ConfigError: a setting has no effect on the task; or it needs another setting, or another
            choice.
    """
    changed = _changed(config)
    _reject_for_other_runs(config, where, changed)
    overridden = {override.partition("=")[0].strip() for override in overrides}
    for path, each in changed.items():
        needs, only_with = each.declaration.needs, each.declaration.only_with
        said = f"{path} = {value_at(config, path)!r} has no effect"
        if needs and not value_at(config, other := each.sibling(needs)):
            todo = f"set {other} too, or remove {path}"
            raise ConfigError(f"{said} without {other}", where=where, setting=path, todo=todo)
        if only_with is None or each.declaration.tolerated:
            continue
        choice = value_at(config, other := each.sibling(only_with[0]))
        # An override that tries another choice need not undo what the file sets for its own.
        if choice not in only_with[1] and (other not in overridden or path in overridden):
            raise ConfigError(
                f"{said} with {other} = {choice!r}",
                where=where,
                setting=path,
                todo=f"set {other} = {' or '.join(map(repr, only_with[1]))}, or remove {path}",
            )


def _reject_for_other_runs(
    config: Any, where: str | Path | None, changed: Mapping[str, Setting]
) -> None:
    ignored = {path: runs for path, runs in without_effect(config).items() if path in changed}
    if ignored:
        values = " and ".join(f"{path} = {value_at(config, path)!r}" for path in ignored)
        has, them = ("has", "it") if len(ignored) == 1 else ("have", "them")
        raise ConfigError(
            f"{values} {has} no effect on {config.kind.in_words}",
            where=where,
            setting=next(iter(ignored)),
            why="; ".join(f"{path} is for {runs.in_words}" for path, runs in ignored.items()),
            todo=f"remove {them}",
        )


def _changed(config: Any) -> dict[str, Setting]:
    """The settings with a condition that are not at their defaults."""
    defaults, changed = type(config)(), {}
    for each in settings_of(type(config)):
        declaration = each.declaration
        needs = declaration.needs or (declaration.only_with and not declaration.tolerated)
        if each.sections or (each.runs == Runs.ALL and not needs):
            continue
        value = value_at(config, each.path)
        if value not in (value_at(defaults, each.path), *declaration.also_default):
            changed[each.path] = each
    return changed
