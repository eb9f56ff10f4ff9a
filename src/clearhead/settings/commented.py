"""A configuration as a TOML file in which each setting has a comment, and perhaps a reason."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

from clearhead.settings.data import PARTS, path_from
from clearhead.settings.declare import Runs, Setting, as_toml, settings_of, value_at
from clearhead.settings.run import RunConfig

BROUGHT = ("model.", "tokenizer.")
"""The sections that a model to start from brings, so that they are not written."""


@dataclass(frozen=True)
class Form:
    """Which settings are written for one kind of run.

    Attributes:
        kind: of the run.
        files: example file names, where `{}` stands for the part.
        use: the command that uses the model, and its arguments after the model folder.
    """

    kind: Runs
    files: tuple[str, ...]
    use: tuple[str, str]

    @cached_property
    def run(self) -> RunConfig:
        """A run of this kind with all settings at their defaults."""
        return RunConfig(
            task="translation" if self.kind is Runs.TRANSLATION else "classification",
            input="features" if self.kind is Runs.SEQUENCES else "text",
        )

    @cached_property
    def meanings(self) -> dict[str, str]:
        """The settings that are written by dotted path, in their order, each with its comment."""
        return {
            each.path: self._comment(each)
            for each in settings_of(RunConfig)
            if self.kind in each.declaration.init | each.declaration.init_if_changed
        }

    @cached_property
    def optional(self) -> frozenset[str]:
        """The settings that are only written if they differ from their defaults."""
        every = settings_of(RunConfig)
        return frozenset(s.path for s in every if self.kind in s.declaration.init_if_changed)

    def _comment(self, setting: Setting) -> str:
        declaration = setting.declaration
        choices = (declaration.choices or {}).get(self.run.task, setting.choices)
        words = [str(choice).lower() for choice in choices]  # true and false as in TOML
        listed = f": {', '.join(words[:-1])} or {words[-1]}" if words else ""
        return declaration.meaning.replace("`", "") + listed

    def defaults(self) -> dict[str, Any]:
        """The values of the settings where the data suggest nothing."""
        return {path: self.default(path) for path in self.meanings}

    def default(self, path: str) -> Any:
        """The value of a setting where the data suggest nothing."""
        if path == "model.size":
            return "base"
        if path == "tokenizer.normal_form":
            return "sources"
        if path == "model.dropout":
            return self.run.model.dropout.residual
        return value_at(self.run, path)


TRANSLATION = Form(Runs.TRANSLATION, ("{}.en", "{}.de"), ("translate", "< in.txt > out.txt"))
TEXTS = Form(Runs.TEXTS, ("{}.csv",), ("classify", "< in.txt"))
SEQUENCES = Form(Runs.SEQUENCES, ("{}.ts",), ("classify", "--input in.ts"))


@dataclass(frozen=True)
class CommentedConfig:
    """Values of the settings of a form by dotted path, and the reasons for some of them.

    `seen` describes the data in lines.
    """

    form: Form
    values: dict[str, Any]
    reasons: dict[str, str]
    seen: tuple[str, ...] = ()

    def to_toml(self, name: str) -> str:
        """A commented file that `read_config` reads."""
        lines, section = self._header(name), ""
        for path, meaning in self.form.meanings.items():
            if path in self.form.optional and self.values[path] == self.form.default(path):
                continue
            if self.values["start_from"] and path.startswith(BROUGHT):
                continue
            inside, _, setting = path.rpartition(".")
            if inside != section:
                lines += ["", f"[{inside}]"]
                section = inside
            value: Any = self.values[path]
            if setting in PARTS:
                value = tuple(path_from(PurePath(name).parent, file) for file in value)
            if path == "start_from":
                value = path_from(PurePath(name).parent, value)
            lines += self._written(setting, value, meaning, self.reasons.get(path, ""))
        return "\n".join(lines) + "\n"

    def _header(self, name: str) -> list[str]:
        """The title, the description of the data, and the commands."""
        run = PurePath(name).name
        train = shlex.join(["clearhead", "train", f"{name}.toml"])
        command, rest = self.form.use
        commands = {
            f"{train} --dry-run": "estimates time and memory",
            train: "trains; run it again to resume",
            f"{shlex.join(['clearhead', command, f'runs/{run}'])} {rest}": "",
        }
        width = len(train) + len(" --dry-run")
        return [
            _comment(f"{run}: configuration of clearhead; the model folder is runs/{run}."),
            _comment("Relative paths of data and start_from start in the folder of this file."),
            *(line for seen in self.seen for line in _wrapped(seen, "  ")),
            "#",
            *(_comment(f"  {line:<{width}}   {does}".rstrip()) for line, does in commands.items()),
            "",
        ]

    def _written(self, setting: str, value: Any, meaning: str, reason: str) -> list[str]:
        """The lines of one setting: its reason, its value, its meaning."""
        if setting in PARTS and value == ():
            part = {"validation": "val"}.get(setting, setting)
            files = tuple(file.format(part) for file in self.form.files)
            return [f"# {setting} = {as_toml(files)}  # {meaning}"]
        line = f"{setting} = {as_toml(value)}"
        if setting in PARTS:
            return [f"# {meaning}", line]
        return [*_wrapped(reason), f"{line:<27} # {meaning}"]


def _wrapped(text: str, indent: str = "") -> list[str]:
    """A text as lines of comment, those after the first indented."""
    lines = textwrap.wrap(text, 90, break_long_words=False, break_on_hyphens=False)
    return [_comment(indent * (number > 0) + line) for number, line in enumerate(lines)]


def _comment(text: str) -> str:
    return "# " + "".join(c if c.isprintable() else "?" for c in text)
