"""How a setting is declared: once, as a field with its default, bounds, meaning and runs.

A `Section` of settings is a frozen pydantic dataclass, each of whose fields is a `setting(...)` or
an inner section. Error messages, `docs/settings.md` and the comments that `clearhead init` writes
are generated from these declarations.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import reduce
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, ValidationError

from clearhead.errors import ConfigError

# Building a schema takes far longer than importing a module, so it waits for the first instance.
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)

BOUNDS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
"""The bounds of a number, by their names in pydantic."""


class _Checked(type):
    """The type of sections: a wrong argument raises a ConfigError that names the setting."""

    if not TYPE_CHECKING:  # which would no longer see the arguments

        def __call__(cls, *arguments, **named):
            try:
                return super().__call__(*arguments, **named)
            except ValidationError as error:
                from clearhead.settings.reading import section_error

                raise section_error(error, cls) from None


class Section(metaclass=_Checked):
    """The base of the sections of settings."""


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
        only_with: the name of another setting of the section, and the choices of it with which
            this one has an effect; no choices: any value that is not empty.
        tolerated: it may be set with other choices than those of `only_with`, without effect.
        also_default: values that a model size sets, which are never rejected.
        choices: by task, where the tasks allow different ones.
        also: what else the value may be, instead of the list or table of its type.
        init: the kinds of runs for which `clearhead init` writes it.
        init_if_changed: likewise, but only if it differs from its default.
    """

    meaning: str
    details: str = ""
    bounds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    runs: Runs = Runs.ALL
    only_with: tuple[str, ...] = ()
    tolerated: bool = False
    also_default: tuple[Any, ...] = ()
    choices: Mapping[str, tuple[str, ...]] | None = None
    also: str = ""
    init: Runs = Runs.NONE
    init_if_changed: Runs = Runs.NONE


def setting(default: Any, meaning: str, **declared: Any) -> Any:
    """A field of a section."""
    bounds = {name: declared.pop(name) for name in BOUNDS if name in declared}
    declaration = Declaration(meaning, bounds=bounds, **declared)
    metadata = {"description": meaning, "declaration": declaration, **bounds}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    if isinstance(default, int | float):
        metadata["strict"] = True  # neither "3" nor true is a 3
    return dataclasses.field(default=default, metadata=metadata)


class WrongSettingError(ValueError):
    """A setting that contradicts another setting.

    Attributes:
        setting: its name within the section that is checked; empty for the whole section.
        problem: what is wrong with it, as the rest of a sentence that begins with the setting.
        todo: what to do about it.
    """

    def __init__(self, setting: str, problem: str, todo: str | None = None) -> None:
        super().__init__(f"{setting} {problem}".strip())
        self.setting, self.problem, self.todo = setting, problem, todo


def require(condition: bool, setting: str, problem: str, todo: str | None = None) -> None:
    """Raise a `WrongSettingError` unless the condition holds."""
    if not condition:
        raise WrongSettingError(setting, problem, todo)


@dataclass(frozen=True)
class Setting:
    """A declared setting.

    Attributes:
        path: dotted, from the section whose settings are listed.
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
    def sections(self) -> tuple[Any, ...]:
        """The class of a section, or the classes that it may have; none for a single value."""
        kind, _ = unwrapped(self.annotation)
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        return tuple(k for k in kinds if isinstance(k, type) and dataclasses.is_dataclass(k))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that a choice, or an item of a list of choices, allows."""
        kind, _ = unwrapped(self.annotation)
        return get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def only_with(self) -> tuple[str, tuple[str, ...]]:
        """The path of another setting and the choices with which this one has an effect."""
        name, *choices = self.declaration.only_with or ("",)
        return name and f"{self.path.rpartition('.')[0]}.{name}".lstrip("."), tuple(choices)


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
            tag, kinds = f"{dotted}.kind", tuple(each.kind for each in found.sections)
            first = next(each for each in inner if each.path == tag)
            yield dataclasses.replace(first, annotation=Literal[kinds])  # pyright: ignore[reportInvalidTypeForm]
            inner = [each for each in inner if each.path != tag]
        yield from inner


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    """A type without annotations, or that of the items of a list; and whether it is a list."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return unwrapped(args[0])
    return (unwrapped(args[0])[0], True) if origin is tuple else (annotation, False)


def in_words(bounds: Mapping[str, float]) -> str:
    """For example `at least 0 and less than 1`."""
    return " and ".join(f"{BOUNDS[name]} {value:,}" for name, value in bounds.items())


def as_toml(value: Any) -> str:
    """A value as in a TOML file; None as `unset`."""
    if value is None:
        return "unset"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {as_toml(inner)}' for name, inner in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    # Strings and booleans are written alike in JSON and TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def value_at(config: Any, path: str) -> Any:
    """The value of a setting, by its dotted path."""
    return reduce(getattr, path.split("."), config)


def reject_without_effect(config: Any, overrides: Sequence[str] = ()) -> None:
    """Raise an error if a setting is not at its default although the run ignores it."""
    # Values that a model size sets are accepted. So are settings of the file that need a choice
    # which an override replaces.
    changed = _changed(config)
    if ignored := [each for each in changed if config.kind not in each.runs]:
        values = " and ".join(
            f"{each.path} = {as_toml(value_at(config, each.path))}" for each in ignored
        )
        has, them = ("has", "it") if len(ignored) == 1 else ("have", "them")
        raise ConfigError(
            f"{values} {has} no effect on {config.kind.in_words}",
            setting=ignored[0].path,
            why="; ".join(f"{each.path} is for {each.runs.in_words}" for each in ignored),
            todo=f"remove {them}",
        )
    overridden = {override.partition("=")[0].strip() for override in overrides}
    for each in changed:
        other, choices = each.only_with
        if not other or each.declaration.tolerated:
            continue
        choice = value_at(config, other)
        has_effect = choice in choices if choices else choice
        # An override that tries another choice need not undo what the file sets for its own.
        if not has_effect and (other not in overridden or each.path in overridden):
            values = f" = {' or '.join(map(as_toml, choices))}" if choices else ""
            raise ConfigError(
                f"{each.path} = {as_toml(value_at(config, each.path))} has no effect with "
                f"{other} = {as_toml(choice)}",
                setting=each.path,
                todo=f"set {other}{values}, or remove {each.path}",
            )


def _changed(config: Any) -> list[Setting]:
    """The settings with a condition that are not at their defaults."""
    defaults, changed = type(config)(), []
    for each in settings_of(type(config)):
        declared = each.declaration
        if not each.sections and (
            each.runs != Runs.ALL or (declared.only_with and not declared.tolerated)
        ):
            default = value_at(defaults, each.path)
            if value_at(config, each.path) not in (default, *declared.also_default):
                changed.append(each)
    return changed
