"""Files that change together: a reader finds the previous set or the new one, never a mixture."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ClearheadError, ExportError, ModelFolderError
from clearhead.folder.files import Write
from clearhead.folder.manifest import (
    MANIFEST,
    Entry,
    check,
    entries_in,
    entry_of,
    read_entries,
    read_manifest,
    replace_together,
    sealed,
)
from clearhead.folder.model_folder import replace_files, written

OLD = {"weights": b"old weights", "training/state": b"old state", "training/previous": b"older"}
NEW = {"weights": b"new weights", "training/state": b"new", "training/previous": b"old state"}
WRITERS: dict[str, Write | str] = {
    **{"weights": written(NEW["weights"]), "training/state": written(NEW["training/state"])},
    "training/previous": "training/state",  # the state that is being replaced
}


class Killed(BaseException):
    """Ends the process at once: nothing is cleaned up."""


def start(folder: Path) -> Path:
    files = {**OLD, "labels": b"stay"}
    replace_files(folder, {name: written(content) for name, content in files.items()})
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """The files as a reader finds them, each of which is the one in the manifest."""
    entries = read_entries(folder)
    for name, entry in entries.items():
        check(folder / name, entry)
    return {name: (folder / name).read_bytes() for name in entries if name != "labels"}


def killing(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], after: int, error: BaseException
) -> Callable[[], int]:
    """Raise the error in the call number `after` of these functions of `os`, and in all later ones.

    Returns:
        A function that gives the number of calls.
    """
    calls = 0

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise error
            return original(*arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(os, name, counted(name))
    return lambda: calls


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("replace", "fsync", "unlink", "chmod", "link"), Killed()),
        (("replace", "fsync"), OSError(28, "No space left on device")),
    ],
    ids=["kill", "full disk"],
)
def test_a_kill_or_an_error_between_any_two_calls_leaves_one_set_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], error: BaseException
) -> None:
    start(tmp_path / "start")
    through = shutil.copytree(tmp_path / "start", tmp_path / "through")
    with monkeypatch.context() as patched:
        counted = killing(patched, names, 10**9, error)
        replace_files(through, WRITERS)
    assert content(through) == NEW
    assert counted() > 10
    found = []
    for after in range(counted()):
        folder = shutil.copytree(tmp_path / "start", tmp_path / f"after-{after}")
        with monkeypatch.context() as patched:
            killing(patched, names, after, error)
            with pytest.raises((Killed, ModelFolderError)) as caught:
                replace_files(folder, WRITERS)
        assert isinstance(caught.value, Killed) or caught.value.todo
        found.append(content(folder))
        assert (folder / "labels").read_bytes() == b"stay"
        replace_files(folder, {name: written(content) for name, content in NEW.items()})
        assert content(folder) == NEW
        left = [path.name for path in folder.rglob("*") if path.is_file()]
        assert sorted(left) == ["labels", "manifest.json", "previous", "state", "weights"]
    assert OLD in found
    assert NEW in found
    assert all(each in (OLD, NEW) for each in found)


def test_the_first_set_is_there_or_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for after in range(8):
        folder = tmp_path / str(after)
        with monkeypatch.context() as patched:
            killing(patched, ("replace", "fsync"), after, Killed())
            with pytest.raises(Killed):
                replace_files(folder, {name: written(each) for name, each in OLD.items()})
        assert content(folder) in ({}, OLD)


@pytest.mark.parametrize("damage", [None, b"", b"old weightz", b"old weights "])
def test_a_file_that_is_missing_or_changed_is_found(tmp_path: Path, damage: bytes | None) -> None:
    path = start(tmp_path) / "weights"
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    with pytest.raises(ModelFolderError) as caught:
        content(tmp_path)
    assert caught.value.where == str(path)
    assert ("missing" in caught.value.what) == (damage is None)
    assert damage is None or MANIFEST in str(caught.value.todo)


def test_a_file_that_is_removed_is_not_listed(tmp_path: Path) -> None:
    before = read_entries(start(tmp_path))
    after = replace_together(tmp_path, before, {}, ["training/previous", "missing"])
    assert content(tmp_path).keys() == {"weights", "training/state"}
    assert after == read_entries(tmp_path)
    assert not (tmp_path / "training/previous").exists()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelFolderError) as caught:
        replace_together(tmp_path, after, {}, ["folder"])
    assert caught.value.todo


ENTRY = {"size": 1, "sha256": "0" * 64}
NOT_BELOW = ("../a", "/a", "a/../b", "a//b", ".a", "a/.b", "", "a\0b", "\ud800", "a\n")


@pytest.mark.parametrize(
    "files",
    [
        *(None, [1], {"a": 7}, {"a": {**ENTRY, "size": "1"}}, {"a": {**ENTRY, "size": -1}}),
        *({"a": {**ENTRY, "size": True}}, {"a": {**ENTRY, "sha256": "0" * 63}}),
        *({name: ENTRY} for name in NOT_BELOW),
    ],
)
def test_a_manifest_of_another_form_is_an_error(tmp_path: Path, files: Any) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(sealed({"files": files})))
    with pytest.raises(ModelFolderError) as caught:
        read_manifest(tmp_path)
    assert caught.value.where == str(tmp_path / MANIFEST)


def test_a_manifest_that_was_changed_is_an_error(tmp_path: Path) -> None:
    path = start(tmp_path) / MANIFEST
    path.write_text(path.read_text().replace('"size": 4', '"size": 5'))
    with pytest.raises(ModelFolderError) as caught:
        read_entries(tmp_path)
    assert caught.value.where == str(path)


def test_the_manifest_of_others_has_what_they_want(tmp_path: Path) -> None:
    others: dict[str, Any] = {"manifest": "other.json", "facts": {"more": 1}}
    replace_together(tmp_path, {}, {"a": written(b"new")}, **others)
    found = json.loads((tmp_path / "other.json").read_text())
    assert found["more"] == 1
    assert entries_in(found) == {"a": entry_of(tmp_path / "a")}
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ExportError):
        replace_together(tmp_path / "file", {}, {"a": written(b"")}, kind=ExportError, **others)


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "sparse"])
def test_what_could_be_read_for_ever_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def not_read(path: Path) -> Entry:
        raise AssertionError(f"{path} is read")

    monkeypatch.setattr("clearhead.folder.manifest.entry_of", not_read)
    path = tmp_path / "a"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2**40)
    with pytest.raises(ClearheadError) as caught:
        check(path, Entry(0, "0" * 64))
    assert caught.value.where == str(path)
