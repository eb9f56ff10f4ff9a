"""The linear baseline: what it learns, what leaves nothing to learn, and when there is none."""

from __future__ import annotations

import dataclasses
import importlib.abc
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_union
from sklearn.svm import LinearSVC

from clearhead.api.loading import load_classifier
from clearhead.api.training import train
from clearhead.data.labels import Labels
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.parts import read_examples
from clearhead.evaluation import baseline
from clearhead.evaluation.baseline import (
    TOKEN,
    baseline_of_run,
    baseline_on_files,
    baseline_on_validation,
    fit_baseline,
)
from clearhead.folder.model_folder import open_folder
from clearhead.settings import config_from
from clearhead.settings.declare import Runs
from clearhead.training.events import Note
from fake_translator import run
from small_runs import Watcher, feature_run, text_run, write_texts


def texts_of(count: int, seed: int = 1) -> tuple[list[str], np.ndarray]:
    """Texts of random letters, and which of a, b and c comes first, bool (count, 3)."""
    chance = random.Random(seed)
    texts = [" ".join(chance.choices("abcdefgh?", k=7)) for _ in range(count)]
    first = [min(range(3), key=lambda n: (text + "abc").index("abc"[n])) for text in texts]
    return texts, np.eye(3, dtype=bool)[first]


TEXTS = config_from({"task": "classification"})
SEVERAL = config_from({"task": "classification", "classifier": {"multi_label": True}})


def examples_of(inputs: Sequence[Any]) -> list[Labelled[Any]]:
    """Examples whose labels are not read."""
    return [Labelled(each, ("any",), f"example {n}") for n, each in enumerate(inputs, start=1)]


def test_it_is_scikit_learns_one_versus_rest_model_on_words_and_characters() -> None:
    texts, truth = texts_of(120)
    unseen = ["a ? b", "c", "", "nothing known"]
    words = TfidfVectorizer(token_pattern=TOKEN, ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    tfidf = make_union(words, characters)
    linear = LinearSVC(random_state=0).fit(tfidf.fit_transform(texts), truth.argmax(axis=1))
    odds = np.exp(-4.0 * linear.decision_function(tfidf.transform(unseen)))
    expected = 1 / (1 + odds)
    found = fit_baseline(examples_of(texts), truth, TEXTS)
    np.testing.assert_allclose(
        found.probabilities(examples_of(unseen)),
        expected / expected.sum(axis=1, keepdims=True),
        rtol=1e-3,
    )
    assert found.amount == "120 texts"


def test_it_reads_the_vectors_of_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, truth = texts_of(120)
    vectors = np.random.default_rng(1).normal(size=(120, 5)) * (1, 2, 3, 1e3, 0) + truth[:, :1]
    of_text = dict(zip(texts, vectors, strict=True))

    def encode(examples: Sequence[Labelled[Any]]) -> np.ndarray:
        return np.stack([of_text[each.input] for each in examples])

    scaled = (vectors - vectors.mean(axis=0)) / np.maximum(vectors.std(axis=0), 1e-9) / np.sqrt(5)
    linear = LinearSVC(random_state=0).fit(scaled, truth.argmax(axis=1))
    expected = 1 / (1 + np.exp(-4.0 * linear.decision_function(scaled)))
    found = fit_baseline(examples_of(texts), truth, TEXTS, encode)
    np.testing.assert_allclose(
        found.probabilities(examples_of(texts)),
        expected / expected.sum(axis=1, keepdims=True),
        rtol=1e-3,
    )
    assert found.features == "vectors of the pretrained encoder"
    monkeypatch.setattr(baseline, "MOST_VECTORS", 50 * 4)
    assert fit_baseline(examples_of(texts), truth, TEXTS, encode).amount == "50 of 120 texts"


def test_it_learns_several_labels_a_text() -> None:
    texts, _ = texts_of(300)
    truth = np.array([["a" in text, "?" in text, False] for text in texts])
    linear = fit_baseline(examples_of(texts), truth, SEVERAL)
    found = linear.probabilities(examples_of(["a b", "c ?", "d"]))
    np.testing.assert_array_equal(found >= 0.5, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize("texts", [["", " ", ""], ["a", "b", "c"]])
@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 0, 1]])
def test_where_there_is_nothing_to_learn_the_shares_of_the_labels_are_given(
    texts: list[str], labels: list[int]
) -> None:
    truth = np.eye(2, dtype=bool)[labels]
    linear = fit_baseline(examples_of(texts), truth, TEXTS)
    found = linear.probabilities(examples_of(["", "some words"]))
    if not any(map(str.strip, texts)) or len(set(labels)) == 1:
        np.testing.assert_allclose(found, [truth.mean(axis=0)] * 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_of_many_texts_a_sample_is_used_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, truth = texts_of(400)
    length, examples = len(texts[0]), examples_of(texts)
    monkeypatch.setattr(baseline, "MOST_WORK", {Runs.TEXTS: 100 * length * (3 + 1)})
    found = fit_baseline(examples, truth, TEXTS)
    assert (found.fitted_on, found.amount) == (100, "100 of 400 texts")
    again = fit_baseline(examples, truth, TEXTS)
    np.testing.assert_array_equal(found.probabilities(examples), again.probabilities(examples))
    # One text is always used, and a class may be missing.
    monkeypatch.setattr(baseline, "MOST_WORK", {Runs.TEXTS: 0})
    alone = fit_baseline(examples, truth, TEXTS).probabilities(examples)
    assert set(alone.ravel()) == {0.0, 1.0}


@pytest.mark.slow
def test_training_ends_with_the_scores_of_both(tmp_path: Path) -> None:
    config, watcher = text_run(tmp_path), Watcher()
    ended = train(config, observers=[watcher])
    note = watcher.events[-1]
    assert isinstance(note, Note)
    assert note.text.startswith("linear baseline (TF-IDF of words and characters): accuracy ")
    assert f"this model: accuracy {ended.scores['accuracy']:.2f}" in note.text
    # Before training, the score is the same.
    assert note.text.startswith(baseline_on_files(config) or "nothing")


@pytest.mark.slow
def test_a_run_that_starts_from_an_encoder_has_scores_of_its_vectors_first(tmp_path: Path) -> None:
    first = text_run(tmp_path)
    train(first, observers=())
    watcher = Watcher()
    training = dataclasses.replace(first.training, max_steps=2)
    folder = {"folder": str(tmp_path / "second"), "start_from": first.folder}
    train(dataclasses.replace(first, training=training, **folder), observers=[watcher])
    lines = [each.text for each in watcher.events if isinstance(each, Note)]
    found = [line for line in lines if line.startswith("linear baseline")]
    assert [line.split(")")[0] for line in found] == [
        "linear baseline (vectors of the pretrained encoder",
        "linear baseline (TF-IDF of words and characters",
    ]
    # The encoder has learned the same labels.
    assert float(found[0].split("accuracy ")[1].split()[0]) > 80


@pytest.mark.parametrize(
    ("accuracy", "start_from", "advised"), [(0, "", True), (100, "", False), (0, "runs/x", False)]
)
def test_a_model_behind_the_baseline_is_advised_to_start_from_another(
    accuracy: float, start_from: str, advised: bool
) -> None:
    config = config_from({"task": "classification", "start_from": start_from})
    texts = [Labelled(f"{name} {i}", (name,), str(i)) for i in range(20) for name in ("a", "b")]
    labels = Labels.learn(text.labels for text in texts)
    scores = {"accuracy": accuracy, config.measure: accuracy}
    line = baseline_on_validation(texts, texts, labels, config, scores)
    assert ("start_from" in line) == advised


@pytest.mark.slow
def test_an_unwatched_run_has_no_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "fit_baseline", None)
    assert train(text_run(tmp_path), observers=()).finished


@pytest.mark.slow
def test_one_of_sequences_reads_what_random_kernels_find(tmp_path: Path) -> None:
    config, watcher = feature_run(tmp_path), Watcher()
    before = torch.get_rng_state()
    line = baseline_on_files(config)
    assert torch.equal(torch.get_rng_state(), before)
    train(config, observers=[watcher])
    note = watcher.events[-1]
    assert isinstance(note, Note)
    assert note.text.startswith(line or "nothing")
    assert "2,000 random kernels" in note.text
    folder = Path(config.folder)
    labels = Labels.of(open_folder(folder))
    linear = baseline_of_run(folder, config, labels)
    assert linear is not None
    assert linear.amount.endswith(" sequences")
    examples = read_examples(config.data.train[0], config)
    given = linear.probabilities(examples)
    np.testing.assert_allclose(given.sum(axis=1), 1)
    right = [labels.names[n] == e.labels[0] for n, e in zip(given.argmax(1), examples, strict=True)]
    assert np.mean(right) > 0.9


def test_it_is_fitted_anew_on_the_files_of_a_run(tmp_path: Path) -> None:
    config = text_run(tmp_path, training={"max_steps": 2, "validate_every": 2})
    train(config, observers=())
    folder = Path(config.folder)
    labels = Labels.of(open_folder(folder))
    found = baseline_of_run(folder, config, labels)
    assert found is not None
    warm = list(labels.names).index("warm")
    assert found.probabilities(examples_of(["a red b"]))[0, warm] > 0.5
    formed = replace(config, tokenizer=replace(config.tokenizer, normal_form="sources"))
    found = baseline_of_run(folder, formed, labels)
    assert found is not None  # it reads texts in the form of those that it was fitted on
    seen, unseen = found.probabilities(examples_of(["a red b", "a re\u200bd\xa0b"]))
    np.testing.assert_array_equal(seen, unseen)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_it_is_left_out_with_the_reason_if_a_file_of_the_run_is_missing_or_has_changed(
    tmp_path: Path, part: str
) -> None:
    files = {name: tmp_path / f"{name}.tsv" for name in ("train", "validation", "test")}
    rows = write_texts(tmp_path).read_text().splitlines(keepends=True)
    for file, some in zip(files.values(), (rows[40:], rows[:20], rows[20:40]), strict=True):
        file.write_text("".join(some))
    config = text_run(
        tmp_path,
        data={name: [str(file)] for name, file in files.items()},
        training={"max_steps": 2, "validate_every": 2},
    )
    train(config, observers=())
    words = ("evaluate", config.folder, "--data", str(tmp_path / "more.tsv"))
    (tmp_path / "more.tsv").write_text("".join(rows[:30]))
    _, out, err = run(*words)
    assert "linear baseline" in out
    assert "linear baseline" not in err
    files[part].write_text(files[part].read_text() + rows[50])
    for _ in ("changed", "missing"):
        code, out, err = run(*words)
        assert code == 0
        assert "linear baseline" not in out
        assert err.count("no linear baseline") == 1
        assert f"{part}.tsv" in err
        files[part].unlink(missing_ok=True)


def test_without_scikit_learn_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "find_spec", lambda name: None)
    config, watcher = text_run(tmp_path, training={"max_steps": 2, "validate_every": 2}), Watcher()
    assert train(config, observers=[watcher]).finished
    assert not any("baseline" in e.text for e in watcher.events if isinstance(e, Note))
    assert baseline_on_files(config) is None
    labels = Labels.of(open_folder(config.folder))
    assert baseline_of_run(Path(config.folder), config, labels) is None


@pytest.mark.slow
@pytest.mark.parametrize("failure", [ImportError("no numpy.core"), RuntimeError("damaged\nfile")])
def test_a_damaged_scikit_learn_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    class Damaged(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> None:
            if fullname.startswith("sklearn.feature_extraction"):
                raise failure

    for name in [name for name in sys.modules if name.startswith("sklearn.feature_extraction")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Damaged(), *sys.meta_path])
    config, watcher = text_run(tmp_path, training={"max_steps": 2, "validate_every": 2}), Watcher()
    assert train(config, observers=[watcher]).finished
    notes = [e.text for e in watcher.events if isinstance(e, Note) and "baseline" in e.text]
    assert len(notes) == 1
    (data,) = config.data.train
    name = str(tmp_path / "proposed")
    commands = (
        ("init", name, "--task", "classification", "--train", data),
        ("evaluate", config.folder, "--data", data),
    )
    for command in commands:
        code, _, err = run(*command)
        assert code == 0
        assert len([line for line in err.splitlines() if "no linear baseline" in line]) == 1
        assert "Traceback" not in err
    assert Path(f"{name}.toml").exists()


def test_the_commands_put_it_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path).rename("all.tsv")
    lines = Path("all.tsv").read_text().splitlines(keepends=True)
    Path("train.tsv").write_text("".join(lines[:100]))
    Path("test.tsv").write_text("".join(lines[100:]))
    words = ("init", "run", "--task", "classification", "--train", "train.tsv")
    code, _, err = run(*words)
    assert code == 0
    assert any(
        line.startswith("clearhead: linear baseline (TF-IDF of words and characters): loss ")
        for line in err.splitlines()
    )
    config = text_run(tmp_path, training={"max_steps": 2, "validate_every": 2})
    config = replace(config, data=replace(config.data, train=("train.tsv",)))
    train(config, observers=())

    code, out, _ = run("evaluate", config.folder, "--data", "test.tsv", "--json")
    found = json.loads(out)["systems"][config.folder]["linear_baseline"]
    assert code == 0
    rows = [line.rstrip("\n").split("\t") for line in lines[100:]]
    labels = Labels.of(open_folder(config.folder))
    linear = baseline_of_run(Path(config.folder), config, labels)
    assert linear is not None
    given = linear.probabilities(examples_of([text for _, text in rows])).argmax(axis=1)
    right = np.array([labels.names[n] == label for n, (label, _) in zip(given, rows, strict=True)])
    assert found["accuracy"] == pytest.approx(100 * right.mean())
    texts = [text for _, text in rows]
    model = load_classifier(config.folder, device="cpu").classify(texts)
    ours = np.array([a[0].label == label for a, (label, _) in zip(model, rows, strict=True)])
    only = ((right & ~ours).sum(), (ours & ~right).sum())
    assert (found["comparison"]["first_only"], found["comparison"]["second_only"]) == only

    _, out, _ = run("evaluate", config.folder, "--data", "test.tsv")
    assert f"linear baseline: accuracy {found['accuracy']:.2f} %" in out
    Path("train.tsv").unlink()
    assert "baseline" not in run("evaluate", config.folder, "--data", "test.tsv")[1]
