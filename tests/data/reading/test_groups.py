"""Groups of labelled examples are read from their files, and held out together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data.reading.feature_sequences import read_feature_sequences
from clearhead.data.reading.groups import groups_of
from clearhead.data.reading.parts import parts_of
from clearhead.data.trainable import read_labelled
from clearhead.settings import DataConfig, config_from

PERSONS = [f"p{n // 4}" for n in range(40)]


def texts(folder: Path, form: str) -> str:
    path = folder / f"texts.{form}"
    rows = [(f"text {n}", "ab"[n % 2], person) for n, person in enumerate(PERSONS)]
    if form == "jsonl":
        keys = ("text", "label", "group")
        lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    else:
        mark = "," if form == "csv" else "\t"
        lines = [mark.join(row) for row in [("text", "label", "group"), *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def sequences(folder: Path) -> str:
    path = folder / "frames.csv"
    lines = ["sequence,label,group,time,x"]
    for number, person in enumerate(PERSONS):
        lines += [f"{number},{'ab'[number % 2]},{person},{t},{number + t}" for t in range(3)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def arrays(folder: Path) -> str:
    lines = ["file,label,group"]
    for number, person in enumerate(PERSONS):
        np.save(folder / f"{number}.npy", np.full((3, 1), number, dtype=np.float32))
        lines.append(f"{number}.npy,{'ab'[number % 2]},{person}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "frames", "arrays"])
def test_no_group_is_trained_on_and_validates(tmp_path: Path, form: str) -> None:
    makers = {"frames": sequences, "arrays": arrays}
    path = makers[form](tmp_path) if form in makers else texts(tmp_path, form)
    kind = "features" if form in makers else "text"
    tree = {"task": "classification", "input": kind, "data": {"train": [path]}}
    config = config_from(tree)
    parts = read_labelled(config, parts_of(config))
    groups = groups_of(path, config.data)
    trained, validated = (
        {groups[example.place] for example in part.examples} for part in parts[:2]
    )
    assert len(parts.validation.examples) == 4
    assert not trained & validated
    assert trained | validated == set(PERSONS)


def test_the_group_of_a_sequence_is_no_feature(tmp_path: Path) -> None:
    assert next(read_feature_sequences(sequences(tmp_path))).columns == ("x",)


@pytest.mark.parametrize("columns", [{"label_column": "group"}, {"text_column": "group"}])
def test_the_column_of_texts_or_labels_is_no_group(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert groups_of(texts(tmp_path, "csv"), DataConfig(**columns)) == {}


def test_files_without_groups_have_none(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a\tone\nb\ttwo\n", encoding="utf-8")
    assert groups_of(str(path), DataConfig()) == {}
