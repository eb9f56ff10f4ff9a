"""The classifier of feature sequences: forms of its inputs, errors, scikit-learn's interface."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import clearhead
from clearhead import FeatureClassifier
from clearhead.api import load_classifier
from clearhead.api.targets import read_targets
from clearhead.errors import (
    ConfigError,
    ExportError,
    InputError,
    ModelFolderError,
    NotTrainedError,
)

SMALL: dict[str, Any] = dict(
    layers=1, d_model=32, heads=2, epochs=20, batch_tokens=128, learning_rate=5e-3
)


def small(**choices: Any) -> FeatureClassifier:
    return FeatureClassifier(**{**SMALL, **choices})


def waves(
    count: int, seed: int = 1, least: int = 20, most: int = 40
) -> tuple[list[np.ndarray], list[str]]:
    """Sequences (frames, 2) of a wave and noise, and whether the wave is slow or fast."""
    chance = np.random.default_rng(seed)
    found, labels = [], []
    for number in range(count):
        frames = chance.integers(least, most + 1)
        wave = np.sin(np.arange(frames) * (0.3, 1.2)[number % 2] + chance.uniform(0, 6))
        found.append(np.stack([wave, chance.normal(size=frames)], axis=1))
        labels.append(("slow", "fast")[number % 2])
    return found, labels


WAVES, LABELS = waves(60)
UNSEEN, RIGHT = waves(40, seed=2)
EQUAL = np.stack(waves(60, least=30, most=30)[0])


@pytest.fixture(scope="module")
def fitted() -> FeatureClassifier:
    return small().fit(WAVES, LABELS)


def test_it_learns_sequences_of_unequal_lengths(fitted: FeatureClassifier) -> None:
    assert fitted.score(UNSEEN, RIGHT) > 0.9
    assert (fitted.layout_, fitted.n_features_in_) == ("channels_last", 2)
    assert fitted.classes_.tolist() == ["fast", "slow"]
    np.testing.assert_allclose(fitted.predict_proba(UNSEEN).sum(axis=1), 1.0)


def nested(sequences: np.ndarray) -> pandas.DataFrame:
    """A table of sktime with series as cells."""
    rows = [[pandas.Series(feature) for feature in frames.T] for frames in sequences]
    return pandas.DataFrame(rows, columns=["a", "b"])


def long_table(sequences: np.ndarray) -> pandas.DataFrame:
    """A table of sktime with a row for each frame."""
    index = pandas.MultiIndex.from_product([range(len(sequences)), range(sequences.shape[1])])
    return pandas.DataFrame(sequences.reshape(-1, 2), index=index, columns=["a", "b"])


def objects(sequences: np.ndarray) -> np.ndarray:
    found = np.empty(len(sequences), dtype=object)
    found[:] = list(sequences)
    return found


@pytest.mark.parametrize(
    "form",
    [
        np.array,
        list,
        tuple,
        objects,
        nested,
        long_table,
        lambda x: x.tolist(),
        lambda x: x.transpose(0, 2, 1),
        lambda x: [frames.T for frames in x],
        lambda x: [pandas.DataFrame(frames) for frames in x],
    ],
)
def test_all_forms_of_the_same_sequences_are_the_same(form: Any, fitted: FeatureClassifier) -> None:
    given = form(EQUAL)
    model = copy.deepcopy(fitted)
    wanted = model.predict_proba(EQUAL)
    model.layout_ = small()._inputs(given, True).layout
    np.testing.assert_array_equal(model.predict_proba(given), wanted)


@pytest.mark.parametrize(
    ("given", "layout", "features"),
    [
        (WAVES, "channels_last", 2),
        ([frames.T for frames in WAVES], "channels_first", 2),
        (EQUAL, "channels_last", 2),
        (EQUAL.transpose(0, 2, 1), "channels_first", 2),
        (EQUAL[:, :, 0], "channels_last", 30),
        (pandas.DataFrame(EQUAL[:, :, 0]), "channels_last", 30),
        ([frames[:, 0] for frames in WAVES], "channels_last", 1),
        (nested(EQUAL), "channels_last", 2),
        ([frames[:, 0] for frames in EQUAL], "channels_last", 1),
    ],
)
def test_the_order_of_the_axes_is_found(given: Any, layout: str, features: int) -> None:
    read = small()._inputs(given, True)
    assert (read.layout, read.features) == (layout, features)
    first = EQUAL if len(read.values[0]) == 30 else WAVES
    np.testing.assert_array_equal(read.values[0][:, 0], first[0][:, 0].astype(np.float32))


def test_the_order_of_the_axes_can_be_named() -> None:
    square = EQUAL[:, :2]
    with pytest.raises(InputError, match="layout="):
        small().fit(square, LABELS)
    first = small(layout="channels_first")._inputs(square, True)
    np.testing.assert_array_equal(first.values[0], square[0].T.astype(np.float32))
    with pytest.raises(ConfigError) as caught:
        small(layout="frames_first").fit(EQUAL, LABELS)
    assert caught.value.where == "FeatureClassifier(layout='frames_first')"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ([np.zeros((5, 2)), np.zeros((7, 3))] * 30, "2 to 3 features"),
        ([np.zeros((2, 2))] * 59 + [np.zeros((0, 2))], "empty"),
        ([["a", "b"]] * 60, "not numbers"),
        (np.zeros((60, 3, 4, 5)), "shape"),
        (np.zeros(60), "Reshape"),
        (WAVES[:-1], "59 sequences and 60 labels"),
        ([], "0 sequences"),
        (np.zeros((0, 5)), "0 sample"),
        ([np.full((5, 2), np.inf)] * 60, "infinite"),
        ([*WAVES[:-1], np.full((5, 2), np.nan)], 'missing="interpolate"'),
    ],
)
def test_sequences_that_cannot_be_learned_from_are_refused(given: Any, key: str) -> None:
    with pytest.raises(InputError) as caught:
        small(layout="channels_last").fit(given, LABELS)
    assert key in str(caught.value)
    assert "data." not in str(caught.value)


def test_sequences_to_classify_have_the_features_of_the_training(
    fitted: FeatureClassifier,
) -> None:
    with pytest.raises(InputError, match="3 features"):
        fitted.predict([np.zeros((30, 3))])
    with pytest.raises(InputError, match="another form"):
        fitted.score(UNSEEN, np.zeros((40, 2)))
    with pytest.raises(ConfigError):
        fitted.predict(UNSEEN, normalise=True)
    with pytest.raises(TypeError):
        fitted.predict("a")
    assert fitted.predict([]).shape == (0,)
    for turned in (np.zeros((4, 2, 30)), [np.zeros((2, 30)), np.zeros((2, 31))]):
        with pytest.raises(InputError) as caught:
            fitted.predict(turned)
        assert "in fit" in str(caught.value.todo)


def test_sequences_of_one_feature_may_have_another_form_than_in_fit() -> None:
    row = EQUAL[..., 0]
    by_rows = small(epochs=1).fit(row, LABELS)
    expected = by_rows.predict_proba(row)
    for form in ([*row], row[..., None], pandas.Series([*row])):
        np.testing.assert_array_equal(by_rows.predict_proba(form), expected)
    assert by_rows.predict([row[0][:20]]).shape == (1,)
    with pytest.raises(InputError, match="25 features"):
        by_rows.predict(row[:, :25])
    by_column = small(epochs=1).fit(pandas.Series([*row]), LABELS)
    np.testing.assert_array_equal(by_column.predict_proba(row), expected)


def test_few_sequences_have_random_kernels_as_long_as_the_longest(
    fitted: FeatureClassifier,
) -> None:
    head = fitted.model_.config.classifier
    assert head.kernels > 0
    assert head.kernel_reach == max(map(len, WAVES))
    without = small(kernels=0, epochs=1).fit(WAVES, LABELS)
    assert without.model_.model.linear is None


def test_missing_values_are_filled() -> None:
    holes = [frames.copy() for frames in WAVES]
    for frames in holes:
        frames[3:5, 0] = np.nan
    model = small(missing="interpolate").fit(holes, LABELS)
    assert model.score(holes, LABELS) > 0.8


def test_frames_without_any_value_at_the_end_are_padding(fitted: FeatureClassifier) -> None:
    padded = np.full((len(UNSEEN), 50, 2), np.nan)
    for row, frames in zip(padded, UNSEEN, strict=True):
        row[: len(frames)] = frames
    np.testing.assert_allclose(
        fitted.predict_proba(padded), fitted.predict_proba(UNSEEN), atol=1e-6
    )


def test_a_table_of_rows_has_the_names_of_frames_not_of_features(tmp_path: Path) -> None:
    frames = pandas.DataFrame(EQUAL[..., 0], columns=[f"t{n}" for n in range(30)])
    model = small(epochs=1).fit(frames, LABELS)
    assert model.feature_names_in_.tolist() == [*frames]
    expected = model.predict_proba(frames)
    loaded = load_classifier(model.save(tmp_path / "rows"))
    np.testing.assert_array_equal(loaded.probabilities([*EQUAL[..., 0]]), expected)
    twice = [pandas.DataFrame(each, columns=["a", "a"]) for each in WAVES]
    assert small(epochs=1).fit(twice, LABELS).predict(twice).shape == (60,)


def test_named_features_are_read_by_name_after_a_start_from_another_order(tmp_path: Path) -> None:
    tables = [pandas.DataFrame(each, columns=["a", "b"]) for each in WAVES]
    swapped = [table[["b", "a"]] for table in tables]
    start = small().fit(tables, LABELS).save(tmp_path / "start")
    model = FeatureClassifier(start_from=start, epochs=1).fit(swapped, LABELS)
    assert model.score(swapped, LABELS) > 0.9
    report = load_classifier(start).evaluate(swapped, LABELS)
    assert report.scores["accuracy"] > 90


def test_the_given_size_of_batches_is_kept() -> None:
    long = [np.tile(each, (100, 1)) for each in WAVES]
    for given in (None, 6000):
        model = small(batch_tokens=given)
        targets = read_targets(LABELS, 60, "sequences", "FeatureClassifier")
        examples = model._examples(model._inputs(long, True), targets, np.ones(60))
        training = model._run(examples, False, "folder").training
        if given:
            assert (training.batch_tokens, training.accumulate) == (given, 1)
        else:
            assert training.accumulate > 1


def test_masked_values_are_missing() -> None:
    masked = [np.ma.masked_greater(frames, 1.5) for frames in WAVES]
    with pytest.raises(InputError, match="missing"):
        small().fit(masked, LABELS)
    holes = [frames.filled(np.nan) for frames in masked]
    one, two = (small(epochs=1, missing="mean").fit(each, LABELS) for each in (masked, holes))
    np.testing.assert_array_equal(one.predict_proba(UNSEEN), two.predict_proba(UNSEEN))


def test_it_can_be_saved_and_exported(tmp_path: Path, fitted: FeatureClassifier) -> None:
    copied = pickle.loads(pickle.dumps(fitted))
    folder = copied.save(tmp_path / "waves")
    np.testing.assert_array_equal(
        load_classifier(folder).probabilities(UNSEEN), fitted.predict_proba(UNSEEN)
    )
    assert "examples; 2 labels" in (folder / "card.md").read_text()
    with pytest.raises(ModelFolderError, match="exists"):
        copied.save(folder)
    assert clearhead.export_model(copied, output=tmp_path / "onnx").is_dir()
    request = copied.set_fit_request(groups=True).get_metadata_routing()
    assert len(pickle.dumps(request)) < 5_000  # it has no copy of the model
    with pytest.raises(ExportError, match="folder"):
        clearhead.export_model(copied)
    with pytest.raises(NotTrainedError):
        small().save(tmp_path / "other")


def test_the_names_of_features_are_those_of_the_training(tmp_path: Path) -> None:
    tables = [pandas.DataFrame(frames, columns=["a", "b"]) for frames in WAVES]
    model = small(epochs=1).fit(tables, LABELS)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    expected = model.predict_proba(tables)
    loaded = load_classifier(model.save(tmp_path / "named"))
    swapped = [table[["b", "a"]] for table in tables]
    np.testing.assert_array_equal(loaded.probabilities(swapped), expected)
    for form in (nested, long_table):
        assert form(EQUAL).columns.tolist() == ["a", "b"]
        model.predict(form(EQUAL))
        with pytest.raises(InputError, match="feature names"):
            model.predict(form(EQUAL)[["b", "a"]])
    with pytest.raises(InputError, match="feature names"):
        model.predict([table[["b", "a"]] for table in tables])
    with pytest.raises(InputError, match="columns are b, a"):
        model.predict([tables[0], tables[1][["b", "a"]]])
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(WAVES), expected)
    model.fit(WAVES, LABELS)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (None, "not a list"),
        (5, "not a list"),
        ([np.zeros((10, 2)), np.zeros((10, 3))] * 30, "not clear"),
        ([np.zeros((10, 2)), np.zeros((12, 3))] * 30, "different numbers of features"),
        (np.zeros((60, 8, 8)), "not clear"),
        (pandas.DataFrame({"a": range(60), "day": pandas.date_range("2026", periods=60)}), "'day'"),
        (pandas.DataFrame({"a": range(60), "name": ["x"] * 60}), "'name'"),
    ],
)
def test_forms_that_are_no_sequences_are_refused(given: Any, key: str) -> None:
    with pytest.raises(InputError, match=key):
        small().fit(given, LABELS)


def test_a_single_sequence_is_refused(fitted: FeatureClassifier) -> None:
    with pytest.raises(InputError) as caught:
        fitted.predict(WAVES[0])
    assert "[X]" in str(caught.value.todo)


def test_sequences_may_have_several_labels() -> None:
    found, _ = waves(60)
    loud = np.arange(60) % 3 == 0
    sequences = [frames * factor for frames, factor in zip(found, 1 + 3 * loud, strict=True)]
    matrix = np.stack([np.array(LABELS) == "fast", loud], axis=1).astype(int)
    table = pandas.DataFrame(matrix, columns=["fast", "loud"])
    model = small(epochs=40, validation_share=0.4).fit(sequences, table)
    assert model.classes_.tolist() == ["fast", "loud"]
    assert model.score(sequences, matrix) > 0.8
    predicted = model.predict(sequences)
    signs = model.decision_function(sequences) >= 0
    np.testing.assert_array_equal(signs, predicted == 1)
    by_threshold = model.predict_proba(sequences) >= model.model_.thresholds
    np.testing.assert_array_equal(by_threshold, predicted == 1)


def test_scikit_learns_metadata_routing_brings_groups_and_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[np.ndarray, Any]] = []
    examples = FeatureClassifier._examples

    def watched(self: Any, values: Any, targets: Any, weights: Any, groups: Any = None) -> Any:
        seen.append((weights, groups))
        return examples(self, values, targets, weights, groups)

    monkeypatch.setattr(FeatureClassifier, "_examples", watched)
    groups, weights = np.arange(60) // 6, np.linspace(1, 2, 60)
    with sklearn.config_context(enable_metadata_routing=True):
        model = small(epochs=1).set_fit_request(groups=True, sample_weight=True)
        model.set_score_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), clone(model))
        given = {"groups": groups, "sample_weight": weights}
        assert np.isfinite(cross_val_score(pipeline, EQUAL, LABELS, cv=2, params=given)).all()
    assert len(seen) == 2
    for fold_weights, fold_groups in seen:
        np.testing.assert_array_equal(fold_groups, groups[np.isin(weights, fold_weights)])


def test_tensors_are_arrays_unless_they_have_a_gradient(fitted: FeatureClassifier) -> None:
    tensors = [torch.tensor(frames) for frames in UNSEEN]
    np.testing.assert_array_equal(fitted.predict(tensors), fitted.predict(UNSEEN))
    with pytest.raises(InputError, match="not numbers"):
        fitted.predict([tensors[0].requires_grad_()])


def test_its_text_has_the_arguments_that_were_given() -> None:
    for default in (FeatureClassifier(), pickle.loads(pickle.dumps(FeatureClassifier()))):
        assert repr(default) == "FeatureClassifier()"
    assert repr(FeatureClassifier(epochs=3, missing="zero")) == (
        "FeatureClassifier(epochs=3, missing='zero')"
    )


def test_it_can_be_pickled(fitted: FeatureClassifier) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))


@pytest.mark.slow
def test_scikit_learn_searches_and_validates_it() -> None:
    pipeline = make_pipeline(FunctionTransformer(lambda x: 2 * x), small(epochs=1))
    search = GridSearchCV(pipeline, {"featureclassifier__kernels": [0, 200]}, cv=2)
    search.fit(EQUAL, LABELS)
    assert search.best_params_ == {"featureclassifier__kernels": 200}
    groups = [number // 6 for number in range(60)]
    scores = cross_val_score(small(), EQUAL, LABELS, groups=groups, cv=GroupKFold(2))
    assert scores.min() > 0.7
    both = cross_val_score(small(epochs=1, threads=1), EQUAL, LABELS, cv=2, n_jobs=2)
    assert both.shape == (2,)


FOUR = "there are four different rows; equal ones stay together, so none are left to validate on"
NOT_FOR_SEQUENCES = {
    "check_sample_weights_shape": FOUR,
    "check_sample_weights_not_overwritten": FOUR,
    "check_sample_weight_equivalence_on_dense_data": "other sequences make other batches",
}
"""The checks of scikit-learn that fail, each with the reason why it does not apply."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass_unless_they_do_not_apply() -> None:
    choices = dict(d_model=16, epochs=40, batch_tokens=256, learning_rate=1e-2)
    found = check_estimator(
        small(**choices, validation_share=0.3),
        expected_failed_checks=NOT_FOR_SEQUENCES,
        on_fail=None,
        on_skip=None,
    )
    failed = {check["check_name"]: check["exception"] for check in found if check["exception"]}
    skipped = {check["check_name"] for check in found if check["status"] == "skipped"}
    assert failed.keys() - skipped == NOT_FOR_SEQUENCES.keys(), failed
    assert skipped <= {"check_array_api_input"}
    assert len(found) > 60
