"""Measures of attribution, against their formulas written out, and against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from clearhead.inspect.faithfulness import RANDOM, faithfulness
from clearhead.inspect.measures import (
    MEASURES,
    gradient_input,
    integrated_gradients,
    integrated_gradients_with_error,
    measures_for,
    norms,
    removal,
    rolled,
    value_zeroing,
)
from clearhead.inspect.replay import Change
from clearhead.inspect.subject import Subject
from clearhead.inspect.view import attentions_of
from clearhead.inspect.words import Word
from small_models import random_model, small_config
from small_translators import SOURCE, TARGET, random_classifier

ROW = np.array([1, 5, 2, 2])


def translation(**choices: object) -> Subject:
    return Subject(random_model(small_config(**choices), scale=0.6).eval(), SOURCE, TARGET)


def classification(features: bool = False) -> Subject:
    model = random_classifier(features).eval()
    return Subject(model, torch.randn(7, 6).numpy() if features else ROW)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_has_a_number_for_each_output_and_position(name: str) -> None:
    measure = MEASURES[name]
    assert measure.compute(translation()).shape == (4, 5)
    assert measure.compute(translation(norm="post")).shape == (4, 5)
    assert measure.compute(classification()).shape == (1, 4)
    assert measure.compute(classification(features=True)).shape == (1, 7)
    both = Subject(random_classifier(False).eval(), ROW, multi_label=True)
    both.replay.outcome = np.array([[2], [0], [1]])
    assert measure.compute(both).shape == (3, 4)
    assert measure.title
    assert measure.meaning


@pytest.mark.slow
def test_the_measures_for_a_model_differ_from_each_other() -> None:
    shallow = random_classifier(False, encoder_layers=1).eval()
    for subject in (
        classification(),
        Subject(shallow, ROW),
        translation(),
        translation(decoder_layers=1),
    ):
        found = [each.compute(subject) for each in measures_for(subject.model).values()]
        assert len(found) >= 7
        for one, other in itertools.combinations(found, 2):
            assert not np.allclose(one, other)
    assert measures_for(translation(encoder_layers=1).model) == MEASURES


def test_attention_measures_of_a_classifier_sum_to_1() -> None:
    for name in ("last_layer", "all_layers", "rollout", "value_zeroing"):
        assert MEASURES[name].compute(classification()).sum() == pytest.approx(1.0)


def test_rollout_multiplies_the_layers() -> None:
    first, second = np.array([[0.8, 0.2], [0.1, 0.9]]), np.array([[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(rolled([first, second], []), second @ first)
    own, cross = np.array([[0.5, 0.0], [0.25, 0.25]]), np.array([[0.5, 0.0], [0.1, 0.4]])
    memory = second @ first
    once = cross @ memory
    np.testing.assert_allclose(rolled([first, second], [(own, cross)]), once)
    both = rolled([first, second], [(own, cross), (own, cross)])
    np.testing.assert_allclose(both, own @ once + cross @ memory)


def test_rollout_gives_the_source_its_share_of_the_first_position() -> None:
    """The start symbol is followed by nothing else, so what is not source is its own vector."""
    subject = translation()
    found = MEASURES["rollout"].compute(subject)
    # Each layer passes on half its input and adds half of the source: 1/2, then 3/4.
    assert found[0].sum() == pytest.approx(0.75)
    assert (found.sum(axis=1) <= 0.75 + 1e-9).all()


def test_norms_are_the_lengths_of_the_weighted_vectors() -> None:
    subject = translation()
    found = norms(subject)
    record = subject.record
    for place in range(4):
        for key in range(5):
            lengths = []
            for layer in (1, 2):
                attention = attentions_of(subject.model)[f"decoder.{layer}.cross"]
                weight = attention.output.weight.detach().numpy()
                values = record.details[f"decoder.{layer}.cross.values"]
                total = np.zeros(8)
                for head in range(2):
                    part = weight[:, head * 4 : head * 4 + 4] @ values[head, key]
                    total += record.decoder[layer - 1].cross_attention[head, place, key] * part
                lengths.append(np.linalg.norm(total))
            assert found[place, key] == pytest.approx(np.mean(lengths))


@torch.no_grad()
def test_value_zeroing_of_one_layer_is_the_distance_without_the_value() -> None:
    model = random_classifier(False, "pre", encoder_layers=1).eval()
    subject = Subject(model, ROW)
    layer = model.encoder.get_submodule("layers.0")
    x = model.input(torch.as_tensor(ROW)[None])
    attention = attentions_of(model)["encoder.1.self"]
    expected = np.zeros((4, 4))
    usual = attention.attend
    complete = layer(x, None)[0]
    for key in range(4):

        def attend(queries, keys, values, mask, dropout, key=key):  # type: ignore[no-untyped-def]
            values = values.clone()
            values[:, :, key] = 0
            return usual(queries, keys, values, mask, dropout)

        attention.attend = attend
        changed = layer(x, None)[0]
        for query in range(4):
            a, b = complete[query].numpy(), changed[query].numpy()
            expected[query, key] = 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    attention.attend = usual
    shares = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(value_zeroing(subject)[0], subject.pooled @ shares, atol=1e-9)


@pytest.mark.parametrize(
    "subject", [translation(), translation(share_embeddings="none", norm="post"), classification()]
)
def test_gradients_are_slopes_along_the_embeddings(subject: Subject) -> None:
    found = gradient_input(subject)
    places = range(subject.places)
    step = 1e-6
    up, down = (
        subject.replay.along(places, [1 + sign * step] * subject.places)[0] for sign in (1, -1)
    )
    np.testing.assert_allclose(found.sum(axis=1), (up - down) / (2 * step), atol=1e-6)


@pytest.mark.slow
def test_integrated_gradients_sum_to_the_difference() -> None:
    subject = translation()
    assert np.abs(integrated_gradients_with_error(subject, 400)[1]).max() < 1e-3
    coarse, fine = (
        np.abs(integrated_gradients_with_error(subject, steps)[1]).mean() for steps in (4, 64)
    )
    assert fine < coarse
    assert integrated_gradients(subject).shape == (4, 5)


def test_a_source_that_does_not_count_has_no_gradient() -> None:
    model = random_model(small_config()).eval()
    for number in (0, 1):
        output = model.decoder.get_submodule(f"layers.{number}.cross_attention.output")
        torch.nn.init.zeros_(output.get_parameter("weight"))
    subject = Subject(model, SOURCE, TARGET)
    for name in ("removal", "gradient_input", "integrated_gradients", "value_zeroing", "norms"):
        np.testing.assert_allclose(MEASURES[name].compute(subject), 0, atol=1e-9)


def test_removal_is_the_effect_of_whole_words() -> None:
    subject = translation()
    subject.source_words = [Word("a", (0,)), Word("bcd", (1, 2, 3))]  # the last is an end symbol
    found = removal(subject)
    complete, *without = subject.replay.log_probabilities(
        [Change(), Change(source=(0,)), Change(source=(1, 2, 3)), Change(source=(4,))]
    )[..., 0]
    np.testing.assert_allclose(found[:, 0], complete - without[0])
    np.testing.assert_allclose(found[:, 1:4].sum(axis=1), complete - without[1])
    np.testing.assert_allclose(found[:, 4], complete - without[2])


def test_faithfulness_is_the_probability_after_deletion() -> None:
    subject = translation()
    subject.source_words = [
        Word(*x) for x in (("a", (0,)), ("b", (1,)), ("cd", (2, 3)), ("e", (4,)))
    ]
    scores = {"given": lambda subject: np.array([[3.0, 1.0, 2.0, 2.0, 0.0]] * 4)}
    found = faithfulness([subject, subject], scores)
    assert found.measures == ("given", RANDOM)
    assert found.deletion.shape == (2, 2, 11)

    def probability(source: list[int]) -> float:
        removed = tuple(i for i in range(5) if i not in source)
        return np.exp(subject.replay.log_probabilities([Change(source=removed)]).mean())

    # In order: the word of two pieces (4), the first (3), the second (1), the last.
    kept = [[0, 1, 2, 3, 4], [0, 1, 4], [1, 4], [4], []]
    expected = np.interp(np.linspace(0, 1, 11), np.arange(5) / 4, list(map(probability, kept)))
    np.testing.assert_allclose(found.deletion[0, 0], expected)
    alone = [[], [2, 3], [0, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    expected = np.interp(np.linspace(0, 1, 11), np.arange(5) / 4, list(map(probability, alone)))
    np.testing.assert_allclose(found.retention[0, 0], expected)
    np.testing.assert_allclose(found.deletion[0], found.deletion[0][[0, 0]])
    inside = found.deletion[0, 0, 0] - found.deletion[0, 0, 1:10]
    assert found.comprehensiveness[0, 0] == pytest.approx(inside.mean())
    missing = found.retention[0, 0, 10] - found.retention[0, 0, 1:10]
    assert found.sufficiency[0, 0] == pytest.approx(missing.mean())
    assert found.comprehensiveness.shape == found.sufficiency.shape == (2, 2)
