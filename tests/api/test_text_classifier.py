"""The text classifier: training, errors, and scikit-learn's interface."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, check_cv, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import clearhead
from clearhead import TextClassifier
from clearhead.api.estimator import Inputs
from clearhead.api.targets import read_targets
from clearhead.api.training import train
from clearhead.data.proposing.classification import LONG
from clearhead.data.proposing.settings import MOST_WEIGHTS
from clearhead.data.trainable import NO_REGRESSION
from clearhead.errors import ClearheadError, ConfigError, DataError, InputError, TrainingError
from clearhead.folder.files import read_json
from clearhead.model.transformer import EncoderClassifier
from clearhead.settings import RunConfig, read_config
from clearhead.training.events import RunEnded
from huggingface_models import written

EXAMPLES = Path(__file__).parents[2] / "examples"
COLOURS = {"red": "warm", "orange": "warm", "blue": "cold", "green": "cold"}

SMALL: dict[str, Any] = dict(
    layers=1,
    d_model=16,
    heads=2,
    vocabulary=60,
    dropout=0.0,
    epochs=12,
    batch_tokens=64,
    learning_rate=2e-2,
)


def small(**choices: Any) -> TextClassifier:
    return TextClassifier(**{**SMALL, **choices})


def coloured(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Texts that name one colour each, and whether it is warm, alternately."""
    chance = random.Random(seed)
    texts, labels = [], []
    for number in range(count):
        colour = list(COLOURS)[number % len(COLOURS)]
        words = chance.choices("abcdef", k=chance.randint(1, 5))
        words.insert(chance.randint(0, len(words)), colour)
        texts.append(" ".join(words))
        labels.append(COLOURS[colour])
    return texts, labels


TEXTS, LABELS = coloured(48)
UNSEEN, RIGHT = coloured(40, seed=2)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return small().fit(TEXTS, LABELS)


# Learning and predicting.


def test_it_learns_the_labels_of_texts(fitted: TextClassifier) -> None:
    assert fitted.score(UNSEEN, RIGHT) > 0.9
    found = fitted.predict(UNSEEN)
    share = sum(str(a) == b for a, b in zip(found, RIGHT, strict=True)) / len(RIGHT)
    assert fitted.score(UNSEEN, RIGHT) == pytest.approx(share)


def test_only_verbose_fitting_prints_progress_with_the_time_left(
    capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(epochs=1).fit(TEXTS, LABELS)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("clearhead.training.loop.REPORT_SECONDS", 0.0)
    small(epochs=2, verbose=1).fit(TEXTS, LABELS)
    out, err = capfd.readouterr()
    assert err == ""
    assert re.search(r"^step .* left ", out, re.MULTILINE)
    assert "\nvalidation: " in out
    assert tempfile.gettempdir() not in out


@pytest.mark.slow
def test_equal_weights_are_no_weights_and_others_change_what_is_learned(
    fitted: TextClassifier,
) -> None:
    given = np.full(len(TEXTS), 4.0)
    equal = small().fit(TEXTS, LABELS, sample_weight=given)
    assert set(given) == {4.0}
    np.testing.assert_array_equal(equal.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))
    # Each text is there with both labels, of which one counts.
    texts, labels = TEXTS * 2, [*LABELS, *(dict(warm="cold", cold="warm")[x] for x in LABELS)]
    first = small(epochs=20).fit(texts, labels, sample_weight=[1.0] * 48 + [0.0] * 48)
    assert first.score(UNSEEN, RIGHT) > 0.9
    second = small(epochs=20).fit(texts, labels, sample_weight=[0.0] * 48 + [1.0] * 48)
    assert second.score(UNSEEN, RIGHT) < 0.1


@pytest.mark.parametrize(
    "weights", [[1.0], [0.0] * 40, [-1.0] + [1.0] * 39, [float("nan")] * 40, ["heavy"] * 40]
)
def test_weights_that_cannot_be_used_are_rejected(
    fitted: TextClassifier, weights: list[Any]
) -> None:
    for use in (fitted.score, fitted.fit):
        with pytest.raises(InputError) as caught:
            use(UNSEEN, RIGHT, sample_weight=weights)
        assert caught.value.where == "sample_weight"


def test_probabilities_are_in_the_order_of_the_classes(fitted: TextClassifier) -> None:
    assert fitted.classes_.tolist() == sorted(set(LABELS))
    probabilities = fitted.predict_proba(UNSEEN)
    assert probabilities.shape == (len(UNSEEN), 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    best = fitted.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(UNSEEN), best)


def test_white_space_and_neighbours_do_not_matter(fitted: TextClassifier) -> None:
    spaced = [" \t" + text.replace(" ", " \n ") for text in UNSEEN]
    np.testing.assert_array_equal(fitted.predict_proba(spaced), fitted.predict_proba(UNSEEN))
    alone = np.concatenate([fitted.predict_proba([text]) for text in UNSEEN[:5]])
    np.testing.assert_allclose(fitted.predict_proba(UNSEEN[:5]), alone, atol=1e-5)
    assert set(fitted.predict(["", "red"])) <= set(LABELS)
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 2)


def test_labels_may_be_numbers_in_an_array() -> None:
    numbers = np.where(np.array(LABELS) == "warm", 10, 9)
    model = small().fit(np.array(TEXTS), numbers)
    # As strings they sort the other way: "10" < "9".
    assert model.classes_.tolist() == [9, 10]
    assert model.predict(UNSEEN).dtype == numbers.dtype
    assert model.score(np.array(UNSEEN), np.where(np.array(RIGHT) == "warm", 10, 9)) > 0.9
    # With the same seed, all is the same.
    again = small().fit(TEXTS, numbers.tolist())
    np.testing.assert_array_equal(model.predict_proba(UNSEEN), again.predict_proba(UNSEEN))


def test_a_class_of_one_text_is_learned_too() -> None:
    model = small(epochs=1).fit([*TEXTS, "grey"], [*LABELS, "neither"])
    assert model.classes_.tolist() == ["cold", "neither", "warm"]
    assert model.predict_proba(["grey"]).shape == (1, 3)


# What is kept.


def test_what_is_saved_is_a_model_folder(tmp_path: Path) -> None:
    model = small(epochs=1).fit(TEXTS, LABELS)
    loaded = clearhead.load(model.save(tmp_path / "colours"), device="cpu")
    assert isinstance(loaded, clearhead.Classifier)
    assert loaded.labels == ("cold", "warm")
    np.testing.assert_array_equal(loaded.probabilities(UNSEEN), model.predict_proba(UNSEEN))
    scores = read_json(tmp_path / "colours" / "scores.json")["scores"]
    assert {"ece", "ece_uncalibrated"} <= scores.keys()
    assert model.model_.temperature == scores["temperature"]


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    model = small(epochs=1).fit(TEXTS, LABELS)
    assert list(tmp_path.iterdir()) == []
    assert model.predict(UNSEEN).shape == (len(UNSEEN),)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_it_can_be_copied_before_and_after_it_has_learned(
    again: Any, fitted: TextClassifier
) -> None:
    assert again(small(pooling=("first",))).get_params() == small(pooling=("first",)).get_params()
    copied = again(fitted)
    np.testing.assert_array_equal(copied.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))
    np.testing.assert_array_equal(copied.classes_, fitted.classes_)


# What is refused.


def test_before_fitting_it_is_an_error() -> None:
    for ask in (small().predict, small().predict_proba, lambda texts: small().score(texts, RIGHT)):
        with pytest.raises(TrainingError, match="has not been trained") as caught:
            ask(UNSEEN)
        assert "fit" in str(caught.value)
        # A ValueError and an AttributeError, as scikit-learn's own is.
        assert all(isinstance(caught.value, kind) for kind in NotFittedError.__bases__)


def assert_for_caller(error: ClearheadError) -> None:
    """The error names no deleted file, and no setting whose name differs from the argument's."""
    assert not (error.where or "").startswith(tempfile.gettempdir())
    message = str(error)
    assert "--" not in message
    assert not any(path in message for path in TextClassifier.settings.values() if "." in path)


@pytest.mark.parametrize(
    ("texts", "labels", "key"),
    [
        (TEXTS, LABELS[:-1], "48 texts and 47 labels"),
        (TEXTS[:-1], LABELS, "47 texts and 48 labels"),
        ([], [], "no texts"),
        ([" "] * 48, LABELS, "empty"),
        (TEXTS, ["warm"] * len(TEXTS), "class"),
        (TEXTS, None, "y is None"),
        (TEXTS, [["warm"], ["warm", "cold"]] * 24, "labels"),
        (TEXTS, [1, 1, 1, "1"] * 12, "strings"),
        (TEXTS, [0.5, 1.5] * 24, "continuous"),
        (TEXTS, [0.0, float("inf")] * 24, "continuous"),
        (TEXTS[:4], LABELS[:4], "validat"),
        (TEXTS[:4], LABELS[:4], "validation_share"),
        (TEXTS, ["warm", " warm"] * 24, "spaces"),
    ],
)
def test_data_that_cannot_be_learned_from_are_rejected(texts: Any, labels: Any, key: str) -> None:
    with pytest.raises(InputError, match=key) as caught:
        small().fit(texts, labels)
    assert isinstance(caught.value, DataError)
    assert isinstance(caught.value, ValueError)
    assert_for_caller(caught.value)


@pytest.mark.parametrize(
    ("texts", "labels", "number", "key"),
    [
        ([*TEXTS, "", ""], [*LABELS, "n", "n"], 49, "'n'"),
        (TEXTS, ["warm", None] * 24, 2, "None"),
        (TEXTS, [*LABELS[:-1], float("nan")], 48, "nan"),
        (TEXTS, np.array([0.0, 1.0, np.nan] * 16, dtype=np.float32), 3, "nan"),
        (TEXTS, ["", "warm"] * 24, 1, "empty"),
        (TEXTS, ["warm", "c\told"] * 24, 2, "tab"),
        (TEXTS, ["warm", "c\0old"] * 24, 2, "NUL"),
        (["red", "\ud800"] * 24, ["warm", "cold"] * 24, 2, "surrogate"),
    ],
)
def test_an_example_that_cannot_be_learned_from_is_named_by_its_number(
    texts: Any, labels: Any, number: int, key: str
) -> None:
    with pytest.raises(InputError) as caught:
        small().fit(texts, labels)
    assert caught.value.where == f"example {number}"
    assert key in caught.value.what
    assert caught.value.todo or key not in ("None", "nan")


@pytest.mark.parametrize(
    ("wrong", "todo"),
    [
        *((None, "dropna"), (np.float32("nan"), "dropna"), (np.int64(3), "astype")),
    ],
)
def test_a_text_that_is_not_a_string_is_named(
    fitted: TextClassifier, wrong: Any, todo: str
) -> None:
    for use in (lambda texts: small().fit(texts, LABELS), fitted.predict):
        with pytest.raises(InputError, match="text 48 is") as caught:
            use([*TEXTS[:-1], wrong])
        assert todo in str(caught.value.todo)


CONTINUOUS = [number / 7 for number in range(len(TEXTS))]


@pytest.mark.parametrize(
    "labels",
    [
        *(CONTINUOUS, np.array(CONTINUOUS, dtype=np.float32), list(map(str, CONTINUOUS))),
        *(list(range(len(TEXTS))), [10.0 * number for number in range(len(TEXTS))]),
    ],
)
def test_numbers_to_predict_are_refused_as_regression(labels: Any) -> None:
    with pytest.raises(InputError) as caught:
        small().fit(TEXTS, labels)
    assert NO_REGRESSION in str(caught.value.todo)
    assert_for_caller(caught.value)


@pytest.mark.parametrize("epochs", [1, 40])
def test_a_training_that_diverges_names_the_learning_rate(epochs: int) -> None:
    with pytest.raises(TrainingError) as caught:
        small(learning_rate=1e30, epochs=epochs).fit(TEXTS, LABELS)
    assert caught.value.todo == "lower learning_rate"
    assert_for_caller(caught.value)


@pytest.mark.parametrize("training", [True, False])
def test_where_a_gpu_is_too_small_an_argument_is_named(
    monkeypatch: pytest.MonkeyPatch, training: bool
) -> None:
    forward = EncoderClassifier.forward

    def full(model: EncoderClassifier, *inputs: Any) -> Any:
        if model.training == training:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(model, *inputs)

    monkeypatch.setattr(EncoderClassifier, "forward", full)
    with pytest.raises(ClearheadError) as caught:
        small().fit(TEXTS, LABELS)
    assert (caught.value.todo or "").startswith("lower max_length")
    assert_for_caller(caught.value)


@pytest.mark.parametrize(
    "labels",
    [["warm"], [[label] * 2 for label in RIGHT], [RIGHT[:1], *([x] * 2 for x in RIGHT[1:])], None],
)
def test_a_score_needs_a_label_for_each_text(fitted: TextClassifier, labels: Any) -> None:
    with pytest.raises(InputError):
        fitted.score(UNSEEN, labels)
    with pytest.raises(DataError, match="no texts to score"):
        fitted.score([], [])


def test_a_text_of_more_weight_counts_for_more(fitted: TextClassifier) -> None:
    wrong = ["warm" if label == "cold" else "cold" for label in fitted.predict(UNSEEN)]
    labels = [*fitted.predict(UNSEEN[:10]), *wrong[10:]]
    assert fitted.score(UNSEEN, labels) == pytest.approx(10 / 40)
    weights = [3.0] * 10 + [1.0] * 30
    assert fitted.score(UNSEEN, labels, sample_weight=weights) == pytest.approx(30 / 60)


def test_a_table_of_one_column_is_a_list_and_others_are_not(fitted: TextClassifier) -> None:
    wanted = fitted.predict_proba(UNSEEN)
    table = pandas.DataFrame({"Sentence": UNSEEN}, index=range(7, 7 + len(UNSEEN)))
    for given in (table, table["Sentence"], np.array(UNSEEN)[:, None], tuple(UNSEEN), iter(UNSEEN)):
        np.testing.assert_array_equal(fitted.predict_proba(given), wanted)
    assert fitted.score(table, pandas.DataFrame({"topic": RIGHT})) == fitted.score(UNSEEN, RIGHT)
    two = pandas.DataFrame({"text": TEXTS, "more": TEXTS})
    for use in (fitted.predict, lambda texts: fitted.fit(texts, LABELS)):
        with pytest.raises(DataError) as caught:
            use(two)
        assert "table['text']" in str(caught.value.todo)
        with pytest.raises(TypeError):
            use("ab")
    with pytest.raises(InputError, match="0 and 1"):
        fitted.fit(TEXTS, two)


def test_a_column_of_a_table_is_classified_by_a_column_transformer() -> None:
    table = pandas.DataFrame({"number": range(len(TEXTS)), "text": TEXTS})
    chosen = ColumnTransformer([("text", "passthrough", ["text"])])
    for output in ("default", "pandas"):
        pipeline = make_pipeline(chosen.set_output(transform=output), small())
        assert pipeline.fit(table, LABELS).score(table, LABELS) > 0.9


def test_missing_texts_are_refused_or_empty(fitted: TextClassifier) -> None:
    texts = pandas.Series([*TEXTS, None, np.nan, pandas.NA], dtype=object)
    labels = [*LABELS, "warm", "cold", "cold"]
    with pytest.raises(InputError, match="text 49"):
        small().fit(texts, labels)
    with pytest.warns(UserWarning, match="left out: 3"):
        model = small(missing="empty", epochs=1).fit(texts, labels)
    np.testing.assert_array_equal(model.predict([None]), model.predict([""]))
    with pytest.raises(InputError, match="not a list"):
        small(missing="empty").fit(5, LABELS)
    with pytest.raises(ConfigError) as caught:
        small(missing="zero").fit(TEXTS, LABELS)
    assert caught.value.where == "TextClassifier(missing='zero')"


def test_a_matrix_has_any_number_of_labels() -> None:
    matrix = np.array([[colour in text for colour in ("red", "blue", "grey")] for text in TEXTS])
    model = small(epochs=30).fit(TEXTS, matrix.astype(int))
    found = model.predict(UNSEEN)
    right = np.array([[colour in text for colour in ("red", "blue", "grey")] for text in UNSEEN])
    assert found.shape == right.shape
    assert model.score(UNSEEN, right) == (found == right).all(axis=1).mean() > 0.9
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict_proba(UNSEEN)[:, 2] == 0).all()  # it never applied
    signs = model.decision_function(UNSEEN) >= 0
    np.testing.assert_array_equal(signs, found == 1)
    for wrong in (right[:, :2], RIGHT):
        with pytest.raises(InputError):
            model.score(UNSEEN, wrong)
    named = small(epochs=1).fit(TEXTS, pandas.DataFrame(matrix[:, :2], columns=["red", "blue"]))
    assert named.classes_.tolist() == ["red", "blue"]
    with pytest.raises(InputError, match="0 and 1"):
        small().fit(TEXTS, matrix * 2)


def test_classes_have_weights(fitted: TextClassifier) -> None:
    none = small(class_weight={"cold": 0.0}, epochs=20).fit(TEXTS, LABELS)
    assert set(none.predict(UNSEEN)) == {"warm"}
    same = small(class_weight={"cold": 1.0, "warm": 1.0}).fit(TEXTS, LABELS)
    np.testing.assert_array_equal(same.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))
    for wrong in ("equal", {"warm": -1.0}, {"warm": "x"}, 3):
        with pytest.raises(ConfigError) as caught:
            small(class_weight=wrong).fit(TEXTS, LABELS)
        assert caught.value.where == f"TextClassifier(class_weight={wrong!r})"


def test_the_weight_of_a_label_that_is_misspelt_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        small(class_weight={"warm": 2.0, "clod": 1.0}).fit(TEXTS, LABELS)
    assert "'clod'" in caught.value.what
    # In a fold without them, other labels may have weights.
    small(class_weight={"warm": 2.0, "cold": 1.0, "mild": 1.0}, epochs=1).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    "several", [{"warm", "red"}, ("warm", "red"), ["warm", "red"], frozenset(["warm"])]
)
def test_lists_of_labels_have_to_be_a_matrix(several: Any) -> None:
    for labels in ([several] * 48, [several, type(several)(["cold"])] * 24):
        with pytest.raises(InputError) as caught:
            small().fit(TEXTS, labels)
        assert "MultiLabelBinarizer" in str(caught.value.todo)


def test_heads_and_width_go_together_whatever_is_given() -> None:
    every: list[dict[str, Any]] = [
        *(
            {"heads": 6},
            {"d_model": 50},
            {"d_model": 100},
            {"heads": 3, "d_model": 45},
        )
    ]
    for given in every:
        model = TextClassifier(epochs=1, **given).fit(TEXTS, LABELS).model_.config.model
        assert model.d_model % model.n_heads == 0
    with pytest.raises(ConfigError):
        TextClassifier(heads=7).fit(TEXTS, LABELS)


def test_missing_groups_are_refused() -> None:
    for missing in (None, np.nan):
        with pytest.raises(InputError, match="group is missing"):
            small().fit(TEXTS, LABELS, groups=[*range(47), missing])


@pytest.mark.parametrize(
    ("texts", "options", "why"),
    [
        (TEXTS[:4], {}, "is 0 examples"),
        (["a b"] * 48, {}, "1 different inputs"),
        (TEXTS, {"groups": [1] * 48}, "1 groups"),
    ],
)
def test_why_nothing_is_left_to_validate_on(texts: Any, options: Any, why: str) -> None:
    with pytest.raises(InputError, match="validate") as caught:
        small().fit(texts, LABELS[: len(texts)], **options)
    assert why in str(caught.value.why)
    assert NO_REGRESSION not in str(caught.value.todo)


def test_groups_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def training(config: Any, *, examples: Any, **options: Any) -> Any:
        seen.extend(examples)
        raise KeyboardInterrupt

    monkeypatch.setattr("clearhead.api.estimator.train", training)
    with pytest.raises(KeyboardInterrupt):
        small().fit(TEXTS, LABELS, groups=[number // 4 for number in range(48)])
    assert len({example.group for example in seen}) == 12
    with pytest.raises(InputError, match="47 groups"):
        small().fit(TEXTS, LABELS, groups=range(47))


def test_the_log_probabilities_and_the_decisions(fitted: TextClassifier) -> None:
    probabilities = fitted.predict_proba(UNSEEN)
    np.testing.assert_array_equal(fitted.predict_log_proba(UNSEEN), np.log(probabilities))
    odds = fitted.decision_function(UNSEEN)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), probabilities[:, 1], atol=1e-6)
    assert fitted.n_features_in_ == 1


def test_a_seed_may_be_a_generator_or_none() -> None:
    one, two = (
        small(random_state=np.random.RandomState(3), epochs=1).fit(TEXTS, LABELS) for _ in range(2)
    )
    np.testing.assert_array_equal(one.predict_proba(UNSEEN), two.predict_proba(UNSEEN))
    other = small(random_state=None, epochs=1).fit(TEXTS, LABELS)
    assert (other.predict_proba(UNSEEN) != one.predict_proba(UNSEEN)).any()


@pytest.mark.slow
def test_it_starts_from_a_model(tmp_path: Path) -> None:
    small().fit(TEXTS, LABELS).save(tmp_path / "first")
    new, labels = coloured(24, seed=5)
    renamed = [f"{label}!" for label in labels]
    model = TextClassifier(start_from=tmp_path / "first", learning_rate=1e-2).fit(new, renamed)
    assert model.model_.config.model.d_model == SMALL["d_model"]
    assert model.score(UNSEEN, [f"{label}!" for label in RIGHT]) > 0.9
    with pytest.raises(ConfigError, match="start_from"):
        TextClassifier(start_from=tmp_path / "first", layers=3).fit(TEXTS, LABELS)


def test_it_starts_from_an_encoder_of_hugging_face(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = tmp_path / "bert"
    written(folder, "Bert", head=False)
    model = TextClassifier(start_from=folder, epochs=1).fit(TEXTS, LABELS)
    assert model.model_.config.model.d_model == 16
    assert model.predict(UNSEEN).shape == (len(UNSEEN),)
    with pytest.raises(ConfigError, match="vocabulary") as caught:
        TextClassifier(start_from=folder, words=True).fit(TEXTS, LABELS)
    assert "words=True" in str(caught.value.where)


def test_inputs_without_an_order_or_of_another_kind_are_refused(fitted: TextClassifier) -> None:
    with pytest.raises(TypeError, match="order"):
        fitted.predict({"a", "b"})
    for given, advice in ((b"a", "decode"), (["a", "b"], "join"), (3, "astype")):
        with pytest.raises(InputError) as caught:
            fitted.predict([given])
        assert advice in str(caught.value.todo)
    with pytest.raises(ConfigError):
        small(words="no").fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="numbers"):
        fitted.score(UNSEEN, [0, 1] * (len(UNSEEN) // 2))


def test_long_texts_are_cut() -> None:
    long = [f"{text} " + "word " * 3000 for text in TEXTS]
    config = config_on(long)
    assert config.data.max_length == LONG
    assert config.training.batch_tokens * LONG <= MOST_WEIGHTS


@pytest.mark.parametrize(
    ("argument", "value", "key"),
    [
        ("pooling", "mean,first", "pooling"),
        ("pooling", ["maen"], "mean"),
        ("d_model", 15, "multiple"),
        ("epochs", 0, "1"),
        ("dropout", 1.5, "1.5"),
        ("learning_rate", float("nan"), "finite"),
        ("batch_tokens", 0, "0"),
        ("validation_share", None, "None"),
        *((argument, "wrong", "wrong") for argument in TextClassifier.settings),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(argument: str, value: Any, key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(key)) as caught:
        small(**{argument: value}).fit(TEXTS, LABELS)
    assert caught.value.where == f"TextClassifier({argument}={value!r})"
    assert f"{caught.value.setting}.".startswith(TextClassifier.settings[argument])
    assert_for_caller(caught.value)


@pytest.mark.parametrize(
    ("choices", "texts", "labels", "advice"),
    [
        ({"device": "gpu"}, TEXTS, LABELS, 'did you mean device = "cuda"?'),
        ({}, LABELS, TEXTS, "fit(X, y)"),
        ({}, TEXTS[:2], [0, 1], "validation_share"),
        ({"words": False, "vocabulary": 5}, TEXTS, LABELS, "vocabulary"),
    ],
)
def test_advice_names_arguments(
    choices: dict[str, Any], texts: list[str], labels: list[Any], advice: str
) -> None:
    with pytest.raises(ClearheadError) as caught:
        small(**choices).fit(texts, labels)
    assert advice in f"{caught.value.where} {caught.value.todo}"
    assert_for_caller(caught.value)


def test_every_argument_of_training_has_a_setting() -> None:
    others = {"words", "class_weight", "missing", "start_from", "verbose"}
    assert TextClassifier.settings.keys() | others == TextClassifier().get_params().keys()
    assert not TextClassifier.settings.keys() & others


def test_a_failure_leaves_what_was_learned_before(
    fitted: TextClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **options: Any) -> RunEnded:
        return dataclasses.replace(train(*given, **options), finished=False)

    before = fitted.predict_proba(UNSEEN)
    with pytest.raises(DataError, match="48 texts and 47 labels"):
        fitted.fit(TEXTS, range(len(TEXTS) - 1))
    with monkeypatch.context() as patch:
        patch.setattr("clearhead.api.estimator.train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fitted.fit(TEXTS, [label.upper() for label in LABELS])
    np.testing.assert_array_equal(fitted.predict_proba(UNSEEN), before)
    assert fitted.classes_.tolist() == ["cold", "warm"]


def test_a_warning_counts_the_texts_that_are_left_out() -> None:
    # As many alike are not split, and too many to be held out.
    texts, labels = (
        [*TEXTS, *["red " * 30] * 9, *[" "] * 8],
        [*LABELS, *["warm"] * 9, *["cold"] * 8],
    )
    with pytest.warns(UserWarning, match="texts that were") as found:
        small(epochs=1, max_length=20).fit(texts, labels)
    messages = [str(w.message) for w in found if "left out" in str(w.message)]
    assert messages == [
        "texts that were left out: 8 (the text is empty)",
    ]
    assert [str(w.message) for w in found if "cut" in str(w.message)] == [
        "texts that were cut: 9 (more than 20 tokens or frames, cut to the first 20)"
    ]


# The interface of scikit-learn.


class RowClassifier(TextClassifier):
    """Reads rows of numbers as texts, because the checks of scikit-learn give it nothing else.

    Each number becomes a word that consists of its column and its value, rounded to halves. What is
    not an array or a list of rows is passed on unchanged.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = False
        tags.input_tags.two_d_array = True  # otherwise there is a single check
        return tags

    def _inputs(self, X: Any, is_fitting: bool) -> Inputs:
        return super()._inputs(as_texts(X), is_fitting)


def as_texts(rows: Any) -> Any:
    if not isinstance(rows, list | np.ndarray) or np.ndim(rows) != 2:
        return rows
    rounded = np.round(2 * np.asarray(rows, dtype=complex)) / 2
    return [" ".join(f"{i}_{value}" for i, value in enumerate(row)) for row in rounded]


COLUMNS = "texts have no columns, whose number or names could be compared"
NUMBERS = "texts hold no numbers: "
FOUR = "there are four different texts, equal ones stay together: none are left to validate on"
NOT_FOR_TEXTS = {
    "check_n_features_in": COLUMNS,
    "check_n_features_in_after_fitting": COLUMNS,
    "check_classifiers_train": f"{COLUMNS}; its other demands have tests of their own below",
    "check_estimators_empty_data_messages": f"{COLUMNS}, and so none has 0 of them",
    "check_complex_data": f"{NUMBERS}none is complex",
    "check_estimators_nan_inf": f"{NUMBERS}none is missing or infinite",
    "check_estimator_sparse_tag": f"{NUMBERS}they cannot be sparse",
    "check_estimator_sparse_array": f"{NUMBERS}they cannot be sparse",
    "check_estimator_sparse_matrix": f"{NUMBERS}they cannot be sparse",
    "check_fit2d_predict1d": "texts are one-dimensional: the error cannot ask to reshape them",
    "check_classifier_data_not_an_array": "the texts are a table there, whose items are columns",
    "check_sample_weights_not_an_array": "as check_classifier_data_not_an_array",
    "check_sample_weight_equivalence_on_dense_data": "other texts make other batches: the loss of "
    "a batch has a test of its own",
    "check_sample_weights_shape": f"{FOUR}; weights of a wrong shape have a test of their own",
    "check_sample_weights_not_overwritten": f"{FOUR}; that has a test of its own",
    "check_sample_weights_pandas_series": "as check_classifier_data_not_an_array",
}
"""The checks that fail, each with the reason why it does not apply."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass_unless_they_do_not_apply_to_texts() -> None:
    choices: dict[str, Any] = dict(convolution=0, epochs=1, batch_tokens=512, validation_share=0.3)
    found = check_estimator(
        RowClassifier(**(SMALL | choices)),
        expected_failed_checks=NOT_FOR_TEXTS,
        on_fail=None,
        on_skip=None,
    )
    assert len(found) > 40
    failed = {check["check_name"]: check["exception"] for check in found if check["exception"]}
    skipped = {check["check_name"] for check in found if check["status"] == "skipped"}
    assert failed.keys() - skipped == NOT_FOR_TEXTS.keys(), failed


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_what_it_can_without_numbers() -> None:
    for check in check_estimator(small(), on_skip=None):
        assert check["status"] == "passed"


def test_parameters_go_in_and_out() -> None:
    defaults = TextClassifier().get_params()
    assert defaults == {field.name: field.default for field in dataclasses.fields(TextClassifier)}
    model = TextClassifier().set_params(**SMALL)
    assert isinstance(model, TextClassifier)
    assert model.get_params() == {**defaults, **SMALL}
    assert model.get_params(deep=False) == model.get_params()
    assert TextClassifier(**model.get_params()).get_params() == model.get_params()
    with pytest.raises(ValueError, match="n_layers"):
        model.set_params(n_layers=2)


@pytest.mark.slow
def test_it_is_a_classifier_so_that_folds_have_all_labels() -> None:
    assert is_classifier(small())
    assert isinstance(check_cv(2, LABELS, classifier=is_classifier(small())), StratifiedKFold)
    # Sorted by their label, halves that are not stratified would have but one.
    order = sorted(range(len(TEXTS)), key=lambda i: LABELS[i])
    texts, labels = [TEXTS[i] for i in order], [LABELS[i] for i in order]
    scores = cross_val_score(small(epochs=20), texts, labels, cv=2)
    assert scores.shape == (2,)
    assert scores.min() > 0.8


def config_on(texts: list[str], **choices: Any) -> RunConfig:
    model = TextClassifier(**choices)
    labels = ["ab"[number % 2] for number in range(len(texts))]
    targets = read_targets(labels, len(texts), "texts", "TextClassifier")
    examples = model._examples(Inputs(texts), targets, np.ones(len(texts)))
    return model._run(examples, False, "folder")


def test_words_are_read_where_spaces_part_them_and_pieces_elsewhere() -> None:
    spaced, unspaced = ["How far is it ?"] * 3, ["\u732b\u3068\u72ac"] * 3
    read = [config_on(spaced), config_on(unspaced), config_on(spaced, words=False)]
    assert [run.tokenizer.kind for run in read] == ["words", "bpe", "bpe"]
    assert [bool(run.model.character_ngrams) for run in read] == [True, False, False]
    assert [run.tokenizer.split_punctuation for run in read] == [True, False, False]
    assert [run.tokenizer.max_vocabulary for run in read] == [0, 2000, 2000]
    assert config_on(unspaced, words=True, vocabulary=7).tokenizer.max_vocabulary == 7
    # Each of many characters is a piece.
    signs = [chr(0x4E00 + i) for i in range(3000)]
    assert config_on(signs).tokenizer.max_vocabulary == 7000
    # Enough texts for pieces, or more words than fit into memory with their n-grams.
    assert config_on(spaced * 7000).tokenizer.kind == "bpe"
    assert config_on([f"{spaced[0]} " * 30] * 14_000).tokenizer.kind == "bpe"


def test_a_run_on_unspaced_texts_is_planned_by_its_characters() -> None:
    short, long = (config_on(["\u732b" * length] * 2000).training for length in (50, 500))
    assert short.validate_every > 5
    assert long.validate_every > 5 * short.validate_every


def test_its_settings_are_those_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "data")
    example, run = read_config(EXAMPLES / "trec.toml"), config_on(TEXTS * 200)
    assert run.model == example.model
    assert run.classifier == example.classifier
    for name in ("batch_tokens", "label_smoothing", "max_epochs", "average_last", "keep"):
        assert getattr(run.training, name) == getattr(example.training, name), name
    assert run.training.schedule.peak == example.training.schedule.peak


def test_arguments_reach_the_settings() -> None:
    assert config_on(TEXTS).model.positions.kind == "none"
    assert config_on(TEXTS, convolution=0).model.positions.kind == "sinusoidal"
    assert config_on(TEXTS, convolution=np.array([3, 4])).model.input_convolution == (3, 4)
    run = config_on(TEXTS, dropout=0.25, head_dropout=0.75, epochs=np.int64(1), d_model=np.int32(8))
    assert (run.model.dropout.residual, run.classifier.dropout) == (0.25, 0.75)
    assert (run.training.max_epochs, run.model.d_model) == (1, 8)


def test_the_number_of_texts_that_are_held_out_decides_what_is_kept_and_by_what() -> None:
    few, many = (config_on(["a b"] * 4000, validation_share=share) for share in (0.24, 0.26))
    assert (few.training.keep, many.training.keep) == ("average", "auto")
    assert (few.measure, many.measure) == ("loss", "accuracy")


def test_only_an_argument_gives_classes_weights() -> None:
    texts = [f"a b {n}" for n in range(4000)]
    labels = ["rare" if n % 40 == 0 else "usual" for n in range(4000)]
    for given, weights, measure in (
        (None, "none", "accuracy"),
        ("balanced", "balanced", "macro_f1"),
    ):
        model = TextClassifier(class_weight=given, validation_share=0.5)
        targets = read_targets(labels, 4000, "texts", "TextClassifier")
        examples = model._examples(Inputs(texts), targets, np.ones(4000))
        config = model._run(examples, False, "folder")
        assert (config.classifier.class_weights, config.measure) == (weights, measure)


def test_pieces_are_learned_from_too() -> None:
    model = small(words=False, vocabulary=400).fit(TEXTS, LABELS)
    assert model.score(UNSEEN, RIGHT) > 0.8


def test_it_works_at_the_end_of_a_pipeline() -> None:
    def without_noise(texts: list[str]) -> list[str]:
        return [text.lower().replace("!", " ") for text in texts]

    noisy = Pipeline([("clean", FunctionTransformer(without_noise)), ("classify", small())])
    assert is_classifier(noisy)
    noisy.set_params(classify__epochs=SMALL["epochs"])
    noisy.fit([text.upper().replace(" ", "!") for text in TEXTS], LABELS)
    shouted = [text.upper().replace(" ", "!!") for text in UNSEEN]
    assert noisy.score(shouted, RIGHT) > 0.9
    assert noisy.classes_.tolist() == ["cold", "warm"]
    probabilities = noisy.predict_proba(shouted)
    np.testing.assert_array_equal(
        noisy.predict(shouted), noisy.classes_[probabilities.argmax(axis=1)]
    )
    assert "TextClassifier" in repr(noisy)


def test_a_pipeline_passes_the_weights_of_its_score_on(fitted: TextClassifier) -> None:
    pipeline = Pipeline([("classify", fitted)])
    assert pipeline.score(UNSEEN, RIGHT) == fitted.score(UNSEEN, RIGHT)
    weights = np.arange(len(UNSEEN), dtype=float)
    weighted = pipeline.score(UNSEEN, RIGHT, sample_weight=weights)
    assert weighted == fitted.score(UNSEEN, RIGHT, sample_weight=weights)


@pytest.mark.slow
def test_a_grid_of_numpys_numbers_is_searched() -> None:
    search = GridSearchCV(small(ngrams=0), {"learning_rate": np.array([1e-9, 2e-2])}, cv=2)
    search.fit(TEXTS, LABELS)
    assert search.best_params_ == {"learning_rate": 2e-2}
    assert cast(float, search.score(UNSEEN, RIGHT)) > 0.9
    assert isinstance(search.best_estimator_, TextClassifier)


def test_scikit_learns_scores_are_those_of_the_probabilities(fitted: TextClassifier) -> None:
    right = (np.array(RIGHT)[:, None] == fitted.classes_).argmax(axis=1)
    probabilities = fitted.predict_proba(UNSEEN)[np.arange(len(right)), right]
    found = get_scorer("neg_log_loss")(fitted, UNSEEN, RIGHT)
    assert found == pytest.approx(np.log(probabilities).mean(), abs=1e-6)
    assert get_scorer("accuracy")(fitted, UNSEEN, RIGHT) == fitted.score(UNSEEN, RIGHT)


@pytest.mark.slow
def test_it_learns_where_scikit_learn_is_not_installed() -> None:
    script = (
        "import sys; sys.modules['sklearn'] = None; import clearhead\n"
        f"model = clearhead.TextClassifier(**{SMALL | {'epochs': 1}!r})\n"
        "assert model.set_params(random_state=2).get_params()['random_state'] == 2\n"
        f"model.fit({TEXTS!r}, {LABELS!r})\n"
        f"print(*model.predict({UNSEEN!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= set(LABELS)
    assert len(done.stdout.split()) == len(UNSEEN)


@pytest.mark.slow
def test_texts_of_another_style_are_normalised_on_demand() -> None:
    pytest.importorskip("sacremoses")
    prepared = [f"this text , like the others , says {text} ." for text in TEXTS]
    classifier = small(epochs=2, words=False, vocabulary=None).fit(prepared, LABELS)
    plain = [f"This text, like the others, says {text}." for text in UNSEEN]
    expected = [f"this text , like the others , says {text} ." for text in UNSEEN]
    with pytest.warns(UserWarning, match="normalise=True"):
        differing = classifier.predict_proba(plain)
    wanted = classifier.predict_proba(expected)
    found = classifier.predict_proba(plain, normalise=True)
    np.testing.assert_array_equal(found, wanted)
    labels = classifier.predict(plain, normalise=True)
    np.testing.assert_array_equal(labels, classifier.classes_[wanted.argmax(axis=1)])
    right = np.mean(labels == np.array(RIGHT))
    assert classifier.score(plain, RIGHT, normalise=True) == pytest.approx(right)
    assert (differing != wanted).any()
