"""Model folders with random weights, for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_folders import write_models


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator, the classifiers of texts `texts`, `rival` and `several`, and `features`."""
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder
