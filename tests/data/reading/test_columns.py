"""Columns by position, and the columns that a table is likely to have by its cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clearhead import api
from clearhead.data.proposing.classification import propose_classification
from clearhead.data.reading.columns import (
    NAMED,
    SAMPLE,
    Columns,
    columns_hint,
    columns_of,
    likely_columns,
    other_columns,
    sample_of,
    text_column_of,
)
from clearhead.data.reading.labelled import read_labelled_texts
from clearhead.data.reading.tables import Column, Table
from clearhead.errors import ConfigError, DataError
from clearhead.settings import config_from

TEXTS = [
    f"the {animal} {verb} {place} today"
    for animal in ("cat", "dog", "hen", "cow")
    for verb in ("sleeps", "runs", "eats")
    for place in ("here", "there")
]
LABELS = ["calm", "wild"] * 12


def write(path: Path, *columns: list[str], header: str = "") -> str:
    mark = "," if path.suffix == ".csv" else "\t"
    rows = [mark.join(cells) for cells in zip(*columns, strict=True)]
    path.write_text("".join(f"{line}\n" for line in ([header] if header else []) + rows))
    return str(path)


def likely(path: str) -> Columns | None:
    return likely_columns(sample_of(path))


def examples(path: str, text: Column = "text", label: Column = "label") -> list[tuple[str, str]]:
    return [(each.input, each.labels[0]) for each in read_labelled_texts(path, text, label)]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_columns_by_position_have_no_header(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, LABELS, ["0"] * 24, TEXTS)
    assert examples(path, 3, 1) == list(zip(TEXTS, LABELS, strict=True))
    assert next(read_labelled_texts(path, 3, 1)).place == f"{path}:1"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        *(("a.csv", "a,b\n", ":1"), ("a.tsv", "a\tb\n", ":1")),
        ("a.jsonl", '{"text": "a", "label": "b"}\n', ""),  # keys have no position
    ],
)
def test_a_position_that_no_column_has_is_rejected(
    tmp_path: Path, name: str, content: str, place: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        examples(str(path), 1, 3)
    assert caught.value.where == f"{path}{place}"


@pytest.mark.parametrize("columns", [(1, "label"), ("topic", "topic")])
def test_two_columns_are_two_names_or_two_positions(columns: tuple[Column, Column]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_labelled_texts("a.csv", *columns)
    assert caught.value.setting == "data.label_column"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        *(("text", {"text_column": value}) for value in (0, -1, True, 1.5, None)),
        ("features", {"label_column": 1}),  # tables of sequences have a header
    ],
)
def test_a_column_is_a_name_or_a_position_from_1(kind: str, data: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from({"task": "classification", "input": kind, "data": data})
    assert caught.value.setting == f"data.{next(iter(data))}"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("header", ["", "sentence{}mood{}id", "a text{}its label{}n"])
def test_the_columns_of_texts_and_labels_are_recognised(
    tmp_path: Path, name: str, header: str
) -> None:
    mark = "," if name == "a.csv" else "\t"
    ids = list(map(str, range(24)))
    path = write(tmp_path / name, TEXTS, LABELS, ids, header=header.replace("{}", mark))
    expected = Columns(*header.split("{}")[:2]) if header else Columns(1, 2)
    assert likely(path) == expected


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        ([f"今日は{n}匹の猫がいます" for n in range(24)], LABELS),
        (TEXTS, [f"{'wet|' * (n % 2)}{'cold|' * (n % 3 == 0)}calm" for n in range(24)]),
    ],
)
def test_texts_without_spaces_and_several_labels_are_recognised(
    tmp_path: Path, texts: list[str], labels: list[str]
) -> None:
    assert likely(write(tmp_path / "a.tsv", texts, labels)) == Columns(1, 2)


@pytest.mark.parametrize(
    "columns",
    [
        [TEXTS, TEXTS],
        [LABELS, LABELS],
        [TEXTS, LABELS, LABELS[::-1]],
        [TEXTS, TEXTS[::-1], LABELS],
        [TEXTS[:9], LABELS[:9]],
        [TEXTS, [f"label {n}" for n in range(24)]],
        [TEXTS, ["one"] * 24],
        # The label of line 1 may be a rare one, or line 1 a header.
        [["mice", *TEXTS], ["odd", *[f"rare {n}" for n in range(4)], *LABELS[4:]]],
    ],
)
def test_columns_that_are_not_clear_are_not_guessed(
    tmp_path: Path, columns: list[list[str]]
) -> None:
    assert likely(write(tmp_path / "a.tsv", *columns)) is None


@pytest.mark.parametrize("first", [[], ["rare"] * 2])
@pytest.mark.parametrize("header", ["", "sentence\tmood"])
def test_columns_of_a_file_that_is_sorted_by_label_are_recognised(
    tmp_path: Path, header: str, first: list[str]
) -> None:
    labels = [*first, *["calm"] * 3 * SAMPLE, *["wild"] * 3 * SAMPLE]
    texts = [f"a text of number {n}" for n in range(len(labels))]
    path = write(tmp_path / "a.tsv", texts, labels, header=header)
    assert likely(path) == (("sentence", "mood") if header else (1, 2))


def test_a_header_with_the_usual_names_decides(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", TEXTS, LABELS, LABELS, header="text,label,topic")
    assert likely(path) == ("text", "label")
    assert other_columns(path) is None


def test_the_form_that_is_read_without_a_header_needs_no_columns(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.txt"):
        assert other_columns(write(tmp_path / name, LABELS, TEXTS)) is None
    assert other_columns(write(tmp_path / "a.csv", LABELS, TEXTS)) == (2, 1)
    assert other_columns(write(tmp_path / "b.tsv", LABELS, TEXTS, LABELS)) is None
    ids = list(map(str, range(24)))
    assert other_columns(write(tmp_path / "c.tsv", LABELS, TEXTS, ids)) == (2, 1)
    assert other_columns(str(tmp_path / "a.jsonl")) is None


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_init_proposes_the_positions_in_a_file_without_a_header(tmp_path: Path, name: str) -> None:
    proposal = propose_classification("text", [write(tmp_path / name, TEXTS, LABELS)])
    assert proposal.values["data.text_column"] == 1
    assert proposal.values["data.label_column"] == 2
    assert "text_column = 1" in proposal.to_toml("a")
    path = write(tmp_path / "b.tsv", LABELS, TEXTS, LABELS, header="label\ttext\ttopic")
    chosen = propose_classification("text", [path], label_column="topic").values
    assert (chosen["data.text_column"], chosen["data.label_column"]) == ("text", "topic")


@pytest.mark.parametrize(
    ("name", "columns", "header", "advice"),
    [
        ("a.csv", [TEXTS, LABELS], "", "text_column = 1 and data.label_column = 2"),
        ("a.csv", [TEXTS, LABELS], "words,mood", 'text_column = "words" and data.label_column'),
        ("a.tsv", [LABELS, TEXTS, LABELS], "", "if line 1 is not a header"),
        ("a.csv", [LABELS, TEXTS, LABELS], "Text,b,c", 'Set data.text_column = "Text"'),
    ],
)
def test_the_error_for_a_missing_column_has_the_likely_ones(
    tmp_path: Path, name: str, columns: list[list[str]], header: str, advice: str
) -> None:
    path = write(tmp_path / name, *columns, header=header)
    with pytest.raises(DataError) as caught:
        examples(path)
    assert caught.value.where == f"{path}:1"
    assert advice in str(caught.value.todo)


KNOWN = ("calm", "wild")


@pytest.mark.parametrize(
    ("cells", "known", "expected"),
    [
        (["a text", "calm"], (), (2, 1)),
        (["label", "text"], (), ("text", "label")),
        (["any", "text"], (), ("text", "label")),
        (["text", "any"], (), (2, 1)),  # a label may be "text"
        (["text", "any"], KNOWN, ("text", "label")),
        (["text", "any"], ("text", "calm"), (2, 1)),
        (["any"], (), ("text", "label")),
        (["a", "b", "c"], KNOWN, ("text", "label")),
    ],
)
def test_a_table_with_tabs_is_read_by_name_if_line_1_has_a_name(
    cells: list[str], known: tuple[str, ...], expected: tuple[Column, Column]
) -> None:
    table = Table("a.tsv", (1, cells), iter(()))
    assert columns_of(table, NAMED, known) == expected
    assert columns_of(replace(table, path="a.csv"), NAMED, known) == NAMED
    assert columns_of(table, Columns(1, 2), known) == (1, 2)


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        (["calm", "a text"], 2),
        (["a text", "calm|wild"], 1),
        (["", "a text"], 2),
        (["a text"], 1),
        (["text", "any"], "text"),
        *((cells, "text") for cells in (["calm", "wild"], ["a", "b"], ["a", "b", "calm"])),
    ],
)
def test_a_known_label_in_line_1_shows_which_column_has_the_texts(
    cells: list[str], column: Column
) -> None:
    table = Table("a.tsv", (1, cells), iter(()))
    assert text_column_of(table, NAMED, KNOWN) == column
    assert text_column_of(replace(table, path="a.csv"), NAMED, KNOWN) == "text"
    assert text_column_of(table, Columns(3, 1), KNOWN) == 3


@pytest.mark.parametrize(
    ("place", "hinted"),
    [("a.tsv:1", True), ("a.tsv:2", False), ("a.tsv:11", False), ("", False), (None, False)],
)
def test_only_the_label_of_line_1_may_be_from_another_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None, hinted: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("a.tsv"), TEXTS, LABELS)
    hint = columns_hint(place, TEXTS[0])
    assert ("--text-column 1 --label-column 2" in hint) == hinted
    assert columns_hint("a.tsv:1", "calm") == ""  # the column of the labels was read


def test_a_table_whose_columns_are_not_clear_may_have_a_header(tmp_path: Path) -> None:
    for name, hinted in (("a:b.tsv", True), ("a.CSV", True), ("a.txt", False)):
        path = write(tmp_path / name, TEXTS[:2], TEXTS[2:4])
        assert ("header" in columns_hint(f"{path}:1", "any")) == hinted


def test_a_header_that_is_learned_from_as_a_label_is_thought_of(tmp_path: Path) -> None:
    rows = [(f"word {n}", label) for n in range(20) for label in "ab"]
    texts, labels = ([*column] for column in zip(*rows, strict=True))
    path = write(tmp_path / "train.tsv", labels, texts, header="topic\tquestion")
    tree = {"task": "classification", "folder": str(tmp_path / "run"), "data": {"train": [path]}}
    with pytest.raises(DataError) as caught:
        api.dry_run(config_from(tree))
    assert caught.value.where == f"{path}:1"
    assert "data.text_column" in str(caught.value.todo)
