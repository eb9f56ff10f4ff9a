"""Labelled texts: every format is read exactly, or raises an error with the place."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.data.reading.labelled import read_labelled_texts
from clearhead.errors import DataError
from clearhead.tokenizer.normal_form import LABEL
from data_files import Write, same_folder
from scripts import load_script

any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0"))
label_text = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))
label = label_text.map(LABEL).filter(bool)


def read(path: str, *columns: str, multi_label: bool = False) -> list[tuple[str, tuple[str, ...]]]:
    found = list(read_labelled_texts(path, *columns, multi_label=multi_label))
    return [(example.input, example.labels) for example in found]


def lines(path: str) -> list[int]:
    return [int(example.place.rpartition(":")[2]) for example in read_labelled_texts(path)]


NUMBERS, TOPICS = [("a", "3"), ("b", "-1.5")], [("a", "x"), ("b", "y")]


def refusal(path: str, *columns: str, multi_label: bool = False) -> DataError:
    with pytest.raises(DataError) as raised:
        read(path, *columns, multi_label=multi_label)
    return raised.value


def on_one_line(text: str) -> str:
    return re.sub("[\n\r]+", " ", text)


def table(rows: list[list[str]], quoted: bool = False) -> str:
    stream = io.StringIO()
    quoting, end = (csv.QUOTE_ALL, "\n") if quoted else (csv.QUOTE_MINIMAL, "\r\n")
    csv.writer(stream, quoting=quoting, lineterminator=end).writerows(rows)
    return stream.getvalue()


# Any text and label


@same_folder
@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz"])
@given(rows=st.lists(st.tuples(any_text, label, any_text), min_size=1), quoted=st.booleans())
@example(rows=[("a\r\r\nb", "x", ""), ("", "y", '"'), ('"\n"\r"', "z", ",")], quoted=True)
def test_csv_gives_back_what_the_csv_module_wrote(
    name: str, rows: list[tuple[str, str, str]], quoted: bool, write: Write
) -> None:
    content = table([["text", "label", "more"], *map(list, rows)], quoted)
    path = write(name, "\ufeff" + content)
    assert read(path) == [(on_one_line(text), (label,)) for text, label, _ in rows]


@same_folder
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.txt", "a.txt.gz"])
@pytest.mark.parametrize("header", [True, False])
@given(rows=st.lists(st.tuples(line_text, label), min_size=1))
@example(rows=[("a label called like a column", "text"), ('"quotes", commas', "a")])
def test_tabs_separate_columns_with_a_header_or_label_and_text(
    name: str, header: bool, rows: list[tuple[str, str]], write: Write
) -> None:
    header = header and ".tsv" in name
    if header:
        body = "id\ttext\tlabel\n" + "".join(f"0\t{text}\t{label}\n" for text, label in rows)
    else:
        body = "".join(f" {label}\t{text}\n" for text, label in rows)
    path = write(name, "\ufeff" * header + body)
    assert read(path) == [(text, (label,)) for text, label in rows]
    assert lines(path) == [1 + header + number for number in range(len(rows))]


@same_folder
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("several", [False, True])
@given(rows=st.lists(st.tuples(any_text, label), min_size=1))
def test_jsonl_gives_back_any_text(
    name: str, several: bool, rows: list[tuple[str, str]], write: Write
) -> None:
    records = [
        {"text": text, "labels": [label]} if several else {"label": label, "text": text, "id": 1}
        for text, label in rows
    ]
    path = write(name, "".join(f"{json.dumps(record)}\n" for record in records))
    assert read(path) == [(on_one_line(text), (label,)) for text, label in rows]
    assert lines(path) == list(range(1, len(rows) + 1))


@same_folder
@given(
    rows=st.lists(
        st.tuples(line_text, st.lists(label.filter(lambda name: "|" not in name), unique=True)),
        min_size=1,
    )
)
def test_several_labels_come_back_from_every_form(
    rows: list[tuple[str, list[str]]], write: Write
) -> None:
    expected = [(text, tuple(labels)) for text, labels in rows]
    cells = [["text", "label"], *([text, " | ".join(labels)] for text, labels in rows)]
    json_lines = (json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows)
    files = [
        write("a.csv", table(cells)),
        write("a.tsv", "".join("\t".join(row) + "\n" for row in cells)),
        # A mark of the byte order, because a label may begin with the same character.
        write("a.txt", "\ufeff" + "".join(f"{label}\t{text}\n" for text, label in cells[1:])),
        write("a.jsonl", "".join(json_lines)),
    ]
    for path in files:
        assert read(path, multi_label=True) == expected


# Examples of each rule


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        (
            "a.csv",
            "topic,text,question,label\nx,no,yes,no\n",
            ("question", "topic"),
            [("yes", "x")],
        ),
        # A bar is part of the label if there is one label.
        ("a.csv", "text,label\na,x|y\n", (), [("a", "x|y")]),
        ("a.jsonl", '{"text": "a", "label": 3}\n{"text": "b", "label": [-1.5]}\n', (), NUMBERS),
        ("a.jsonl", '{"text": "a", "labels": ["x", "x"]}\n', (), [("a", "x")]),
        ("a.jsonl", '{"q": "a", "t": "x"}\n{"q": "b", "ts": ["y"]}\n', ("q", "t"), TOPICS),
        ("a.jsonl", '{"text": "a", "t": "x", "ts": [1, 2]}\n', ("text", "t"), [("a", "x")]),
        # An empty text is kept for the check.
        ("a.csv", "text,label\n,x\n", (), [("", "x")]),
        ("a.tsv", "text\tlabel\n\tx\n", (), [("", "x")]),
        ("a.txt", "x\t\n", (), [("", "x")]),
        ("a.jsonl", '{"text": "", "label": "x"}\n', (), [("", "x")]),
    ],
)
def test_one_label_of_a_text(
    name: str, content: str, columns: Any, expected: list[tuple[str, str]], write: Write
) -> None:
    assert read(write(name, content), *columns) == [(text, (label,)) for text, label in expected]


@pytest.mark.parametrize(
    ("name", "content", "labels"),
    [
        ("a.csv", "text,label\na,x|y|x\n", ("x", "y")),
        ("a.jsonl", '{"text": "a", "label": "x|y"}\n', ("x|y",)),
        ("a.jsonl", '{"text": "a", "labels": ["x", "y"]}\n', ("x", "y")),
        ("a.jsonl", '{"text": "a", "label": []}\n', ()),
    ],
)
def test_several_labels_are_read_with_the_setting_that_allows_them(
    name: str, content: str, labels: tuple[str, ...], write: Write
) -> None:
    path = write(name, content)
    assert read(path, multi_label=True) == [("a", labels)]
    if len(labels) != 1 and "|" not in content:
        assert "classifier.multi_label = true" in str(refusal(path).todo)


def test_a_place_is_the_line_where_the_row_begins(write: Write) -> None:
    path = write("a.csv", 'label,text\nx,"one\ntwo"\n\ny,three\nz,"\n\n"\nx,four\n')
    assert lines(path) == [2, 5, 6, 9]
    assert read(path)[2] == (" ", ("z",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("café", "cafe\u0301"), ("neg", "neg\u200b"), ("very bad", "very\xa0bad")),
        *(("pos", "\ufeffpos"), ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"), ("ok", "o\xadk")),
    ],
)
def test_labels_that_look_the_same_are_one_class(write: Write, one: str, other: str) -> None:
    path = write("a.csv", f"text,label\na,{one}\nb,{other}\nc,x\n")
    assert [labels for _, labels in read(path)] == [(one,), (one,), ("x",)]


def test_the_questions_of_trec_are_read_as_they_are(clearhead_data: Path, tmp_path: Path) -> None:
    questions = (clearhead_data / "trec" / "train.txt").read_bytes().splitlines()
    prepare_trec = load_script("examples/prepare_trec.py")
    assert prepare_trec.main(["--fine", "-o", str(tmp_path)]) == 0
    rows = [question.decode("latin-1").partition(" ")[::2] for question in questions]
    assert read(str(tmp_path / "train.tsv")) == [(text, (label,)) for label, text in rows]
    assert len(rows) == 5452


# Refusals


RECORDS = (
    *("", "{", "[]", "1", "[" * 100_000, "9" * 5000, '{"text": "a"}', '{"label": "a"}'),
    *('{"text": 1, "label": "a"}', '{"text": null, "label": "a"}'),
    *(f'{{"text": "a", "label": {value}}}' for value in ("true", "null", "{}", "NaN", '" "')),
    *(f'{{"text": "a", "labels": {value}}}' for value in ("[]", "[false]", '["a", "b"]')),
    '{"text": "a", "label": "a", "labels": ["a"]}',
    r'{"text": "a\u0000", "label": "a"}',
    r'{"text": "\ud800", "label": "a"}',
    r'{"text": "a", "label": "\udfff"}',
    r'{"text": "a", "label": "a\nb"}',
    r'{"text": "a", "label": "x\ty"}',
)
ROWS = ("c", "c,d,e", '"a"b,c', '"c\nd,e', "c\rd,e", "a,", "a,  ", 'c,"d\ne"', "a,\u200b")
HEADERS = ("sentence\tlabel", "label\tsentence", "class\ttext", "id\tsentence\tclass", "text")
NAMES = ("a.csv", "a.tsv", "a.txt", "a.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        *(("a.csv", f"text,label\na,b\n{row}\n", ":3") for row in ROWS),
        ("a.csv", "text,label,text\na,b,c\n", ":1"),
        *(("a.tsv", f"{header}\nx\ty\n", ":1") for header in HEADERS),
        *((name, f"x\ta\n{line}\n", ":2") for name in NAMES[1:3] for line in ("no tab", "")),
        *((name, f"x\ta\n{line}\n", ":2") for name in NAMES[1:3] for line in ("x\t\ty", " \ta")),
        *(("a.jsonl", f'{{"text": "a", "label": "b"}}\n{record}\n', ":2") for record in RECORDS),
        *((name, b"caf\xe9\tx\n", ":1") for name in NAMES),
        *((name, "", "") for name in (*NAMES, "a.csv.gz")),
        *((name, None, "") for name in (*NAMES, "a.xlsx")),
        *(("a.csv", "\n\n", ""), ("a.csv", "text,label\n", ""), ("a.tsv", "text\tlabel\n", "")),
        ("a.xlsx", "text,label\na,b\n", ""),
    ],
)
def test_what_is_wrong_is_rejected_with_its_place(
    name: str, content: str | bytes | None, place: str, tmp_path: Path, write: Write
) -> None:
    path = str(tmp_path / name) if content is None else write(name, content)
    assert refusal(path).where == path + place


@pytest.mark.parametrize("cell", ["x||y", "|", "x| "])
def test_an_empty_label_among_several_is_rejected(cell: str, write: Write) -> None:
    path = write("a.csv", f"text,label\na,{cell}\n")
    assert refusal(path, multi_label=True).where == f"{path}:2"
