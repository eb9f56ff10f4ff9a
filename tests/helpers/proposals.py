"""What the tests of `init` share: files, and the configuration that is read back."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from clearhead.data.proposing.survey import SideSurvey
from clearhead.settings import RunConfig, read_config

EXAMPLES = Path(__file__).parents[2] / "examples"
LATIN = SideSurvey(1000, 5000, 52, {"LATIN": 1.0}, tokenised=False, lower_cased=False)


def write_lines(path: Path, lines: Sequence[str]) -> str:
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def read_back(text: str, folder: Path) -> RunConfig:
    path = folder / "my-model.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)
