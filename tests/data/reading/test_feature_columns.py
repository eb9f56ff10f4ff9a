"""Features of tables are matched by the names of their columns, in any order."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.api.start import starting_point
from clearhead.data.reading.feature_sequences import read_feature_sequences
from clearhead.data.reading.labelled import Labelled, LabelledSequence, in_columns
from clearhead.errors import DataError
from clearhead.settings import RunConfig
from clearhead.tasks.classification import ClassificationTask
from small_runs import feature_run, prepared

NAMES = ("x", "y", "z")
NOWHERE = Path()


def write_table(
    path: Path, columns: Sequence[str], count: int, seed: int, *, labelled: bool = True
) -> str:
    """Sequences labelled by their largest feature, with columns in this order or other columns."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sequence", *columns, *(["label"] if labelled else [])])
        for number in range(count):
            label = NAMES[number % 3]
            for _ in range(3):
                frame = {name: rng.normal() + 3 * (name == label) for name in NAMES}
                cells = [frame.get(name, 0.0) for name in columns]
                writer.writerow([number, *cells, *([label] if labelled else [])])
    return str(path)


def table_run(folder: Path, **data: Any) -> RunConfig:
    train = write_table(folder / "train.csv", NAMES, 90, 1)
    return feature_run(folder, data={"train": [train], **data})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> api.Classifier:
    config = table_run(tmp_path_factory.mktemp("columns"))
    api.train(config)
    return api.load_classifier(config.folder, device="cpu")


@pytest.mark.parametrize("order", [("y", "z", "x"), ("z", "y", "x"), NAMES])
def test_a_classifier_reads_features_by_their_names(
    trained: api.Classifier, tmp_path: Path, order: Sequence[str]
) -> None:
    in_order, reordered = (
        list(read_feature_sequences(write_table(tmp_path / f"{name}.csv", columns, 30, 2)))
        for name, columns in (("in order", NAMES), ("reordered", order))
    )
    logits = trained.logits(in_order)
    np.testing.assert_array_equal(trained.logits(reordered), logits)
    # An array has no names and goes by position.
    np.testing.assert_array_equal(trained.logits([each.input for each in in_order]), logits)
    row, _ = trained.encode(reordered[0])
    np.testing.assert_array_equal(row, trained.encode(in_order[0])[0])


@pytest.mark.parametrize(
    ("columns", "named"),
    [(("y", "z"), ["x"]), (("y", "z", "x", "w"), ["w"]), (("y", "z", "X"), ["x", "X"])],
)
def test_a_missing_or_further_feature_is_rejected_by_name_and_line(
    trained: api.Classifier, tmp_path: Path, columns: Sequence[str], named: list[str]
) -> None:
    path = write_table(tmp_path / "other.csv", columns, 3, 2, labelled=False)
    with pytest.raises(DataError) as caught:
        trained.classify(list(read_feature_sequences(path, labelled=False)))
    assert all(f"features {name}" in caught.value.what for name in named)
    assert caught.value.where == f"{path}:2"
    with pytest.raises(DataError) as caught:
        prepared(table_run(tmp_path, validation=[write_table(Path(path), columns, 3, 2)]), NOWHERE)
    assert all(f"features {name}" in caught.value.what for name in named)
    assert caught.value.where == f"{path}:2"


@pytest.mark.slow
def test_a_classifier_that_begins_with_an_encoder_has_the_order_of_its_columns(
    tmp_path: Path,
) -> None:
    before = table_run(tmp_path, normalise=False)
    before = dataclasses.replace(before, folder=str(tmp_path / "before"))
    api.train(before)
    train = write_table(tmp_path / "train.csv", ("z", "x", "y"), 90, 1)
    config = feature_run(tmp_path, data={"train": [train]})
    config = dataclasses.replace(config, start_from=before.folder)
    with starting_point(config, True, print) as (complete, start):
        task = prepared(complete, NOWHERE, start=start).task
    assert isinstance(task, ClassificationTask)
    for row, example in zip(task.data.rows, task.data.train, strict=True):
        np.testing.assert_array_equal(row, example.input[:, [1, 2, 0]])


@given(st.permutations(NAMES), st.permutations(NAMES))
def test_columns_are_put_in_any_order(before: list[str], after: list[str]) -> None:
    values = {name: [float(ord(name)), -1.0] for name in NAMES}
    frames = np.array([values[name] for name in before], dtype=np.float32).T
    example = LabelledSequence(frames, ("a",), "a.csv:2", tuple(before))
    found = in_columns(example, after)
    assert found.columns == tuple(after)
    assert found.input.T.tolist() == [values[name] for name in after]
    assert (found.labels, found.place) == (example.labels, example.place)


def test_without_names_on_both_sides_nothing_is_moved() -> None:
    named = Labelled(np.zeros((1, 2)), (), "a", ("b", "a"))
    bare = Labelled(np.zeros((1, 2)), (), "a")
    assert in_columns(named, ()) is named
    assert in_columns(bare, ("a", "b")) is bare
