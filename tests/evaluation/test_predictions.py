"""The predictions of an evaluation: their order, and files of them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.reading.labelled import Labelled
from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.predictions import (
    classified_examples,
    translated_examples,
    write_table,
)

NAMES = ("a", "b", "c")


def examples(*labels: tuple[str, ...]) -> list[Labelled]:
    return [Labelled(f"text {n}", each, f"test.csv:{n}") for n, each in enumerate(labels, 2)]


def test_translations_with_the_lowest_chrf_come_first() -> None:
    references = ["the cat", "the dog", "the cow"]
    outputs = ["the cat", "xyz", "the crow"]
    found = translated_examples(["1", "2", "3"], references, outputs, lowercase=False)
    assert [example.line for example in found] == [2, 3, 1]
    assert found[0].chrf < found[1].chrf < found[2].chrf == 100
    assert found[0].row() == {
        **{"line": 2, "chrf": round(found[0].chrf, 2)},
        **{"source": "2", "reference": "the dog", "prediction": "xyz"},
    }
    (upper,) = translated_examples(["1"], ["THE CAT"], ["the cat"], lowercase=True)
    assert upper.chrf == 100


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.tuples(*[st.floats(0.01, 1)] * 3))))
def test_the_most_certain_errors_come_first_and_then_the_least_certain_right_answers(
    rows: list[tuple[str, tuple[float, ...]]],
) -> None:
    values = np.array([row for _, row in rows]).reshape(-1, 3)
    values = values / values.sum(axis=1, keepdims=True)
    given_examples = examples(*((label,) for label, _ in rows))
    found = classified_examples(given_examples, values, NAMES, multi_label=False)
    wrong = [each.probability for each in found if each.label != each.prediction]
    right = [each.probability for each in found if each.label == each.prediction]
    assert [each.label != each.prediction for each in found] == [True] * len(wrong) + [False] * len(
        right
    )
    assert wrong == sorted(wrong, reverse=True)
    assert right == sorted(right)
    for each in found:
        row = values[int(str(each.text).split()[1]) - 2]
        assert each.prediction == NAMES[row.argmax()]
        assert each.probability == row.max()


def test_several_labels_are_joined_and_their_probability_is_that_of_the_whole_answer() -> None:
    probabilities = np.array([[0.9, 0.8, 0.1], [0.2, 0.1, 0.3]])
    found = classified_examples(examples(("b",), ()), probabilities, NAMES, multi_label=True)
    assert [(each.label, each.prediction) for each in found] == [("b", "a|b"), ("", "")]
    assert found[0].probability == pytest.approx(0.9 * 0.8 * 0.9)
    assert found[1].probability == pytest.approx(0.8 * 0.9 * 0.7)


def test_texts_have_the_number_of_their_line_and_sequences_their_place() -> None:
    text = examples(("a",))[0]
    frames = Labelled(np.zeros((2, 1)), ("a",), "cat/3.npy")
    one = np.array([[0.5, 0.25, 0.25]])
    assert classified_examples([text], one, NAMES, False)[0].row() == {
        **{"line": 2, "label": "a", "prediction": "a", "probability": 0.5},
        "text": "text 2",
    }
    row = classified_examples([frames], one, NAMES, False)[0].row()
    assert row == {"place": "cat/3.npy", "label": "a", "prediction": "a", "probability": 0.5}


ROWS: list[dict[str, Any]] = [
    {"line": 1, "text": 'ä, "quoted"'},
    {"line": 2, "text": "=1+1\tand\nmore"},
    {"line": 3, "text": "- hello"},
]


def test_a_csv_is_for_spreadsheets(tmp_path: Path) -> None:
    path = tmp_path / "p.CSV"
    write_table(path, ROWS)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    header, *rows = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    assert header == ["line", "text"]
    assert rows == [["1", ROWS[0]["text"]], ["2", "'=1+1\tand\nmore"], ["3", "'- hello"]]


@pytest.mark.parametrize("text", ["=1+1", "@a", "-a", "+a1", "-2+3", "\ta", "\ra", "\na", "＝1"])
@pytest.mark.parametrize("column", ["text", "label"])
def test_a_csv_has_no_cell_that_is_computed(tmp_path: Path, text: str, column: str) -> None:
    write_table(tmp_path / "p.csv", [{column: text}])
    content = io.StringIO((tmp_path / "p.csv").read_bytes().decode("utf-8-sig"), newline="")
    assert list(csv.reader(content)) == [[column], [f"'{text}"]]


@pytest.mark.parametrize("text", ["-1", "+2.5", "-3%", "-", "+", "a=b", "'=1"])
def test_a_csv_keeps_numbers_and_other_texts(tmp_path: Path, text: str) -> None:
    write_table(tmp_path / "p.csv", [{"label": text}])
    assert (tmp_path / "p.csv").read_text("utf-8-sig").splitlines() == ["label", text]


def test_a_tsv_has_one_line_a_row_and_jsonl_keeps_everything(tmp_path: Path) -> None:
    write_table(tmp_path / "p.tsv", ROWS)
    lines = (tmp_path / "p.tsv").read_text().splitlines()
    assert lines == ["line\ttext", '1\tä, "quoted"', "2\t=1+1 and more", "3\t- hello"]
    write_table(tmp_path / "p.jsonl", ROWS)
    assert list(map(json.loads, (tmp_path / "p.jsonl").read_text().splitlines())) == ROWS


def test_other_endings_and_folders_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "p.csv").mkdir()
    for name, error in (("p.xlsx", ConfigError), ("p.csv", DataError), ("no/p.csv", DataError)):
        with pytest.raises(error) as caught:
            write_table(tmp_path / name, ROWS)
        assert caught.value.where == str(tmp_path / name)
    assert not (tmp_path / "no").exists()
