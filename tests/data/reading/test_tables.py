"""CSV tables: long cells, and columns with other names."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clearhead import api
from clearhead.data.reading.labelled import read_labelled_texts
from clearhead.data.reading.tables import FIXED_COLUMNS, Header, read_csv, read_tsv
from clearhead.errors import DataError
from clearhead.settings import config_from


@pytest.mark.parametrize("break_", ["", "\n"])
def test_a_cell_may_hold_a_long_document(tmp_path: Path, break_: str) -> None:
    """In a separate process, because the limit of the csv module is global."""
    text = f"a word,{break_}" * 2**15
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["text", "label"], [text, "x"]])
    script = (
        "from clearhead.data.reading.tables import read_csv\n"
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


def refusal(header: list[str], name: str, setting: str | None = None) -> str:
    with pytest.raises(DataError, match=f"no column '{name}'") as caught:
        Header(header, "train.csv:1").column(name, setting)
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
    todo = refusal([written, "unlike everything"], name, f"{name}_column")
    assert f"did you mean {written!r}?" in todo
    assert setting in todo
    assert option in todo


@pytest.mark.parametrize(("name", "setting"), [("text", "text_column"), ("label", "label_column")])
def test_without_a_similar_column_the_setting_is_named(name: str, setting: str) -> None:
    todo = refusal(["q", "w"], name, setting)
    assert f'data.{setting} = "NAME"' in todo
    assert "did you mean" not in todo
    # The message names an existing setting.
    config_from({"data": {setting: "NAME"}})


@pytest.mark.parametrize(("wrong", "other"), [("text", "label"), ("label", "text")])
def test_only_the_setting_of_the_wrong_column_is_named(
    tmp_path: Path, wrong: str, other: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("topics,words\na,b\n")
    columns = {wrong: "topic", other: "words"}
    with pytest.raises(DataError) as caught:
        list(read_labelled_texts(str(path), columns["text"], columns["label"]))
    todo = str(caught.value.todo)
    assert "did you mean 'topics'?" in todo
    assert f"--{wrong}-column" in todo
    assert f"{other}_column" not in todo


def test_a_column_whose_name_is_fixed_has_no_setting() -> None:
    assert "'sequence'" in refusal(["Sequence", "x"], "sequence")
    assert "data." not in refusal(["x"], "sequence") + refusal(["q"], "file")


@pytest.mark.parametrize("written", ["Sequence", "x"])
def test_the_purpose_of_a_column_with_a_fixed_name_is_reported(written: str) -> None:
    assert FIXED_COLUMNS["sequence"] in refusal([written], "sequence")
    assert FIXED_COLUMNS["file"] in refusal([written], "file")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_tabs_are_advised_where_files_with_tabs_are_read(mark: str) -> None:
    todo = refusal([f"label{mark}text"], "text", "text_column")
    assert ("commas" in todo, ".tsv" in todo) == (True, True)
    for name in ("sequence", "file"):
        todo = refusal([f"{name}{mark}label"], name)
        assert ("commas" in todo, ".tsv" in todo) == (True, False)


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
    assert "if line 1 is a header" in str(caught.value)
    assert "data.text_column" in str(caught.value)


@pytest.mark.parametrize("row", ['"' + "x\n" * 99, 'a,"' + "\n" * 99 + '"'])
def test_a_row_of_csv_may_be_as_long_as_a_line(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.reading.tables.MAX_LINE_BYTES", 50)
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 99 + row + "\n1,2\n")
    with pytest.raises(DataError) as raised:
        list(read_csv(str(path)))
    assert raised.value.where == f"{path}:101"


def test_an_error_does_not_list_a_million_columns() -> None:
    names = [f"sourc{i}" for i in range(1_000_000)]
    with pytest.raises(DataError) as caught:
        Header(names, "a.jsonl:1").column("source")
    assert len(str(caught.value)) < 2_000
    with pytest.raises(DataError) as caught:
        Header(["x" * 10**7], "a.jsonl:1").column("y" * 10**7, "text_column")
    assert len(str(caught.value)) < 20_000


QUOTED = [["text", "n"], ['she said "no"', "1"], ["a\tb", "2"], ["c\nd", "3"]]


def written(rows: list[list[str]], **form: Any) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n", **form).writerows(rows)
    return text.getvalue()


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("last", [1, 2, 3])
def test_cells_with_tabs_that_are_quoted_are_read_as_they_were(
    tmp_path: Path, quoting: Any, last: int
) -> None:
    rows = [QUOTED[0], QUOTED[last], *[["plain", "4"]] * 3]
    (tmp_path / "a.tsv").write_text(written(rows, quoting=quoting))
    assert [row for _, row in read_tsv(str(tmp_path / "a.tsv"))] == rows


@pytest.mark.parametrize(
    "lines",
    [
        ['"Hello," she said\ta', "no\tb"],
        ['"Hello."\ta', '"No."\tb'],
        ['"Hello.\ta', 'No."\tb'],
        ['"Hello\ta"', '"a"\t"b"'],
        ['"a ""b"" c"\tx', '5" pipe\ty'],
        ['"a ""b"" c"\tx', 'so ""quoted""\ty'],
        ['""a""\tx', '""\ty'],
        ['"\tx', "a\ty"],
        ['a\t"x', "b\ty"],
    ],
)
def test_quotes_that_texts_have_themselves_stay(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    assert [row for _, row in read_tsv(str(tmp_path / "a.tsv"))] == [li.split("\t") for li in lines]


def test_a_usual_name_in_quotes_shows_that_all_quotes_are_around_cells(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('"text"\t"label"\t"n"\n"a b"\t"x"\t1\n')
    rows = [row for _, row in read_tsv(str(tmp_path / "a.tsv"))]
    assert rows == [["text", "label", "n"], ["a b", "x", "1"]]
