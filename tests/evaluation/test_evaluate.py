"""The evaluation of translators, with translators of one line."""

from __future__ import annotations

import json
import unicodedata
import warnings
from functools import partial
from typing import Any

import pytest

from clearhead.data.judging.text_style import TextStyle
from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.evaluate import Report, TranslatorSystem, evaluate_translators
from clearhead.evaluation.scores import TranslatorScores
from clearhead.settings import RunConfig, config_from

TEXTS = ["the cat sees a dog", "a man rides home"]


def evaluated(configs: dict[str, RunConfig], *choices: Any) -> Report[TranslatorScores]:
    """A report on translators that give correct translations, except the one named `bad`."""
    outputs = {name: [f"{t} today" if name == "bad" else t for t in TEXTS] for name in configs}
    systems = {
        name: TranslatorSystem(config, partial(outputs.__getitem__, name))
        for name, config in configs.items()
    }
    return evaluate_translators(systems, ("s", "r"), TEXTS, TEXTS, *choices)


def test_each_model_has_a_section_in_the_order_given_and_is_compared_with_the_first() -> None:
    report = evaluated({"good": RunConfig(), "bad": RunConfig()})
    text = str(report)
    assert text.startswith("2 sentences of s, scored against r\n\ngood\n")
    assert text.index("\ngood\n") < text.index("\nbad\n") < text.index("Signatures:")
    tree = json.loads(json.dumps(report.to_dict()))
    assert (tree["source"], tree["reference"], tree["sentences"]) == ("s", "r", 2)
    assert list(tree["systems"]) == ["good", "bad"]
    assert tree["systems"]["good"]["scores"]["bleu"]["p_value"] is None
    assert tree["systems"]["bad"]["scores"]["bleu"]["p_value"] is not None
    assert [tree["systems"][name]["exact"] for name in ("good", "bad")] == [100, 0]


def test_tokenizer_and_case_default_to_those_of_the_configurations() -> None:
    lower = config_from({"tokenizer": {"lower": True}, "evaluation": {"tokenize": "char"}})
    settings = evaluated({"a": lower, "b": lower}).settings
    assert (settings["tokenize"], settings["lowercase"]) == ("char", True)
    mixed = {"a": RunConfig(), "b": lower}
    settings = evaluated(mixed, "intl", False).settings
    assert (settings["tokenize"], settings["lowercase"]) == ("intl", False)
    for choices, setting in (((None, False), "tokenize"), (("intl", None), "lowercase")):
        with pytest.raises(ConfigError, match=f"evaluation.{setting}") as caught:
            evaluated(mixed, *choices)
        assert f"--{setting}" in str(caught.value.todo)


MOSES = [f"two dogs play in the snow near house {n} ." for n in range(30)]
ORDINARY = [text.capitalize().replace(" .", ".") for text in MOSES]


@pytest.mark.parametrize(
    ("references", "lowercase", "found"),
    [
        (MOSES, False, []),
        (ORDINARY, False, ["capital letters", "punctuation"]),
        (ORDINARY, True, ["punctuation"]),
        ([text.capitalize() for text in MOSES], False, ["capital letters"]),
        ([text.capitalize() for text in MOSES], True, []),
    ],
)
def test_references_in_another_style_than_the_training_text_are_warned_of(
    references: list[str], lowercase: bool, found: list[str]
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        system = TranslatorSystem(RunConfig(), lambda: MOSES, TextStyle.of(MOSES))
        evaluate_translators({"m": system}, ("s", "r"), MOSES, references, "none", lowercase)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == bool(found)
    for part in ("capital letters", "punctuation"):
        assert any(part in message for message in messages) == (part in found)


def test_files_of_different_lengths_are_rejected_before_any_translation() -> None:
    system = TranslatorSystem(RunConfig(), lambda: pytest.fail("something was translated"))
    with pytest.raises(DataError) as caught:
        evaluate_translators({"a": system}, ("s", "r"), ["a", "b"], ["a"])
    assert caught.value.where == "s, r"
    assert caught.value.why == "2 sources and 1 references"
    with pytest.raises(DataError):
        evaluate_translators({"a": system}, ("s", "r"), [], [])


def test_a_report_has_its_size_the_scores_of_the_first_model_and_is_printed_as_text() -> None:
    report = evaluated({"bad": RunConfig(), "good": RunConfig()})
    assert report.size == 2
    assert list(report.scores) == ["bleu", "chrf", "ter", "exact"]
    assert report.scores["exact"] == 0
    assert report.scores["bleu"] == report.systems["bad"].scores.bleu.score
    assert [example.prediction for example in report.predictions["good"]] == TEXTS


def scored(output: str, reference: str, **settings: Any) -> Report[TranslatorScores]:
    config = config_from({"tokenizer": settings, "data": {"target_language": "tr"}})
    texts = [f"{text} x y z" for text in (output, reference)]
    system = TranslatorSystem(config, lambda: texts[:1])
    return evaluate_translators({"m": system}, ("s", "r"), ["a"], texts[1:])


@pytest.mark.parametrize("letters", ["é", "Tiếng", "한국"])
def test_outputs_and_references_are_compared_in_one_form(letters: str) -> None:
    other = unicodedata.normalize("NFD", letters)
    for output, reference in ((letters, other), (other, letters)):
        report = scored(output, reference, normal_form="sources")
        assert (report.scores["exact"], report.scores["bleu"]) == (100, pytest.approx(100))
        measures = report.systems["m"].scores.measures
        assert all(each.signature.endswith("|form:nfc") for each in measures)
        assert report.predictions["m"][0].prediction == f"{output} x y z"
        assert report.predictions["m"][0].chrf == pytest.approx(100)
    plain = scored(letters, other)
    assert plain.scores["exact"] == 0
    assert "form:" not in str(plain)


def test_case_is_ignored_by_the_rules_of_the_target_language() -> None:
    report = scored("istanbul ışık", "İSTANBUL IŞIK", lower=True)
    assert report.scores["exact"] == 100
