"""The model folder: it is read as it was written, or raises an error with the reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead import api
from clearhead.api.start import starting_point
from clearhead.errors import ModelFolderError
from clearhead.folder.files import json_bytes, read_file, write_json
from clearhead.folder.manifest import MANIFEST, entry_of, replace_together
from clearhead.folder.model_folder import (
    WEIGHTS,
    open_folder,
    replace_files,
    written,
)
from clearhead.folder.tensors import read_tensors
from clearhead.settings import config_from
from model_folders import change_tree, replace_tensors, without_manifest, write_models
from small_runs import small_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small trained model."""
    folder = tmp_path_factory.mktemp("trained")
    config = small_run(folder, max_steps=4)
    api.train(config)
    return Path(config.folder)


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A copy of the model alone in another folder, without data and training state."""
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy, ignore=shutil.ignore_patterns("training"))
    return copy


def test_a_copied_folder_translates_as_the_original_without_the_data(
    trained: Path, folder: Path
) -> None:
    texts = ["1 a b", "2 c d e f", "unknown ☃"]
    original = api.load_translator(trained).translate(texts)
    away = trained.parent.with_name("away")
    trained.parent.rename(away)
    try:
        assert api.load_translator(folder).translate(texts) == original
    finally:
        away.rename(trained.parent)


def test_the_configuration_and_the_files_come_back_equal(trained: Path) -> None:
    found = open_folder(trained)
    assert found.config == small_run(trained.parent, max_steps=4)
    assert found.content.keys() == {
        *("config.json", "tokenizer.json", "tokenizer.model", "text_style.json")
    }
    for name in (*found.content, "scores.json", "provenance.json"):
        assert found.read(name) == (trained / name).read_bytes()
        assert found.sha256(name) == entry_of(trained / name).sha256
    assert found.entries.keys() > {*found.content, "scores.json", "provenance.json", WEIGHTS}
    assert found.weights_sha256 == entry_of(trained / WEIGHTS).sha256


def test_a_missing_folder_and_one_of_no_model_say_how_to_make_one(tmp_path: Path) -> None:
    """Also beside the manifest of another program, or of what `study` has found."""
    for name in ("empty", "page", "findings"):
        (tmp_path / name).mkdir()
    (tmp_path / "page" / MANIFEST).write_text('{"name": "a web page"}')
    replace_together(tmp_path / "findings", {}, {"study.json": written(b"{}")})
    for name in ("missing", "empty", "missing/below", "page", "findings"):
        with pytest.raises(ModelFolderError) as caught:
            open_folder(tmp_path / name)
        assert caught.value.where == str(tmp_path / name)
        assert "clearhead init" in str(caught.value.todo)
        assert "clearhead train" in str(caught.value.todo)


def test_weights_that_were_removed_have_a_checkpoint_in_their_place(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    folder = Path(config.folder)
    (folder / WEIGHTS).unlink()
    assert open_folder(folder, trained=False).config
    checkpoints = folder / "training" / "checkpoints"
    with pytest.raises(ModelFolderError) as caught:
        api.load_translator(folder)
    assert caught.value.where == str(folder)
    assert "best.safetensors" in str(caught.value.todo)
    with pytest.raises(ModelFolderError) as caught:
        open_folder(checkpoints / "other.safetensors")
    assert "best.safetensors" in str(caught.value.todo)
    assert api.load_translator(checkpoints / "best.safetensors").translate(["a b"])
    # Not "it was finished before", with a command for a model that is not there.
    with pytest.raises(ModelFolderError) as caught:
        api.train(config)
    assert caught.value.where == str(folder / WEIGHTS)
    assert "--restart" in str(caught.value.todo)


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        ({"model_type": "marian", "d_model": 512}, "config.json"),
        ({"format": 99}, ""),
        *(({"format": 1, "config": each}, "") for each in (5, None, [], "x", {"more": 1})),
    ],
)
def test_a_config_of_another_program_or_version_is_rejected(
    tmp_path: Path, tree: dict[str, object], where: str
) -> None:
    write_json(tmp_path / "config.json", tree)
    with pytest.raises(ModelFolderError) as caught:
        open_folder(tmp_path, trained=False)
    assert Path(str(caught.value.where)) == tmp_path / where
    assert caught.value.todo


@pytest.mark.parametrize("with_manifest", [True, False])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer.model"])
@pytest.mark.parametrize("damage", ["missing", "cut off", "rubbish", "brackets without end"])
def test_a_damaged_file_is_named(folder: Path, name: str, damage: str, with_manifest: bool) -> None:
    path = folder / name
    if not with_manifest:
        without_manifest(folder)
    match damage:
        case "missing":
            path.unlink()
        case "cut off":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "brackets without end":
            path.write_bytes(b"[" * 1_000_000)
        case _:
            path.write_bytes(b"\x00\xff rubbish")
    with pytest.raises(ModelFolderError) as caught:
        # With a manifest, it is found before anything is built.
        open_folder(folder) if with_manifest else api.load_translator(folder)
    lost = damage == "missing" and name == "config.json" and not with_manifest
    # What SentencePiece reads is described by the JSON file.
    where = name.replace(".model", ".json") if damage != "missing" and not with_manifest else name
    assert caught.value.where == str(folder if lost else folder / where)


@pytest.mark.parametrize("cut", [0, 7, 100, -1])
def test_cut_off_or_altered_weights_are_rejected(folder: Path, cut: int) -> None:
    path = folder / WEIGHTS
    whole = path.read_bytes()
    damaged = [whole[:cut], whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ModelFolderError) as caught:
            api.load_translator(folder)
        assert caught.value.where == str(path)
    without_manifest(folder)
    api.load_translator(folder)  # a bit of a number can only be found by its hash
    path.write_bytes(whole[:cut])
    with pytest.raises(ModelFolderError):
        api.load_translator(folder)


@pytest.mark.parametrize("change", ["shape", "whole numbers", "missing"])
def test_weights_of_another_model_are_rejected(folder: Path, change: str) -> None:
    tensors, facts = read_tensors(folder / WEIGHTS)
    name = next(iter(tensors))
    if change == "missing":
        del tensors[name]
    else:
        tensors[name] = torch.zeros(1) if change == "shape" else tensors[name].to(torch.int32)
    replace_tensors(folder, WEIGHTS, tensors, facts)
    with pytest.raises(ModelFolderError) as caught:
        api.load_translator(folder)
    assert caught.value.where == str(folder / WEIGHTS)
    assert change == "whole numbers" or name in str(caught.value.why)


def test_a_folder_without_a_manifest_is_opened_unchecked(folder: Path) -> None:
    found = open_folder(without_manifest(folder))
    assert found.entries == {}
    assert found.weights_entry is None
    assert found.weights_sha256 == entry_of(folder / WEIGHTS).sha256
    assert found.sha256("tokenizer.json") == entry_of(folder / "tokenizer.json").sha256
    change = json.loads((folder / "text_style.json").read_bytes())
    change["sides"]["source"]["longest"] = 5
    (folder / "text_style.json").write_text(json.dumps(change))
    assert api.load_translator(folder).translate(["1 a b"])


@pytest.mark.parametrize("name", ["config.json", "tokenizer.model"])
def test_a_folder_that_a_run_replaces_while_it_is_opened_is_one_of_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The files are replaced after the manifest was read, or between two of them."""
    read, left = read_file, [0]
    tree = json.loads((folder / "config.json").read_bytes())
    tree["config"]["search"]["beam_size"] = 7
    new = {
        "config.json": written(json_bytes(tree)),
        "tokenizer.model": written(b"new"),
        "tokenizer.json": written(b"{}"),
    }

    def replacing(path: Path) -> bytes:
        if path.name == name and left:
            left.pop()
            replace_files(folder, new)
        return read(path)

    monkeypatch.setattr("clearhead.folder.model_folder.read_file", replacing)
    found = open_folder(folder)
    assert not left
    assert found.config.search.beam_size == 7
    assert (found.read("tokenizer.model"), found.read("tokenizer.json")) == (b"new", b"{}")


def test_what_was_opened_stays_when_a_run_replaces_the_files(folder: Path) -> None:
    found = open_folder(folder)
    before, weights = found.read("tokenizer.json"), found.weights()
    kept = found.kept_open()
    changed = {name: tensor + 1 for name, tensor in weights.items()}
    replace_tensors(folder, WEIGHTS, changed, {})
    replace_files(folder, {"tokenizer.json": written(b"{}")})
    assert found.read("tokenizer.json") == before
    assert all(torch.equal(kept.weights()[name], weights[name]) for name in weights)
    with pytest.raises(ModelFolderError):
        found.weights()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["translator", "texts", "features"])
@pytest.mark.parametrize(
    "asked",
    [
        {"d_model": 131_072, "d_ff": 131_072},  # some 10¹¹ parameters
        {"d_model": 10**6},
        {"encoder_layers": 50},
        {"encoder_layers": 10**5},
        {"n_heads": 1, "d_k": 100_000},
        {"positions": {"kind": "learned", "max_length": 10**6}},
        {"input_convolution": [1000, 1000]},
    ],
)
def test_a_model_of_another_size_than_its_weights_is_refused(
    name: str, asked: dict[str, object], tmp_path: Path
) -> None:
    write_models(tmp_path)
    folder = tmp_path / name
    config = open_folder(folder).config
    change_tree(folder, "config.json", lambda tree: tree["config"]["model"].update(asked))
    with pytest.raises(ModelFolderError):
        api.load(folder, device="cpu")
    run = {"task": config.task, "input": config.input}
    start = config_from({**run, "start_from": str(folder), "folder": str(tmp_path / "run")})
    with pytest.raises(ModelFolderError), starting_point(start, False, print):
        pass


def test_weights_that_do_not_fit_into_memory_are_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file takes no space; reading it could take for ever."""
    with (folder / "weights.safetensors").open("r+b") as file:
        file.truncate(2**30)
    sizes = {"SC_PHYS_PAGES": 2**16, "SC_PAGE_SIZE": 2**12}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    with pytest.raises(ModelFolderError) as caught:
        open_folder(folder)
    assert caught.value.where == str(folder / "weights.safetensors")
    assert caught.value.todo


FULL_DISK = """
import resource, sys
from functools import partial
from pathlib import Path
import torch
from clearhead.errors import ModelFolderError
from clearhead.folder.model_folder import replace_files, written
from clearhead.folder.tensors import save_tensors

weights = partial(save_tensors, tensors={"a": torch.zeros(5000)}, facts={})
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for name, write in (("weights", weights), ("scores", written(bytes(9000)))):
    try:
        replace_files(Path(sys.argv[1]), {name: write})
    except ModelFolderError as error:
        print(error.where, error.todo)
"""


@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_the_old_files_whole(tmp_path: Path) -> None:
    for name in ("weights", "scores"):
        (tmp_path / name).write_text("old")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    # Without what measures coverage, which would find its own disk full too.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    for line, name in zip(done.stdout.splitlines(), ("weights", "scores"), strict=True):
        assert line.startswith(f"{tmp_path / name} ")
        assert "ulimit" in line
    assert {path.name for path in tmp_path.iterdir()} == {"weights", "scores"}
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}
