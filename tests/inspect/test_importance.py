"""Importance and roles of heads over a sample."""

from __future__ import annotations

import numpy as np
import pytest

from clearhead.inspect.faithfulness import RANDOM, Faithfulness, belief
from clearhead.inspect.heads import Head
from clearhead.inspect.importance import head_importance, head_roles, named_roles, ratio_intervals
from clearhead.inspect.replay import Change
from clearhead.inspect.subject import Subject
from small_models import random_model, small_config
from small_translators import SOURCE, TARGET


def subjects() -> list[Subject]:
    model = random_model(small_config()).eval()
    return [Subject(model, SOURCE, TARGET), Subject(model, SOURCE[:2], TARGET[:1])]


@pytest.mark.slow
def test_importance_is_the_rise_of_the_loss_without_the_head() -> None:
    sample = subjects()
    done: list[int] = []
    found = head_importance(sample, progress=done.append)
    assert done == [1, 2]
    assert found.outputs.tolist() == [4, 2]
    for number, head in enumerate(found.heads):
        for sentence, subject in enumerate(sample):
            with_it, without = subject.replay.log_probabilities([Change(), Change(heads=(head,))])
            assert found.rise[number, sentence] == pytest.approx(with_it.sum() - without.sum())
    gradients = sum(np.abs(subject.replay.head_gradients()) for subject in sample)
    np.testing.assert_allclose(found.gradient, gradients / 6)
    means = found.intervals()
    np.testing.assert_allclose(means[:, 0], found.rise.sum(axis=1) / 6)
    assert (means[:, 1] <= means[:, 2]).all()


@pytest.mark.slow
def test_an_interval_covers_the_truth_about_95_times_of_100() -> None:
    generator = np.random.default_rng(1)
    outputs = generator.integers(5, 20, size=(200, 60))
    sums = generator.normal(0.3, 1.0, size=(200, 60)) * np.sqrt(outputs) + 0.2 * outputs
    truth = 0.2 + 0.3 * np.sqrt(np.arange(5, 20)).mean() / np.arange(5, 20).mean()
    found = [ratio_intervals(s[None], n)[0] for s, n in zip(sums, outputs, strict=True)]
    covered = np.mean([low <= truth <= high for _, low, high in found])
    assert 0.9 <= covered <= 0.99


def test_a_role_is_a_share_of_the_attention() -> None:
    (subject, *_) = subjects()
    subject.source_pieces = ("<s>", "▁a", "▁b", "▁,", "</s>")
    subject.source_special = (0, 4)
    scores = head_roles([subject])
    weights = subject.record.encoder[0].attention[1]
    found = scores[Head("encoder.1.self", 2)]
    assert found["previous token"] == pytest.approx(np.diagonal(weights, -1).mean())
    assert found["next token"] == pytest.approx(np.diagonal(weights, 1).mean())
    assert found["same token"] == pytest.approx(np.diagonal(weights).mean())
    assert found["first token"] == pytest.approx(weights[:, 0].mean())
    assert found["punctuation"] == pytest.approx(weights[:, 3].mean())
    assert found["separator"] == pytest.approx(weights[:, 4].mean())
    entropy = -(weights * np.log(weights)).sum(axis=1).mean() / np.log(5)
    assert found["broad average"] == pytest.approx(entropy)
    cross = scores[Head("decoder.1.cross", 1)]
    assert set(cross) == {
        "first token",
        "separator",
        "punctuation",
        "aligned word",
        "broad average",
    }
    own = scores[Head("decoder.2.self", 1)]
    assert "next token" not in own or own["next token"] == 0


def test_roles_are_named_above_the_threshold() -> None:
    scores = {"previous token": 0.7, "next token": 0.2, "broad average": 0.6, "first token": 0.9}
    assert named_roles(scores) == [("first token", 0.9), ("previous token", 0.7)]
    assert named_roles({"broad average": 0.85}) == [("broad average", 0.85)]


def faithful(falls: dict[str, float]) -> Faithfulness:
    """As if the probability of 20 sentences fell so far, a little more in every other one."""
    names = (*falls, RANDOM)
    fall = np.array([*falls.values(), 0.2])[:, None] + 0.001 * (np.arange(20) % 2)
    shares = np.concatenate(([0.0], np.ones(10)))
    curves = 0.9 - fall[..., None] * shares
    return Faithfulness(names, curves, curves[..., ::-1])


def test_the_measure_with_the_largest_fall_is_to_be_believed() -> None:
    found = belief(faithful({"removal": 0.5, "norms": 0.4, "rollout": 0.3, "last_layer": 0.2}))
    assert found["believed"] == ["norms"]
    order = ["removal", "norms", "rollout"]
    assert [row["measure"] for row in found["rows"]][:3] == order
    assert found["rows"][1]["comprehensiveness"][0] == pytest.approx(0.4005)
    assert "“Weights × norms”" in found["text"]
    assert "“Last layer”" in found["text"]
    assert "rollout" not in found["text"]


def test_measures_that_do_not_differ_are_all_to_be_believed() -> None:
    found = faithful({"removal": 0.5, "norms": 0.4, "rollout": 0.3})
    noise = np.random.default_rng(1).normal(scale=0.1, size=20)
    found.deletion[1, :, 1:-1] += noise[:, None]  # shared by both, so that only pairing tells
    found.deletion[2, :, 1:-1] += noise[:, None]
    assert belief(found)["believed"] == ["norms"]
    found.deletion[2, :, 1:-1] -= 0.1 + 2 * noise[:, None]
    text = belief(found)["text"]
    assert set(belief(found)["believed"]) == {"norms", "rollout"}
    assert "“Weights × norms”" in text
    assert "“Attention rollout”" in text


def test_no_estimate_is_to_be_believed_if_none_is_better_than_chance() -> None:
    found = belief(faithful({"removal": 0.5, "norms": 0.2, "rollout": 0.1}))
    assert found["believed"] == []
    text = found["text"]
    assert "exact removal" in text
    assert "20 sentences" in text
    assert "norms" not in text
