"""Files that change together: a reader finds the previous set or the new one, never a mixture."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ExportError, ModelFolderError
from clearhead.folder.manifest import (
    MANIFEST,
    Entry,
    check,
    checked_entries,
    entries_in,
    entry_of,
    replace_together,
    sealed,
)
from clearhead.folder.model_folder import replace_files

OLD = {"weights": b"old weights", "scores": b"old scores"}
NEW = {"weights": b"new weights", "scores": b"new"}


class Killed(BaseException):
    """Ends the process at once: nothing is cleaned up."""


def replace(folder: Path, files: Mapping[str, bytes]) -> None:
    writers = {name: methodcaller("write_bytes", content) for name, content in files.items()}
    replace_files(folder, writers)


def content(folder: Path) -> dict[str, bytes]:
    """The files as a reader finds them."""
    checked_entries(folder)
    return {path.name: path.read_bytes() for path in visible(folder) if path.name != MANIFEST}


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def killing(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], after: int, error: BaseException
) -> Callable[[], int]:
    """Raise the error in the call number `after` of these functions of `os`, and in all later ones.

    Returns:
        A function that tells the number of calls.
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


CALLS = ("replace", "fsync", "unlink", "chmod", "link")


def test_a_kill_between_any_two_calls_leaves_one_set_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(tmp_path / "start", OLD | {"labels": b"stay"})
    through = shutil.copytree(tmp_path / "start", tmp_path / "through")
    with monkeypatch.context() as patched:
        counted = killing(patched, CALLS, 10**9, Killed())
        replace(through, NEW)
    assert counted() > 10
    found = []
    for after in range(counted()):
        folder = shutil.copytree(tmp_path / "start", tmp_path / f"killed-{after}")
        with monkeypatch.context() as patched:
            killing(patched, CALLS, after, Killed())
            with pytest.raises(Killed):
                replace(folder, NEW)
        left = content(folder)
        assert left.pop("labels") == b"stay"
        found.append(left)
        replace(folder, NEW)
        assert content(folder) == NEW | {"labels": b"stay"}
        assert sorted(path.name for path in folder.iterdir()) == [
            *("labels", "manifest.json", "scores", "weights")
        ]
    assert OLD in found
    assert NEW in found
    assert all(each in (OLD, NEW) for each in found)


def test_an_error_between_any_two_calls_is_reported_and_leaves_one_set_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(tmp_path / "start", OLD)
    for after in range(12):
        folder = shutil.copytree(tmp_path / "start", tmp_path / f"full-{after}")
        with monkeypatch.context() as patched:
            killing(patched, ("replace", "fsync"), after, OSError(28, "No space left on device"))
            with pytest.raises(ModelFolderError) as caught:
                replace(folder, NEW)
        assert caught.value.todo
        assert content(folder) in (OLD, NEW)


def test_the_first_set_is_there_or_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for after in range(8):
        folder = tmp_path / str(after)
        with monkeypatch.context() as patched:
            killing(patched, ("replace", "fsync"), after, Killed())
            with pytest.raises(Killed):
                replace(folder, NEW)
        assert content(folder) in ({}, NEW)


@pytest.mark.parametrize("damage", [b"", b"old weightz", b"old weights "])
def test_a_changed_file_is_found(tmp_path: Path, damage: bytes) -> None:
    replace(tmp_path, OLD)
    (tmp_path / "weights").write_bytes(damage)
    with pytest.raises(ModelFolderError) as caught:
        checked_entries(tmp_path, unread=["scores"])
    assert caught.value.where == str(tmp_path / "weights")
    assert MANIFEST in str(caught.value.todo)
    entries = checked_entries(tmp_path, unread=["weights"])
    with pytest.raises(ModelFolderError):
        check(tmp_path / "weights", entries["weights"])


def test_a_missing_file_is_the_matter_of_who_needs_it(tmp_path: Path) -> None:
    replace(tmp_path, OLD)
    (tmp_path / "weights").unlink()
    entries = checked_entries(tmp_path)
    with pytest.raises(ModelFolderError, match="missing"):
        check(tmp_path / "weights", entries["weights"])


@pytest.mark.parametrize(
    "tree",
    [
        *({}, {"version": 2, "files": {}}, {"version": 1}, {"version": 1, "files": [1]}),
        {"version": 1, "files": {}, "more": 1},
        {"version": 1, "files": {"../a": {"size": 1, "sha256": "0" * 64}}},
        {"version": 1, "files": {".a": {"size": 1, "sha256": "0" * 64}}},
        {"version": 1, "files": {"a": {"size": "1", "sha256": "0" * 64}}},
        {"version": 1, "files": {"a": {"size": 1, "sha256": "0" * 63}}},
        {"version": 1, "files": {"a": 7}},
    ],
)
def test_a_manifest_of_another_form_is_an_error(tmp_path: Path, tree: dict[str, Any]) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(tree if "more" in tree else sealed(tree)))
    with pytest.raises(ModelFolderError) as caught:
        checked_entries(tmp_path)
    assert caught.value.where == str(tmp_path / MANIFEST)


def test_a_reader_waits_for_no_writer_and_sees_one_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are replaced after a reader has read the manifest and before it reads them."""
    replace(tmp_path, OLD)
    compare = check
    sets = [NEW]

    def replaced(path: Path, entry: Entry) -> None:
        if sets:
            replace(tmp_path, sets.pop())
        compare(path, entry)

    monkeypatch.setattr("clearhead.folder.manifest.check", replaced)
    assert content(tmp_path) == NEW


def test_the_manifest_of_others_has_what_they_want(tmp_path: Path) -> None:
    writers = {name: methodcaller("write_bytes", content) for name, content in NEW.items()}
    replace_together(
        tmp_path,
        writers,
        "other.json",
        lambda new: {"files": {name: entry._asdict() for name, entry in new.items()}, "more": 1},
    )
    tree = json.loads((tmp_path / "other.json").read_text())
    assert tree["more"] == 1
    assert entries_in(tree) == {name: entry_of(tmp_path / name) for name in NEW}


def test_an_error_has_the_kind_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ExportError):
        replace_together(
            tmp_path / "file" / "inside",
            {"a": methodcaller("write_bytes", b"")},
            "other.json",
            lambda new: {},
            ExportError,
        )


@pytest.mark.parametrize("name", ["a", "a.safetensors"])
@pytest.mark.parametrize("kind", ["device", "pipe", "sparse"])
def test_what_could_be_read_for_ever_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    monkeypatch.setattr("clearhead.folder.manifest.entry_of", not_read)
    path, size = tmp_path / name, 0
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        size = 2**40
        with path.open("wb") as file:
            file.truncate(size)
    entry = {"size": size, "sha256": "0" * 64}
    tree = sealed({"version": 1, "files": {name: entry}})
    (tmp_path / MANIFEST).write_text(json.dumps(tree))
    with pytest.raises(ModelFolderError):
        checked_entries(tmp_path)


def not_read(path: Path) -> Entry:
    raise AssertionError(f"{path} is read")


@pytest.mark.parametrize("absent", [{}, {"absent": -(2**40)}])
def test_many_sparse_files_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: dict[str, int]
) -> None:
    monkeypatch.setattr("clearhead.folder.manifest.entry_of", not_read)
    sizes = {f"a{number}": 2**27 for number in range(100)} | absent
    entries = {name: {"size": size, "sha256": "0" * 64} for name, size in sizes.items()}
    (tmp_path / MANIFEST).write_text(json.dumps(sealed({"version": 1, "files": entries})))
    for name in sizes.keys() - absent.keys():
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**27)
    with pytest.raises(ModelFolderError):
        checked_entries(tmp_path)


def test_a_manifest_does_not_list_itself(tmp_path: Path) -> None:
    entry = {"size": 1, "sha256": "0" * 64}
    tree = sealed({"version": 1, "files": {MANIFEST: entry}})
    (tmp_path / MANIFEST).write_text(json.dumps(tree))
    with pytest.raises(ModelFolderError, match="manifest"):
        checked_entries(tmp_path)
