"""`clearhead evaluate` on translators and on classifiers."""

from __future__ import annotations

import builtins
import csv
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead import api
from clearhead.cli import failures
from clearhead.errors import DataError
from clearhead.folder.model_folder import open_folder
from clearhead.settings import RunConfig
from fake_translator import Backwards, run
from model_folders import (
    LABELS,
    LONG,
    TEXTS,
    TRUTH,
    labelled,
    probabilities,
    write_classifier,
)
from small_runs import text_run


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text(labelled(zip(TRUTH, TEXTS, strict=True)))


@pytest.fixture
def no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a classifier computes probabilities."""

    def computed(*given: Any, **options: Any) -> None:
        pytest.fail("probabilities were computed")

    monkeypatch.setattr(api.Classifier, "probabilities", computed)


# Translators


@pytest.fixture
def test_set(tmp_path: Path) -> tuple[str, ...]:
    words = "the cat sees a big red dog on its way home".split()
    sources = [" ".join(words[: 3 + n % 8]) for n in range(40)]
    (tmp_path / "s").write_text("".join(f"{line}\n" for line in sources))
    references = (" ".join(reversed(line.split())) for line in sources)
    (tmp_path / "r").write_text("".join(f"{line}\n" for line in references))
    return "--source", str(tmp_path / "s"), "--reference", str(tmp_path / "r")


@pytest.fixture
def translators(monkeypatch: pytest.MonkeyPatch) -> dict[str, Backwards]:
    """Two perfect models and one that gets every third word wrong."""
    tokenised = replace(RunConfig(), evaluation=replace(RunConfig().evaluation, tokenize="none"))

    def spoil(text: str) -> str:
        return " ".join("x" if n % 3 == 2 else word for n, word in enumerate(text.split()))

    found = {"good": Backwards(), "bad": Backwards(mend=spoil), "other": Backwards(tokenised)}
    load = "clearhead.api.loading.load_translator"
    monkeypatch.setattr(load, lambda folders, *_: found[str(folders[0])])
    monkeypatch.setattr(
        "clearhead.folder.model_folder.open_folder", lambda folder: found[str(folder)]
    )
    return found


def test_a_translator_is_scored_as_text_and_as_json(
    translators: dict[str, Backwards], test_set: tuple[str, ...]
) -> None:
    code, out, _ = run("evaluate", "good", *test_set)
    assert code == 0
    for part in ("BLEU  100.00", "chrF2 100.00", "TER     0.00", "exact 100.00", "tok:13a"):
        assert part in out
    assert translators["good"].calls[0]["search"].n_best == 1
    code, out, _ = run("evaluate", "bad", *test_set, "--json", "--tokenize", "char")
    result = json.loads(out)
    assert (code, result["sentences"], result["tokenize"]) == (0, 40, "char")
    bleu = result["systems"]["bad"]["scores"]["bleu"]
    assert bleu["low"] < bleu["score"] < bleu["high"] < 100
    assert "tok:char" in bleu["signature"]
    assert sum(row["sentences"] for row in result["systems"]["bad"]["by_length"]) == 40


def lowering() -> Backwards:
    """A translator whose output is correct but in lower case."""
    config = RunConfig()
    lowers = replace(config, tokenizer=replace(config.tokenizer, lower=True))
    return Backwards(lowers, mend=str.lower)


def test_case_is_ignored_for_a_model_that_lower_cases_unless_an_option_says_otherwise(
    translators: dict[str, Backwards], test_set: tuple[str, ...], tmp_path: Path
) -> None:
    translators["lower"] = lowering()
    for name in "sr":
        (tmp_path / name).write_text((tmp_path / name).read_text().title())
    code, out, _ = run("evaluate", "lower", *test_set)
    assert code == 0
    for part in ("BLEU  100.00", "chrF2 100.00", "exact 100.00", "case:lc|eff:no|tok:13a"):
        assert part in out
    assert "ignore case" in out
    code, out, _ = run("evaluate", "lower", *test_set, "--no-lowercase", "--json")
    cased = json.loads(out)
    bleu = cased["systems"]["lower"]["scores"]["bleu"]
    assert (code, cased["lowercase"], cased["systems"]["lower"]["exact"]) == (0, False, 0)
    assert bleu["score"] < 1
    assert "case:mixed" in bleu["signature"]
    assert "ignore case" not in run("evaluate", "good", *test_set)[1]


def test_translators_that_cannot_be_compared_are_rejected(
    translators: dict[str, Backwards], test_set: tuple[str, ...], tmp_path: Path
) -> None:
    assert run("evaluate", "good", "good", *test_set)[0] == 3
    code, _, err = run("evaluate", "good", "other", *test_set)
    assert code == 2
    assert "--tokenize" in err
    assert run("evaluate", "good", "other", *test_set, "--tokenize", "none")[0] == 0
    # Before any folder is looked at; one of them may well come from there.
    code, _, err = run("evaluate", "nowhere", "--source", "-", "--reference", "-", stdin="a\n")
    assert code == 3
    assert "cannot both come from the standard input" in err
    sources = (tmp_path / "s").read_text()
    piped = ("--source", "-", "--reference", str(tmp_path / "r"))
    code, out, _ = run("evaluate", "good", *piped, stdin=sources)
    assert code == 0
    assert "BLEU  100.00" in out
    (tmp_path / "r").write_text("one line\n")
    code, _, err = run("evaluate", "good", *test_set)
    assert code == 3
    assert "40 sources and 1 references" in err


def test_references_are_one_per_line(
    translators: dict[str, Backwards], test_set: tuple[str, ...], tmp_path: Path
) -> None:
    table = "".join(
        f"{n}\t{line}\n" for n, line in enumerate((tmp_path / "r").read_text().splitlines())
    )
    (tmp_path / "r").write_text(table)
    code, out, err = run("evaluate", "good", *test_set)
    assert (code, out, f"{tmp_path / 'r'}:1: " in err) == (3, "", True)
    for name in ("r.tsv", "r.jsonl"):
        (tmp_path / name).write_text(table)
        code, out, err = run("evaluate", "good", *test_set[:2], "--reference", str(tmp_path / name))
        assert (code, out, name in err) == (3, "", True)


# Classifiers


def by_hand(folder: Path) -> tuple[float, list[list[int]]]:
    """Accuracy in percent and the confusion matrix, counted example by example."""
    confusion = [[0] * len(LABELS) for _ in LABELS]
    for row, right in zip(probabilities(folder, TEXTS), TRUTH, strict=True):
        confusion[LABELS.index(right)][int(row.argmax())] += 1
    hits = sum(confusion[i][i] for i in range(len(LABELS)))
    return 100 * hits / len(TEXTS), confusion


def test_a_classifier_is_scored_as_json_and_as_text(models: Path) -> None:
    code, out, err = run("evaluate", str(models / "texts"), "--data", "test.tsv", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["data"] == "test.tsv"
    scores = found["systems"][str(models / "texts")]["scores"]
    accuracy, confusion = by_hand(models / "texts")
    assert (scores["examples"], scores["confusion"]) == (len(TEXTS), confusion)
    assert scores["accuracy"] == pytest.approx(accuracy)
    low, high = scores["accuracy_interval"]
    assert low <= accuracy <= high
    code, out, _ = run("evaluate", str(models / "texts"), "--data", "test.tsv")
    lines = [line.split() for line in out.splitlines()]
    assert ["test.tsv"] in lines
    assert ["accuracy", f"{accuracy:.2f}", "%"] in [line[:3] for line in lines]
    assert [[*map(int, line[1:])] for line in lines[-3:]] == confusion


def test_two_classifiers_are_compared_by_mcnemars_test(models: Path) -> None:
    names = str(models / "texts"), str(models / "rival")
    code, out, _ = run("evaluate", *names, "--data", "test.tsv", "--json")
    assert code == 0
    systems = json.loads(out)["systems"]
    assert "comparison" not in systems[names[0]]
    right = [
        [LABELS[int(row.argmax())] == label for row, label in zip(rows, TRUTH, strict=True)]
        for rows in (probabilities(Path(name), TEXTS) for name in names)
    ]
    first = sum(a and not b for a, b in zip(*right, strict=True))
    second = sum(b and not a for a, b in zip(*right, strict=True))
    few, number = min(first, second), first + second
    assert number > 0
    p = min(1.0, 2 * sum(math.comb(number, k) for k in range(few + 1)) / 2**number)
    comparison = systems[names[1]]["comparison"]
    assert (comparison["first_only"], comparison["second_only"]) == (first, second)
    assert comparison["p_value"] == pytest.approx(p)
    _, out, _ = run("evaluate", *names, "--data", "test.tsv")
    assert out.splitlines()[-1] == (
        f"compared with {names[0]}: {second} examples are correct only here, {first} only there, "
        f"p = {p:.4f} (McNemar's exact test)"
    )


def test_classifiers_are_compared_though_one_knows_more_labels(
    models: Path, tmp_path: Path
) -> None:
    wider = tmp_path / "wider"
    config = open_folder(models / "rival").config
    torch.manual_seed(3)
    write_classifier(wider, config, labels=("maybe", *reversed(LABELS)))
    names = str(models / "texts"), str(wider)
    code, out, _ = run("evaluate", *names, "--data", "test.tsv", "--json")
    assert code == 0
    systems = json.loads(out)["systems"]
    right = []
    for name in names:
        predictions = api.load_classifier(name, device="cpu").classify(TEXTS)
        right.append([one.label == label for (one,), label in zip(predictions, TRUTH, strict=True)])
        assert systems[name]["scores"]["accuracy"] == pytest.approx(100 * np.mean(right[-1]))
    first, second = np.array(right)
    found = systems[names[1]]["comparison"]
    assert (found["first_only"], found["second_only"]) == (
        (first & ~second).sum(),
        (second & ~first).sum(),
    )


@pytest.mark.parametrize(
    ("labels", "column", "part"),
    [
        (LABELS, "other", "--label-column"),
        (("yes", "no"), "label", "'perhaps'"),
    ],
)
def test_classifiers_with_other_examples_or_labels_are_rejected_before_anything_is_computed(
    models: Path,
    tmp_path: Path,
    no_outputs: None,
    labels: tuple[str, ...],
    column: str,
    part: str,
) -> None:
    config = open_folder(models / "texts").config
    config = replace(config, data=replace(config.data, label_column=column))
    write_classifier(tmp_path / "rival", config, labels)
    Path("test.csv").write_text("text,label,other\na b,yes,no\nc,perhaps,no\n")
    names = str(models / "texts"), str(tmp_path / "rival")
    code, out, err = run("evaluate", *names, "--data", "test.csv")
    assert (code, out) == (3, "")
    assert "test.csv" in err
    assert part in err


def test_features_are_scored_with_the_labels_of_their_file(models: Path) -> None:
    sequences = np.random.default_rng(1).normal(size=(4, 5, 3))
    rows = probabilities(models / "features", [*sequences])
    best = [LABELS[int(row.argmax())] for row in rows]
    np.savez("x.npz", x=sequences, y=np.array(best))
    _, out, _ = run("evaluate", str(models / "features"), "--data", "x.npz", "--json")
    scores = json.loads(out)["systems"][str(models / "features")]["scores"]
    assert (scores["accuracy"], scores["examples"]) == (100.0, 4)


def test_with_several_labels_all_of_them_must_be_right(models: Path) -> None:
    rows = probabilities(models / "several", TEXTS)
    given = [[name for name, p in zip(LABELS, row, strict=True) if p >= 0.5] for row in rows]
    one_wrong = [*given[:-1], [name for name in LABELS if name not in given[-1]]]
    lines = (
        json.dumps({"text": text, "labels": labels})
        for text, labels in zip(TEXTS, one_wrong, strict=True)
    )
    Path("test.jsonl").write_text("".join(f"{line}\n" for line in lines))
    code, out, _ = run("evaluate", str(models / "several"), "--data", "test.jsonl", "--json")
    assert code == 0
    scores = json.loads(out)["systems"][str(models / "several")]["scores"]
    assert scores["accuracy"] == pytest.approx(100 * (len(TEXTS) - 1) / len(TEXTS))
    assert scores["confusion"] is None
    _, out, _ = run("evaluate", str(models / "several"), "--data", "test.jsonl")
    assert "subset accuracy" in out
    assert "confusion" not in out


def test_empty_texts_are_scored_with_one_warning(models: Path) -> None:
    Path("holes.tsv").write_text(labelled([("yes", "a"), ("no", " "), ("yes", "")]))
    code, out, err = run("evaluate", str(models / "texts"), "--data", "holes.tsv", "--json")
    assert code == 0
    assert err.startswith("clearhead: warning: holes.tsv:2 has no text")
    assert err.endswith("(and 1 more like it)\n")
    (found,) = json.loads(out)["systems"].values()
    assert found["scores"]["examples"] == 3


def test_of_texts_that_are_cut_the_first_are_named(models: Path) -> None:
    Path("long.tsv").write_text(labelled([("yes", "a"), ("no", LONG), ("no", f"c {LONG}")] * 2))
    code, _, err = run("evaluate", str(models / "texts"), "--data", "long.tsv", "--json")
    assert code == 0
    *first, last = err.splitlines()
    assert len(first) == 3
    assert first[0].startswith("clearhead: warning: long.tsv:2 has ")
    assert last == "clearhead: warning: more texts that were cut: 1"


def test_an_evaluation_can_name_the_columns_of_its_file(models: Path) -> None:
    rows = [line.split("\t") for line in Path("test.tsv").read_text().splitlines()]
    with Path("other.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("kind", "question"), *rows])
    model = str(models / "texts")
    code, expected, err = run("evaluate", model, "--data", "test.tsv", "--json")
    assert code == 0, err
    names = ("--text-column", "question", "--label-column", "kind")
    code, out, err = run("evaluate", model, "--data", "other.csv", *names, "--json")
    assert code == 0, err
    assert json.loads(out)["systems"] == json.loads(expected)["systems"]
    code, _, err = run("evaluate", model, "--data", "other.csv")
    assert code == 3
    assert "--text-column" in err


@pytest.mark.parametrize(
    ("name", "header", "columns"),
    [
        ("bare.tsv", None, ("1", "2")),
        ("bare.csv", None, ("1", "2")),
        ("bare.txt", None, ("1", "2")),
        ("names.tsv", ("question", "kind"), ("question", "kind")),
        ("names.csv", ("question", "kind"), ("question", "kind")),
    ],
)
def test_a_file_with_other_columns_is_refused_with_the_options_that_read_it(
    models: Path, name: str, header: tuple[str, str] | None, columns: tuple[str, str]
) -> None:
    mark = "," if name.endswith(".csv") else "\t"
    rows = [(f"a b c {'d ' * n}e", "yes" if n % 2 else "no") for n in range(20)]
    lines = [mark.join(row) for row in ([header] if header else []) + rows]
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    code, out, err = run("evaluate", str(models / "texts"), "--data", name)
    assert (code, out) == (3, "")
    found = re.search(r"--text-column (\S+) --label-column ([^\s)]+)", err)
    assert found, err
    assert tuple(option.strip('"') for option in found.groups()) == columns
    options = ("--text-column", columns[0], "--label-column", columns[1])
    code, _, err = run("evaluate", str(models / "texts"), "--data", name, *options)
    assert code == 0, err


@pytest.mark.parametrize(
    ("rows", "line", "is_header"),
    [("yes\ta\nmaybe\tb\n", 2, False), ("maybe\tq\nyes\ta\n", 1, True)],
)
def test_an_unknown_label_is_rejected_with_its_line_and_model(
    models: Path, rows: str, line: int, is_header: bool
) -> None:
    Path("test.tsv").write_text(rows)
    code, out, err = run("evaluate", str(models / "texts"), "--data", "test.tsv")
    assert (code, out) == (3, "")
    for part in (f"test.tsv:{line}: ", "'maybe'", str(models / "texts")):
        assert part in err
    assert ("header" in err) == ("data.text_column" in err) == is_header


@pytest.mark.parametrize(
    ("model", "words", "code", "part"),
    [
        ("texts", [], 3, "--data"),
        ("texts", ["--data", "missing.tsv"], 3, "missing.tsv"),
        ("texts", ["--data", "test.tsv", "--source", "s"], 2, "--source"),
        ("texts", ["--data", "test.tsv", "--no-lowercase"], 2, "--no-lowercase"),
        ("texts", ["--data", "test.tsv", "--temperature", "0"], 2, "--temperature"),
        ("texts", ["--data", "test.tsv", "--compute-type", "int8"], 2, "--compute-type"),
        ("translator", ["--text-column", "q"], 2, "--text-column"),
        ("features", ["--data", "x.npz", "--text-column", "q"], 2, "--text-column"),
        ("features", ["--data", "x.ts.gz", "--label-column", "q"], 2, "x.ts.gz"),
        ("translator", ["--reference", "r"], 3, "--source"),
    ],
)
def test_a_wrong_option_is_rejected_before_anything_is_computed(
    models: Path,
    no_outputs: None,
    model: str,
    words: list[str],
    code: int,
    part: str,
) -> None:
    found, out, err = run("evaluate", str(models / model), *words)
    assert (found, out) == (code, "")
    assert part in err


@pytest.mark.parametrize("names", [("texts", "several"), ("several", "texts")])
def test_classifiers_of_one_and_of_several_labels_are_not_compared(
    models: Path, names: tuple[str, str], no_outputs: None
) -> None:
    folders = [str(models / name) for name in names]
    code, out, err = run("evaluate", *folders, "--data", "test.tsv")
    assert (code, out) == (2, "")
    one, several = str(models / "texts"), str(models / "several")
    assert "classifier.multi_label" in err
    assert f"{one} has false" in err
    assert f"{several} has true" in err


def test_the_file_of_predictions_is_checked_before_the_models_run(
    translators: dict[str, Backwards], test_set: tuple[str, ...], tmp_path: Path
) -> None:
    shutil.copy(tmp_path / "r", "r.csv")
    overwriting = (*test_set[:2], "--reference", "r.csv", "--output", "r.csv")
    assert run("evaluate", "good", *test_set, "--output", "p.xlsx")[0] == 2
    assert run("evaluate", "good", "bad", *test_set, "--output", "p.csv")[0] == 2
    assert run("evaluate", "good", *overwriting)[0] == 3
    code, _, err = run("evaluate", "good", *test_set, "--output", "absent/p.csv")
    assert code == 3
    assert "mkdir -p absent" in err
    assert not Path("absent").exists()
    assert not any(translator.calls for translator in translators.values())


def test_the_predictions_are_written_worst_first_although_the_output_is_closed(
    translators: dict[str, Backwards],
    test_set: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(*arguments: object, file: object = None, **options: object) -> None:
        if file is None:
            raise BrokenPipeError

    monkeypatch.setattr(builtins, "print", closed)
    monkeypatch.setattr(failures, "_discard_output", lambda: None)
    code, _, _ = run("evaluate", "bad", *test_set, "-o", "p.jsonl")
    assert code == failures.BROKEN_PIPE
    rows = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["line", "chrf", "source", "reference", "prediction"]
    assert len(rows) == 40
    assert [row["chrf"] for row in rows] == sorted(row["chrf"] for row in rows)


def test_python_scores_a_classifier_as_the_command_does(models: Path) -> None:
    for name, options in (("texts", ["--data", "test.tsv"]), ("features", ["--data", "x.npz"])):
        frames = np.random.default_rng(3).normal(size=(6, 4, 3))
        np.savez("x.npz", x=frames, y=np.array(TRUTH))
        _, out, _ = run("evaluate", str(models / name), *options, "--output", "p.csv")
        inputs = TEXTS if name == "texts" else list(frames)
        report = api.load_classifier(models / name).evaluate(inputs, TRUTH)
        assert str(report).splitlines()[1:] == out.splitlines()[1:]
        assert report.size == len(TRUTH)
        lines = Path("p.csv").read_text("utf-8-sig").splitlines()
        rows = list(csv.DictReader(lines))
        answers = [(each.label, each.prediction) for each in report.predictions[str(models / name)]]
        assert [(row["label"], row["prediction"]) for row in rows] == answers


def test_several_labels_and_wrong_labels_in_python(models: Path) -> None:
    classifier = api.load_classifier(models / "several")
    report = classifier.evaluate(TEXTS, [["yes", "no"], [], *([label] for label in TRUTH[2:])])
    assert report.scores["accuracy"] == report.systems[str(models / "several")].scores.accuracy
    with pytest.raises(DataError):
        classifier.evaluate(TEXTS, [["unknown"]] * len(TEXTS))
    with pytest.raises(DataError):
        classifier.evaluate(TEXTS, TRUTH[1:])


@pytest.mark.slow
def test_a_run_is_trained_and_scored_in_folds(tmp_path: Path) -> None:
    config = text_run(tmp_path)
    api.train(config, observers=())
    code, out, err = run("evaluate", config.folder, "--folds", "2", "--output", "out.tsv")
    assert code == 0
    assert re.fullmatch(r"clearhead: 1 of 2 folds, .+ left\n", err)
    assert "accuracy of the 2 folds" in out
    assert len(Path("out.tsv").read_text().splitlines()) == 161
    code, out, _ = run("evaluate", config.folder, "--folds", "2", "--repeats", "2", "--json")
    one, other = (json.loads(line)["folds"] for line in out.splitlines())
    assert code == 0
    assert len(one) == len(other) == 2


@pytest.mark.parametrize(
    "options",
    [["--repeats", "2"], ["--folds", "1"], ["--folds", "2", "--data", "x"], ["--folds", "0"]],
)
def test_wrong_folds_are_refused(models: Path, options: list[str]) -> None:
    assert run("evaluate", str(models / "texts"), *options)[0] == 2
