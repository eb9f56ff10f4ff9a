"""A server of two translators, English to German and back, for the tests of several APIs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exported_models import random_folder
from running_server import RunningServer, running


@pytest.fixture(scope="package")
def translators(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("translators")
    return (
        random_folder(folder / "en-de", languages=("en", "de")),
        random_folder(folder / "de-en", languages=("de", "en"), seed=2),
    )


@pytest.fixture(scope="package")
def served(
    translators: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with running(*translators, storage=tmp_path_factory.mktemp("store")) as server:
        yield server
