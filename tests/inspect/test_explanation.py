"""Explanations in Python: effects of words and heads, alternatives, and a table for notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ConfigError, DataError
from clearhead.inspect.explanation import explain, untranslated
from clearhead.inspect.replay import Change
from clearhead.inspect.subject import Subject
from small_models import random_model, small_config
from small_translators import Classifier, Translator


def test_a_translation_is_explained_by_its_words_and_heads() -> None:
    translator = Translator()
    found = explain(translator, "b a c", "q s", measures=["removal", "all_layers"])
    assert (found.source, found.prefix) == (("b", "a", "c"), ("q", "s"))
    assert found.outputs == ("q", "s", "<eos>")
    assert [row[0] for row in found.choices] == list(found.outputs)
    assert all(len(set(row)) == len(row) for row in found.choices)
    replay = Subject.translation(translator, "b a c", "q s").replay
    own = replay.log_probabilities()[0, :, 0]
    np.testing.assert_allclose(found.log_probabilities[:, 0], own)
    assert not {"<pad>", "<sos>"} & {name for row in found.choices for name in row}
    others = found.log_probabilities[:, 1:]
    assert (np.diff(others, axis=1) <= 0).all()
    without = replay.log_probabilities([Change(source=(1,))])[0, :, 0]
    np.testing.assert_allclose(found.by_source[1, :, 0], own - without)
    np.testing.assert_allclose(found.measures["removal"][:, 1], own - without)
    assert found.measures["all_layers"].shape == (3, 3)
    assert len(found.heads) == len(found.by_head) == 12
    assert found.by_prefix.shape[:2] == (2, 3)
    source, prefix = (
        own - replay.log_probabilities([change])[0, :, 0]
        for change in (Change(source=(0, 1, 2)), Change(prefix=(1, 2)))
    )
    for place, share in enumerate(found.source_share):
        gains = max(source[place], 0), max(prefix[place], 0)
        if place == 0 or sum(gains) == 0:  # there is no word before the first
            assert np.isnan(share)
        else:
            assert share == pytest.approx(gains[0] / sum(gains))


def test_why_not_is_the_difference_of_the_effects() -> None:
    found = explain(Translator(), "b a c", "q s")
    reasons = found.why_not(1, 2)
    assert set(reasons) == {"heads", "source", "prefix"}
    for word, difference in reasons["source"]:
        i = found.source.index(word)
        assert difference == found.by_source[i, 1, 0] - found.by_source[i, 1, 2]
    for place, choice in ((3, 1), (-1, 1), (0, 0), (0, 99)):
        with pytest.raises(ConfigError):
            found.why_not(place, choice)
    sizes = [abs(difference) for _, difference in reasons["heads"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_source_that_hardly_counts_is_a_warning() -> None:
    translator = Translator()
    for number in (0, 1):
        name = f"layers.{number}.cross_attention.output.weight"
        torch.nn.init.zeros_(translator.model.decoder.get_parameter(name))
    found = explain(translator, "b a c", "q s")
    assert "0.00" in (found.warning or "")
    assert found.source_share[np.isfinite(found.source_share)] == pytest.approx(0, abs=1e-6)


def test_a_classification_is_explained() -> None:
    found = explain(Classifier(), "y x")
    assert found.source == ("y", "x")
    assert found.prefix == ()
    assert len(found.outputs) == 1
    assert sorted(found.choices[0]) == ["one", "three", "two"]
    assert np.exp(found.log_probabilities).sum() == pytest.approx(1.0)
    assert found.warning is None
    assert np.isnan(found.source_share).all()


def test_each_independent_label_is_explained_by_itself() -> None:
    classifier = Classifier(multi_label=True)
    found = explain(classifier, "y x", measures=["removal", "gradient_input", "rollout"])
    assert sorted(found.outputs) == ["one", "three"]
    assert found.choices == tuple((label,) for label in found.outputs)
    ids = [classifier.labels.index(label) for label in found.outputs]

    def log_probabilities(row: list[int]) -> np.ndarray:
        with torch.no_grad():
            return torch.sigmoid(classifier.model(torch.tensor([row])))[0, ids].log().numpy()

    row, _ = classifier.encode("y x")
    own = log_probabilities(row)
    np.testing.assert_allclose(found.log_probabilities[:, 0], own)
    assert own[0] > own[1]
    assert {name: x.shape for name, x in found.measures.items()} == dict.fromkeys(
        ("removal", "gradient_input", "rollout"), (2, 2)
    )
    np.testing.assert_array_equal(*found.measures["rollout"])
    constant = found.outputs.index("three")  # its logit is the bias alone
    np.testing.assert_allclose(found.by_source[:, constant], 0, atol=1e-12)
    np.testing.assert_allclose(found.measures["gradient_input"][constant], 0, atol=1e-12)
    assert (np.abs(found.by_source[:, 1 - constant]) > 1e-6).all()
    with pytest.raises(ConfigError):
        found.why_not(0, 1)


def test_correct_independent_labels_have_the_cross_entropy_of_training() -> None:
    classifier = Classifier(multi_label=True)
    row, _ = classifier.encode("y x")
    with torch.no_grad():
        logits = classifier.model(torch.tensor([row]))[0]
    for labels in (["two", "one"], []):
        subject = Subject.classification(classifier, "y x", labels)
        truth = torch.tensor([float(label in labels) for label in classifier.labels])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, truth.double(), reduction="sum"
        )
        assert -subject.replay.log_probabilities().sum() == pytest.approx(loss.item())
        names = [name if name in labels else f"not {name}" for name in classifier.labels]
        assert subject.outputs == tuple(names)
    subject = Subject.classification(Classifier(), "y x", ["two"])
    assert subject.outputs == ("two",)


def test_an_output_without_an_end_is_recorded_as_it_was_read() -> None:
    """The decoder has not read its last token."""
    best = Hypothesis((3, 5), 0.0, (0.0, 0.0), 0.0, False)
    subject = Subject.translation(Translator(), "b a c", best)
    assert subject.places == len(subject.target_pieces) == 2
    assert subject.record.decoder[0].self_attention.shape[1:] == (2, 2)


def test_a_notebook_shows_a_table_in_which_every_word_is_text() -> None:
    classifier = Classifier()
    classifier.labels = ("<b>one</b>", "<i>two</i>", "&three")
    shown = explain(classifier, "y x")._repr_html_()
    assert shown.count("<tr>") == 3
    assert not any(tag in shown for tag in ("<b>", "<i>", "&three"))


@pytest.mark.parametrize(
    ("model", "source", "target", "measures", "error"),
    [
        (Translator(), "a", None, (), ConfigError),
        (Classifier(), "x", "y", (), ConfigError),
        (Translator(), "a", "p", ("removals",), ConfigError),
        (Translator(), "", "p", (), DataError),
        (Classifier(), " ", None, (), DataError),
        (Translator(), "a " * 150, "p " * 150, (), DataError),
        (Translator(), "a", Hypothesis((), 0.0, (), 0.0, False), (), DataError),
    ],
)
def test_mistakes(model: Any, source: str, target: Any, measures: Any, error: type) -> None:
    with pytest.raises(error):
        explain(model, source, target, measures)


def test_words_that_the_output_does_not_need_are_named() -> None:
    found = explain(Translator(random_model(small_config(), scale=3)), "a b c d e", "p q s")
    falls = dict(zip(found.source, found.by_source[..., 0], strict=True))
    assert falls["d"].sum() <= -0.5
    assert falls["b"].sum() <= 0
    assert falls["b"].max() <= 0.1
    assert found.untranslated == ("b", "d")
    subject = Subject.translation(Translator(), "a b c d", "p q")
    effects = np.array(
        [
            [0.05, -0.06, 0.0],  # unused
            [0.05, 0.0, 0.0],  # the output is less probable without it
            [0.3, -0.4, 0.0],  # a token needs it
            [2.0, -2.6, 0.0],  # more probable without it
        ]
    )
    assert untranslated(subject, effects[..., None]) == [0, 3]
    assert explain(Classifier(), "x y").untranslated == ()


def test_an_encoder_without_labels_has_no_output_to_explain() -> None:
    classifier = Classifier()
    classifier.labels = ()
    with pytest.raises(ConfigError, match="labels"):
        explain(classifier, "x")


def test_one_measure_may_be_named_without_a_list() -> None:
    assert set(explain(Classifier(), "x", measures="rollout").measures) == {"rollout"}
    both = explain(Classifier(), "x", measures="rollout, norms")
    assert list(both.measures) == ["rollout", "norms"]
    with pytest.raises(ConfigError) as raised:
        explain(Classifier(), "x", measures="rolout")
    assert raised.value.todo == "did you mean rollout?"
