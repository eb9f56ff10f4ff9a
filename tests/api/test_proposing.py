"""Settings that are proposed for examples in memory."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.data.proposing.classification import propose_classification
from clearhead.errors import DataError
from clearhead.settings import config_from
from small_runs import write_tsv

TEXTS = [(f"the {colour} thing {i}", colour) for i in range(30) for colour in ("red", "blue")]


def test_they_are_those_of_init(tmp_path: Path) -> None:

    (path,) = write_tsv(tmp_path / "train.tsv", TEXTS)
    proposed = propose_classification("text", (path,), text_column=1, label_column=2)
    tree = tomllib.loads(proposed.to_toml(str(tmp_path / "run")))
    found = clearhead.propose(TEXTS, tmp_path)
    wanted = config_from(tree)
    for section in ("model", "tokenizer", "classifier", "training", "evaluation"):
        assert getattr(found, section) == getattr(wanted, section), section
    assert found.data.max_length == wanted.data.max_length


@pytest.mark.parametrize(
    ("examples", "several", "input"),
    [
        ([("a b", ["x", "y"]), ("c d", [])] * 20, True, "text"),
        ([(np.zeros((5, 3)), 1), (np.ones((4, 3)), 2)] * 20, False, "features"),
    ],
)
def test_the_kind_is_that_of_the_examples(examples: Any, several: bool, input: str) -> None:
    found = clearhead.propose(examples, "runs/x")
    assert (found.classifier.multi_label, found.input) == (several, input)
    assert found.folder == "runs/x"


def test_validation_examples_are_counted() -> None:
    few = clearhead.propose(TEXTS, "runs/x")
    many = clearhead.propose(TEXTS, "runs/x", validation=TEXTS * 20)
    assert (few.measure, many.measure) == ("loss", "accuracy")


@pytest.mark.parametrize("wrong", [[], [("a",)], [None], [("a", 1, 2, 3)], [(3, "a"), ("b", "c")]])
def test_wrong_examples_are_refused(wrong: Any) -> None:
    with pytest.raises(DataError):
        clearhead.propose(wrong, "runs/x")


def test_a_proposal_is_trained(tmp_path: Path) -> None:

    config = clearhead.propose(TEXTS, tmp_path / "run")
    training = dataclasses.replace(config.training, max_epochs=2)
    clearhead.train(dataclasses.replace(config, training=training), examples=TEXTS, observers=())
    model = clearhead.load(tmp_path / "run")
    assert isinstance(model, clearhead.Classifier)
    assert set(model.labels) == {"red", "blue"}
