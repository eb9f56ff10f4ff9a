"""The parts of the data: examples in memory give the same results as files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead import api
from clearhead.checkpoint.tensors import read_tensors
from clearhead.data.labelled import Labelled
from clearhead.data.parts import parts_of
from clearhead.data.readers import Pair, read_pairs
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.files import read_json
from clearhead.settings import RunConfig, config_from
from small_runs import small_run, write_tsv

CLASSIFICATION = RunConfig(task="classification")
SEQUENCES = RunConfig(task="classification", input="features")
SEVERAL = config_from({"task": "classification", "classifier": {"multi_label": True}})
TEXTS = [(label, f"{label} {n} {'x' * (n % 3)}") for n in range(12) for label in ("warm", "cold")]


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
    with pytest.raises(TrainingError, match="train data have changed"):
        api.train(given, examples=pairs[1:], validation=held_out, observers=())
    found = api.dry_run(given, examples=pairs, validation=held_out).data
    assert found == api.dry_run(config).data


def test_findings_in_memory_are_named_by_their_number(tmp_path: Path) -> None:
    examples = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y"), ("a", "x"), (" ", "x")]
    given = [("e", "x"), ("c ", "x"), ("c", "x"), ("e", "y")]
    found = api.dry_run(text_run(tmp_path, smallest_class=1), examples=examples, validation=given)
    lines = "\n".join(found.data)
    assert "the text is empty (example 6)" in lines
    assert "validation or test data (example 3)" in lines
    assert "the same example came before (example 5)" in lines
    assert "the same example came before (validation example 3)" in lines
    assert "with another label (validation example 4)" in lines


def test_what_is_in_memory_becomes_examples() -> None:
    pairs = parts_of(RunConfig(), [("a\nb", "c")], [["d", "e"]])
    assert list(pairs.train.pairs()) == [Pair("a b", "c", 1)]
    assert list(pairs.validation.pairs()) == [Pair("d", "e", 1)]
    texts = parts_of(CLASSIFICATION, [("a", 3), ("b", np.int64(4)), ("c", np.str_("x"))])
    assert texts.train.examples == (
        Labelled("a", ("3",), "example 1"),
        Labelled("b", ("4",), "example 2"),
        Labelled("c", ("x",), "example 3"),
    )
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
    with pytest.raises(ConfigError, match=r"data\.train"):
        parts_of(named, [("a", "b")], [("a", "b")])
    with pytest.raises(ConfigError, match=r"data\.validation names no files"):
        parts_of(without_files(named, "train"), [("a", "b")])
    with pytest.raises(ConfigError, match=r"data\.train names no files"):
        parts_of(CLASSIFICATION)
    with pytest.raises(DataError, match="no examples"):
        parts_of(CLASSIFICATION, [])
    assert parts_of(named, validation=[("a", "b")]).train.files == named.data.train
