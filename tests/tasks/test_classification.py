"""Classification from files to labels: learning, resuming, using, and what is rejected."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import clearhead
from clearhead import api
from clearhead.api.start import starting_point
from clearhead.data.inputs import FeatureInputs, TextInputs
from clearhead.data.normaliser import Normaliser
from clearhead.data.preparation import LabelledData
from clearhead.data.reading.labelled import Labelled, read_labelled_texts
from clearhead.data.reading.parts import parts_of
from clearhead.decoding import torch_engine
from clearhead.decoding.engine import in_batches
from clearhead.errors import ConfigError, DataError, ModelFolderError
from clearhead.evaluation.calibration import negative_log_likelihood, probabilities
from clearhead.folder.tensors import read_tensors
from clearhead.losses.cross_entropy import label_divergence, label_loss
from clearhead.model.linear import LinearClassifier
from clearhead.settings import RunConfig
from clearhead.tasks.classification import LARGEST_WEIGHT, ClassificationTask, LabelledBatch
from clearhead.tokenizer import WordTokenizer
from clearhead.training.events import Note, Validated
from small_runs import (
    Watcher,
    assert_same,
    feature_run,
    final_state,
    prepared,
    small_run,
    spelled_run,
    text_run,
)

BOTH = {"red": '"warm"', "blue": '"cold"', "red blue": '"cold", "warm"', "grey": ""}


def ngram_run(folder: Path, name: str = "run", **sections: Any) -> RunConfig:
    """A run of a classifier with a linear model of n-grams."""
    config = spelled_run(folder, name, **sections)
    return dataclasses.replace(config, classifier=dataclasses.replace(config.classifier, ngrams=50))


def task_of(config: RunConfig, folder: Path) -> ClassificationTask:
    return cast(ClassificationTask, prepared(config, folder / "corpus").task)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> api.Classifier:
    enough, steps = {"validation_share": 0.15}, {"max_steps": 150}  # to fit a temperature
    config = text_run(tmp_path_factory.mktemp("texts"), data=enough, training=steps)
    api.train(config)
    return api.load_classifier(config.folder, device="cpu")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> api.Classifier:
    config = feature_run(tmp_path_factory.mktemp("features"))
    api.train(config)
    return api.load_classifier(config.folder, device="cpu")


@pytest.mark.slow
def test_a_classifier_learns_the_labels_of_texts(texts: api.Classifier) -> None:
    assert texts.labels == ("cold", "warm")
    unseen = ["f red a", "b b green", "orange c d e a", "e blue"]
    assert [str(found[0]) for found in texts.classify(unseen)] == ["warm", "cold", "warm", "cold"]


@pytest.mark.slow
def test_a_classifier_learns_the_labels_of_features(features: api.Classifier) -> None:
    rng = np.random.default_rng(9)
    sequences = [rng.normal(size=(n, 3)).astype("f4") for n in (3, 5, 8)]
    for label, sequence in enumerate(sequences):
        sequence[:, label] += 3.0
    found = [str(labels[0]) for labels in features.classify(sequences)]
    assert found == ["first", "second", "third"]


@pytest.mark.slow
def test_probabilities_are_those_of_the_logits_divided_by_the_temperature_that_was_fitted(
    texts: api.Classifier, several: api.Classifier
) -> None:
    inputs = ["red a", "blue", "a b c"]
    for model in (texts, several):
        kept = json.loads((model.folder.path / "scores.json").read_text("utf-8"))["scores"]
        assert abs(kept["temperature"] - 1) > 0.01
        odds = np.exp(model.logits(inputs) / kept["temperature"])
        share = odds / (1 + odds) if model is several else odds / odds.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.probabilities(inputs), share, rtol=1e-9)


def test_neighbours_and_batches_do_not_matter(texts: api.Classifier) -> None:
    inputs = ["red", "blue a b c d e", "a", "green b c"]
    together = texts.logits(inputs)
    alone = np.concatenate([texts.logits([one]) for one in inputs])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(texts.logits(inputs, batch_size=2), together, atol=1e-5)


def test_an_empty_text_has_no_label_and_a_long_one_is_cut_with_a_warning(
    texts: api.Classifier,
) -> None:
    assert texts.classify(["", "  ", "red"])[:2] == [[], []]
    with pytest.warns(UserWarning, match=r"input 12 has \d+ tokens and was cut to 20"):
        texts.classify(["red", "a b c d e f " * 10], offset=10)
    for ask in (texts.classify, texts.probabilities, texts.logits):
        with pytest.raises(TypeError, match="single string"):
            ask("red")


def test_a_warning_of_a_cut_text_names_the_line_of_the_caller(
    texts: api.Classifier, features: api.Classifier
) -> None:
    long = {"tokens": "a b c d e f " * 10, "frames": np.zeros((30, 3), dtype=np.float32)}
    for model, (unit, content) in zip((texts, features), long.items(), strict=True):
        for ask in (model.classify, model.probabilities, model.logits):
            with pytest.warns(UserWarning, match=f"input 1 has .* {unit} and was cut") as caught:
                ask([content])
            assert {warning.filename for warning in caught} == {__file__}
        with pytest.warns(UserWarning, match=f"the input has .* {unit} and was cut") as caught:
            found = clearhead.record(model, content)
        assert {warning.filename for warning in caught} == {__file__}
        assert len(found.source) == 20


@pytest.mark.parametrize("wrong", [5, None, b"cat", ["red"], np.array([1.0])])
def test_what_is_no_text_is_rejected_with_its_place(texts: api.Classifier, wrong: Any) -> None:
    with pytest.raises(DataError, match=f"is an? {type(wrong).__name__}, not a text") as caught:
        texts.classify(["red", wrong])
    assert caught.value.where == "input 2"


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_numbers_of_inputs_and_labels_are_whole(texts: api.Classifier, wrong: Any) -> None:
    for ask in (texts.classify, texts.probabilities, texts.logits):
        with pytest.raises(DataError, match=f"batch_size = {wrong!r} is not a number of inputs"):
            ask(["red"], batch_size=wrong)
    with pytest.raises(DataError, match=f"top = {wrong!r} is not a number of labels"):
        texts.classify(["red"], top=wrong)


def test_a_line_break_is_read_as_the_space_that_training_made_of_it(
    texts: api.Classifier, tmp_path: Path
) -> None:
    text = "a red\r\nb\nc"
    path = tmp_path / "breaks.csv"
    path.write_text(f'text,label\n"{text}",warm\n', encoding="utf-8", newline="")
    [trained_on] = read_labelled_texts(str(path))
    assert trained_on.input == "a red b c"

    class Seen(WordTokenizer):
        def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
            seen.extend(texts)
            return super().encode_batch(texts)

    seen: list[str] = []
    TextInputs(Seen(["a"]), 20, start=False).rows([Labelled(text, (), "input 1"), trained_on])
    assert seen == [trained_on.input] * 2
    np.testing.assert_array_equal(texts.logits([text]), texts.logits([trained_on.input]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [text_run, spelled_run, feature_run, ngram_run])
def test_an_interrupted_run_ends_with_the_same_bits_as_an_uninterrupted_one(
    tmp_path: Path, kind: Any
) -> None:
    noise = {"r_drop": 1.0, "word_dropout": 0.1, "accumulate": 2, "max_steps": 12}
    settings = {"training": {**noise, "validate_every": 4}}
    through = kind(tmp_path, "through", **settings)
    api.train(through)
    stopped = kind(tmp_path, "stopped", **settings)
    assert not api.train(stopped, observers=[Watcher(interrupt_at=4)]).finished
    assert api.train(stopped).finished
    assert_same(final_state(stopped), final_state(through))


@pytest.mark.slow
def test_a_classifier_whose_encoder_learns_nothing_uses_the_n_grams(tmp_path: Path) -> None:
    enough = {"validation_share": 0.3}
    still = {"max_steps": 2, "validate_every": 1, "schedule": {"peak": 1e-9}}
    config = ngram_run(tmp_path, data=enough, training=still)
    watcher = Watcher()
    api.train(config, observers=[watcher])
    classifier = api.load_classifier(config.folder, device="cpu")
    linear = classifier.model.linear
    assert linear is not None
    assert linear.factors[1] > 1
    data = task_of(config, tmp_path).data
    inputs = [example.input for example in data.validation]
    found = classifier.evaluate(inputs, [example.labels[0] for example in data.validation])
    assert found.scores["accuracy"] > 90
    last = watcher.of(Validated)[-1]
    assert found.scores["accuracy"] == last.scores["accuracy"]
    assert found.scores["macro_f1"] == pytest.approx(last.scores["macro_f1"])


@pytest.mark.slow
def test_the_n_grams_of_a_model_to_start_from_are_those_of_the_new_texts(tmp_path: Path) -> None:
    steps = {"max_steps": 2, "validate_every": 2}
    first = ngram_run(tmp_path, "first", training=steps)
    api.train(first, observers=())
    (file,) = first.data.train
    lines = Path(file).read_text("utf-8").splitlines(keepends=True)
    fewer = tmp_path / "fewer.tsv"
    fewer.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")

    def ngrams_after(name: str, train: str) -> LinearClassifier:
        run = ngram_run(tmp_path, name, training=steps, data={"train": [train]})
        api.train(dataclasses.replace(run, start_from=str(first.folder)), observers=())
        found = api.load_classifier(run.folder, device="cpu").model.linear
        assert found is not None
        return found

    same, other = ngrams_after("same", file), ngrams_after("other", str(fewer))
    before = api.load_classifier(first.folder, device="cpu").model.linear
    assert before is not None
    torch.testing.assert_close(same.weight, before.weight)
    assert not torch.allclose(other.weight, before.weight)


@pytest.mark.slow
def test_the_n_grams_that_are_scored_have_not_learned_from_the_validation_texts(
    tmp_path: Path,
) -> None:
    # The labels are chance, so that only who has seen a text knows its label.
    rng = np.random.default_rng(1)
    rows = [
        f"{' '.join(f'w{word}' for word in rng.integers(0, 40, 8))}\t{label}"
        for label in rng.permutation(["a", "b"] * 60)
    ]
    data = tmp_path / "chance.tsv"
    data.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    still = {"max_steps": 2, "validate_every": 2, "schedule": {"peak": 1e-9}}
    of_data = {"train": [str(data)], "validation_share": 0.4}
    config = ngram_run(tmp_path, training=still, data=of_data)
    many = dataclasses.replace(config.classifier, ngrams=1000)
    config = dataclasses.replace(config, classifier=many)
    watcher = Watcher()
    api.train(config, observers=[watcher])
    assert watcher.of(Validated)[-1].scores["accuracy"] < 70
    classifier = api.load_classifier(config.folder, device="cpu")
    texts, labels = zip(*(row.split("\t") for row in rows), strict=True)
    assert classifier.evaluate(texts, labels).scores["accuracy"] > 80


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> api.Classifier:
    """A classifier of texts that have the labels of all their colours, or none."""
    folder = tmp_path_factory.mktemp("several")
    lines = [
        f'{{"text": "{number} {colours}", "labels": [{labels}]}}'
        for number in range(60)
        for colours, labels in BOTH.items()
    ]
    data = folder / "several.jsonl"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = text_run(
        folder,
        data={"train": [str(data)]},
        classifier={"multi_label": True},
        training={"max_steps": 150},
    )
    api.train(config)
    return api.load_classifier(config.folder, device="cpu")


def test_examples_may_have_several_labels_or_none(several: api.Classifier) -> None:
    inputs = ["7 red blue", "8 blue", "9 grey", ""]
    found = [sorted(map(str, labels)) for labels in several.classify(inputs)]
    assert found == [["cold", "warm"], ["cold"], [], []]
    # A number sets the length, so that a text without a label differs from no text.
    for top in (1, 2):
        asked = several.classify(inputs, top=top)
        assert [len(labels) for labels in asked] == [top, top, top, 0]
        for row, labels in zip(several.probabilities(inputs), asked[:3], strict=False):
            assert [one.probability for one in labels] == sorted(row, reverse=True)[:top]


def test_class_weights_give_every_class_the_same_weight_in_all(tmp_path: Path) -> None:
    config = text_run(tmp_path, classifier={"class_weights": "balanced"})
    task = prepared(config, tmp_path).task
    assert isinstance(task, ClassificationTask)
    each = task.truth.astype(float) @ task._weights.numpy().astype(float)
    per_class = [each[task.truth[:, label]].sum() for label in range(task.truth.shape[1])]
    np.testing.assert_allclose(per_class, len(each) / len(per_class), rtol=1e-5)


def test_where_there_may_be_several_labels_having_one_weighs_as_much_as_not_having_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "several.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(400):
            labels = ["all", *(["half"] if number % 2 else []), *(["two"] if number < 2 else [])]
            file.write(json.dumps({"text": f"{number} red", "labels": labels}) + "\n")
    several = {"class_weights": "balanced", "multi_label": True}
    config = text_run(tmp_path, data={"train": [str(path)]}, classifier=several)
    task = prepared(config, tmp_path).task
    assert isinstance(task, ClassificationTask)
    having = dict(zip(task.data.labels.names, task.truth.sum(axis=0).tolist(), strict=True))
    weight = dict(zip(task.data.labels.names, task._weights.tolist(), strict=True))
    of = len(task.truth)
    assert weight["half"] * having["half"] == pytest.approx(of - having["half"])
    # The others would weigh 0, so that nothing was learned of them, and more than a batch.
    assert having["all"] == of
    assert having["two"] * LARGEST_WEIGHT < of - having["two"]
    assert weight["all"] == pytest.approx(1 / LARGEST_WEIGHT)
    assert weight["two"] == LARGEST_WEIGHT


@pytest.mark.parametrize("several", [False, True])
def test_the_loss_that_is_shown_is_that_of_the_validation_whatever_classes_weigh(
    tmp_path: Path, several: bool
) -> None:
    path = tmp_path / "uneven.tsv"
    rows = (f"{'rare' if number % 5 == 0 else 'common'}\t{number} red\n" for number in range(80))
    path.write_text("".join(rows), encoding="utf-8")
    config = text_run(
        tmp_path,
        data={"train": [str(path)]},
        classifier={"class_weights": "balanced", "multi_label": several},
        training={"label_smoothing": 0.2},
    )
    task = prepared(config, tmp_path).task
    assert isinstance(task, ClassificationTask)
    truth, logits = task.truth[:20], torch.randn(20, 2, generator=torch.Generator().manual_seed(6))
    batch = LabelledBatch(torch.full((20, 2), 5), torch.from_numpy(truth).float(), torch.ones(20))
    loss = task.loss(FixedLogits(logits), batch)
    expected = negative_log_likelihood(probabilities(logits.numpy(), 1.0, several), truth, several)
    assert float(loss.plain) / loss.units == pytest.approx(expected, rel=1e-5)
    assert float(loss.total) / loss.units != pytest.approx(expected, rel=1e-2)


@given(st.integers(2, 5), st.floats(0, 0.9), st.integers(1, 6))
def test_the_loss_is_pytorchs_own(labels: int, smoothing: float, rows: int) -> None:
    torch.manual_seed(labels)
    logits = torch.randn(rows, labels, dtype=torch.float64)
    ids = torch.randint(labels, (rows,))
    weights = torch.rand(labels, dtype=torch.float64)
    truth = F.one_hot(ids, labels).double()
    found = label_loss(logits, truth, torch.ones_like(weights), smoothing, multi_label=False).sum()
    expected = F.cross_entropy(logits, ids, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found, expected)
    found = label_loss(logits, truth, weights, 0.0, multi_label=False).sum()
    expected = F.cross_entropy(logits, ids, weight=weights, reduction="sum")
    torch.testing.assert_close(found, expected)


@given(st.integers(1, 4), st.integers(1, 6))
def test_the_loss_of_several_labels_is_pytorchs_own_without_smoothing(
    labels: int, rows: int
) -> None:
    torch.manual_seed(labels)
    logits = torch.randn(rows, labels, dtype=torch.float64)
    truth = torch.randint(2, (rows, labels)).double()
    weights = 100 * torch.rand(labels, dtype=torch.float64)
    found = label_loss(logits, truth, weights, 0.0, multi_label=True).sum()
    expected = F.binary_cross_entropy_with_logits(
        logits, truth, pos_weight=weights, reduction="sum"
    )
    torch.testing.assert_close(found, expected)


@given(st.floats(0.01, 0.9), st.integers(1, 6), st.booleans())
def test_smoothing_draws_to_the_same_answer_whatever_a_label_weighs(
    smoothing: float, rows: int, several: bool
) -> None:
    # Else what is rare, and weighs much, would be the best guess for every example.
    torch.manual_seed(rows)
    ids = torch.randint(3, (rows,))
    truth = F.one_hot(ids, 3).double()
    soft = truth * (1 - smoothing) + smoothing / (2 if several else 3)
    logits = (soft.logit() if several else soft.log()).requires_grad_()
    weights = torch.tensor([0.01, 1.0, 100.0], dtype=torch.float64)
    label_loss(logits, truth, weights, smoothing, several).sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-10, rtol=0)


def test_the_divergence_is_half_of_both_directions() -> None:
    torch.manual_seed(1)
    logits = torch.randn(6, 4, dtype=torch.float64)
    p, q = logits[:3].softmax(-1), logits[3:].softmax(-1)
    both = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    torch.testing.assert_close(label_divergence(logits, multi_label=False).sum(), both / 2)


def test_the_divergence_of_several_labels_is_that_of_each_yes_and_no() -> None:
    torch.manual_seed(2)
    logits = 3 * torch.randn(6, 4, dtype=torch.float64)
    both = 0.0
    for a, b in zip(logits[:3].flatten().tolist(), logits[3:].flatten().tolist(), strict=True):
        p, q = 1 / (1 + math.exp(-a)), 1 / (1 + math.exp(-b))
        both += p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        both += q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    assert float(label_divergence(logits, multi_label=True).sum()) == pytest.approx(both / 2)


class FixedLogits(nn.Module):
    """A model that returns given logits."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.output = nn.Linear(1, 1)
        self.logits = logits

    def forward(self, inputs: Tensor) -> Tensor:
        assert len(inputs) in (len(self.logits), len(self.logits) // 2)
        return self.logits[: len(inputs)]


@pytest.mark.parametrize("several", [False, True])
def test_r_drop_adds_the_divergence_of_two_passes_to_their_mean_loss(
    tmp_path: Path, several: bool
) -> None:
    def loss_with(r_drop: float, logits: Tensor) -> float:
        settings = {"training": {"r_drop": r_drop}, "classifier": {"multi_label": several}}
        task = prepared(text_run(tmp_path, **settings), tmp_path).task
        truth = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        batch = LabelledBatch(torch.full((3, 2), 5), truth, torch.ones(3))
        loss = task.loss(FixedLogits(logits), batch)
        assert loss.units == 3
        return float(loss.total)

    torch.manual_seed(4)
    logits = torch.randn(6, 2)
    plain = (loss_with(0.0, logits[:3]) + loss_with(0.0, logits[3:])) / 2
    apart = float(label_divergence(logits, several).sum())
    assert apart > 0.1
    assert loss_with(3.0, logits) - plain == pytest.approx(3.0 * apart / 2, rel=1e-5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_weight_of_an_example_is_how_often_it_counts(
    tmp_path: Path, several: bool, r_drop: float
) -> None:
    settings = {
        "training": {"r_drop": r_drop, "label_smoothing": 0.2},
        "classifier": {"multi_label": several, "class_weights": "balanced"},
    }
    task = prepared(text_run(tmp_path, **settings), tmp_path).task
    truth = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    torch.manual_seed(5)
    first, second = torch.randn(3, 2), torch.randn(3, 2)

    def loss(rows: list[int], weights: list[float]) -> float:
        logits = torch.cat((first[rows], second[rows]) if r_drop else (first[rows],))
        inputs = torch.full((len(rows), 2), 5)
        batch = LabelledBatch(inputs, truth[rows], torch.tensor(weights))
        return float(task.loss(FixedLogits(logits), batch).total)

    weighted = loss([0, 1, 2], [1.0, 2.0, 0.0])
    assert weighted == pytest.approx(loss([0, 1, 1], [1.0] * 3), rel=1e-5)
    assert weighted == pytest.approx(loss([0, 1], [1.0, 2.0]), rel=1e-5)
    assert weighted != pytest.approx(loss([0, 1, 2], [1.0] * 3), rel=1e-3)


def test_weights_of_examples_have_the_mean_one_and_reach_their_batches(tmp_path: Path) -> None:
    config = text_run(tmp_path)
    rows = [(f"{n} red", "warm", n % 4) if n % 2 else (f"{n} blue", "cold") for n in range(40)]
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, train=()))
    parts = parts_of(config, rows, [("red", "warm"), ("blue", "cold")])
    task = prepared(config, tmp_path, parts).task
    assert isinstance(task, ClassificationTask)
    mean = np.mean([row[2] if len(row) == 3 else 1 for row in rows])
    batches = list(task.batches(0, 0))
    assert sum(float(batch.weights.sum()) for batch in batches) == pytest.approx(len(rows))
    for batch in batches:
        for weight, warm in zip(batch.weights, batch.truth[:, 1], strict=True):
            expected = (1 / mean, 3 / mean) if warm else (1 / mean,)
            assert any(float(weight) == pytest.approx(each) for each in expected)
    nothing = parts_of(config, [(text, label, 0) for text, label, *_ in rows], [("red", "warm")])
    with pytest.raises(DataError, match="weight 0"):
        prepared(config, tmp_path, nothing)
    for wrong in (-1, math.nan, math.inf):
        with pytest.raises(DataError) as caught:
            parts_of(config, [*rows, ("red", "warm", wrong)])
        assert caught.value.where == "example 41"


@pytest.mark.slow
def test_a_classifiers_checkpoint_is_not_calibrated_and_reports_it(tmp_path: Path) -> None:
    config = text_run(tmp_path)
    api.train(config)
    path = Path(config.folder) / "training" / "checkpoints" / "best.safetensors"
    for load in (api.load, api.load_classifier):
        with pytest.warns(UserWarning, match="not calibrated") as caught:
            checkpoint = load(path)
        assert [warning.filename for warning in caught] == [__file__]
    assert isinstance(checkpoint, api.Classifier)
    assert checkpoint.temperature == 1.0
    own = api.load_classifier(config.folder).logits(["red a", "blue"])
    weights = json.loads((Path(config.folder) / "scores.json").read_text())["weights"]
    assert (checkpoint.logits(["red a", "blue"]) == own).all() == (weights == "current")


@pytest.mark.parametrize("kind", [text_run, spelled_run, feature_run])
def test_weights_out_of_all_bounds_are_worth_no_number(tmp_path: Path, kind: Any) -> None:
    ready = prepared(kind(tmp_path), tmp_path)
    model = ready.build_model()
    assert math.isfinite(ready.task.evaluate(model).scores["loss"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1e30)
    scores = ready.task.evaluate(model).scores
    assert math.isnan(scores["loss"])
    assert math.isnan(scores[ready.task.measure])


@pytest.mark.slow
def test_a_classifier_begins_with_the_encoder_and_vocabulary_of_a_translator(
    tmp_path: Path,
) -> None:
    translator = small_run(tmp_path, "translator")
    api.train(translator)
    default = RunConfig()
    own = text_run(tmp_path)
    config = dataclasses.replace(
        own, start_from=translator.folder, model=default.model, tokenizer=default.tokenizer
    )
    assert begins_with(config, translator.folder, "source_input.")
    api.train(config)
    kept = api.load_classifier(config.folder).inputs.files["tokenizer"].files("t")
    assert kept == api.load_translator(translator.folder).source_tokenizer.files("t")
    other = dataclasses.replace(config, model=dataclasses.replace(default.model, d_ff=8))
    with pytest.raises(ConfigError) as raised:
        api.train(other, restart=True)
    assert raised.value.setting == "model.d_ff"


@pytest.mark.slow
@pytest.mark.parametrize("input", ["text", "features"])
def test_a_classifier_begins_with_the_encoder_of_a_checkpoint(tmp_path: Path, input: str) -> None:
    kind = feature_run if input == "features" else text_run
    before = kind(tmp_path, "before")
    api.train(before)
    kept = json.loads(Path(before.folder, "scores.json").read_text())["weights"]
    other = "best" if kept == "average" else "average"
    checkpoint = Path(before.folder, "training", "checkpoints", f"{other}.safetensors")
    after = dataclasses.replace(kind(tmp_path, "after"), start_from=str(checkpoint))
    assert begins_with(after, before.folder, "input.", checkpoint)
    assert not begins_with(after, before.folder, "input.")
    assert api.train(after).finished
    gone = checkpoint.with_name("gone.safetensors")
    missing = dataclasses.replace(kind(tmp_path, "missing"), start_from=str(gone))
    with pytest.raises(ModelFolderError, match="there is no such checkpoint"):
        api.train(missing)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [("n_heads", 4), ("norm", "post"), ("activation", "gelu"), ("positions", {"kind": "none"})],
)
def test_settings_under_which_the_weights_mean_something_else_are_rejected(
    tmp_path: Path, name: str, value: object
) -> None:
    before = text_run(tmp_path, "before", training={"max_steps": 2})
    api.train(before)
    other = text_run(tmp_path, "other", model={name: value})
    with pytest.raises(ConfigError) as raised:
        api.train(dataclasses.replace(other, start_from=before.folder))
    assert raised.value.setting == f"model.{name}"
    assert not Path(other.folder, "config.json").exists()


def begins_with(
    config: RunConfig, folder: str, its_input: str, weights: Path | None = None
) -> bool:
    """Whether a new model of the run has the input and the encoder of the folder.

    `weights` are those of a checkpoint, in place of the folder's own.
    """
    with starting_point(config, True, print) as (complete, start):
        model = prepared(complete, Path(config.folder), start=start).build_model()
    tensors, _ = read_tensors(weights or Path(folder) / "weights.safetensors")
    own = dict(model.named_parameters())
    for part, its_part in (("encoder.", "encoder."), ("input.", its_input)):
        names = [name for name in own if name.startswith(part)]
        assert names
        for name in names:
            if not torch.equal(own[name], tensors[its_part + name.removeprefix(part)]):
                return False
    return True


def test_a_class_just_large_enough_is_not_made_too_small_by_holding_out(tmp_path: Path) -> None:
    config = text_run(tmp_path)
    with Path(config.data.train[0]).open("a", encoding="utf-8") as file:
        file.write("lukewarm\tgrey a\nlukewarm\tgrey b\n")
    task = prepared(config, tmp_path).task
    assert isinstance(task, ClassificationTask)
    assert sum(example.labels == ("lukewarm",) for example in task.data.train) == 2


def few_texts(folder: Path) -> RunConfig:
    path = folder / "four.csv"
    path.write_text("text,label\nred a,x\nred b,x\nblue a,y\nblue b,y\n", encoding="utf-8")
    return text_run(folder, data={"train": [str(path)]})


def few_sequences(folder: Path) -> RunConfig:
    x = np.random.default_rng(1).normal(size=(4, 5, 3))
    np.savez(folder / "four.npz", x=x, y=np.array(["a", "a", "b", "b"]))
    return feature_run(folder, data={"train": [str(folder / "four.npz")]})


@pytest.mark.parametrize("few", [few_texts, few_sequences])
@pytest.mark.parametrize("ask", [api.train, api.dry_run])
def test_too_few_examples_to_validate_on_are_rejected_before_training(
    tmp_path: Path, few: Any, ask: Any
) -> None:
    config = few(tmp_path)
    with pytest.raises(DataError, match="no example is left to validate on") as caught:
        ask(config)
    assert caught.value.where == config.data.train[0]
    assert "4 × 0.1 is 0 examples" in str(caught.value.why)
    assert "data.validation_share" in str(caught.value.todo)
    assert not (Path(config.folder) / "config.json").exists()


def test_classes_that_can_spare_no_example_are_the_reason_that_is_given(tmp_path: Path) -> None:
    config = few_texts(tmp_path)
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, validation_share=0.5)
    )
    with pytest.raises(DataError) as caught:
        api.train(config)
    assert "with 2 labels are 4 different inputs" in str(caught.value.why)


def test_what_is_not_trained_on_has_no_part_in_the_vocabulary(tmp_path: Path) -> None:
    held_out = "indigo red"
    (tmp_path / "test.tsv").write_text(f"warm\t{held_out}\n", encoding="utf-8")
    config = text_run(
        tmp_path,
        data={"test": [str(tmp_path / "test.tsv")]},
        tokenizer={"kind": "words", "max_vocabulary": 0, "sampling": 0.0},
    )
    with Path(config.data.train[0]).open("a", encoding="utf-8") as file:
        file.write(f"warm\t{held_out}\nwarm\tmauve red\n")
    inputs = trained_on(config).inputs
    assert isinstance(inputs, TextInputs)
    unknown = inputs.tokenizer.unk_id
    assert [unknown in inputs.tokenizer.encode(word) for word in ("indigo", "mauve", "red")] == [
        *(True, False, False)
    ]


def test_what_is_not_trained_on_has_no_part_in_the_scale(tmp_path: Path) -> None:
    config = feature_run(tmp_path, data={"max_length": 5, "validation_share": 0.3})
    data = trained_on(config)
    assert isinstance(data.inputs, FeatureInputs)
    scale = Normaliser.learn(example.input for example in data.train)
    np.testing.assert_array_equal(data.inputs.normaliser.mean, scale.mean)
    np.testing.assert_array_equal(data.inputs.normaliser.deviation, scale.deviation)


def trained_on(config: RunConfig) -> LabelledData:
    task = prepared(config, Path(config.folder)).task
    assert isinstance(task, ClassificationTask)
    return task.data


def test_each_text_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    rows = TextInputs.rows

    def counted(self: TextInputs, examples: Sequence[Labelled]) -> list[np.ndarray]:
        encoded.extend(example.place for example in examples)
        return rows(self, examples)

    monkeypatch.setattr(TextInputs, "rows", counted)
    config = text_run(tmp_path, data={"max_length": 8})
    ready = prepared(config, tmp_path)
    ready.task.evaluate(ready.build_model())
    assert len(encoded) == len(set(encoded)) == 160
    task = ready.task
    assert isinstance(task, ClassificationTask)
    assert len(task.data.train) == 160 - len(task.data.validation)
    expected = rows(cast(TextInputs, task.data.inputs), task.data.train)
    for found, row in zip(task.data.rows, expected, strict=True):
        np.testing.assert_array_equal(found, row)


def test_features_of_another_width_are_rejected(features: api.Classifier) -> None:
    with pytest.raises(DataError, match="2 features"):
        features.classify([np.zeros((4, 2), dtype=np.float32)])


@pytest.mark.parametrize(("share", "keep"), [(0.1, "auto"), (0.1, "best"), (0.15, "auto")])
def test_few_validation_examples_choose_neither_the_temperature_nor_the_weights(
    tmp_path: Path, share: float, keep: str
) -> None:
    watcher = Watcher()
    steps = {"max_steps": 40, "average_last": 1, "keep": keep}
    config = text_run(tmp_path, data={"validation_share": share}, training=steps)
    api.train(config, observers=[watcher])
    last = watcher.of(Validated)[-1]
    few = share == 0.1
    assert (last.scores["temperature"] == 1) == few
    assert (last.weights == "average") == (few and keep == "auto")
    folder = Path(config.folder)
    reports = json.loads((folder / "provenance.json").read_text("utf-8"))["reports"]
    (validation,) = (report for report in reports if report["name"] == "validation")
    assert [found["rule"] for found in validation["findings"]] == ["too_few"] * few
    notes = [event.text for event in watcher.events if isinstance(event, Note)]
    assert any("temperature stays 1" in note for note in notes) == few
    assert any("last weights are kept" in note for note in notes) == (few and keep == "auto")


def test_batches_are_chosen_by_what_is_read_of_long_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = list[int]()

    def seen(found: Sequence[int], *arguments: Any) -> list[Any]:
        lengths.extend(found)
        return in_batches(found, *arguments)

    monkeypatch.setattr(torch_engine, "in_batches", seen)
    config = text_run(tmp_path, data={"max_length": 3}, training={"max_steps": 1})
    api.train(config, observers=())
    api.load_classifier(config.folder).classify(["a b c d e f red"])
    assert lengths
    assert max(lengths) == 3
