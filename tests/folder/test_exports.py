"""Tests of what all exports share: what belongs to an export, and when it is out of date."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ExportError
from clearhead.folder import exports
from clearhead.folder.exports import DESCRIPTION, origin_of, read_export, write_export
from clearhead.folder.manifest import sealed, unsealed
from clearhead.folder.model_folder import ModelFolder, open_folder
from exported_models import random_folder
from model_folders import write_models


def build(folder: Path) -> Mapping[str, Any]:
    (folder / "model.bin").write_text("weights")
    return {"quality": 3}


@pytest.fixture
def translator(tmp_path: Path) -> ModelFolder:
    return open_folder(random_folder(tmp_path / "model"))


def test_the_description_has_the_format_the_files_and_what_the_format_adds(
    translator: ModelFolder, tmp_path: Path
) -> None:
    written = write_export(translator, "other", tmp_path / "out", build)
    tree = json.loads((tmp_path / "out" / DESCRIPTION).read_text())
    assert tree == written
    del tree["fingerprint"]
    assert tree == read_export(tmp_path / "out", "other", translator)
    assert (tree["format"], tree["version"]) == ("other", exports.VERSION)
    entry = {"size": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}
    assert (tree["files"], tree["quality"]) == ({"model.bin": entry}, 3)


def test_an_export_that_fails_leaves_the_previous_one(
    translator: ModelFolder, tmp_path: Path
) -> None:
    write_export(translator, "other", tmp_path / "out", build)

    def fail(folder: Path) -> Mapping[str, Any]:
        (folder / "model.bin").write_text("other weights")
        raise ExportError("it differs")

    with pytest.raises(ExportError, match="it differs"):
        write_export(translator, "other", tmp_path / "out", fail)
    assert (tmp_path / "out" / "model.bin").read_text() == "weights"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_an_error_of_safetensors_while_it_writes_is_an_error_of_the_export(
    translator: ModelFolder, tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    def fail(folder: Path) -> Mapping[str, Any]:
        save_file({}, folder / "missing" / "weights.safetensors")
        return {}

    with pytest.raises(ExportError) as caught:
        write_export(translator, "other", tmp_path / "out", fail)
    assert caught.value.where == str(tmp_path / "out")
    assert caught.value.todo
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_of_another_format_or_version_is_rejected(
    translator: ModelFolder, tmp_path: Path
) -> None:
    write_export(translator, "other", tmp_path / "out", build)
    with pytest.raises(ExportError) as caught:
        read_export(tmp_path / "out", "third", translator)
    assert caught.value.where == str(tmp_path / "out")
    change(tmp_path / "out" / DESCRIPTION, version=99)
    with pytest.raises(ExportError):
        read_export(tmp_path / "out", "other", translator)


def change(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps(sealed({**unsealed(json.loads(path.read_text())), **entries})))


def test_settings_with_their_default_do_not_count(translator: ModelFolder) -> None:
    """A later version may add settings; an export stays valid."""
    defaults = dict(exports._changed_settings(type(translator.config)()))
    assert defaults == {}
    changed = dict(exports._changed_settings(translator.config))
    assert {"model.d_model", "model.encoder_layers"} <= changed.keys()
    assert not any(path.startswith("data.") for path in changed)


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "labels": lambda tree: tree.update(labels=["a", "b", "c"]),
    "scores": lambda tree: tree["scores"].update(temperature=2.0),
    "tokenizer": lambda tree: tree.update(lower=True),
}


@pytest.mark.parametrize("file", CHANGES)
def test_a_classifier_has_labels_and_scores_too(tmp_path: Path, file: str) -> None:
    write_models(tmp_path)
    found = open_folder(tmp_path / "texts")
    before, path = origin_of(found), found.path / f"{file}.json"
    tree = json.loads(path.read_text())
    CHANGES[file](tree)
    path.write_text(json.dumps(tree))
    after = origin_of(found)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"tokenizers" if file == "tokenizer" else file}


def test_the_normaliser_and_the_length_of_a_classifier_count(tmp_path: Path) -> None:
    write_models(tmp_path)
    found = open_folder(tmp_path / "features")
    before = origin_of(found)
    assert "normaliser" in before
    data = dataclasses.replace(found.config.data, max_length=5)
    other = dataclasses.replace(found, config=dataclasses.replace(found.config, data=data))
    assert origin_of(other)["settings"] != before["settings"]
