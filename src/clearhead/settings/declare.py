"""How a setting is declared: once, as a field with its default, bounds, meaning and runs.

A `Section` of settings is a frozen pydantic dataclass, each of whose fields is a `setting(...)` or
an inner section. Error messages, `docs/settings.md` and the comments that `clearhead init` writes
are generated from these declarations.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, ValidationError

from clearhead.errors import ConfigError, meant, nearest

# Building a schema takes far longer than importing a module, so it waits for the first instance.
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)

BOUNDS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
"""The bounds of a number, by their names in pydantic."""

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, lt=1)]


class _Checked(type):
    """The type of sections: a wrong argument raises a ConfigError that names the setting."""

    if not TYPE_CHECKING:  # which would no longer see the arguments

        def __call__(cls, *arguments, **named):
            try:
                return super().__call__(*arguments, **named)
            except ValidationError as error:
                raise section_error(error, cls) from None


class Section(metaclass=_Checked):
    """The base of the sections of settings; `whole` is the class with all of them."""

    whole: ClassVar[type]


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
        runs: the kinds of runs in which it has an effect.
        only_with: the name of another setting of the section, and the choices of it with which
            this one has an effect; no choices: any value that is not empty.
        also_default: values that a model size sets, which are never rejected.
        choices: by task, where the tasks allow different ones.
        also: what else the value may be, instead of the list or table of its type.
        init: the kinds of runs for which `clearhead init` writes it.
        init_if_changed: likewise, but only if it differs from its default.
    """

    meaning: str
    details: str = ""
    runs: Runs = Runs.ALL
    only_with: tuple[str, ...] = ()
    also_default: tuple[Any, ...] = ()
    choices: Mapping[str, tuple[str, ...]] | None = None
    also: str = ""
    init: Runs = Runs.NONE
    init_if_changed: Runs = Runs.NONE


def setting(default: Any, meaning: str, **declared: Any) -> Any:
    """A field of a section."""
    metadata = {"description": meaning, "declaration": Declaration(meaning, **declared)}
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
        annotation: its type, perhaps with bounds.
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
    def kind(self) -> Any:
        """Its type without annotations, or that of the items of a list."""
        return unwrapped(self.annotation)[0]

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds of a number, by their names in pydantic."""
        given = get_args(self.annotation)[1:] if get_origin(self.annotation) is Annotated else ()
        found = [bound for each in given for bound in getattr(each, "metadata", ())]
        return {
            name: getattr(each, name) for each in found for name in BOUNDS if hasattr(each, name)
        }

    @property
    def sections(self) -> tuple[Any, ...]:
        """The class of a section, or the classes that it may have; none for a single value."""
        kind = self.kind
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        return tuple(k for k in kinds if isinstance(k, type) and dataclasses.is_dataclass(k))

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that a choice, or an item of a list of choices, allows."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

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
    return functools.reduce(getattr, path.split("."), config)


def values_by_path(tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The values of a configuration as a dictionary of dictionaries, by their dotted paths."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        inner = isinstance(value, dict)
        found |= values_by_path(value, f"{path}{key}.") if inner else {path + key: value}
    return found


LENIENT = "search."
"""The section whose method each command may change, so that settings of both methods may be set."""


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
        if not other or each.path.startswith(LENIENT):
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
        if not each.sections and (each.runs != Runs.ALL or declared.only_with):
            default = value_at(defaults, each.path)
            if value_at(config, each.path) not in (default, *declared.also_default):
                changed.append(each)
    return changed


# Errors in values

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
        expected = in_words((setting and setting.bounds) or passed)
    elif setting and kind in ("tuple_type", "dataclass_type", "model_attributes_type"):
        also = setting.declaration.also
        expected = f"a {also} or {expected}" if also else expected
        todo = _in_place_of(setting, got)
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
    for name in ("size", "kind"):  # the settings that choose between tables
        if chooses := _known().get(f"{path}.{name}"):
            listed = f"{chooses.path} is one of {', '.join(chooses.choices)}"
            return meant(chooses.path, got, chooses.choices) or listed
    items = got.split(",") if isinstance(got, str) else [got]
    return None if setting.sections else f"write a list: {path} = {as_toml(items)}"


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


def _suggestion(path: str, tag: str, only_here: bool) -> str:
    """What may have been meant by an unknown setting, in a section of the kind `tag` if any."""
    section, _, name = path.rpartition(".")
    around = _known().get(section)
    sections = around.sections if around else (Section.whole,)
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
    return {each.path: each for each in settings_of(Section.whole)}
