"""The number of steps that `init` expects is the number of batches of the run."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from clearhead import api
from clearhead.api.start import brought_by, starting_point
from clearhead.data.order import expected_batches
from clearhead.data.proposing.classification import propose_classification
from clearhead.data.proposing.translation import propose_translation
from clearhead.data.reading.pairs import read_pairs
from clearhead.settings import read_config
from clearhead.settings.commented import CommentedConfig
from small_runs import prepared, small_run, write_tsv

PAIRS = [(pair.source, pair.target) for pair in islice(read_pairs(("phrasebook:en-es",)), 1500)]
CHANCE = random.Random(3)
MIXED = [(" ".join(s for s, _ in CHANCE.choices(PAIRS, k=CHANCE.randint(1, 9))),) for _ in PAIRS]


def pairs_of(kind: str) -> list[tuple[str, str]]:
    match kind:
        case "words":
            return [(f"w{n}", f"v{n % 700}") for n in range(1500)]
        case "repeated":
            return PAIRS[:500] * 3
        case "texts of many lengths":
            return [(text, text.upper()) for (text,) in MIXED]
        case "no spaces":
            return [(s, t.replace(" ", "").translate(THAI)) for s, t in PAIRS]
    return PAIRS


THAI = {ord(letter): 0x0E01 + n for n, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}


def expected(proposed: CommentedConfig, path: Path) -> int:
    text = proposed.to_toml("run")
    path.write_text(text, encoding="utf-8")
    found = re.search(r"About ([\d,]+) steps? per epoch", text)
    assert found
    return int(found[1].replace(",", ""))


def assert_near(steps: int, real: int) -> None:
    assert abs(steps - real) <= max(1, 0.06 * real)


@pytest.mark.parametrize(
    "kind", ["plain", "words", "repeated", "texts of many lengths", "no spaces"]
)
def test_init_expects_the_steps_of_a_translation(tmp_path: Path, kind: str) -> None:
    train = write_tsv(tmp_path / "train.tsv", pairs_of(kind))
    validation = write_tsv(tmp_path / "validation.tsv", [("unseen", "nuevo")])
    path = tmp_path / "run.toml"
    steps = expected(propose_translation(train, validation), path)
    task = prepared(read_config(path), tmp_path / "corpus").task
    assert task.batch_count(0) > 1
    assert_near(steps, task.batch_count(0))


@pytest.mark.parametrize("spaced", [True, False])
def test_init_expects_the_steps_of_a_classification(tmp_path: Path, spaced: bool) -> None:
    rows = [
        ("ab"[n % 2], text[0] if spaced else text[0].replace(" ", "").translate(THAI))
        for n, text in enumerate(MIXED)
    ]
    train, path = write_tsv(tmp_path / "train.tsv", [("label", "text"), *rows]), tmp_path / "r.toml"
    steps = expected(propose_classification("text", train), path)
    assert_near(steps, prepared(read_config(path), tmp_path).task.batch_count(0))


def test_init_expects_the_steps_of_a_run_that_starts_from_a_model(tmp_path: Path) -> None:
    first = small_run(tmp_path, "first", max_steps=1)
    api.train(first, observers=())
    train, path = write_tsv(tmp_path / "train.tsv", PAIRS), tmp_path / "run.toml"
    validation = write_tsv(tmp_path / "validation.tsv", [("unseen", "nuevo")])
    brought = brought_by(first.folder, "translation", "text")
    steps = expected(propose_translation(train, validation, (), first.folder, brought), path)
    with starting_point(read_config(path), True, lambda note: None) as (config, start):
        task = prepared(config, tmp_path / "corpus", start=start).task
    assert_near(steps, task.batch_count(0))


@pytest.mark.parametrize("lengths", [[5], [1, 2, 300], range(1, 200)])
def test_a_sample_stands_for_more_examples(lengths: Sequence[int]) -> None:
    few = expected_batches(np.array(lengths), 1_000, 512)
    assert expected_batches(np.array(lengths), 10_000, 512) == pytest.approx(10 * few, rel=0.1)
    assert expected_batches(np.array(lengths), 1e8, 512) == pytest.approx(1e5 * few, rel=0.1)
