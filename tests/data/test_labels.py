"""The label set: learned, saved in its order, with clear errors for unknown labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.data.labels import Labels
from clearhead.errors import ClearheadError, DataError, ModelFolderError
from clearhead.folder.model_folder import ModelFolder, open_folder
from model_folders import folder_with, without_manifest

names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)
label_sets = st.lists(st.lists(names, max_size=3))
same_folder = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(label_sets)
def test_labels_are_sorted_and_numbered_by_their_place(examples: list[list[str]]) -> None:
    labels = Labels.learn(examples)
    assert list(labels.names) == sorted({name for example in examples for name in example})
    assert len(labels) == len(labels.names)


def test_an_unknown_label_is_rejected_with_its_place_and_one_that_is_like_it() -> None:
    labels = Labels(("DESC", "ENTY", "LOC"))
    with pytest.raises(DataError) as raised:
        labels.encode(["LOC", "Desk"], "test.csv:7")
    assert raised.value.where == "test.csv:7"
    assert "'Desk'" in raised.value.what
    assert "'DESC'" in str(raised.value.todo)
    assert "DESC, ENTY, LOC" in str(raised.value.why)
    with pytest.raises(DataError) as raised:
        Labels(tuple(f"class {number:04}" for number in range(1210))).index("?")
    assert "class 0009" in str(raised.value.why)
    assert "1,200" in str(raised.value.why)
    assert "class 0010" not in str(raised.value.why)


@same_folder
@given(st.lists(names, unique=True))
def test_labels_come_back_from_disk_in_their_order(tmp_path: Path, order: list[str]) -> None:
    labels = Labels(tuple(order))
    assert Labels.of(folder_with(tmp_path, {"labels": labels})) == labels


@pytest.mark.parametrize(
    "wrong", [("a", "a"), ("a", ""), *(("a", f"b{x}c") for x in "\n\t\x1b\x85\u2028")]
)
def test_a_label_that_comes_twice_is_empty_or_has_control_characters_is_refused(
    wrong: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"twice|control"):
        Labels(wrong)
    with pytest.raises(ModelFolderError):
        Labels.of(changed(tmp_path, json.dumps({"labels": wrong})))


def changed(path: Path, content: str) -> ModelFolder:
    """A folder whose file of labels has this content, and no manifest."""
    folder_with(path, {"labels": Labels(("a", "b"))})
    (without_manifest(path) / "labels.json").write_bytes(content.encode(errors="surrogateescape"))
    return open_folder(path, trained=False)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "3", '{"labels": ["a"', "[" * 100_000, '"\udcff"', "{}"),
        *(json.dumps({"labels": labels}) for labels in ("ab", [1, 2], None, {"a": 0})),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    with pytest.raises(ModelFolderError) as raised:
        Labels.of(changed(tmp_path, content))
    assert raised.value.where == str(tmp_path / "labels.json")


def test_a_missing_file_or_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    with pytest.raises(ModelFolderError) as missing:
        Labels.of(folder_with(tmp_path, {}))
    path.mkdir()
    with pytest.raises(ClearheadError) as unreadable:
        open_folder(tmp_path, trained=False)
    assert missing.value.where == unreadable.value.where == str(path)


def test_a_label_is_found_in_whatever_form_it_is_given_or_was_learned() -> None:
    old = Labels(("cafe\u0301", "neg", "neg\u200b"))
    assert old.encode(["café", "neg", "neg\u200b", "\ufeffneg"]) == (0, 1, 2, 1)
    assert Labels(("café", "neg")).encode(["cafe\u0301", "neg\xad"]) == (0, 1)


def test_labels_that_are_numbers_are_sorted_as_numbers() -> None:
    assert Labels.learn([["10"], ["9"], ["-1.5"]]).names == ("-1.5", "9", "10")
    assert Labels.learn([["10"], ["9"], ["x"]]).names == ("10", "9", "x")
