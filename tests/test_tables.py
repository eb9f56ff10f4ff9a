"""CSV tables: long cells, and columns that are called otherwise."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead import api
from clearhead.data.feature_sequences import frame_times
from clearhead.data.tables import column_of, header_hint, read_csv
from clearhead.errors import DataError
from clearhead.settings import config_from


@pytest.mark.parametrize("break_", ["", "\n"])
def test_a_cell_may_hold_a_long_document(tmp_path: Path, break_: str) -> None:
    """In a process of its own: the limit of the module is one for all of a process."""
    text = f"a word,{break_}" * 2**15
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["text", "label"], [text, "x"]])
    script = (
        "from clearhead.data.tables import read_csv\n"
        f"(_, header), (_, row) = read_csv({str(tmp_path / 'a.csv')!r})\n"
        f"assert row == [{text!r}, 'x'], len(row[0])\n"
    )
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def test_a_cell_that_is_too_long_may_also_be_an_open_quote(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "abcdef" * 50 + ",x\n")
    before = csv.field_size_limit(100)
    try:
        with pytest.raises(DataError) as caught:
            list(read_csv(str(tmp_path / "a.csv")))
    finally:
        csv.field_size_limit(before)
    assert caught.value.where == f"{tmp_path / 'a.csv'}:2"
    assert "quote that is not closed" in str(caught.value)
    assert "a cell that is too long" in str(caught.value)


def refusal(header: list[str], name: str) -> str:
    with pytest.raises(DataError, match=f"no column '{name}'") as caught:
        column_of(header, name, "train.csv:1")
    return str(caught.value.todo)


@pytest.mark.parametrize(
    ("name", "written", "setting", "option"),
    [
        ("text", "txt", 'data.text_column = "txt"', "--text-column"),
        ("label", "Label", 'data.label_column = "Label"', "--label-column"),
        ("text", 'text "ä"', 'data.text_column = "text \\"ä\\""', "--text-column"),
    ],
)
def test_a_column_of_another_name_is_met_with_the_setting_that_names_it(
    name: str, written: str, setting: str, option: str
) -> None:
    todo = refusal([written, "unlike everything"], name)
    assert f"did you mean {written!r}?" in todo
    assert setting in todo
    assert option in todo


@pytest.mark.parametrize(("name", "setting"), [("text", "text_column"), ("label", "label_column")])
def test_where_no_column_is_like_it_the_setting_is_said_all_the_same(
    name: str, setting: str
) -> None:
    todo = refusal(["q", "w"], name)
    assert f'data.{setting} = "NAME"' in todo
    assert "did you mean" not in todo
    # What is said is a setting that there is.
    config_from({"data": {setting: "NAME"}})


def test_a_name_that_was_asked_for_may_be_of_the_text_or_of_the_label() -> None:
    todo = refusal(["topics", "words"], "topic")
    assert "did you mean 'topics'?" in todo
    assert "data.text_column or data.label_column" in todo


def test_a_column_whose_name_is_fixed_has_no_setting() -> None:
    assert "It must be called 'sequence'" in refusal(["Sequence", "x"], "sequence")
    assert "data." not in refusal(["x"], "sequence") + refusal(["q"], "file")


@pytest.mark.parametrize("written", ["Sequence", "x"])
def test_what_a_column_of_a_fixed_name_is_for_is_said(written: str) -> None:
    assert "which rows, one after the other, belong together" in refusal([written], "sequence")
    assert "which file the label" in refusal([written], "file")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_tabs_are_advised_where_files_with_tabs_are_read(mark: str) -> None:
    assert refusal([f"label{mark}text"], "text").endswith(
        "by commas, or write tabs and name the file .tsv"
    )
    for name in ("sequence", "file"):
        assert refusal([f"{name}{mark}label"], name) == "separate the columns by commas"


@pytest.mark.parametrize(
    ("place", "hinted"),
    [
        ("train.tsv:1", True),
        ("a/b:c.TSV.gz:1", True),
        ("train.tsv:2", False),
        ("train.tsv:11", False),
        ("train.csv:1", False),
        ("train.txt:1", False),
        ("", False),
        (None, False),
    ],
)
def test_only_line_1_of_a_file_with_tabs_may_be_a_header_unawares(
    place: str | None, hinted: bool
) -> None:
    assert bool(header_hint(place)) == hinted


def test_a_header_that_is_learned_from_as_a_label_is_thought_of(tmp_path: Path) -> None:
    lines = ["topic\tquestion", *(f"{label}\tword {n}" for n in range(20) for label in "ab")]
    (tmp_path / "train.tsv").write_text("".join(f"{line}\n" for line in lines))
    tree = {
        "task": "classification",
        "folder": str(tmp_path / "run"),
        "data": {"train": [str(tmp_path / "train.tsv")]},
        "training": {"max_steps": 1},
    }
    with pytest.raises(DataError, match="the class 'topic'") as caught:
        api.dry_run(config_from(tree))
    assert "if line 1 is a header, name its columns" in str(caught.value)


# The times of frames.


def test_the_times_of_a_sequence_are_given_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x,time,sequence\n1,0.50,a\n1, 1e0,a\n1,3,b\n1,3,c\n1,4,c\n")
    found = [frame_times(str(path), number) for number in (1, 2, 3)]
    assert found == [("0.50", "1e0"), ("3",), ("3", "4")]
    with pytest.raises(DataError, match="no sequence 4"):
        frame_times(str(path), 4)


@pytest.mark.parametrize("labels", [True, False])
def test_the_times_of_a_case_are_those_of_its_tuples(tmp_path: Path, labels: bool) -> None:
    label = ":a" if labels else ""
    cases = ["(0.50,1),(1e0,2):(0.50,3),(1e0,4)", "(2020-01-01 10:30:00,1):(2020-01-01 10:30:00,2)"]
    header = ["@timeStamps true", f"@classLabel {'true a' if labels else 'false'}", "@data"]
    path = tmp_path / "x.ts"
    path.write_text("\n".join([*header, *(f"{case}{label}" for case in cases)]) + "\n")
    found = [frame_times(str(path), number) for number in (1, 2)]
    assert found == [("0.50", "1e0"), ("2020-01-01 10:30:00",)]
    with pytest.raises(DataError, match="no sequence 3"):
        frame_times(str(path), 3)


def test_what_has_no_times_has_none(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x,sequence\n1,a\n")
    (tmp_path / "x.ts").write_text("@classLabel true a\n@data\n1,2:a\n")
    (tmp_path / "folder.csv").mkdir()
    for name in ("x.csv", "folder.csv", "x.ts", "x.npz"):
        assert frame_times(str(tmp_path / name), 1) is None
