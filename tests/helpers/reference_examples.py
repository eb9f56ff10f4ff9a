"""The configurations of the five reference systems in examples/reference."""

from __future__ import annotations

from clearhead.settings import RunConfig, read_config
from scripts import ROOT

PATHS = {path.name[0]: path for path in (ROOT / "examples/reference").glob("*.py")}


def config_of(letter: str, *overrides: str) -> RunConfig:
    return read_config(PATHS[letter].with_suffix(".toml"), overrides)
