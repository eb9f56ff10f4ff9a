"""Tables: long cells, quoted cells, and columns with other names."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clearhead.data.reading.tables import no_column, open_table
from clearhead.errors import DataError
from data_files import Write


def rows_of(path: str | Path) -> list[list[str]]:
    with open_table(str(path)) as table:
        return [row for _, row in table.rows(header=False)]


@pytest.mark.parametrize("break_", ["", "\n"])
def test_a_cell_may_hold_a_long_document(write: Write, break_: str) -> None:
    text = f"a word,{break_}" * 2**15
    path = write("a.csv", f'text,label\n"{text}",x\n')
    assert rows_of(path)[1] == [text, "x"]


def test_a_cell_that_is_too_long_may_also_be_an_open_quote(write: Write) -> None:
    path = write("a.csv", "text,label\n" + "abcdef" * 50 + ",x\n")
    before = csv.field_size_limit(100)
    try:
        with pytest.raises(DataError) as caught:
            rows_of(path)
    finally:
        csv.field_size_limit(before)
    assert caught.value.where == f"{path}:2"
    assert "quote" in str(caught.value.todo)


@pytest.mark.parametrize("row", ['"' + "x\n" * 99, 'a,"' + "\n" * 99 + '"'])
def test_a_row_of_csv_may_be_as_long_as_a_line(
    row: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.reading.tables.MAX_LINE_BYTES", 50)
    path = write("a.csv", "a,b\n" + "1,2\n" * 99 + row + "\n1,2\n")
    with pytest.raises(DataError) as raised:
        rows_of(path)
    assert raised.value.where == f"{path}:101"


# Columns


def todo_about(header: list[str], name: str, setting: str | None = None) -> str:
    error = no_column(name, header, "train.csv:1", setting)
    assert error.where == "train.csv:1"
    return str(error.todo)


@pytest.mark.parametrize(
    ("name", "written", "setting", "option"),
    [
        ("text", "txt", 'data.text_column = "txt"', "--text-column"),
        ("label", "Label", 'data.label_column = "Label"', "--label-column"),
        ("text", 'text "ä"', 'data.text_column = "text \\"ä\\""', "--text-column"),
        ("text", "q", 'data.text_column = "NAME"', "--text-column"),
    ],
)
def test_a_similar_column_is_suggested_with_the_setting_that_names_it(
    name: str, written: str, setting: str, option: str
) -> None:
    todo = todo_about([written, "unlike everything"], name, f"{name}_column")
    assert (setting in todo, option in todo) == (True, True)
    assert (repr(written) in todo) == (written != "q")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_tabs_are_advised_where_files_with_tabs_are_read(mark: str) -> None:
    for name, setting in (("text", "text_column"), ("sequence", None), ("file", None)):
        todo = todo_about([f"{name}{mark}label"], name, setting)
        assert ("commas" in todo, ".tsv" in todo) == (True, setting is not None)
    assert "data." not in todo_about(["x"], "sequence")


def test_an_error_does_not_list_a_million_columns() -> None:
    names = [f"sourc{i}" for i in range(1_000_000)]
    assert len(str(no_column("source", names, "a.jsonl:1"))) < 2_000
    long = no_column("y" * 10**7, ["x" * 10**7], "a.jsonl:1", "text_column")
    assert len(str(long)) < 20_000


# Quoted cells in files with tabs


QUOTED = [["text", "n"], ['she said "no"', "1"], ["a\tb", "2"], ["c\nd", "3"]]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("last", [1, 2, 3])
@pytest.mark.parametrize("before", [0, 3])
def test_cells_with_tabs_that_are_quoted_are_read_as_they_were(
    write: Write, quoting: Any, last: int, before: int
) -> None:
    rows = [QUOTED[0], *[["plain", "4"]] * before, QUOTED[last], *[["plain", "4"]] * 3]
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n", quoting=quoting).writerows(rows)
    with open_table(write("a.tsv", text.getvalue())) as table:
        found = list(table.rows(header=False))
    assert [row for _, row in found] == rows
    two_lines = int(last == 3)
    assert [line for line, _ in found][-3:] == [before + n + two_lines for n in (3, 4, 5)]


@pytest.mark.parametrize(
    "lines",
    [
        ['"Hello," she said\ta', "no\tb"],
        ['"Hello."\ta', '"No."\tb'],
        ['"Hello.\ta', 'No."\tb'],
        ['"Hello\ta"', '"a"\t"b"'],
        ['"a ""b"" c"\tx', '5" pipe\ty'],
        ['"a ""b"" c"\tx', 'so ""quoted""\ty'],
        ['"a ""b"" c"\tx', "no tab"],
        ['""a""\tx', '""\ty'],
        ['"\tx', "a\ty"],
        ['a\t"x', "b\ty"],
    ],
)
def test_quotes_that_texts_have_themselves_stay(write: Write, lines: list[str]) -> None:
    with open_table(write("a.tsv", "\n".join(lines))) as table:
        assert table.names == lines[0].split("\t")


def test_a_quote_that_is_open_for_long_is_part_of_a_text(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.data.reading.tables.MOST_LINES", 3)
    path = write("a.tsv", '"a ""b"""\t"\nc\td\nc\td\nc\td\n"\n')
    with open_table(path) as table:
        assert table.names == ['"a ""b"""', '"']


def test_a_usual_name_in_quotes_shows_that_all_quotes_are_around_cells(write: Write) -> None:
    path = write("a.tsv", '"text"\t"label"\t"n"\n"a b"\t"x"\t1\n')
    assert rows_of(path) == [["text", "label", "n"], ["a b", "x", "1"]]


def test_an_empty_line_of_one_column_is_a_text(write: Write) -> None:
    assert rows_of(write("a.tsv", 'text\n\n"a ""b"""\n\nc\n')) == [
        ["text"],
        [""],
        ['a "b"'],
        [""],
        ["c"],
    ]


def test_a_pipe_is_read_once_and_its_quotes_stay(tmp_path: Path) -> None:
    pipe = tmp_path / "a.tsv"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(b'"a ""b"""\tx\n',))
    writer.start()
    assert rows_of(pipe) == [['"a ""b"""', "x"]]
    writer.join()
