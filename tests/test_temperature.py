"""The temperature of a classifier's probabilities: read with the folder, or refused with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import api
from clearhead.errors import ModelFolderError
from fake_translator import run
from model_folders import write_models


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written / "texts", tmp_path / "texts")


def scores(temperature: Any) -> str:
    return json.dumps({"scores": {"temperature": temperature}})


@pytest.mark.parametrize("temperature", [1, 2.5, 0.05])
def test_the_logits_are_divided_by_it(folder: Path, temperature: float) -> None:
    (folder / "scores.json").write_text(scores(temperature))
    model = api.load_classifier(folder, device="cpu")
    assert model.temperature == temperature
    # After it was loaded the folder is not asked again.
    shutil.rmtree(folder)
    odds = np.exp(model.logits(["a b"]) / temperature)
    np.testing.assert_allclose(model.probabilities(["a b"]), odds / odds.sum(), rtol=1e-9)


DAMAGES = {
    "missing": None,
    "empty": "",
    "cut": scores(1.0)[:-3],
    "no table": "[]",
    "scores missing": "{}",
    "scores no table": '{"scores": 3}',
    "temperature missing": '{"scores": {"loss": 1.0}}',
    **{f"temperature {wrong!r}": scores(wrong) for wrong in ("1.0", None, True, [1.0], 0, -1.0)},
    **{f"temperature {name}": scores(float(name)) for name in ("nan", "inf")},
    "temperature beyond all floats": scores(10**400),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_scores_is_refused_when_the_model_is_loaded(
    folder: Path, damage: str
) -> None:
    path, content = folder / "scores.json", DAMAGES[damage]
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ModelFolderError, match="damaged") as raised:
        api.load(folder, device="cpu")
    assert raised.value.where == str(path)
    assert "clearhead train RUN.toml" in str(raised.value.todo)


def test_the_command_says_it_before_it_reads_anything(folder: Path) -> None:
    (folder / "scores.json").write_text("{}")
    code, out, err = run("classify", str(folder), "--device", "cpu", stdin=b"\xff")
    assert (code, out) == (ModelFolderError.exit_code, "")
    assert "scores.temperature is missing" in err


def test_a_translator_needs_none(written: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(written / "translator", tmp_path / "translator")
    (copy / "scores.json").unlink()
    assert api.load_translator(copy, device="cpu").translate(["a"])
