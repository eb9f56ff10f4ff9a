"""Tests of the logit lens and of patching, against numpy and against edits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import clearhead
from clearhead import nn
from clearhead.api.loading import load_classifier
from clearhead.errors import ConfigError, DataError
from small_runs import feature_run
from small_translators import Classifier

SOURCE, OTHER, TARGET = [3, 4, 5, 6], [9, 8, 7, 3], [4, 7, 5]


def transformer(norm: Any = "pre") -> nn.Transformer:
    torch.manual_seed(1)
    made = nn.Transformer(13, 11, d_model=16, heads=2, layers=2, norm=norm).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_lens_is_three_lines_of_numpy(norm: str) -> None:
    model = transformer(norm)
    seen = clearhead.record(model, SOURCE, TARGET)
    found = clearhead.lens(model, SOURCE, TARGET, top=3)
    assert found.layers == ("embeddings", "layer 1", "layer 2")
    assert found.outputs == ("4", "7", "5", "2")
    weight, logits = model.output.weight.detach().numpy(), np.empty(0)
    for row, x in enumerate([seen.decoder[0].input, *(layer.output for layer in seen.decoder)]):
        if norm == "pre":
            mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
            state = model.decoder.norm.state_dict()
            x = (x - mean) / np.sqrt(variance + 1e-5) * state["weight"].numpy()
            x += state["bias"].numpy()
        logits = x @ weight.T
        expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(found.probabilities[row], -np.sort(-expected)[:, :3], atol=1e-12)
        np.testing.assert_allclose(
            found.of_output[row], expected[range(4), [*TARGET, 2]], atol=1e-12
        )
        best = tuple(map(str, expected.argmax(-1)))
        assert tuple(place[0] for place in found.best[row]) == best
    np.testing.assert_allclose(logits, seen.logits, atol=1e-12)
    assert "layer 2" in found._repr_html_()


def test_the_last_row_of_a_classifiers_lens_is_its_output() -> None:
    torch.manual_seed(1)
    model = nn.TransformerClassifier(13, 4, d_model=16, heads=2, layers=3).eval()
    found = clearhead.lens(model, SOURCE)
    expected = model(torch.tensor([SOURCE])).softmax(-1).max().detach()
    assert found.probabilities[-1, 0, 0] == pytest.approx(float(expected), abs=1e-6)
    assert found._repr_html_()


def test_the_lens_of_a_classifier_includes_its_random_kernels(tmp_path: Path) -> None:
    head = {"kernels": 8, "kernel_reach": 20}
    steps = {"max_steps": 10, "validate_every": 10}
    config = feature_run(tmp_path, classifier=head, training=steps)
    clearhead.train(config, observers=())
    classifier = load_classifier(config.folder, device="cpu")
    frames = np.random.default_rng(1).normal(size=(12, 3))
    found = clearhead.lens(classifier, frames)
    expected = classifier.probabilities([frames]).max()
    np.testing.assert_allclose(found.of_output[-1], expected, atol=1e-6)
    torch.nn.init.zeros_(classifier.model.get_parameter("linear.features.scale"))
    other = clearhead.lens(classifier, frames)
    assert (np.abs(other.probabilities[0] - found.probabilities[0]) > 1e-6).any()


def test_the_last_row_of_a_lens_has_the_calibrated_probability() -> None:
    classifier = Classifier()
    classifier.temperature = 2.0
    found = clearhead.lens(classifier, "x y")
    logits = clearhead.record(classifier, "x y").logits / 2
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(found.of_output[-1], expected.max(), atol=1e-12)


def test_independent_labels_have_a_column_each() -> None:
    classifier = Classifier(multi_label=True)
    found = clearhead.lens(classifier, "x y")
    assert found.outputs == ("three", "one")
    probabilities = 1 / (1 + np.exp(-clearhead.record(classifier, "x y").logits.ravel()))
    expected = [[p, 1 - p] for p in probabilities[[2, 0]]]
    np.testing.assert_allclose(found.probabilities[-1], expected, atol=1e-12)
    assert found.best[-1] == (("three", "not three"), ("one", "not one"))
    np.testing.assert_allclose(found.of_output[-1], probabilities[[2, 0]], atol=1e-12)
    assert (found.probabilities.sum(axis=-1) - 1 < 1e-12).all()


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_each_cell_of_a_map_is_one_patch(stack: Any) -> None:
    model = transformer()
    found = clearhead.patch_map(model, SOURCE, OTHER, TARGET, stack=stack)
    donor = clearhead.record(model, OTHER, TARGET)

    def score() -> float:
        logits = clearhead.record(model, SOURCE, TARGET).logits
        scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return float(scores[range(4), [*TARGET, 2]].sum())

    assert found.unpatched == pytest.approx(score())
    for row, name in enumerate([f"{stack}.1.input", f"{stack}.1.output", f"{stack}.2.output"]):
        for position in range(4):
            with clearhead.edit(model) as e:
                e.patch(name, position, donor)
                assert found.values[row, position] == pytest.approx(score(), abs=1e-9)
    other = clearhead.patch_map(model, OTHER, SOURCE, TARGET)
    assert found.other == pytest.approx(other.unpatched)
    assert found._repr_html_()


def test_any_metric_and_any_classifier() -> None:
    torch.manual_seed(1)
    model = nn.TransformerClassifier(13, 4, d_model=16, heads=2, layers=2).eval()
    found = clearhead.patch_map(model, SOURCE, OTHER, metric=lambda logits: logits[:, 0, 1])
    assert found.unpatched == pytest.approx(
        float(model(torch.tensor([SOURCE]))[0, 1].detach()), abs=1e-6
    )
    assert found.other == pytest.approx(
        float(model(torch.tensor([OTHER]))[0, 1].detach()), abs=1e-6
    )
    assert found.values.shape == (3, 4)


def test_inputs_of_other_lengths_are_refused() -> None:
    model = transformer()
    with pytest.raises(DataError):
        clearhead.patch_map(model, SOURCE, SOURCE[1:], TARGET)
    classifier = nn.TransformerClassifier(13, 4, d_model=16, heads=2, layers=2).eval()
    with pytest.raises(DataError):
        clearhead.patch_map(classifier, SOURCE, OTHER, stack="decoder")
    with pytest.raises(ConfigError):
        clearhead.patch_map(classifier, SOURCE, OTHER, stack=cast(Any, "memory"))
