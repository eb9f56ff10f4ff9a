"""What `--set path=value` lays over the tree of a configuration file."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from typing import Any

from clearhead.config.model import ModelConfig, expanded_dropout
from clearhead.config.run import RunConfig
from clearhead.errors import ConfigError

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
