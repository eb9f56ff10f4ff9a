"""The parts of the data: examples in memory give the same results as files."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead import api
from clearhead.data.reading import parts as parts_module
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.pairs import Pair, read_pairs
from clearhead.data.reading.parts import check_recorded, file_hash, parts_of, parts_of_run
from clearhead.data.trainable import read_labelled
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.folder.files import read_json, write_json
from clearhead.folder.tensors import read_tensors
from clearhead.settings import RunConfig, config_from
from fake_translator import run
from small_runs import small_run, write_tsv

CLASSIFICATION = RunConfig(task="classification")
SEQUENCES = RunConfig(task="classification", input="features")
SEVERAL = config_from({"task": "classification", "classifier": {"multi_label": True}})
TEXTS = [(label, f"{label} {n} {'x' * (n % 3)}") for n in range(12) for label in ("warm", "cold")]


NUMBERS = ["example 1", "validation example 1"]


def without_files(config: RunConfig, *names: str) -> RunConfig:
    return dataclasses.replace(
        config, data=dataclasses.replace(config.data, **dict.fromkeys(names, ()))
    )


def assert_same_weights(one: RunConfig, other: RunConfig) -> None:
    found, expected = (
        read_tensors(Path(run.folder) / "weights.safetensors")[0] for run in (one, other)
    )
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def text_run(folder: Path, **data: Any) -> RunConfig:
    tree: dict[str, Any] = {
        "task": "classification",
        "folder": str(folder / "run"),
        "data": data,
        "tokenizer": {"kind": "words", "max_vocabulary": 0},
        "model": {"encoder_layers": 1, "d_model": 8, "d_ff": 8, "n_heads": 2},
        "training": {"max_steps": 2, "validate_every": 1, "batch_tokens": 40},
    }
    return config_from(tree)


def test_texts_in_memory_train_the_weights_that_a_file_trains(tmp_path: Path) -> None:
    config = text_run(tmp_path / "a", train=write_tsv(tmp_path / "train.tsv", TEXTS))
    assert api.train(config, observers=()).finished
    examples = [(text, label) for label, text in TEXTS]
    given = text_run(tmp_path / "b")
    assert api.train(given, examples=examples, observers=()).finished
    assert_same_weights(config, given)
    reports = [
        read_json(Path(run.folder) / "provenance.json")["reports"] for run in (config, given)
    ]
    for report in (*reports[0], *reports[1]):
        for finding in report["findings"]:
            del finding["places"]  # a line of the file, and the number of an example
    assert reports[0] == reports[1]


@pytest.mark.slow
def test_pairs_in_memory_train_the_weights_that_files_train_and_resume(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=4, validate_every=2)
    (tmp_path / "memory").mkdir()
    given = dataclasses.replace(
        without_files(config, "train", "validation"), folder=str(tmp_path / "memory" / "run")
    )
    pairs = [pair[:2] for pair in read_pairs(config.data.train)]
    held_out = [pair[:2] for pair in read_pairs(config.data.validation)]
    api.train(config, observers=())
    api.train(given, examples=pairs, validation=held_out, observers=())
    assert_same_weights(config, given)
    api.train(given, examples=pairs, validation=held_out, observers=())  # which is finished
    with pytest.raises(TrainingError):
        api.train(given, examples=pairs[1:], validation=held_out, observers=())
    found = api.dry_run(given, examples=pairs, validation=held_out).data
    assert found == api.dry_run(config).data


def test_what_is_in_memory_becomes_examples() -> None:
    pairs = parts_of(RunConfig(), [("a\nb", "c")], [["d", "e"]])
    assert list(pairs.train.pairs()) == [Pair("a b", "c", 1)]
    assert list(pairs.validation.pairs()) == [Pair("d", "e", 1)]
    assert [part.place(part.examples[0]) for part in pairs[:2]] == NUMBERS
    texts = parts_of(CLASSIFICATION, [("a", 3), ("b", np.int64(4)), ("c", np.str_("x"))])
    assert texts.train.examples == (
        Labelled("a", ("3",), "example 1"),
        Labelled("b", ("4",), "example 2"),
        Labelled("c", ("x",), "example 3"),
    )
    assert texts.train.place(texts.train.examples[0]) == NUMBERS[0]
    several = parts_of(SEVERAL, [("a", ["x", "y", "x"]), ("b", []), ("c", "x|y")])
    labels = [example.labels for example in several.train.examples]
    assert labels == [("x", "y"), (), ("x|y",)]
    (sequence,) = parts_of(SEQUENCES, [([[1, 2], [3, 4]], "x")]).train.examples
    assert sequence.input.dtype == np.float32
    assert sequence.input.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("config", "example"),
    [
        (RunConfig(), ("a", 1)),
        (RunConfig(), ("a", "b", "c")),
        (RunConfig(), "ab"),
        (RunConfig(), ("a", "\ud800")),
        (CLASSIFICATION, (3, "x")),
        (CLASSIFICATION, ("a", None)),
        (CLASSIFICATION, ("a", ["x", "y"])),
        (CLASSIFICATION, ("a", [])),
        (CLASSIFICATION, ("a", "x\ty")),
        (SEQUENCES, ("a text", "x")),
        (SEQUENCES, ([[1.0, 2.0, 3.0]], "x")),
    ],
)
def test_what_is_no_example_is_rejected_with_its_number(config: RunConfig, example: Any) -> None:
    content = [[1.0, 2.0]] if config is SEQUENCES else "good"
    with pytest.raises(DataError) as raised:
        parts_of(config, [(content, "good"), example])
    assert raised.value.where == "example 2"
    validation = [(content, "good"), example]
    with pytest.raises(DataError) as raised:
        parts_of(config, [(content, "good")], validation)
    assert raised.value.where == "validation example 2"


def test_data_are_in_files_or_in_memory_and_there_are_some(tmp_path: Path) -> None:
    named = without_files(small_run(tmp_path), "validation")
    pairs = [("a", "b")]
    for config, given in (
        (named, (pairs, pairs)),
        (without_files(named, "train"), (pairs,)),
        (CLASSIFICATION, ()),
    ):
        with pytest.raises(ConfigError):
            parts_of(config, *given)
    with pytest.raises(DataError) as raised:
        parts_of(CLASSIFICATION, [])
    assert raised.value.where == "train examples"
    assert parts_of(named, validation=pairs).train.files == named.data.train


# Files that the configuration of a model folder names


@contextmanager
def not_for_ever() -> Iterator[None]:
    """An error after ten seconds, in which a pipe without a writer would block."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(10)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def recorded(tmp_path: Path, validation: str | Path | None = None) -> RunConfig:
    """A run whose folder has a record of its data, and perhaps other validation data."""
    config = small_run(tmp_path)
    data = config.data
    hashes = {
        name: {file: file_hash(file).hex() for file in files}
        for name, files in (("train", data.train), ("validation", data.validation))
    }
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "provenance.json", {"data": {**hashes, "test": {}}})
    if validation is None:
        return config
    return dataclasses.replace(
        config, data=dataclasses.replace(data, validation=(str(validation),))
    )


def test_the_files_of_a_run_are_used_if_they_are_those_that_it_recorded(tmp_path: Path) -> None:
    config = recorded(tmp_path)
    assert parts_of_run(tmp_path / "run", config) == parts_of(config)
    # A file may have moved, and other parts may have changed.
    moved = tmp_path / "validation.tsv"
    moved = moved.rename(tmp_path / "moved.tsv")
    (tmp_path / "train.tsv").unlink()
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, validation=(str(moved),))
    )
    check_recorded(tmp_path / "run", parts_of(config).validation)


@pytest.mark.parametrize(
    "name",
    [
        *("pipe.tsv", "/dev/zero", "/dev/stdin", "/proc/kmsg", "link-to-pipe", "folder"),
        *("missing.tsv", "changed.tsv", "empty.tsv", "phrasebook:en-de", "link-to-itself"),
    ],
)
def test_other_files_that_a_folder_names_are_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    config = recorded(tmp_path, path if "phrase" not in name else name)
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "link-to-pipe").symlink_to("pipe.tsv")
    (tmp_path / "link-to-itself").symlink_to("link-to-itself")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "x.npy")
    (tmp_path / "changed.tsv").write_text((tmp_path / "validation.tsv").read_text() + "a\tb\n")
    (tmp_path / "empty.tsv").touch()
    with not_for_ever(), pytest.raises(DataError) as caught:
        check_recorded(tmp_path / "run", parts_of(config).validation)
    assert str(caught.value.where).startswith(str(path) if "phrase" not in name else name)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = recorded(tmp_path)
    monkeypatch.setattr(parts_module, "LARGEST_NAMED", 100)
    with pytest.raises(DataError) as caught:
        check_recorded(tmp_path / "run", parts_of(config).validation)
    assert caught.value.where == str(tmp_path / "validation.tsv")
    with (tmp_path / "sparse.tsv").open("wb") as file:
        file.truncate(2**40)
    with not_for_ever(), pytest.raises(DataError):
        file_hash(str(tmp_path / "sparse.tsv"), largest=2**30)


@pytest.mark.parametrize(
    "record", ["{", "[]", "{}", '{"data": 5}', '{"data": {"validation": "x"}}', None]
)
def test_without_a_record_no_file_is_read(tmp_path: Path, record: str | None) -> None:
    config, path = recorded(tmp_path), tmp_path / "run" / "provenance.json"
    if record is None:
        path.unlink()
    else:
        path.write_text(record)
    with pytest.raises(DataError) as caught:
        check_recorded(tmp_path / "run", parts_of(config).validation)
    assert caught.value.where == str(tmp_path / "run")


def test_the_commands_do_not_open_a_pipe_that_a_folder_names(
    translator: api.Translator, tmp_path: Path
) -> None:
    folder, pipe = tmp_path / "model", tmp_path / "pipe.tsv"
    shutil.copytree(translator.folder.path, folder, ignore=shutil.ignore_patterns("training"))
    (folder / "manifest.json").unlink()
    os.mkfifo(pipe)
    tree = read_json(folder / "config.json")
    tree["config"]["data"]["validation"] = [str(pipe)]
    write_json(folder / "config.json", tree)
    with not_for_ever():
        code, _, err = run("study", str(folder))
    assert code == DataError.exit_code
    assert str(pipe) in err


def test_texts_of_several_files_are_one_part_and_keep_their_places(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    rows = ["text,label", *(f"{word} text,{label}" for word in "abc" for label in ("x", "y"))]
    for name in ("a.csv", "more/a.csv"):
        (tmp_path / name).write_text("\n".join(rows))
    files = [str(tmp_path / "a.csv"), str(tmp_path / "more/a.csv")]
    config = config_from({"task": "classification", "data": {"train": files}})
    part = parts_of(config).train.read(config)
    assert len(part.examples) == 12
    places = [part.place(part.examples[row]) for row in (0, 6)]
    assert places == [f"{tmp_path.name}/a.csv:2", "more/a.csv:2"]
    assert [file for file, _ in part.hashes] == files


def test_features_of_all_files_are_in_the_order_of_the_first(tmp_path: Path) -> None:
    for name, columns in (("a.csv", "x,y"), ("b.csv", "y,x"), ("c.csv", "y,x"), ("d.csv", "y,x")):
        rows = [f"s{n},{label},{n},{-n}" for n, label in enumerate("uvuvuvuvuv", start=1)]
        if columns == "y,x" and name != "b.csv":
            rows = [f"s{n},{label},{-n},{n}" for n, label in enumerate("uvuvuvuvuv", start=1)]
        (tmp_path / name).write_text("\n".join([f"sequence,label,{columns}", *rows]))
    a, b, c, d = (str(tmp_path / f"{name}.csv") for name in "abcd")
    data = {"train": [a, b], "validation": [c], "test": [d]}
    config = config_from({"task": "classification", "input": "features", "data": data})
    parts = read_labelled(config, parts_of(config))
    for part in parts[:3]:
        assert {example.columns for example in part.examples} == {("x", "y")}
    signs = [{tuple(np.sign(each.input[0])) for each in part.examples} for part in parts[:3]]
    assert signs == [{(1, -1), (-1, 1)}, {(1, -1)}, {(1, -1)}]
