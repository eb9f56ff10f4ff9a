"""The confidence in a translation: its fit, its invariances, and where it is stored."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.decoding.confidence import FEWEST, KEY, Confidence
from clearhead.decoding.engine import Hypothesis
from clearhead.folder.model_folder import open_folder
from model_folders import without_manifest, write_models

PLANTED = Confidence(0.2, -1.0, (3.0, 1.5, -2.0))
SOURCE = "a" * 9


def translation(
    log_probability: float = -0.5,
    characters: int = 9,
    tokens: Sequence[int] = (4, 5, 6),
    finished: bool = True,
) -> Hypothesis:
    """A translation whose tokens have this mean log-probability."""
    score = log_probability * max(1, len(tokens) + finished)
    return Hypothesis(tuple(tokens), score, (), score, finished, "b" * characters)


def some(count: int, seed: int = 1) -> tuple[list[str], list[Hypothesis]]:
    """Sources and translations whose properties vary independently."""
    chance = random.Random(seed)
    sources = ["a" * chance.randint(5, 60) for _ in range(count)]
    found = [
        translation(
            -chance.expovariate(2),
            round(len(source) * chance.uniform(0.3, 1.8)),
            chance.choices(range(4, 20), k=chance.randint(1, 12)),
        )
        for source in sources
    ]
    return sources, found


def estimates(
    confidence: Confidence, sources: Sequence[str], found: Sequence[Hypothesis]
) -> list[float]:
    values = [confidence(*pair) for pair in zip(sources, found, strict=True)]
    known = [value for value in values if value is not None]
    assert len(known) == len(values)
    return known


def test_a_fit_recovers_the_weights_that_the_qualities_were_made_with() -> None:
    sources, found = some(4000)
    # The full length is a quantile of the lengths, so it is planted, too.
    full_length = Confidence.fit(sources, found, [0.5] * len(found))
    assert full_length is not None
    planted = replace(PLANTED, full_length=full_length.full_length)
    fitted = Confidence.fit(sources, found, estimates(planted, sources, found))
    assert fitted is not None
    assert fitted.bias == pytest.approx(planted.bias, abs=0.05)
    assert fitted.weights == pytest.approx(planted.weights, rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_is_the_minimum_that_newtons_method_finds(seed: int) -> None:
    sources, found = some(80, seed)
    qualities = np.random.default_rng(seed).random(80)
    fitted = Confidence.fit(sources, found, qualities.tolist())
    assert fitted is not None
    lengths = [
        math.log((len(each.text) + 1) / (len(source) + 1))
        for source, each in zip(sources, found, strict=True)
    ]
    full = sorted(lengths)[59] * 0.75 + sorted(lengths)[60] * 0.25  # the 60.25th value of 80
    assert fitted.full_length == pytest.approx(full, abs=1e-5)
    rows = np.array(
        [
            [
                math.exp(each.score / (len(each.tokens) + 1)),
                min(0.0, length - full),
                1 - len(set(each.tokens)) / len(each.tokens),
            ]
            for each, length in zip(found, lengths, strict=True)
        ]
    )
    rows = (rows - rows.mean(0)) / rows.std(0)
    inputs, weights = np.column_stack([np.ones(80), rows]), np.zeros(4)
    for _ in range(50):
        estimate = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (estimate - qualities) + weights
        curvature = (inputs.T * (estimate * (1 - estimate))) @ inputs + np.eye(4)
        weights = weights - np.linalg.solve(curvature, slope)
    expected = 1 / (1 + np.exp(-inputs @ weights))
    np.testing.assert_allclose(estimates(fitted, sources, found), expected, atol=1e-4)


def test_the_order_of_the_sentences_changes_nothing() -> None:
    sources, found = some(100)
    qualities = estimates(PLANTED, sources, found)
    order = random.Random(3).sample(range(100), 100)
    one = Confidence.fit(sources, found, qualities)
    other = Confidence.fit(
        [sources[i] for i in order], [found[i] for i in order], [qualities[i] for i in order]
    )
    assert one is not None
    assert other is not None
    assert other.weights == pytest.approx(one.weights, rel=1e-5)


def test_few_translations_give_no_estimate() -> None:
    sources, found = some(FEWEST)
    qualities = estimates(PLANTED, sources, found)
    assert Confidence.fit(sources[1:], found[1:], qualities[1:]) is None
    assert Confidence.fit(sources, found, qualities) is not None


@pytest.mark.parametrize("quality", [0.0, 0.3, 1.0])
def test_translations_that_are_all_alike_have_the_mean_as_their_confidence(quality: float) -> None:
    fitted = Confidence.fit([SOURCE] * 500, [translation()] * 500, [quality] * 500)
    assert fitted is not None
    # The prior keeps it away from certainty.
    assert fitted(SOURCE, translation()) == pytest.approx(quality, abs=0.01)
    assert fitted(SOURCE, translation()) != quality


def sure(**choices: Any) -> float:
    found = PLANTED(SOURCE, translation(**choices))
    assert found is not None
    return found


def test_what_is_likely_complete_and_does_not_repeat_itself_is_more_certain() -> None:
    assert sure(log_probability=-0.1) > sure() > sure(log_probability=-2.0)
    assert sure() > sure(characters=5) > sure(characters=0)
    assert sure() > sure(tokens=(4, 5, 4)) > sure(tokens=(4, 4, 4))


def test_a_long_translation_is_no_better_than_a_complete_one() -> None:
    assert sure(characters=12) == sure(characters=30) == sure(characters=900) > sure(characters=10)


@given(
    source=st.text(),
    text=st.text(),
    tokens=st.lists(st.integers(4, 9)),
    score=st.floats(max_value=0.0, allow_nan=False),
    finished=st.booleans(),
    weights=st.tuples(*[st.floats(-1e9, 1e9)] * 3),
)
def test_every_translation_has_a_confidence_from_0_to_1(
    source: str,
    text: str,
    tokens: list[int],
    score: float,
    finished: bool,
    weights: tuple[float, float, float],
) -> None:
    found = Hypothesis(tuple(tokens), score, (), score, finished, text)
    confidence = replace(PLANTED, weights=weights)(source, found)
    assert confidence is not None
    assert 0.0 <= confidence <= 1.0


def test_without_a_score_there_is_none() -> None:
    assert PLANTED(SOURCE, replace(translation(), score=math.nan)) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_models(tmp_path)
    return without_manifest(tmp_path / "translator")


def write(folder: Path, content: Any) -> None:
    (folder / "scores.json").write_text(json.dumps({"scores": {}, KEY: content}))


def test_a_translator_has_the_one_of_its_folder(folder: Path) -> None:
    write(folder, asdict(PLANTED))
    assert Confidence.of(open_folder(folder)) == PLANTED
    model = api.load_translator(folder, device="cpu")
    shutil.rmtree(folder)
    ((empty,), hypotheses) = model.translate(["", "a b"], beam_size=3, n_best=3)
    assert empty.confidence is None
    assert len(hypotheses) > 1
    for each in hypotheses:
        assert each.confidence == PLANTED("a b", each)
    ((sampled,),) = model.translate(["a b"], method="sampling")
    assert sampled.confidence == PLANTED("a b", sampled)


DAMAGES: dict[str, Any] = {
    "missing": None,
    "a list": [],
    "empty": {},
    "a word": {**asdict(PLANTED), "bias": "x"},
    "infinite": {**asdict(PLANTED), "bias": math.inf},
    "two weights": {**asdict(PLANTED), "weights": [1.0, 2.0]},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_folder_without_a_good_one_translates_without_confidence(
    folder: Path, damage: str
) -> None:
    write(folder, DAMAGES[damage])
    assert Confidence.of(open_folder(folder)) is None
    (folder / "scores.json").unlink()
    assert Confidence.of(open_folder(folder)) is None
    ((found,),) = api.load_translator(folder, device="cpu").translate(["a b"], n_best=1)
    assert found.confidence is None
    assert found.text


def test_a_checkpoint_has_other_weights_than_the_estimate_is_for(folder: Path) -> None:
    write(folder, asdict(PLANTED))
    checkpoints = folder / "training" / "checkpoints"
    checkpoints.mkdir(parents=True)
    shutil.copy(folder / "weights.safetensors", checkpoints / "best.safetensors")
    assert Confidence.of(open_folder(checkpoints / "best.safetensors")) is None
