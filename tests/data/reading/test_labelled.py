"""Labelled texts: every format is read exactly, or raises an error with the place."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import islice
from pathlib import Path

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


def lines(path: str) -> list[str]:
    return [example.place.rpartition(":")[2] for example in read_labelled_texts(path)]


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


# CSV


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


def test_a_place_is_the_line_where_the_row_begins(write: Write) -> None:
    path = write("a.csv", 'label,text\nx,"one\ntwo"\n\ny,three\nz,"\n\n"\nx,four\n')
    assert lines(path) == ["2", "5", "6", "9"]
    assert read(path)[2] == (" ", ("z",))
    first = next(iter(read_labelled_texts(path)))
    assert first.place == f"{path}:2"


def test_columns_are_found_by_the_given_names(write: Write) -> None:
    path = write("a.csv", "topic,text,question,label\nx,no,yes,no\n")
    assert read(path, "question", "topic") == [("yes", ("x",))]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("text,label\na,b\nc\n", 3),
        ("text,label\na,b\nc,d,e\n", 3),
        ('text,label\n"a"b,c\n', 2),
        ('text,label\na,b\n"c\nd,e\n', 3),
        ("text,label\na,b\nc\rd,e\n", 3),
        ("text,label\na,b\na,\n", 3),
        ("text,label\na,b\na,  \n", 3),
        ('text,label\na,b\nc,"d\ne"\n', 3),
        ("text,label,text\na,b,c\n", 1),
    ],
)
def test_a_row_that_is_wrong_is_rejected_with_its_line(
    content: str, line: int, write: Write
) -> None:
    assert str(refusal(write("a.csv", content)).where).endswith(f"a.csv:{line}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, "") for name in ("a.csv", "a.tsv", "a.jsonl", "a.txt", "a.csv.gz")),
        *(("a.csv", "\n\n"), ("a.csv", "text,label\n"), ("a.tsv", "text\tlabel\n")),
        *((name, None) for name in ("a.csv", "a.tsv", "a.txt", "a.jsonl", "a.xlsx")),
        ("b.xlsx", "text,label\na,b\n"),
    ],
)
def test_a_file_without_a_text_is_rejected(
    name: str, content: str | None, tmp_path: Path, write: Write
) -> None:
    path = str(tmp_path / name) if content is None else write(name, content)
    assert refusal(path).where == path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_a_line_that_is_not_utf8_is_rejected(name: str, write: Write) -> None:
    path = write(name, b"caf\xe9\tx\n")
    assert refusal(path).where == f"{path}:1"


# Tabs


@same_folder
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
@given(rows=st.lists(st.tuples(line_text, label), min_size=1))
def test_tsv_with_a_header_gives_its_columns(
    name: str, rows: list[tuple[str, str]], write: Write
) -> None:
    body = "".join(f"0\t{text}\t{label}\n" for text, label in rows)
    path = write(name, "\ufeffid\ttext\tlabel\n" + body)
    assert read(path) == [(text, (label,)) for text, label in rows]
    assert lines(path) == [str(number) for number in range(2, len(rows) + 2)]


@same_folder
@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.txt.gz"])
@given(rows=st.lists(st.tuples(label, line_text), min_size=1))
@example(rows=[("text", "a label called like a column"), ("a", '"quotes", commas')])
def test_without_a_header_a_line_is_label_tab_text(
    name: str, rows: list[tuple[str, str]], write: Write
) -> None:
    path = write(name, "".join(f" {label}\t{text}\n" for label, text in rows))
    assert read(path) == [(text, (label,)) for label, text in rows]
    assert lines(path) == [str(number) for number in range(1, len(rows) + 1)]


@pytest.mark.parametrize(
    "header", ["sentence\tlabel", "label\tsentence", "class\ttext", "id\tsentence\tclass", "text"]
)
def test_a_header_with_other_names_is_not_taken_for_a_text(header: str, write: Write) -> None:
    error = refusal(write("a.tsv", f"{header}\nx\ty\n"))
    assert str(error.where).endswith("a.tsv:1")
    assert header.split("\t")[0] in str(error.why)


@pytest.mark.parametrize("name", ["a.tsv", "a.txt"])
@pytest.mark.parametrize("line", ["no tab", "", "x\ttwo\ttabs", "\tno label", "  \tno label"])
def test_a_line_of_another_form_is_rejected(name: str, line: str, write: Write) -> None:
    assert str(refusal(write(name, f"x\ta\n{line}\n")).where).endswith(f"{name}:2")


# JSON


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
    assert lines(path) == [str(number) for number in range(1, len(rows) + 1)]


def test_numbers_in_json_are_labels_by_their_digits(write: Write) -> None:
    path = write("a.jsonl", '{"text": "a", "label": 3}\n{"text": "b", "label": [-1.5]}\n')
    assert read(path) == [("a", ("3",)), ("b", ("-1.5",))]


def test_column_names_apply_to_json(write: Write) -> None:
    path = write("a.jsonl", '{"q": "a", "text": 1, "topic": "x"}\n{"q": "b", "topics": ["y"]}\n')
    assert read(path, "q", "topic") == [("a", ("x",)), ("b", ("y",))]


@pytest.mark.parametrize(
    "line",
    [
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
    ],
)
def test_a_json_line_of_another_form_is_rejected(line: str, write: Write) -> None:
    path = write("a.jsonl", f'{{"text": "a", "label": "b"}}\n{line}\n')
    assert str(refusal(path).where).endswith("a.jsonl:2")


# Several labels


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


def test_a_bar_is_part_of_the_label_if_there_is_one_label(write: Write) -> None:
    path = write("a.csv", "text,label\na,x|y\n")
    assert read(path) == [("a", ("x|y",))]
    assert read(path, multi_label=True) == [("a", ("x", "y"))]
    one = write("a.jsonl", '{"text": "a", "label": "x|y"}\n')
    assert read(one, multi_label=True) == [("a", ("x|y",))]


def test_a_column_that_is_named_is_read_whatever_its_plural_holds(write: Write) -> None:
    path = write("a.jsonl", '{"text": "a", "topic": "x", "topics": [1, 2]}\n')
    assert read(path, "text", "topic") == [("a", ("x",))]


def test_a_label_that_is_named_twice_counts_once(write: Write) -> None:
    assert read(write("a.csv", "text,label\na,x|y|x\n"), multi_label=True) == [("a", ("x", "y"))]
    assert read(write("a.jsonl", '{"text": "a", "labels": ["x", "x"]}\n')) == [("a", ("x",))]


def test_several_labels_or_none_are_rejected_with_the_setting_that_allows_them(
    write: Write,
) -> None:
    for values, labels in (('["x", "y"]', ("x", "y")), ("[]", ())):
        path = write("a.jsonl", f'{{"text": "a", "labels": {values}}}\n')
        assert "classifier.multi_label = true" in str(refusal(path).todo)
        assert read(path, multi_label=True) == [("a", labels)]


@pytest.mark.parametrize("cell", ["x||y", "|", "x| "])
def test_an_empty_label_among_several_is_rejected(cell: str, write: Write) -> None:
    path = write("a.csv", f"text,label\na,{cell}\n")
    assert refusal(path, multi_label=True).where == f"{path}:2"


# Files


def test_an_empty_text_is_kept_for_the_check(write: Write) -> None:
    for name, content in {
        "a.csv": "text,label\n,x\n",
        "a.tsv": "text\tlabel\n\tx\n",
        "a.txt": "x\t\n",
        "a.jsonl": '{"text": "", "label": "x"}\n',
    }.items():
        assert read(write(name, content)) == [("", ("x",))]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_a_file_read_in_part_is_closed(name: str, write: Write) -> None:
    # ResourceWarning is an error in these tests.
    content = {
        "a.csv": "text,label\na,x\n",
        "a.tsv": "text\tlabel\na\tx\n",
        "a.txt": "x\ta\n",
        "a.jsonl": '{"text": "a", "label": "x"}\n',
    }[name]
    examples = read_labelled_texts(write(name, content + content.splitlines(True)[-1] * 9))
    assert len(list(islice(examples, 2))) == 2
    del examples


def test_the_questions_of_trec_are_read_as_they_are(clearhead_data: Path, tmp_path: Path) -> None:
    questions = (clearhead_data / "trec" / "train.txt").read_bytes().splitlines()
    prepare_trec = load_script("examples/prepare_trec.py")
    assert prepare_trec.main(["--fine", "-o", str(tmp_path)]) == 0
    rows = [question.decode("latin-1").partition(" ")[::2] for question in questions]
    assert read(str(tmp_path / "train.tsv")) == [(text, (label,)) for label, text in rows]
    assert len(rows) == 5452


# Labels that look the same


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


def test_an_invisible_label_is_empty(write: Write) -> None:
    path = write("a.csv", "text,label\na,\u200b\n")
    assert refusal(path).where == f"{path}:2"
