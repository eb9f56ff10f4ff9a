"""Tests of the table of formats, and of the export that training writes."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import api
from clearhead.api.exporting import exports_after_training
from clearhead.api.text_classifier import TextClassifier
from clearhead.api.training import train
from clearhead.cli import export
from clearhead.decoding.ctranslate2_engine import AutoEngine
from clearhead.errors import DISK_ERRORS, ExportError
from clearhead.folder.exports import DESCRIPTION
from clearhead.folder.manifest import sealed
from clearhead.formats.registry import FORMATS
from clearhead.training.events import Note, RunEnded
from exported_models import random_folder
from model_folders import write_models
from small_models import small_config
from small_runs import Watcher, small_run


def notes(watcher: Watcher) -> list[str]:
    """The notes after the end of training."""
    ended = next(i for i, each in enumerate(watcher.events) if isinstance(each, RunEnded))
    return [each.text for each in watcher.events[ended:] if isinstance(each, Note)]


def test_a_format_of_another_kind_of_model_is_rejected(tmp_path: Path) -> None:
    write_models(tmp_path)
    with pytest.raises(ExportError) as caught:
        api.export_model(tmp_path / "texts", "ctranslate2")
    assert "onnx" in str(caught.value.todo)


@pytest.mark.slow
def test_training_ends_with_an_export_that_translate_uses(tmp_path: Path) -> None:
    config, watcher = small_run(tmp_path, export=True), Watcher()
    train(config, observers=[watcher])
    (note,) = notes(watcher)
    path = Path(config.folder) / "ctranslate2"
    assert f"{path} (" in note
    translator = api.load_translator(config.folder, device="cpu")
    assert isinstance(translator.engine, AutoEngine)
    written = (path / DESCRIPTION).stat().st_mtime_ns
    resumed = Watcher()
    train(config, observers=[resumed])
    assert notes(resumed) == []
    assert (path / DESCRIPTION).stat().st_mtime_ns == written


@pytest.mark.slow
def test_an_interrupted_run_has_no_export_and_the_resumed_one_has(tmp_path: Path) -> None:
    config = small_run(tmp_path, export=True)
    watcher = Watcher(interrupt_at=4)
    assert not train(config, observers=[watcher]).finished
    assert notes(watcher) == []
    assert not (Path(config.folder) / "ctranslate2").exists()
    train(config, observers=[])
    assert (Path(config.folder) / "ctranslate2" / DESCRIPTION).is_file()


@pytest.mark.slow
def test_a_setting_turns_it_off_and_an_old_export_is_then_reported(tmp_path: Path) -> None:
    config, watcher = small_run(tmp_path, export=False), Watcher()
    train(config, observers=[watcher])
    assert notes(watcher) == []
    path = api.export_model(config.folder)
    assert list(exports_after_training(Path(config.folder), automatic=False)) == []
    tree = json.loads((path / DESCRIPTION).read_text())
    tree["origin"]["settings"] = "others"
    del tree["sha256"]
    (path / DESCRIPTION).write_text(json.dumps(sealed(tree)))
    (line,) = exports_after_training(Path(config.folder), automatic=False)
    assert f"clearhead export {config.folder}" in line
    (line,) = exports_after_training(Path(config.folder), automatic=True)
    assert f"{path} (" in line


def test_a_model_that_cannot_be_exported_is_reported_by_its_setting(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "model", small_config(norm_form="std_plus_epsilon"))
    (line,) = exports_after_training(folder, automatic=True)
    assert "norm_form" in line
    assert not (folder / "ctranslate2").exists()
    folder = random_folder(tmp_path / "other")
    (folder / "ctranslate2").mkdir()
    (folder / "ctranslate2" / "mine.txt").write_text("precious")
    assert len(list(exports_after_training(folder, automatic=True))) == 1
    assert [each.name for each in (folder / "ctranslate2").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("place", "error", "todo"),
    [
        ("os.fsync", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), DISK_ERRORS[errno.ENOSPC]),
        ("clearhead.api.exporting.export", KeyboardInterrupt(), "clearhead export"),
    ],
)
def test_a_full_disk_or_ctrl_c_is_reported_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException, todo: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    folder = random_folder(tmp_path)
    monkeypatch.setattr(place, fails)
    (line,) = exports_after_training(folder, automatic=True)
    assert todo in line
    assert not (folder / "ctranslate2").exists()


def test_without_the_package_or_for_a_classifier_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_models(tmp_path)
    assert list(exports_after_training(tmp_path / "texts", automatic=True)) == []
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert list(exports_after_training(tmp_path / "translator", automatic=True)) == []
    assert not list(tmp_path.glob("*/ctranslate2"))


def test_the_command_knows_all_formats() -> None:
    assert set(export.FORMATS) == set(FORMATS)


def test_a_model_that_was_loaded_is_exported(tmp_path: Path) -> None:
    write_models(tmp_path)
    translator = api.load_translator(tmp_path / "translator", device="cpu")
    assert api.export_model(translator) == tmp_path / "translator" / "ctranslate2"
    with pytest.raises(ExportError, match="folder") as caught:
        api.export_model(TextClassifier())
    assert "output=" in str(caught.value.todo)


def test_a_checkpoint_that_was_loaded_is_exported_as_a_checkpoint(
    translator: api.Translator, tmp_path: Path
) -> None:
    checkpoint = translator.folder.path / "training" / "checkpoints" / "best.safetensors"
    loaded = api.load_translator(checkpoint, device="cpu")
    with pytest.raises(ExportError) as caught:
        api.export_model(loaded)
    assert caught.value.where == str(checkpoint)


@pytest.mark.parametrize("wrong", [None, 3, torch.nn.Linear(1, 1)])
def test_what_is_no_model_cannot_be_exported(wrong: Any) -> None:
    with pytest.raises(ExportError) as caught:
        api.export_model(wrong)
    assert "clearhead.load" in str(caught.value.todo)
