"""Tests of what all exports share: what belongs to an export, and when it is out of date."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from clearhead.errors import ExportError
from clearhead.folder import exports
from clearhead.folder.exports import DESCRIPTION, origin_of, read_export, write_export
from clearhead.folder.manifest import sealed, unsealed
from clearhead.folder.model_folder import ModelFolder, open_folder
from exported_models import random_folder
from model_folders import change_tree, without_manifest, write_models


def build(folder: Path) -> list[str]:
    (folder / "model.bin").write_text("weights")
    return ["the same"]


@pytest.fixture
def translator(tmp_path: Path) -> ModelFolder:
    return open_folder(random_folder(tmp_path / "model"))


def test_the_description_has_the_format_the_files_and_the_comparison(
    translator: ModelFolder, tmp_path: Path
) -> None:
    sentences = write_export(translator, "other", tmp_path / "out", build)
    tree = json.loads((tmp_path / "out" / DESCRIPTION).read_text())
    assert tree["comparison"] == sentences == ["the same"]
    del tree["sha256"]
    assert tree == read_export(tmp_path / "out", "other", translator)
    assert (tree["format"], tree["version"]) == ("other", exports.VERSION)
    entry = {"size": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}
    assert tree["files"] == {"model.bin": entry}
    # Another format or version is rejected.
    for format, version in (("third", exports.VERSION), ("other", 99)):
        change(tmp_path / "out" / DESCRIPTION, version=version)
        with pytest.raises(ExportError) as caught:
            read_export(tmp_path / "out", format, translator)
        assert caught.value.where == str(tmp_path / "out")


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("fails", ["comparison", "safetensors"])
def test_an_export_that_fails_leaves_the_previous_one(
    translator: ModelFolder, tmp_path: Path, fails: str, is_new: bool
) -> None:
    output = tmp_path / "out"
    if not is_new:
        write_export(translator, "other", output, build)

    def fail(folder: Path) -> list[str]:
        (folder / "model.bin").write_text("other weights")
        if fails == "safetensors":
            save_file({}, folder / "missing" / "weights.safetensors")
        raise ExportError("it differs", where=output, todo="nothing")

    with pytest.raises(ExportError) as caught:
        write_export(translator, "other", output, fail)
    assert caught.value.where == str(output)
    assert caught.value.todo
    assert is_new or (output / "model.bin").read_text() == "weights"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"][: 2 - is_new]


def change(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps(sealed({**unsealed(json.loads(path.read_text())), **entries})))


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "labels.json": lambda tree: tree.update(labels=["a", "b", "c"]),
    "scores.json": lambda tree: tree["scores"].update(temperature=2.0),
    "tokenizer.json": lambda tree: tree.update(lower=True),
    "normaliser.json": lambda tree: tree.update(mean=[1.0, 2.0, 3.0]),
    "config.json": lambda tree: tree["config"]["data"].update(max_length=5),
}


@pytest.mark.parametrize("with_manifest", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_the_origin_names_what_changed(tmp_path: Path, name: str, with_manifest: bool) -> None:
    write_models(tmp_path)
    folder = tmp_path / ("features" if name == "normaliser.json" else "texts")
    write_export(open_folder(folder), "other", tmp_path / "out", build)
    before = origin_of(open_folder(folder))
    change_tree(folder, name, CHANGES[name])
    if not with_manifest:
        without_manifest(folder)
    found = open_folder(folder)
    after = origin_of(found)
    changed = "settings" if name == "config.json" else name
    assert {each for each in before if before[each] != after[each]} == {changed}
    with pytest.raises(ExportError) as caught:
        read_export(tmp_path / "out", "other", found)
    assert caught.value.where == str(tmp_path / "out")
    assert changed in caught.value.what


def test_what_an_export_does_not_depend_on_does_not_count(translator: ModelFolder) -> None:
    """Nor settings with their default: a later version may add settings."""
    assert origin_of(translator).keys() == {"weights", "settings", "source.json", "target.json"}
    search = dataclasses.replace(translator.config.search, beam_size=9)
    other = dataclasses.replace(translator.config, search=search)
    assert origin_of(dataclasses.replace(translator, config=other)) == origin_of(translator)
    assert dict(exports._changed_settings(type(translator.config)())) == {}
    changed = dict(exports._changed_settings(translator.config))
    assert {"model.d_model", "model.encoder_layers"} <= changed.keys()
