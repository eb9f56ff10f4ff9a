"""The label set: learned, saved in its order, with clear errors for unknown labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.data.labels import Labels
from clearhead.errors import DataError, ModelFolderError
from clearhead.folder.files import fingerprint_of, write_description

names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)
label_sets = st.lists(st.lists(names, max_size=3))
same_folder = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(label_sets)
def test_the_labels_are_the_distinct_ones_sorted(examples: list[list[str]]) -> None:
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


def test_of_many_labels_a_few_are_shown_and_the_others_counted() -> None:
    labels = Labels(tuple(f"class {number:04}" for number in range(1210)))
    with pytest.raises(DataError) as raised:
        labels.index("?")
    assert str(raised.value.why).endswith("class 0009 and 1,200 more")
    assert "did you mean" not in str(raised.value.todo)


@same_folder
@given(st.lists(names, unique=True))
def test_labels_come_back_from_disk_in_their_order(tmp_path: Path, order: list[str]) -> None:
    labels = Labels(tuple(order))
    labels.save(tmp_path, "labels")
    loaded = Labels.load(tmp_path, "labels")
    assert loaded == labels
    assert loaded.fingerprint() == labels.fingerprint()


def test_the_fingerprint_changes_with_a_name_and_with_the_order() -> None:
    kinds = [("a", "b"), ("b", "a"), ("a",), ("ab",), ("a", "c"), ()]
    assert len({Labels(kind).fingerprint() for kind in kinds}) == len(kinds)


@pytest.mark.parametrize("wrong", [("a", "a"), ("a", "")])
def test_a_label_that_comes_twice_or_is_empty_is_no_label_set(wrong: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="twice, or is empty"):
        Labels(wrong)


def test_a_missing_or_damaged_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="missing"):
        Labels.load(tmp_path, "labels")
    Labels(("a", "b")).save(tmp_path, "labels")
    path = tmp_path / "labels.json"
    good = json.loads(path.read_text("utf-8"))
    damaged = [
        *("", "[]", "3", path.read_text("utf-8")[:-20], "[" * 100_000, '"\udcff"'),
        *(json.dumps({**good, "labels": labels}) for labels in ("ab", ["b", "a"], [1, 2], None)),
        *(json.dumps({**good, "labels": labels}) for labels in (["a", "a"], ["a"], {"a": 0})),
        json.dumps({**good, "version": 99}),
        json.dumps({key: value for key, value in good.items() if key != "labels"}),
    ]
    for content in damaged:
        path.write_bytes(content.encode(errors="surrogateescape"))
        with pytest.raises(ModelFolderError) as raised:
            Labels.load(tmp_path, "labels")
        assert raised.value.where == str(path)


def test_a_folder_in_the_place_of_the_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "labels.json").mkdir()
    with pytest.raises(ModelFolderError, match="cannot be read"):
        Labels.load(tmp_path, "labels")


@pytest.mark.parametrize("mark", ["\n", "\r", "\t", "\x1b", "\x85", "\u2028"])
def test_a_label_with_a_line_break_or_control_character_is_not_loaded(
    mark: str, tmp_path: Path
) -> None:
    names = ["a", f"b{mark}c"]
    with pytest.raises(ValueError, match="control"):
        Labels(tuple(names))
    fingerprint = fingerprint_of(json.dumps(["labels", names]).encode())
    write_description(tmp_path, "labels", {"labels": names}, fingerprint)
    with pytest.raises(ModelFolderError) as raised:
        Labels.load(tmp_path, "labels")
    assert raised.value.where == str(tmp_path / "labels.json")


def test_a_label_is_found_in_whatever_form_it_is_given_or_was_learned() -> None:
    old = Labels(("cafe\u0301", "neg", "neg\u200b"))  # of an earlier version
    assert old.encode(["café", "neg", "neg\u200b", "\ufeffneg"]) == (0, 1, 2, 1)
    assert Labels(("café", "neg")).encode(["cafe\u0301", "neg\xad"]) == (0, 1)
