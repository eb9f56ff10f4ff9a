"""The evaluation skeleton, with a kind of model that exists only here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.evaluate import TranslationSet, evaluate_models
from clearhead.settings import RunConfig, config_from


class Hits(NamedTuple):
    """The score of a model that adds: correct sums, and how many fewer than the first model."""

    correct: int
    fewer: int | None

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()

    def lines(self, baseline: str) -> list[str]:
        behind = "" if self.fewer is None else f", {self.fewer} fewer than {baseline}"
        return [f"{self.correct} hits{behind}"]


class Sums:
    """Pairs of numbers to add."""

    title = "3 sums"
    settings: Mapping[str, Any] = {"sums": 3}

    def inputs(self, model: str) -> list[tuple[int, int]]:
        return [(1, 1), (2, 3), (0, 4)]

    def score(self, outputs: Mapping[str, Sequence[int]]) -> dict[str, Hits]:
        counts = {
            name: sum(a + b == c for (a, b), c in zip(self.inputs(name), found, strict=True))
            for name, found in outputs.items()
        }
        first = next(iter(counts))
        return {
            name: Hits(count, None if name == first else counts[first] - count)
            for name, count in counts.items()
        }

    def notes(self, systems: Mapping[str, Hits]) -> list[str]:
        return ["", f"{len(systems)} models"]


def test_a_new_kind_of_model_needs_only_an_evaluation_set() -> None:
    ran = []

    def run(model: str, inputs: Sequence[tuple[int, int]]) -> list[int]:
        ran.append(model)
        return [a + b if model == "adds" else a * b for a, b in inputs]

    report = evaluate_models(Sums(), ["adds", "multiplies"], run)
    assert ran == ["adds", "multiplies"]
    assert report.to_text().splitlines() == [
        *("3 sums", "", "adds", "3 hits", "", "multiplies", "0 hits, 3 fewer than adds"),
        *("", "2 models"),
    ]
    assert json.loads(json.dumps(report.to_dict())) == {
        "sums": 3,
        "systems": {
            "adds": {"correct": 3, "fewer": None},
            "multiplies": {"correct": 0, "fewer": 3},
        },
    }


def test_choices_that_are_not_made_are_those_of_the_configurations() -> None:
    lower = config_from({"tokenizer": {"lower": True}, "evaluation": {"tokenize": "char"}})
    files, texts = ("s", "r"), ["a b"]
    pairs = TranslationSet({"a": lower, "b": lower}, files, texts, texts)
    assert (pairs.tokenize, pairs.lowercase) == ("char", True)
    mixed = {"a": RunConfig(), "b": lower}
    pairs = TranslationSet(mixed, files, texts, texts, "intl", False)
    assert (pairs.tokenize, pairs.lowercase) == ("intl", False)
    for choices, setting in (((None, False), "tokenize"), (("intl", None), "lowercase")):
        with pytest.raises(ConfigError, match=f"evaluation.{setting}") as caught:
            TranslationSet(mixed, files, texts, texts, *choices)
        assert f"--{setting}" in str(caught.value.todo)


def test_files_of_different_lengths_are_refused_with_their_names() -> None:
    with pytest.raises(DataError) as caught:
        TranslationSet({"a": RunConfig()}, ("s", "r"), ["a", "b"], ["a"])
    assert caught.value.where == "s, r"
    assert caught.value.why == "2 lines and 1 lines"
