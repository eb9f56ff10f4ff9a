"""A classifier loads the temperature of its folder and rejects one that does not fit."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import api
from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import open_folder
from clearhead.folder.tensors import read_tensors
from clearhead.settings import RunConfig
from model_folders import without_manifest, write_models
from small_runs import text_run


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return without_manifest(shutil.copytree(written / "texts", tmp_path / "texts"))


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
def test_a_damaged_file_of_scores_is_rejected_when_the_model_is_loaded(
    folder: Path, damage: str
) -> None:
    path, content = folder / "scores.json", DAMAGES[damage]
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ModelFolderError) as raised:
        api.load(folder, device="cpu")
    assert raised.value.where == str(path)
    assert "clearhead train" in str(raised.value.todo)


def test_scores_that_are_not_those_of_the_manifest_are_rejected(
    written: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(written / "texts", tmp_path / "texts")
    (folder / "scores.json").write_text(scores(1.5))
    with pytest.raises(ModelFolderError) as raised:
        api.load(folder, device="cpu")
    assert raised.value.where == str(folder / "scores.json")


class Killed(BaseException):
    """Ends training without any clean-up, like a power cut."""


@pytest.mark.slow
def test_a_run_killed_after_any_file_leaves_no_weights_with_the_scores_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(name: str) -> RunConfig:
        return text_run(tmp_path, name, training={"max_steps": 4, "validate_every": 2})

    written: list[str] = []
    replace = os.replace

    def counted(source: Any, target: Any) -> None:
        if len(written) == last:
            raise Killed
        replace(source, target)
        written.append(Path(target).name)

    def kept(config: RunConfig) -> dict[str, bytes]:
        folder = Path(config.folder)
        files = [folder / "weights.safetensors", folder / "scores.json"]
        files += sorted((folder / "training" / "checkpoints").iterdir())
        return {path.name: path.read_bytes() for path in files}

    monkeypatch.setattr("clearhead.folder.files.os.replace", counted)
    last = -1
    api.train(short("through"))
    expected = kept(short("through"))
    order = list(written)
    # So that there are old scores beside new weights.
    assert order.count("weights.safetensors") >= 2
    for last in range(order.index("scores.json") + 1, len(order)):
        config = short(f"killed-{last}")
        written.clear()
        with pytest.raises(Killed):
            api.train(config)
        last = -1
        assert api.load_classifier(config.folder, device="cpu")
        found = open_folder(config.folder)
        step = json.loads(found.read("scores.json"))["step"]
        assert read_tensors(found.weights_path, found.weights_entry)[1]["step"] == step
        assert api.train(config).finished
        assert kept(config) == expected


def test_a_translator_needs_none(written: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(written / "translator", tmp_path / "translator")
    (copy / "scores.json").unlink()
    assert api.load_translator(copy, device="cpu").translate(["a"])


DAMAGE = {
    "altered": b"[1]",
    "cut off": b'{"sc',
    "empty": b"",
    "no text": b"\xff\0",
    "missing": None,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["provenance.json", "scores.json"])
def test_a_damaged_record_does_not_stop_a_translation(
    translator: api.Translator, tmp_path: Path, name: str, damage: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(translator.folder.path, copy, ignore=shutil.ignore_patterns("training"))
    assert name in json.loads((copy / "manifest.json").read_text())["files"]
    (copy / name).unlink()
    if (content := DAMAGE[damage]) is not None:
        (copy / name).write_bytes(content)
    ((hypothesis, *_),) = api.load_translator(copy, device="cpu").translate(["a b"])
    assert hypothesis.text == translator.translate(["a b"])[0][0].text
