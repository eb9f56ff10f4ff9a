"""Groups of labelled examples are read with the examples, and held out together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data.reading.feature_sequences import read_feature_sequences
from clearhead.data.reading.labelled import read_labelled_texts
from clearhead.data.reading.parts import parts_of
from clearhead.data.trainable import read_labelled
from clearhead.settings import config_from

PERSONS = [f"p{n // 4}" for n in range(40)]


def written(folder: Path, form: str) -> str:
    """A file or folder of 40 examples of ten persons; the number of an example is in its place."""
    path = folder / (f"a.{form}" if form != "frames" else "frames.csv")
    rows = [(f"text {n}", "ab"[n % 2], person) for n, person in enumerate(PERSONS)]
    match form:
        case "jsonl":
            keys = ("text", "label", "group")
            lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
        case "frames":
            lines = ["sequence,label,group,time,x"]
            for n, (_, label, person) in enumerate(rows):
                lines += [f"{n},{label},{person},{t},{n + t}" for t in range(3)]
        case "arrays":
            path.mkdir()
            lines = ["file,label,group"]
            for n, (_, label, person) in enumerate(rows):
                np.save(path / f"{n}.npy", np.full((3, 1), n, dtype=np.float32))
                lines.append(f"{n}.npy,{label},{person}")
            path /= "labels.csv"
        case _:
            mark = "," if form == "csv" else "\t"
            lines = [mark.join(row) for row in [("text", "label", "group"), *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path if form != "arrays" else path.parent)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "frames", "arrays"])
def test_no_group_is_trained_on_and_validates(tmp_path: Path, form: str) -> None:
    kind = "features" if form in ("frames", "arrays") else "text"
    data = {"train": [written(tmp_path, form)]}
    config = config_from({"task": "classification", "input": kind, "data": data})
    parts = read_labelled(config, parts_of(config))
    trained, validated = ({each.group for each in part.examples} for part in parts[:2])
    assert len(parts.validation.examples) == 4
    assert not trained & validated
    assert trained | validated == set(PERSONS)


def test_the_group_of_a_sequence_is_no_feature(tmp_path: Path) -> None:
    assert next(read_feature_sequences(written(tmp_path, "frames"))).columns == ("x",)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("columns", [{"label_column": "group"}, {"text_column": "group"}])
def test_the_column_of_texts_or_labels_is_no_group(
    tmp_path: Path, columns: dict[str, Any], form: str
) -> None:
    path = written(tmp_path, form)
    assert {each.group for each in read_labelled_texts(path, **columns)} == {""}


def test_the_labels_of_sequences_are_no_groups(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sequence,group,x\n1,p0,0.5\n")
    for path in (str(tmp_path / "a.csv"), written(tmp_path, "arrays")):
        sequence = next(read_feature_sequences(path, "group"))
        assert (sequence.labels, sequence.group) == (("p0",), "")
