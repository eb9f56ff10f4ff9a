"""Paths that the system refuses to read or write give an error with the path."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clearhead.cli.streams import count_lines, opened_output
from clearhead.data.reading.lines import read_lines
from clearhead.data.reading.parts import file_hash
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.folder.model_folder import open_folder
from clearhead.settings import RunConfig
from clearhead.training.run_folder import forget_run, only_run_in, run_folder
from fake_translator import run
from model_folders import write_models

NOBODY = 65534

both = pytest.mark.parametrize("how", ["its name is too long", "its folder is closed"])


@contextmanager
def unreadable(folder: Path, how: str) -> Iterator[Path]:
    """A path that cannot be read; root, for whom permissions do not count, becomes another user."""
    if how == "its name is too long":
        yield folder / ("x" * 300)
        return
    closed, was = folder / "closed", os.geteuid()
    closed.mkdir(mode=0)
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield closed / "it"
    finally:
        if was == 0:
            os.seteuid(was)
        closed.chmod(0o700)


@both
@pytest.mark.parametrize("ask", [file_hash, count_lines, lambda path: list(read_lines(path))])
def test_a_file_of_data(tmp_path: Path, how: str, ask: object) -> None:
    assert callable(ask)
    with unreadable(tmp_path, how) as path, pytest.raises(DataError, match="cannot be read"):
        ask(str(path))


@both
def test_an_output(tmp_path: Path, how: str) -> None:
    with (
        unreadable(tmp_path, how) as path,
        pytest.raises(DataError, match="the output cannot be written"),
        opened_output(str(path)),
    ):
        pytest.fail("there is no such output")


def test_an_output_is_not_blamed_for_what_fails_while_it_is_open(tmp_path: Path) -> None:
    def use_it() -> None:
        with opened_output(f"{tmp_path}/out") as output:
            output.write("one\n")
            raise OSError("of a library")

    with pytest.raises(OSError, match="of a library"):
        use_it()
    assert (tmp_path / "out.part").read_text() == "one\n"


def test_an_output_that_has_its_name_stays_when_the_name_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    with (
        pytest.raises(DataError, match="the output cannot be written"),
        opened_output(f"{tmp_path}/out") as output,
    ):
        output.write("one\n")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": "one\n"}


def test_what_was_written_before_stays_if_there_is_nothing_to_write(tmp_path: Path) -> None:
    (tmp_path / "out.part").write_text("hours of work, cut off\n")
    assert run("translate", f"{tmp_path}/none", "-o", f"{tmp_path}/out", stdin="a\n")[0] == 4
    assert (tmp_path / "out.part").read_text() == "hours of work, cut off\n"


def test_an_output_of_nothing_is_empty_whatever_was_left_there(tmp_path: Path) -> None:
    (tmp_path / "out.part").write_text("old\n")
    with opened_output(f"{tmp_path}/out"):
        pass
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": ""}


def test_an_output_among_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with (
        pytest.raises(DataError, match="the output cannot be written"),
        opened_output(str(tmp_path / "one" / "out.txt")),
    ):
        pytest.fail("there is no such output")
    assert {path.name for path in tmp_path.iterdir()} == {"one", "other"}


def test_a_device_is_known_by_its_name_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "input").symlink_to(os.devnull)
    assert count_lines("~/input") is None


def test_a_model_is_found_by_its_name_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run_folder(RunConfig(folder="~/runs/x"), restart=False)
    write_models(tmp_path / "models")
    checkpoint = tmp_path / "models" / "texts" / "training" / "checkpoints" / "best.safetensors"
    checkpoint.parent.mkdir(parents=True)
    shutil.copy(tmp_path / "models" / "texts" / "weights.safetensors", checkpoint)
    assert (tmp_path / "runs" / "x").is_dir()
    found = open_folder("~/models/texts")
    assert (found.path, found.is_checkpoint) == (tmp_path / "models" / "texts", False)
    found = open_folder("~/models/texts/training/checkpoints/best.safetensors")
    assert (found.weights_path, found.is_checkpoint) == (checkpoint, True)


@both
@pytest.mark.parametrize("restart", [False, True])
def test_the_folder_of_a_run(tmp_path: Path, how: str, restart: bool) -> None:
    with unreadable(tmp_path, how) as path, pytest.raises(TrainingError, match="cannot be used"):
        run_folder(RunConfig(folder=str(path)), restart)


def test_a_folder_whose_name_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be used"):
        run_folder(RunConfig(folder=str(tmp_path / "a\0b")), restart=False)


def test_the_lock_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "training" / ".lock").mkdir(parents=True)
    with pytest.raises(TrainingError, match="cannot be locked"), only_run_in(tmp_path):
        pytest.fail("there is no such lock")


def test_an_error_within_a_run_is_not_taken_for_one_of_its_lock(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    with pytest.raises(FileNotFoundError), only_run_in(tmp_path):
        (tmp_path / "nothing").read_text()


@pytest.mark.parametrize("name", ["scores.json", "training/log.jsonl"])
def test_a_run_that_cannot_be_removed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "training").mkdir()
    for file in ("training/data.json", name):
        (tmp_path / file).write_text("{}")
    unlink = Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        if self == tmp_path / name:
            raise PermissionError(1, "Operation not permitted", str(self))
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(TrainingError, match="the old run cannot be removed") as raised:
        forget_run(tmp_path)
    assert raised.value.where == str(tmp_path / name)
    assert not (tmp_path / "training/data.json").exists()  # so that no half of it is resumed


def test_a_configuration_whose_name_has_no_room_for_another(tmp_path: Path) -> None:
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    code, _, err = run("init", str(tmp_path / ("x" * (longest - len(".toml")))))
    assert code == ConfigError.exit_code
    assert "cannot be written" in err
    assert list(tmp_path.iterdir()) == []


def test_init_cannot_write_a_name_that_is_not_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9.tsv")
    try:
        Path(name).write_text("".join(f"{'ab'[n % 2]}\ttext {n}\n" for n in range(40)))
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    code, out, err = run("init", "m", "--task", "classification", "--train", name)
    assert (code, out) == (2, "")
    assert "m.toml" in err
    assert "rename" in err
    assert "space" not in err
    assert not Path("m.toml").exists()
