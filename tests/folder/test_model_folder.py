"""The model folder: it is read as it was written, or raises an error with the reason."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead import api
from clearhead.api.start import starting_point
from clearhead.errors import ModelFolderError
from clearhead.folder.files import write_json
from clearhead.folder.model_folder import open_folder, read_folder_config, write_folder
from clearhead.folder.tensors import read_tensors, write_tensors
from clearhead.settings import RunConfig, config_from
from model_folders import without_manifest, write_models
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


def test_the_configuration_comes_back_equal(trained: Path) -> None:
    assert open_folder(trained).config == small_run(trained.parent, max_steps=4)


def test_a_missing_folder_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="clearhead train"):
        api.load_translator(tmp_path / "nothing")


def test_a_folder_without_weights_is_rejected(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    with pytest.raises(ModelFolderError, match="no weights"):
        api.load_translator(folder)


def test_weights_that_were_removed_have_a_checkpoint_in_their_place(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4)
    api.train(config)
    folder = Path(config.folder)
    (folder / "weights.safetensors").unlink()
    checkpoints = folder / "training" / "checkpoints"
    named = re.escape(str(checkpoints)) + r" .*best\.safetensors"
    with pytest.raises(ModelFolderError, match=named):
        api.load_translator(folder)
    assert api.load_translator(checkpoints / "best.safetensors").translate(["a b"])
    # Not "it was finished before", with a command for a model that is not there.
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors: .* missing(.|\n)*--restart"):
        api.train(config)


def test_another_version_is_rejected(folder: Path) -> None:
    tree = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**tree, "format": 99})
    with pytest.raises(ModelFolderError, match="format 99"):
        api.load_translator(folder)


def test_a_folder_without_config_is_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError) as caught:
        api.load_translator(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert "no config.json" in caught.value.what
    assert "clearhead train" in str(caught.value.todo)


def test_a_config_of_another_program_is_recognised(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "marian", "d_model": 512})
    with pytest.raises(ModelFolderError) as caught:
        api.load_translator(tmp_path)
    assert caught.value.where == str(tmp_path / "config.json")
    assert "not written by clearhead" in caught.value.what
    assert "format" in str(caught.value.why)
    assert caught.value.todo


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer.model"])
@pytest.mark.parametrize("damage", ["missing", "cut off", "rubbish", "brackets without end"])
def test_a_damaged_file_is_named(folder: Path, name: str, damage: str) -> None:
    path = folder / name
    match damage:
        case "missing":
            path.unlink()
        case "cut off":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "brackets without end":
            path.write_bytes(b"[" * 1_000_000)
        case _:
            path.write_bytes(b"\x00\xff rubbish")
    with pytest.raises(ModelFolderError, match=re.escape(name)):
        api.load_translator(folder)


@pytest.mark.parametrize("cut", [0, 7, 100, -1])
def test_cut_off_weights_are_rejected(folder: Path, cut: int) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ModelFolderError, match="weights"):
        api.load_translator(folder)


def test_one_altered_bit_in_the_weights_is_found(folder: Path) -> None:
    path = folder / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFolderError, match="SHA-256"):
        api.load_translator(folder)


def test_weights_of_another_model_are_rejected(folder: Path) -> None:
    tensors, facts = read_tensors(folder / "weights.safetensors")
    name = next(iter(tensors))
    without_manifest(folder)
    write_tensors(folder / "weights.safetensors", {**tensors, name: torch.zeros(1)}, facts)
    with pytest.raises(ModelFolderError, match=name.replace(".", r"\.")) as caught:
        api.load_translator(folder)
    assert "copy the folder again" in str(caught.value.todo)


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
    tree = json.loads((folder / "config.json").read_text())
    tree["config"]["model"] |= asked
    write_json(folder / "config.json", tree)
    with pytest.raises(ModelFolderError):
        api.load(folder, device="cpu")
    run = {"task": tree["config"]["task"], "input": tree["config"]["input"]}
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


def test_weights_that_are_whole_numbers_are_refused(tmp_path: Path) -> None:
    write_models(tmp_path)
    path = tmp_path / "translator" / "weights.safetensors"
    tensors, facts = read_tensors(path)
    write_tensors(path, {name: each.to(torch.int32) for name, each in tensors.items()}, facts)
    with pytest.raises(ModelFolderError) as raised:
        api.load(path.parent, device="cpu")
    assert raised.value.where == str(path)


def test_a_file_stays_whole_when_writing_it_fails(tmp_path: Path) -> None:
    write_json(tmp_path / "file", {"good": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "file", {"bad": object()})
    assert json.loads((tmp_path / "file").read_text()) == {"good": 1}


FULL_DISK = """
import resource, sys
from pathlib import Path
import torch
from clearhead.folder.model_folder import write_folder
from clearhead.folder.tensors import write_tensors
from clearhead.folder.files import write_json
from clearhead.settings import RunConfig, TokenizerConfig
from clearhead.errors import ModelFolderError
from clearhead.tokenizer import learn_tokenizer

folder = Path(sys.argv[1])
texts = [f"word{n}" for n in range(2000)]
words = learn_tokenizer(texts, TokenizerConfig(kind="words", max_vocabulary=0))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for write in (
    lambda: write_tensors(folder / "weights", {"a": torch.zeros(5000)}, {}),
    lambda: write_json(folder / "scores", {"a": "x" * 9000}),
    lambda: write_folder(folder, RunConfig(), {"tokenizer": words}),
):
    try:
        write()
    except ModelFolderError as error:
        print(str(error).replace("\\n", " "))
"""


@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_the_old_files_whole(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("old")
    (tmp_path / "scores").write_text("old")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    # Without what measures coverage, which would find its own disk full too.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    weights, scores, folder = done.stdout.splitlines()
    for line, path in ((weights, tmp_path / "weights"), (scores, tmp_path / "scores")):
        assert line.startswith(f"{path}: it cannot be written Why: ")
        assert path.read_text() == "old"
    assert folder.startswith(f"{tmp_path / 'tokenizer.json'}: it cannot be written Why: ")
    assert all("File too large" in line and "ulimit" in line for line in (scores, folder))
    assert {path.name for path in tmp_path.iterdir()} >= {"weights", "scores"}
    assert not (tmp_path / ".weights.unfinished").exists()
    assert not (tmp_path / ".scores.unfinished").exists()


@pytest.mark.parametrize("config", [5, None, [], "x"])
def test_settings_that_are_no_table_are_rejected(tmp_path: Path, config: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "config": config}))
    with pytest.raises(ModelFolderError, match="the configuration is damaged"):
        read_folder_config(tmp_path)


def test_no_file_behind_a_link_is_moved_into_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("precious")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / ".unfinished").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelFolderError):
        write_folder(tmp_path / "model", RunConfig(), {})
    assert [path.name for path in (tmp_path / "secret").iterdir()] == ["key"]


def test_a_folder_without_weights_has_the_reason_of_its_run(tmp_path: Path) -> None:
    write_models(tmp_path)
    folder = tmp_path / "translator"
    (folder / "weights.safetensors").unlink()

    def why() -> str:
        with pytest.raises(ModelFolderError) as caught:
            open_folder(folder)
        assert caught.value.where == str(folder)
        assert "RUN.toml" not in str(caught.value)
        assert "clearhead train" in str(caught.value.todo)
        return str(caught.value.why)

    of_no_run = why()
    (folder / "training").mkdir()
    early = why()
    log = folder / "training" / "log.jsonl"
    log.write_text('{"event": "RunStarted"}\n{"event": "Progress"}\n')
    assert why() == early != of_no_run
    log.write_text('{"event": "RunStarted"}\n{"event": "Validated"}\n{"event": "Progress"}\n')
    assert why() == of_no_run


@pytest.mark.parametrize("name", ["missing", "empty", "missing/below"])
def test_no_message_has_a_placeholder(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFolderError) as caught:
        open_folder(tmp_path / name)
    assert "RUN.toml" not in str(caught.value)
    assert "clearhead init" in str(caught.value.todo)
