"""The report on each part of the data before training, including the test data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data.judging.report import DataReport, Finding
from clearhead.data.preparation import (
    LabelledData,
    learn_inputs,
    learn_tokenizers,
    prepare_labelled,
    prepare_pairs,
)
from clearhead.data.reading.parts import Parts, parts_of
from clearhead.data.trainable import read_labelled
from clearhead.settings import DataConfig, RunConfig, TokenizerConfig, config_from
from small_runs import SMALL_MODEL, prepared, write_tsv

PAIRS = [(f"a{n} b", f"c{n} d") for n in range(6)]
VALIDATION = [("v w", "x y"), ("v v", "x x"), ("v v", "x x")]
WORDS = TokenizerConfig(kind="words", max_vocabulary=0)


def counted(findings: Iterable[Finding]) -> dict[str, tuple[int, tuple[str, ...]]]:
    assert not any(finding.left_out for finding in findings)
    return {finding.rule: (finding.count, finding.places) for finding in findings}


def translation_reports(
    folder: Path, test: Sequence[tuple[str, str]], **choices: Any
) -> tuple[DataReport, ...]:
    data = DataConfig(
        train=write_tsv(folder / "train.tsv", PAIRS),
        validation=write_tsv(folder / "val.tsv", VALIDATION),
        test=write_tsv(folder / "test.tsv", test) if test else (),
        max_length=4,
        **choices,
    )
    config = RunConfig(data=data, tokenizer=WORDS)
    parts = Parts(*(part.read(config) for part in parts_of(config)))
    tokenizers = learn_tokenizers(config, parts)
    return prepare_pairs(config, parts, tokenizers, folder / "corpus").reports


@pytest.mark.parametrize("drop_held_out", [True, False])
def test_pairs_of_the_test_data_are_counted_and_all_kept(
    tmp_path: Path, drop_held_out: bool
) -> None:
    test = [
        ("e", "f"),
        ("e", "f"),  # came before
        ("", "f"),
        ("e e e e e", "f"),
        (" v w", "x y "),  # is validated on
        ("v v", "other"),  # its source is
        PAIRS[0],  # training does without it, not the test
    ]
    train, validation, report = translation_reports(tmp_path, test, drop_held_out=drop_held_out)
    assert (report.name, report.read, report.kept) == ("test", len(test), len(test))
    assert counted(report.findings) == {
        "duplicate": (1, ("test.tsv:2",)),
        "empty": (1, ("test.tsv:3",)),
        "long": (1, ("test.tsv:4",)),
        "held_out": (1, ("test.tsv:5",)),
        "held_out_source": (1, ("test.tsv:6",)),
    }
    (shared,) = (line for line in report.lines() if "test.tsv:5" in line)
    assert shared == "test: 1 kept: the same pair is in the validation data (test.tsv:5)"
    assert counted(validation.findings) == {"duplicate": (1, ("val.tsv:3",))}
    (held_out,) = train.findings
    assert held_out.left_out == drop_held_out
    assert held_out.text == "the same pair is in the validation or test data"


@pytest.mark.parametrize(("copies", "expected"), [((5, 5), []), ((6, 5), [6]), ((6, 7), [6, 7])])
def test_a_run_has_a_file_of_all_findings_where_a_report_has_but_the_first(
    tmp_path: Path, copies: tuple[int, int], expected: list[int]
) -> None:
    train, validation = ([(word, word)] * (1 + n) for word, n in zip("ab", copies, strict=True))
    data = DataConfig(
        train=write_tsv(tmp_path / "train.tsv", train),
        validation=write_tsv(tmp_path / "val.tsv", validation),
    )
    found = prepared(RunConfig(data=data, tokenizer=WORDS), tmp_path / "corpus").findings
    lines = [file.read_text().splitlines() for file in found]
    assert [len(each) for each in lines] == expected
    assert all(each[0].endswith(":2\tthe same pair came before") for each in lines)


def text_run(folder: Path, **data: Any) -> RunConfig:
    train = [(label, f"{label} {n}") for n in range(4) for label in ("warm", "cold")]
    return RunConfig(
        task="classification",
        tokenizer=WORDS,
        data=DataConfig(train=write_tsv(folder / "train.tsv", train), max_length=4, **data),
    )


def labelled_reports(config: RunConfig) -> tuple[DataReport, ...]:
    return labelled_data(config).reports


def labelled_data(config: RunConfig) -> LabelledData:
    parts = parts_of(config)
    parts = read_labelled(config, parts)
    return prepare_labelled(config, parts, lambda train: learn_inputs(config, train))


@pytest.mark.parametrize("drop_held_out", [True, False])
def test_examples_of_the_test_data_are_counted_and_all_kept(
    tmp_path: Path, drop_held_out: bool
) -> None:
    validation = [("warm", "v"), ("cold", "w"), ("cold", "w")]
    test = [
        ("warm", "a"),
        ("warm", "a"),  # came before
        ("cold", "a"),  # contradicts it
        ("cold", " "),
        ("cold", "a b c d e"),
        ("warm", "v "),  # is validated on
        ("warm", "w"),  # is, as something else
        ("unheard of", "b"),  # no label of the training data, which ends no training
        ("warm", "warm 0"),
    ]
    config = text_run(
        tmp_path,
        validation=write_tsv(tmp_path / "val.tsv", validation),
        test=write_tsv(tmp_path / "test.tsv", test),
        drop_held_out=drop_held_out,
    )
    _, on_validation, report = labelled_reports(config)
    assert (report.name, report.read, report.kept) == ("test", len(test), len(test))
    assert counted(report.findings) == {
        "duplicate": (1, ("test.tsv:2",)),
        "contradiction": (1, ("test.tsv:3",)),
        "empty": (1, ("test.tsv:4",)),
        "long": (1, ("test.tsv:5",)),
        "held_out": (1, ("test.tsv:6",)),
        "held_out_input": (1, ("test.tsv:7",)),
        "unknown_label": (1, ("test.tsv:8",)),
    }
    texts = {finding.rule: finding.text for finding in report.findings}
    assert texts["unknown_label"].endswith("the training data lack the label 'unheard of'")
    assert texts["held_out"] == "the same example is in the validation data"
    assert texts["held_out_input"] == "the input is in the validation data, with another label"
    assert counted(on_validation.findings) == {"too_few": (3, ()), "duplicate": (1, ("val.tsv:3",))}


def write_arrays(folder: Path, arrays: dict[str, np.ndarray]) -> str:
    for name, array in arrays.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / name, array)
    return str(folder)


def feature_run(train: str, **data: Any) -> RunConfig:
    tree = {
        "task": "classification",
        "input": "features",
        "model": SMALL_MODEL,
        "data": {"train": [train], "max_length": 5, "validation_share": 0.2, **data},
    }
    return config_from(tree)


def some_arrays() -> dict[str, np.ndarray]:
    """Four different sequences for each class, by the path of their file."""
    names = enumerate(("cat", "dog"))
    return {f"{name}/{n}.npy": ramp(10 * n + at) for at, name in names for n in range(4)}


def ramp(first: float, frames: int = 3) -> np.ndarray:
    return first + np.arange(2 * frames, dtype=np.float32).reshape(frames, 2)


def test_test_features_may_be_such_as_training_would_refuse(tmp_path: Path) -> None:
    with_gap = ramp(50)
    with_gap[1, 1] = np.nan
    test = {"cat/1.npy": with_gap, "cat/2.npy": ramp(60, frames=6), "dog/2.npy": ramp(1e30)}
    config = feature_run(
        write_arrays(tmp_path / "train", some_arrays()),
        test=[write_arrays(tmp_path / "test", test)],
    )
    *_, report = labelled_reports(config)
    assert (report.name, report.kept) == ("test", 3)
    long, *refused = report.findings
    assert counted([long]) == {"long": (1, ("cat/2.npy",))}
    assert {(found.text.rpartition(": ")[2], found.places) for found in refused} == {
        ("a value is missing (NaN)", ("cat/1.npy",)),
        ("a value seems to mark a missing value", ("dog/2.npy",)),
    }
    filled = dataclasses.replace(config, data=dataclasses.replace(config.data, missing="mean"))
    assert len(labelled_reports(filled)[-1].findings) == len(report.findings) - 1


def test_a_training_sequence_too_long_is_reported_and_cut(tmp_path: Path) -> None:
    long = ramp(50, frames=6)
    train = write_arrays(tmp_path / "train", {**some_arrays(), "cat/9.npy": long})
    validation = write_arrays(tmp_path / "val", {"cat/1.npy": ramp(90), "dog/1.npy": ramp(80)})
    config = feature_run(train, validation=[validation])
    data = labelled_data(config)
    (found,) = data.reports[0].findings
    assert (found.rule, found.places, found.left_out) == ("long", ("cat/9.npy",), False)
    assert len(data.train) == len(data.rows) == len(some_arrays()) + 1
    longest = config.data.max_length
    assert data.inputs.collate(data.rows).shape[1] == longest < 6


def test_test_features_of_another_width_or_label_are_found_before_training(tmp_path: Path) -> None:
    train = write_arrays(tmp_path / "train", some_arrays())
    wide = {"cat/8.npy": ramp(3), "cat/9.npy": ramp(4)}
    wide = {name: np.hstack([array, array]) for name, array in wide.items()}
    other = {f"{label}/1.npy": ramp(3 + at) for at, label in enumerate(["cat", "cow", "ewe"])}
    for arrays, rule, message, places in (
        (wide, "unreadable", "has 4 features, the training data 2", ("cat/8.npy", "cat/9.npy")),
        (other, "unknown_label", "lack the labels 'cow', 'ewe'", ("cow/1.npy", "ewe/1.npy")),
    ):
        test = write_arrays(tmp_path / rule, arrays)
        *_, report = labelled_reports(feature_run(train, test=[test]))
        assert counted(report.findings) == {rule: (2, places)}
        assert message in report.findings[0].text


@pytest.mark.parametrize("written", ["{}", "{}/", "~/data", "."])
def test_files_of_a_folder_are_distinguished_by_their_path_in_it(
    tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    arrays = some_arrays()
    arrays["cat/2.npy"], arrays["dog/2.npy"] = arrays["cat/0.npy"], arrays["dog/0.npy"]
    validation = write_arrays(tmp_path / "val", {"cat/2.npy": ramp(90), "dog/2.npy": ramp(80)})
    folder = write_arrays(tmp_path / "data", arrays)
    monkeypatch.chdir(folder)
    config = feature_run(written.format(folder), validation=[validation])
    (finding,) = labelled_reports(config)[0].findings
    assert finding.rule == "duplicate"
    assert finding.places == ("cat/2.npy", "dog/2.npy")
