"""Lists of texts or inputs that callers give: lists, arrays, iterators and columns of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import api
from clearhead.api.classifier import items_of, texts_of
from clearhead.data.reading.labelled import Labelled
from clearhead.errors import DataError
from model_folders import write_models


class Column:
    """Like a shuffled column of pandas: `[]` looks items up by the index, not by position."""

    ndim = 1

    def __init__(self, *items: Any) -> None:
        self.items = items
        self.shape = (len(items),)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, label: int) -> Any:
        return self.items[-1 - label]


class Table:
    """Like a table of pandas: its items are the names of its columns."""

    columns = ("text", "label")
    shape = (3, 2)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


TEXTS = ["a", "b a", "", "a a b", "b"]
each_form = pytest.mark.parametrize("form", [tuple, np.array, iter, lambda texts: Column(*texts)])


@each_form
def test_texts_are_translated_in_order(models: Path, form: Any) -> None:
    translator = api.load_translator(models / "translator", device="cpu")
    expected = translator.translate(TEXTS)
    assert translator.translate(form(TEXTS)) == expected
    assert len({str(one[0]) for one in expected}) > 1
    prefixes = ["b", "a", "", "b", "a b"]
    found = translator.translate(form(TEXTS), prefixes=form(prefixes))
    assert found == translator.translate(TEXTS, prefixes=prefixes)


@each_form
def test_texts_are_classified_in_order(models: Path, form: Any) -> None:
    classifier = api.load_classifier(models / "texts", device="cpu")
    expected = classifier.probabilities(TEXTS)
    np.testing.assert_array_equal(classifier.probabilities(form(TEXTS)), expected)


def test_a_table_is_rejected(models: Path) -> None:
    translator = api.load_translator(models / "translator", device="cpu")
    classifier = api.load_classifier(models / "texts", device="cpu")
    for wrong in (Table(), {"text": TEXTS}):
        for ask in (translator.translate, classifier.classify, classifier.probabilities):
            with pytest.raises(DataError, match="not a list") as raised:
                ask(wrong)
            assert "column" in (raised.value.todo or "")


def test_an_item_that_is_not_a_text_is_named(models: Path) -> None:
    translator = api.load_translator(models / "translator", device="cpu")
    wrongs = ((float("nan"), "missing"), (1, "an int"), (np.array(["a", "b"]), "an? ndarray"))
    for wrong, kind in wrongs:
        with pytest.raises(DataError, match=f"text 2 is {kind}"):
            translator.translate(["a", wrong])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", ["a b", b"a b", Labelled("a b", (), "x")])
def test_a_single_string_or_example_is_rejected(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"inputs is a single (string|example)"):
        items_of(wrong, "inputs", arrays=True)
    with pytest.raises(TypeError, match=r"texts is a single (string|example)"):
        texts_of(wrong)


def test_a_column_with_a_row_named_columns_is_a_list() -> None:
    column = Column("a", "b")
    column.columns = "the row of this name"  # pyright: ignore[reportAttributeAccessIssue]
    assert texts_of(column) == ["a", "b"]


def test_sequences_in_one_array_are_listed() -> None:
    frames = np.zeros((4, 3, 2))
    assert [item.shape for item in items_of(frames, "inputs", arrays=True)] == [(3, 2)] * 4
    with pytest.raises(DataError):
        texts_of(frames)
