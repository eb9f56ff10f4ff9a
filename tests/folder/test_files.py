"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from clearhead.errors import DataError, ModelFolderError
from clearhead.folder.files import (
    atomic_file,
    read_bounded,
    read_description,
    read_json,
    remove,
    write_bytes,
    write_description,
    write_json,
    write_together,
)
from clearhead.folder.tensors import write_tensors


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_every_file_has_the_permissions_of_the_umask(tmp_path: Path, umask: int) -> None:
    write_tensors(tmp_path / "weights.safetensors", {"w": torch.zeros(2)}, {})
    write_json(tmp_path / "tree.json", {})
    write_bytes(tmp_path / "bytes", b"")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask, path.name


def test_a_file_is_replaced_only_when_its_content_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def write_half() -> None:
        with atomic_file(path) as unfinished:
            unfinished.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        fsync(descriptor)

    def noted_replace(source: Path, target: Path) -> None:
        happened.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_bytes(tmp_path / "file", b"new")
    assert happened == ["content", "rename", "folder"]


@pytest.mark.parametrize("kind", [ModelFolderError, DataError])
def test_what_cannot_be_written_is_an_error_of_the_callers_kind(
    tmp_path: Path, kind: type[ModelFolderError] | type[DataError]
) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(kind) as caught:
        write_bytes(tmp_path / "file" / "inside", b"", kind)
    assert caught.value.where == str(tmp_path / "file" / "inside")
    assert caught.value.why
    assert caught.value.todo


def test_what_to_do_depends_on_the_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = set()
    for number in (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES):

        def fail(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(ModelFolderError) as caught:
            write_bytes(tmp_path / "file", b"new")
        advice.add(caught.value.todo)
        assert not any(tmp_path.iterdir())
    assert len(advice) == 4


def test_a_file_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    remove(tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelFolderError) as caught:
        remove(tmp_path / "folder")
    assert caught.value.where == str(tmp_path / "folder")
    assert caught.value.todo


def test_files_that_belong_together_appear_together(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise OSError("no space")

    folder = tmp_path / "new"
    with pytest.raises(DataError) as caught:
        write_together(folder, [("a", lambda path: path.write_text("a")), ("b", fail)])
    assert caught.value.where == str(folder / "b")
    assert not folder.exists()
    write_bytes(folder / "a", b"old")
    with pytest.raises(DataError):
        write_together(folder, [("a", lambda path: path.write_text("new")), ("b", fail)])
    assert [path.read_text() for path in folder.iterdir()] == ["old"]
    written = write_together(folder, [(name, lambda path: path.write_text("x")) for name in "ab"])
    assert sorted(folder.iterdir()) == written == [folder / "a", folder / "b"]


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_a_damaged_json_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tree.json").write_text(content)
    with pytest.raises(ModelFolderError) as caught:
        read_json(tmp_path / "tree.json")
    assert caught.value.where == str(tmp_path / "tree.json")
    assert "damaged" in caught.value.what
    assert "copy the folder again" in str(caught.value.todo)


def test_a_missing_json_file_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError) as caught:
        read_json(tmp_path / "tree.json")
    assert caught.value.where == str(tmp_path / "tree.json")
    assert caught.value.what == "the file is missing"
    assert caught.value.todo


class Number:
    def __init__(self, tree: dict[str, int]) -> None:
        self.number = tree["number"] + 0

    def fingerprint(self) -> str:
        return str(self.number)

    def save(self, folder: Path, name: str) -> None:
        write_description(folder, name, {"number": self.number}, self.fingerprint())


def test_a_description_gives_the_object_back(tmp_path: Path) -> None:
    Number({"number": 7}).save(tmp_path, "n")
    assert read_description(tmp_path, "n", "the number", Number).number == 7


@pytest.mark.parametrize(
    ("old", "new"),
    [("7", "8"), ('"number"', '"other"'), ('"version": 1', '"version": 9'), ("}", "")],
)
def test_an_altered_description_is_rejected(tmp_path: Path, old: str, new: str) -> None:
    write_description(tmp_path, "n", {"number": 7}, "7")
    path = tmp_path / "n.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ModelFolderError, match="the number") as caught:
        read_description(tmp_path, "n", "the number", Number)
    assert caught.value.where == str(path)
    assert "train the model again" in str(caught.value.todo)
    assert "Error(" not in str(caught.value.why)  # the reason in words, not as a Python object
    path.unlink()
    with pytest.raises(ModelFolderError, match="missing") as caught:
        read_description(tmp_path, "n", "the number", Number)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    "content",
    [
        b"NaN",
        b"[-Infinity]",
        b"1e999",
        b"1" * 5000,
        b"[" * 100_000,
        b'"\xff"',
        b"\xef\xbb\xbf{}",
    ],
)
def test_json_that_no_program_should_write_is_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_bytes(b'{"value": ' + content + b"}")
    with pytest.raises(ModelFolderError) as raised:
        read_json(path)
    assert raised.value.where == str(path)


def test_only_files_that_end_within_the_limit_are_read(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"12345")
    assert read_bounded(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="5 bytes"):
        read_bounded(tmp_path / "file", 4)
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="pipe"):
            read_bounded(endless)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EIO])
def test_a_folder_that_cannot_be_synced_is_no_error_but_a_failing_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fsync = os.fsync

    def refusing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refusing)
    if code == errno.EIO:
        with pytest.raises(ModelFolderError):
            write_bytes(tmp_path / "file", b"new")
    else:
        write_bytes(tmp_path / "file", b"new")
        assert (tmp_path / "file").read_bytes() == b"new"
