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
    read_json,
    write_bytes,
    write_json,
    write_together,
)
from clearhead.folder.model_folder import WEIGHTS
from model_folders import replace_tensors


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_every_file_has_the_permissions_of_the_umask(tmp_path: Path, umask: int) -> None:
    replace_tensors(tmp_path, WEIGHTS, {"w": torch.zeros(2)}, {})
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


@pytest.mark.parametrize(
    "content",
    [
        *(None, b"", b"[]", b"{", b"[" * 100_000),
        *(
            b'{"value": ' + value + b"}"
            for value in (b"NaN", b"[-Infinity]", b"1e999", b"1" * 5000)
        ),
        *(b'{"value": ' + value + b"}" for value in (b"[" * 100_000, b'"\xff"')),
        b"\xef\xbb\xbf{}",
    ],
)
def test_json_that_is_missing_or_that_no_program_should_write_is_named(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "tree.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelFolderError) as raised:
        read_json(path)
    assert raised.value.where == str(path)
    assert ("missing" in raised.value.what) == (content is None)
    assert raised.value.todo


def test_only_files_that_end_within_the_limit_are_read(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"12345")
    assert read_bounded(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="5"):
        read_bounded(tmp_path / "file", 4)
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="pipe"):
            read_bounded(endless)


@pytest.mark.parametrize("of_folder", [True, False])
def test_a_folder_that_cannot_be_synced_is_no_error_but_a_failing_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_folder: bool
) -> None:
    write_bytes(tmp_path / "file", b"old")
    fsync, advice = os.fsync, set[str | None]()
    failing = (errno.ENOSPC, errno.EROFS, errno.EIO)
    for code in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, *failing):

        def refusing(descriptor: int, code: int = code) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode) == of_folder:
                raise OSError(code, os.strerror(code))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", refusing)
        if of_folder and code not in failing:
            write_bytes(tmp_path / "file", b"new")
            assert (tmp_path / "file").read_bytes() == b"new"
            continue
        with pytest.raises(ModelFolderError) as caught:
            write_bytes(tmp_path / "file", b"newer")
        advice.add(caught.value.todo)
        assert of_folder or [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
    assert len(advice) == len(failing) + (not of_folder)
